// What the contents checks of all operations share: reading index data on the host, rows, token_index, and blocks that two rows use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "contract/check.h"
#include "contract/rules.h"
#include "recoverssm/rows.hpp"

namespace recoverssm {

inline std::int32_t index_at(const TensorView& view, std::int64_t i) {
  return static_cast<const std::int32_t*>(view.data)[i * view.stride[0]];
}
inline std::int32_t index_at(const TensorView& view, std::int64_t i, std::int64_t j) {
  return static_cast<const std::int32_t*>(view.data)[i * view.stride[0] + j * view.stride[1]];
}
inline bool flag_at(const TensorView& view, std::int64_t i) {
  return static_cast<const std::uint8_t*>(view.data)[i * view.stride[0]] != 0;
}

// One row's use of a block (or of a request). Two uses of a block are a conflict if they belong to different rows and one of them claims
// the block, or if they belong to one row and both forbid a repeat.
struct BlockUse {
  std::int32_t block = 0;
  std::uint8_t role = 0;  // the caller's: which argument named the block
  bool claims = true;
  bool once = false;
  std::int64_t row = 0;
};

// Memory of one contents check, cut from the workspace. Tokens and blocks are looked at one after the other and share it.
class ContentsMemory {
 public:
  explicit ContentsMemory(Workspace workspace) : data_(workspace.data) {}

  static std::size_t bytes(std::int64_t block_uses, std::int64_t tokens);

  // The memory behind the uses so far, and taking over what has been added there.
  ContentsMemory rest() const { return ContentsMemory({static_cast<BlockUse*>(data_) + uses_, 0}); }
  void join(const ContentsMemory& rest) { uses_ += rest.uses_; }

  void add(const BlockUse& use) { static_cast<BlockUse*>(data_)[uses_++] = use; }
  std::span<BlockUse> uses() { return {static_cast<BlockUse*>(data_), static_cast<std::size_t>(uses_)}; }
  std::int32_t* tokens() { return static_cast<std::int32_t*>(data_); }

 private:
  void* data_;
  std::int64_t uses_ = 0;
};

struct Conflict {
  const BlockUse* first = nullptr;  // null: there is none
  const BlockUse* second = nullptr;
};

// Sorts the uses; O(n log n).
Conflict find_conflict(std::span<BlockUse> uses);

// The rows of a call, or of one part of gdn_attention, whose shapes have been checked.
struct RowsContents {
  Name part = "";
  const Rows& rows;
  std::int32_t null_block_id = 0;
  std::int64_t capacity = 0;      // S of windows; 0: plain rows, any length
  std::int64_t local_tokens = 0;  // what the locally addressed tensors have room for
  std::int64_t global_rows = 0;   // what the globally addressed ones have room for

  std::int64_t count() const { return rows.query_start_loc.shape[0] - 1; }
  std::int64_t begin(std::int64_t i) const { return index_at(rows.query_start_loc, i); }
  std::int64_t length(std::int64_t i) const { return begin(i + 1) - begin(i); }
};

constexpr std::int64_t kNoLocalTensors = INT64_MAX;

// Offsets: none negative, none decreasing, the last within the tensors, lengths within S.
void check_offsets(Check& check, const RowsContents& rows);

// token_index, for tokens that rows cover: entries in range, none twice. Needs token_memory() tokens.
void check_tokens(Check& check, const RowsContents& rows, ContentsMemory& memory);
std::int64_t token_memory(const TensorView& token_index, std::int64_t global_rows);

// The same for a list of entries without rows (split_projections), and for two parts whose tokens must differ.
void check_token_list(Check& check, const Name& name, const TensorView& token_index, std::int64_t begin, std::int64_t end,
                      std::int64_t global_rows, ContentsMemory& memory);

// An id that is not null is a block of the pool.
bool check_block(Check& check, const Name& name, std::int64_t row, std::int32_t block, std::int64_t blocks);

// A count of a window's kept tokens is at most S.
bool check_count(Check& check, const Name& name, std::int64_t row, std::int32_t count, std::int64_t capacity);

// A pending count of a live row's block is 0..S.
bool check_pending_count(Check& check, const Name& name, std::int64_t row, std::int32_t block, std::int32_t pending,
                         std::int64_t capacity);

// The history of a line that was never compacted, read where `count` says, lies within the line.
bool check_history(Check& check, const Name& name, std::int64_t row, LineKind kind, std::int64_t count, std::int64_t history,
                   std::int64_t columns);

// has_initial_state of a live row: absent means true.
inline bool starts_from_block(const Rows& rows, std::int64_t i) {
  return !rows.has_initial_state.present() || flag_at(rows.has_initial_state, i);
}

// Adds the block of every live row to the memory's uses, checks it, and calls live(row, block) while all is well.
template <class Live>
void check_live_rows(Check& check, const RowsContents& r, std::int64_t blocks, ContentsMemory& memory, Live&& live) {
  for (std::int64_t i = 0; check.ok() && i < r.count(); ++i) {
    if (r.length(i) == 0) continue;
    const std::int32_t block = index_at(r.rows.state_indices, i);
    if (is_null(block, r.null_block_id)) continue;
    if (!check_block(check, r.part.dot("state_indices"), i, block, blocks)) return;
    memory.add({.block = block, .row = i});
    live(i, block);
  }
}

// No two live rows share a block; uses were added by check_live_rows.
void check_shared_blocks(Check& check, const Name& part, ContentsMemory& memory);

}  // namespace recoverssm
