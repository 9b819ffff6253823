// Rules of the contract that several operations and every backend follow, each written once. Pure arithmetic on scalars, usable in
// device code.
#pragma once

#include <cstdint>

#include "arithmetic/portable.h"
#include "recoverssm/rows.hpp"

namespace recoverssm {

RSSM_HOST_DEVICE constexpr bool is_null(std::int32_t block, std::int32_t null_block_id) { return block <= null_block_id; }

RSSM_HOST_DEVICE constexpr std::int64_t max64(std::int64_t a, std::int64_t b) { return a > b ? a : b; }
RSSM_HOST_DEVICE constexpr std::int64_t min64(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// Value head j reads q/k head j / (HV/H).
template <class Head>
RSSM_HOST_DEVICE constexpr Head key_head(Head value_head, int H, int HV) {
  return value_head / (HV / H);
}

// Line position where a window's or a never-compacted line's history starts, for a count of kept tokens.
RSSM_HOST_DEVICE constexpr std::int64_t history_start(LineKind kind, std::int64_t num_accepted) {
  return kind == LineKind::anchored ? max64(num_accepted, 0) : max64(num_accepted - 1, 0);
}

// The count that stands for an absent num_accepted: a compacted line.
RSSM_HOST_DEVICE constexpr std::int64_t compacted_count(LineKind kind) { return kind == LineKind::anchored ? 0 : 1; }

// Line position of a window's first input, given W taps.
RSSM_HOST_DEVICE constexpr std::int64_t window_input_start(LineKind kind, std::int64_t taps) {
  return kind == LineKind::anchored ? taps - 1 : taps - 2;
}

// Columns a line needs. `history` is W-1 (short conv: (Kc-1)*dilation), `capacity` is S.
RSSM_HOST_DEVICE constexpr std::int64_t line_columns(LineKind kind, std::int64_t history, std::int64_t capacity) {
  if (kind == LineKind::rolled) return history + capacity - 1;
  if (kind == LineKind::anchored) return history + capacity;
  return history;
}

// First line position of the history after `kept` tokens of the window that is in the line.
RSSM_HOST_DEVICE constexpr std::int64_t committed_history_start(LineKind kind, std::int64_t kept) {
  return kind == LineKind::anchored ? kept : kept - 1;
}

// Column of a snapshots row's start state.
RSSM_HOST_DEVICE constexpr std::int64_t snapshot_start_column(std::int64_t num_accepted) { return max64(num_accepted - 1, 0); }

// A planned row that commit leaves alone: nothing kept, or no block to take it from or to put it.
RSSM_HOST_DEVICE constexpr bool is_dead_commit(std::int32_t commit_len, std::int32_t source, std::int32_t final_block,
                                               std::int32_t null_block_id) {
  return commit_len == 0 || is_null(source, null_block_id) || is_null(final_block, null_block_id);
}

// Bytes of one block's state [HV, V, K].
inline std::int64_t state_bytes(const TensorView& state) {
  return state.shape[1] * state.shape[2] * state.shape[3] * size_of(state.dtype);
}

// Records a block has room for: S.
inline std::int64_t record_capacity(Gate gate, const Records& records) {
  return gate == Gate::gdn ? records.packed.shape[2] : records.corrections.shape[2];
}

// Records that a lazy fold replays.
RSSM_HOST_DEVICE constexpr std::int64_t lazy_fold_count(std::int64_t num_accepted, std::int64_t pending) {
  return min64(max64(num_accepted, 0), pending);
}

}  // namespace recoverssm
