// What commit_plan and commit_plan_groups share, seen the same way by their validators.
#pragma once

#include <cstdint>
#include <optional>

#include "recoverssm/plan.hpp"

namespace recoverssm {

struct PlanInputs {
  const TensorView& num_accepted;
  const TensorView& query_start_loc;
  const TensorView& request_index;
  const TensorView& num_computed;
  const std::optional<std::int32_t>& block_size;
  std::int32_t window_capacity;
  std::int32_t null_block_id;
};

PlanInputs inputs_of(const CommitPlanParams& params);
PlanInputs inputs_of(const CommitPlanGroupsParams& params);

}  // namespace recoverssm
