// align_move and align_advance: bookkeeping of prefix-cache blocks around a step. Source: docs/operations.md#align_move
#pragma once

#include <span>

#include "recoverssm/rows.hpp"

namespace recoverssm {

// Before the forward: copies state and line history (positions 0..W-2) of row i from block from[i] to block to[i], bit by bit.
// Equal ids, or either <= null, do nothing. The destination ends with pending 0; a source with pending > 0 is bad_state.
struct AlignMoveParams {
  TensorView from{};  // [N] int32
  TensorView to{};    // [N] int32; no other row's from or to
  std::span<const Layer> layers{};
  std::int32_t null_block_id = 0;
};

// After the commit: running_column[r] = (num_computed[r] + commit_len[i] - 1) / block_size and num_accepted[r] = 1 for live rows;
// dead rows (commit_len 0 or a null state index) keep both.
struct AlignAdvanceParams {
  TensorView commit_len{};     // [N] int32
  TensorView state_indices{};  // [N] int32
  TensorView request_index{};  // optional [N] int32
  TensorView num_computed{};   // [R] int32
  std::int32_t block_size = 0;
  TensorView running_column{};  // [R] int32, read and written
  TensorView num_accepted{};    // [R] int32, read and written
  std::int32_t null_block_id = 0;
};

Status validate(const AlignMoveParams& params);
Support query_support(const AlignMoveParams& params, Backend backend = Backend::cpu);
std::size_t workspace_size(const AlignMoveParams& params, const Launch& launch);
Status run(const AlignMoveParams& params, const Launch& launch) noexcept;

Status validate(const AlignAdvanceParams& params);
Support query_support(const AlignAdvanceParams& params, Backend backend = Backend::cpu);
std::size_t workspace_size(const AlignAdvanceParams& params, const Launch& launch);
Status run(const AlignAdvanceParams& params, const Launch& launch) noexcept;

}  // namespace recoverssm
