// commit_plan and commit_plan_groups: from accepted counts and block tables to what commit does with each window; map_windows:
// which requests of a step are windows. Source: docs/operations.md#commit_plan
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "recoverssm/rows.hpp"

namespace recoverssm {

// What a plan writes for one cache group; [N] int32 each. A dead row has commit_len 0, both ids null, boundary_len 0.
struct PlanOutputs {
  TensorView commit_len{};        // c: tokens to commit, 1..L for a live row
  TensorView final_indices{};     // block that receives the state after c tokens
  TensorView boundary_indices{};  // align mode: block of the prefix boundary crossed by this commit, else null
  TensorView boundary_len{};  // tokens from the window's start to the next boundary; means something only beside a boundary block
};

// Row i belongs to request r = request_index[i], or i. num_accepted, block_table and num_computed are indexed by r, everything else
// by i. block_table, num_computed and block_size are given together (align mode) or not at all (none mode: final = source).
struct CommitPlanParams {
  TensorView num_accepted{};                 // [R] int32: kept tokens of the window, the first included; clamped to 0..min(L, S)
  TensorView query_start_loc{};              // [N+1] int32
  TensorView state_indices{};                // [N] int32: source block of each window
  std::int32_t window_capacity = 0;          // S
  TensorView request_index{};                // optional [N] int32
  TensorView block_table{};                  // optional [R, width] int32
  TensorView num_computed{};                 // optional [R] int32: tokens committed before this window
  std::optional<std::int32_t> block_size{};  // B >= S, tokens a block of the prefix cache
  PlanOutputs out{};
  std::int32_t null_block_id = 0;
};

struct PlanGroup {
  TensorView state_indices{};  // [N] int32
  TensorView block_table{};    // optional [R, width] int32; in all groups or in none
  PlanOutputs out{};
};

// Several cache groups that share counts, offsets, request mapping, num_computed and block size. A row must have the same
// commit_len in every group.
struct CommitPlanGroupsParams {
  TensorView num_accepted{};     // [R] int32
  TensorView query_start_loc{};  // [N+1] int32
  std::int32_t window_capacity = 0;
  TensorView request_index{};  // optional [N] int32
  TensorView num_computed{};   // optional [R] int32
  std::optional<std::int32_t> block_size{};
  std::span<const PlanGroup> groups{};
  std::int32_t null_block_id = 0;
};

Status validate(const CommitPlanParams& params);
Support query_support(const CommitPlanParams& params, Backend backend = Backend::cpu);
std::size_t workspace_size(const CommitPlanParams& params, const Launch& launch);
Status run(const CommitPlanParams& params, const Launch& launch) noexcept;

Status validate(const CommitPlanGroupsParams& params);
Support query_support(const CommitPlanGroupsParams& params, Backend backend = Backend::cpu);
std::size_t workspace_size(const CommitPlanGroupsParams& params, const Launch& launch);
Status run(const CommitPlanGroupsParams& params, const Launch& launch) noexcept;

// The window rows of a step, in request order: a request is a window if it has drafts (draft_counts[r] >= 0), or if it is not
// prefilling and runs at least one token.
struct WindowMap {
  std::vector<std::int32_t> rows;  // request of window i
  bool identity = false;           // the windows are exactly requests 0..N-1: pass no request_index
};

// draft_counts: drafts of each request, -1 for none; prefilling: not 0 where the request is still in its prompt; lengths: tokens it
// runs in this step. All [R]. Throws Error(invalid_argument) if their sizes differ, out_of_range for a draft count < -1 or a
// negative length.
WindowMap map_windows(std::span<const std::int32_t> draft_counts, std::span<const std::uint8_t> prefilling,
                      std::span<const std::int32_t> lengths);

}  // namespace recoverssm
