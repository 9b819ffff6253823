// commit_plan and commit_plan_groups: one work item a row, which goes through all groups, so that a row can be dead in all of them.
#pragma once

#include "device/plan.h"
#include "sycl/kernels/report.h"

namespace recoverssm::sycl_backend {

RSSM_HOST_DEVICE void plan_body(const ::sycl::nd_item<3>& item, const device::PlanArgs& args) {
  const auto i = static_cast<std::int64_t>(item.get_global_id(2));
  if (i >= args.rows) return;
  const device::GroupArgs* const groups = args.groups == nullptr ? &args.only : args.groups;
  ErrorKind found = ErrorKind::ok;
  bool differ = false;
  std::int32_t first_len = 0;
  for (int g = 0; g < args.group_count; ++g) {
    const device::PlanRow row = device::plan_row(args, groups[g], i, found);
    if (g == 0) first_len = row.commit_len;
    differ = differ || row.commit_len != first_len;
  }
  if (differ) found = ErrorKind::out_of_range;
  report(args.reporter, found, i);
  for (int g = 0; g < args.group_count; ++g) {
    const device::GroupArgs& group = groups[g];
    ErrorKind said = ErrorKind::ok;
    device::PlanRow row = device::dead_row(args);
    if (found == ErrorKind::ok) row = device::plan_row(args, group, i, said);
    device::value_at(group.commit_len, i) = row.commit_len;
    device::value_at(group.final_indices, i) = row.final_block;
    device::value_at(group.boundary_indices, i) = row.boundary_block;
    device::value_at(group.boundary_len, i) = row.boundary_len;
  }
}

}  // namespace recoverssm::sycl_backend

#define RSSM_PLAN_KERNELS(KERNEL) KERNEL(plan, recoverssm::device::PlanArgs, recoverssm::sycl_backend::plan_body)
#if defined(RSSM_AT_RUN_TIME)
RSSM_PLAN_KERNELS(RSSM_KERNEL)
#endif
