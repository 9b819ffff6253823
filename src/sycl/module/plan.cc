// commit_plan and commit_plan_groups on SYCL. One group travels in the kernel's parameters, several in the workspace.
#include "device/plan.h"

#include "sycl/module/operations.h"

namespace recoverssm::sycl_backend {
namespace {

using device::column_of;

constexpr std::int64_t kPlanItems = 64;
constexpr std::size_t kGroupsAtOnce = 16;  // of a table made on the host's stack

device::GroupArgs group_args(const TensorView& state_indices, const TensorView& table, const PlanOutputs& out) {
  device::GroupArgs group;
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
device::PlanArgs shared_args(const Params& p, Operation op, const Launch& launch) {
  device::PlanArgs args;
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

void launch_plan(const device::PlanArgs& args, ::sycl::queue& queue) {
  if (args.rows == 0 || args.group_count == 0) return;
  launch_kernel(queue, kernel_of(queue, kPlanProgram, "plan"), range_of(1, 1, ceil_div(args.rows, kPlanItems), kPlanItems), args);
}

}  // namespace

std::size_t workspace_bytes(const CommitPlanParams&, ::sycl::queue&) { return 0; }
std::size_t workspace_bytes(const CommitPlanGroupsParams& p, ::sycl::queue&) { return p.groups.size() * sizeof(device::GroupArgs); }

void prepare(const CommitPlanParams&, ::sycl::queue& queue) { kernel_of(queue, kPlanProgram, "plan"); }
void prepare(const CommitPlanGroupsParams&, ::sycl::queue& queue) {
  kernel_of(queue, kPlanProgram, "plan");
  prepare_table(queue);
}

void launch(const CommitPlanParams& p, const Launch& launch, ::sycl::queue& queue) {
  device::PlanArgs args = shared_args(p, Operation::commit_plan, launch);
  args.only = group_args(p.state_indices, p.block_table, p.out);
  launch_plan(args, queue);
}

void launch(const CommitPlanGroupsParams& p, const Launch& launch, ::sycl::queue& queue) {
  device::PlanArgs args = shared_args(p, Operation::commit_plan_groups, launch);
  auto* const table = static_cast<device::GroupArgs*>(launch.workspace.data);
  for (std::size_t first = 0; first < p.groups.size(); first += kGroupsAtOnce) {
    device::GroupArgs groups[kGroupsAtOnce];
    const std::size_t count = std::min(kGroupsAtOnce, p.groups.size() - first);
    for (std::size_t g = 0; g < count; ++g) {
      const PlanGroup& group = p.groups[first + g];
      groups[g] = group_args(group.state_indices, group.block_table, group.out);
    }
    write_table(queue, table + first, groups, count * sizeof(device::GroupArgs));
  }
  args.groups = table;
  args.group_count = static_cast<std::int32_t>(p.groups.size());
  launch_plan(args, queue);
}

}  // namespace recoverssm::sycl_backend
