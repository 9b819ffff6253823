// commit_plan and commit_plan_groups on CUDA: one thread a row, which goes through all groups, so that a row can be dead in all of them. The
// formulas are in contract/plan_rules.h.

#include "contract/plan_rules.h"
#include "cuda/launch.h"
#include "cuda/layers.cuh"
#include "cuda/ops.h"
#include "cuda/rows.cuh"

namespace recoverssm::cuda {
namespace {

struct GroupArgs {
  Column state_indices;
  std::int32_t* table = nullptr;  // null: none mode
  std::int64_t table_stride[2] = {};
  std::int64_t table_width = 0;
  Column commit_len, final_indices, boundary_indices, boundary_len;
};

struct PlanArgs {
  GroupArgs groups[kMaxPlanGroups];
  Column num_accepted, query_start_loc, request_index, num_computed;
  std::int64_t rows = 0, requests = 0;
  std::int64_t capacity = 0;
  std::int64_t block_size = 0;
  std::int32_t null_block_id = 0;
  std::int32_t group_count = 0;
  Reporter reporter;
};
static_assert(sizeof(PlanArgs) <= 32764, "a kernel's parameters");

struct PlanRow {
  std::int32_t commit_len = 0, final_block = 0, boundary_block = 0, boundary_len = 0;
};

// Reads in the contract's order and stops at the first that makes the row dead: offsets, source, count, num_computed, table.
__device__ PlanRow plan_row(const PlanArgs& args, const GroupArgs& group, std::int64_t i, ErrorKind& found) {
  const PlanRow dead = {0, args.null_block_id, args.null_block_id, 0};
  const DeviceRow offsets = row_of_offsets(value_at(args.query_start_loc, i), value_at(args.query_start_loc, i + 1), INT64_MAX);
  if (offsets.found != ErrorKind::ok) found = offsets.found;
  if (offsets.length == 0) return dead;
  const std::int32_t source = value_at(group.state_indices, i);
  if (is_null(source, args.null_block_id)) return dead;
  const std::int64_t request = args.request_index.data == nullptr ? i : value_at(args.request_index, i);
  if (source < 0 || request < 0 || request >= args.requests) {
    found = ErrorKind::out_of_range;
    return dead;
  }
  const std::int64_t commit_len = plan_commit_len(value_at(args.num_accepted, request), offsets.length, args.capacity);
  if (commit_len == 0) return dead;
  PlanRow row = {static_cast<std::int32_t>(commit_len), source, args.null_block_id, 0};
  if (group.table != nullptr) {
    const std::int64_t num_computed = value_at(args.num_computed, request);
    if (num_computed < 0) {
      found = ErrorKind::out_of_range;
      return dead;
    }
    const AlignedPlan plan = aligned_plan(num_computed, commit_len, args.block_size);
    if (plan.final_column >= group.table_width) {
      found = ErrorKind::out_of_range;
      return dead;
    }
    const std::int32_t* const entries = group.table + request * group.table_stride[0];
    row.final_block = entries[plan.final_column * group.table_stride[1]];
    if (plan.boundary_column >= 0) row.boundary_block = entries[plan.boundary_column * group.table_stride[1]];
    row.boundary_len = static_cast<std::int32_t>(plan.boundary_len);
  }
  return is_null(row.final_block, args.null_block_id) ? dead : row;
}

__global__ void plan_kernel(const __grid_constant__ PlanArgs args) {
  after_previous();
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= args.rows) return;
  ErrorKind found = ErrorKind::ok;
  bool differ = false;
  std::int32_t first_len = 0;
  for (int g = 0; g < args.group_count; ++g) {
    const PlanRow row = plan_row(args, args.groups[g], i, found);
    if (g == 0) first_len = row.commit_len;
    differ = differ || row.commit_len != first_len;
  }
  if (differ) found = ErrorKind::out_of_range;
  report(args.reporter, found, i);
  for (int g = 0; g < args.group_count; ++g) {
    const GroupArgs& group = args.groups[g];
    ErrorKind said = ErrorKind::ok;
    PlanRow row = {0, args.null_block_id, args.null_block_id, 0};
    if (found == ErrorKind::ok) row = plan_row(args, group, i, said);
    value_at(group.commit_len, i) = row.commit_len;
    value_at(group.final_indices, i) = row.final_block;
    value_at(group.boundary_indices, i) = row.boundary_block;
    value_at(group.boundary_len, i) = row.boundary_len;
  }
}

GroupArgs group_args(const TensorView& state_indices, const TensorView& table, const PlanOutputs& out) {
  GroupArgs group;
  group.state_indices = column_of(state_indices);
  if (table.present()) {
    group.table = static_cast<std::int32_t*>(table.data);
    group.table_stride[0] = table.stride[0];
    group.table_stride[1] = table.stride[1];
    group.table_width = table.shape[1];
  }
  group.commit_len = column_of(out.commit_len);
  group.final_indices = column_of(out.final_indices);
  group.boundary_indices = column_of(out.boundary_indices);
  group.boundary_len = column_of(out.boundary_len);
  return group;
}

template <class Params>
PlanArgs shared_args(const Params& p, Operation op, const Launch& launch) {
  PlanArgs args;
  args.num_accepted = column_of(p.num_accepted);
  args.query_start_loc = column_of(p.query_start_loc);
  if (p.request_index.present()) args.request_index = column_of(p.request_index);
  if (p.num_computed.present()) args.num_computed = column_of(p.num_computed);
  args.rows = p.query_start_loc.shape[0] - 1;
  args.requests = p.num_accepted.shape[0];
  args.capacity = p.window_capacity;
  args.block_size = p.block_size.value_or(0);
  args.null_block_id = p.null_block_id;
  args.reporter = {launch.flag, op};
  return args;
}

Status launch_plan(const PlanArgs& args, const Launch& launch, const char* op) {
  if (args.rows == 0 || args.group_count == 0) return {};
  Launcher launcher(launch);
  launcher.put(plan_kernel, static_cast<unsigned>(ceil_div(args.rows, 128)), 128, 0, args);
  return launcher.status(op);
}

}  // namespace

std::size_t scratch_size(const CommitPlanParams&) { return 0; }
std::size_t scratch_size(const CommitPlanGroupsParams&) { return 0; }

Status execute(const CommitPlanParams& p, const Launch& launch) {
  PlanArgs args = shared_args(p, Operation::commit_plan, launch);
  args.groups[0] = group_args(p.state_indices, p.block_table, p.out);
  args.group_count = 1;
  return launch_plan(args, launch, "commit_plan");
}

Status execute(const CommitPlanGroupsParams& p, const Launch& launch) {
  PlanArgs args = shared_args(p, Operation::commit_plan_groups, launch);
  for (const PlanGroup& group : p.groups) {
    args.groups[args.group_count++] = group_args(group.state_indices, group.block_table, group.out);
  }
  return launch_plan(args, launch, "commit_plan_groups");
}

}  // namespace recoverssm::cuda
