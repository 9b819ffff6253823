// Random rows of a call: offsets that may start above 0, rows without tokens (with stale ids), null rows, blocks in any order, a token
// permutation, counts.
#pragma once

#include <string>
#include <vector>

#include "recoverssm/rows.hpp"
#include "support/layout.h"

namespace support {

// The rows as plain numbers.
struct RowSet {
  std::vector<int> offsets = {0};         // N+1
  std::vector<int> blocks;                // N; snapshots: the start block, see `columns`
  std::vector<int> initial;               // N flags, or empty: absent
  std::vector<int> accepted;              // N counts where `counted`
  std::vector<int> token_index;           // local -> global, or empty: identity
  std::vector<std::vector<int>> columns;  // [N][S] where `snapshots`
  bool counted = false;                   // num_accepted is given
  bool snapshots = false;                 // state_indices is `columns`
  int capacity = 0;                       // S; 0 for plain rows
  int tokens = 0;                         // local tokens of the input tensors, at least offsets.back()
  int global_rows = 0;                    // rows of the globally addressed tensors, at least tokens
  int pool_blocks = 0;
  int null_id = 0;

  int rows() const { return static_cast<int>(blocks.size()); }
  int first(int i) const { return offsets[static_cast<std::size_t>(i)]; }
  int length(int i) const { return offsets[static_cast<std::size_t>(i) + 1] - first(i); }
  int block(int i) const { return blocks[static_cast<std::size_t>(i)]; }
  int count(int i) const { return accepted[static_cast<std::size_t>(i)]; }
  bool null(int i) const { return length(i) > 0 && block(i) <= null_id; }
  bool live(int i) const { return length(i) > 0 && block(i) > null_id; }
  bool from_state(int i) const { return initial.empty() || initial[static_cast<std::size_t>(i)] != 0; }
  int global(int token) const { return token_index.empty() ? token : token_index[static_cast<std::size_t>(token)]; }

  // Adds a row behind the others.
  void add(int length, int block) {
    offsets.push_back(offsets.back() + length);
    blocks.push_back(block);
  }
  std::string text() const;
};

struct RowOptions {
  int min_rows = 0;
  int max_rows = 4;
  int max_length = 6;     // plain rows
  int capacity = 0;       // S: windows of 0..S tokens; 0: plain rows
  bool initial = false;   // has_initial_state, present or absent
  bool accepted = false;  // num_accepted, always present, 0..S for live rows
  bool nulls = true;
  bool empties = true;
  bool permuted = true;  // token_index, present or absent
};

RowSet random_rows(Pick& pick, const RowOptions& options);

// Only row i, as row 0 of a call with the same token numbering.
RowSet only_row(const RowSet& rows, int i);

// Tensors of a RowSet, with random strides.
struct RowTensors {
  Tensor query_start_loc, state_indices, has_initial_state, num_accepted, token_index;
};
RowTensors row_tensors(Pick& pick, const RowSet& set);

recoverssm::Rows rows_of(const RowSet& set, const RowTensors& tensors);

}  // namespace support
