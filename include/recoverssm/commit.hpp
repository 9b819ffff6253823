// commit: replays accepted records into states and compacts conv lines, all layers of all cache groups in one call; materialize:
// the same for whoever needs a lazily committed state now. Source: docs/operations.md#commit, #materialize
#pragma once

#include <span>

#include "recoverssm/rows.hpp"

namespace recoverssm {

// A plan's arrays for one cache group, [N] int32 each, any stride. See PlanOutputs.
struct CommitGroup {
  TensorView state_indices{};  // source block
  TensorView commit_len{};
  TensorView final_indices{};
  TensorView boundary_indices{};
  TensorView boundary_len{};
};

// Per row, layer and head: load the source state once, replay tokens 0..commit_len-1 in order, store to the boundary block after
// boundary_len tokens and to the final block after the last. Source, boundary and final of one row may coincide in any way; a block
// written by one live row must not belong to another.
struct CommitParams {
  std::span<const CommitGroup> groups{};
  std::span<const Layer> layers{};
  std::int32_t window_capacity = 0;  // S
  std::int32_t null_block_id = 0;
};

// Folds min(max(num_accepted, 0), pending) waiting records of each listed block into its state, compacts an anchored line by as
// many positions, leaves a rolled line alone, and sets pending 0.
struct MaterializeParams {
  TensorView blocks{};              // [M] int32; null ids are skipped, a live id may be listed once
  TensorView num_accepted{};        // [M] int32: kept tokens of the window whose records wait
  std::span<const Layer> layers{};  // pending required
  std::int32_t null_block_id = 0;
};

Status validate(const CommitParams& params);
Support query_support(const CommitParams& params, Backend backend = Backend::cpu);
std::size_t workspace_size(const CommitParams& params, const Launch& launch);
Status run(const CommitParams& params, const Launch& launch) noexcept;

Status validate(const MaterializeParams& params);
Support query_support(const MaterializeParams& params, Backend backend = Backend::cpu);
std::size_t workspace_size(const MaterializeParams& params, const Launch& launch);
Status run(const MaterializeParams& params, const Launch& launch) noexcept;

}  // namespace recoverssm
