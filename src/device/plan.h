// A row's plan in kernels: contract/plan_rules.h with the index data read there, in the contract's order.
#pragma once

#include <cstdint>

#include "contract/plan_rules.h"
#include "contract/row_rules.h"
#include "device/rows.h"

namespace recoverssm::device {

struct GroupArgs {
  Column state_indices;
  std::int32_t* table = nullptr;  // null: none mode
  std::int64_t table_stride[2] = {};
  std::int64_t table_width = 0;
  Column commit_len, final_indices, boundary_indices, boundary_len;
};

struct PlanArgs {
  const GroupArgs* groups = nullptr;
  GroupArgs only;  // where groups is null
  Column num_accepted, query_start_loc, request_index, num_computed;
  std::int64_t rows = 0, requests = 0;
  std::int64_t capacity = 0;
  std::int64_t block_size = 0;
  std::int32_t null_block_id = 0;
  std::int32_t group_count = 1;
  Reporter reporter;
};

struct PlanRow {
  std::int32_t commit_len = 0, final_block = 0, boundary_block = 0, boundary_len = 0;
};

RSSM_HOST_DEVICE PlanRow dead_row(const PlanArgs& args) { return {0, args.null_block_id, args.null_block_id, 0}; }

// Reads in the contract's order and stops at the first that makes the row dead: offsets, source, count, num_computed, table.
RSSM_HOST_DEVICE PlanRow plan_row(const PlanArgs& args, const GroupArgs& group, std::int64_t i, ErrorKind& found) {
  const DeviceRow offsets = row_of_offsets(value_at(args.query_start_loc, i), value_at(args.query_start_loc, i + 1), INT64_MAX);
  if (offsets.found != ErrorKind::ok) found = offsets.found;
  if (offsets.length == 0) return dead_row(args);
  const std::int32_t source = value_at(group.state_indices, i);
  if (is_null(source, args.null_block_id)) return dead_row(args);
  const std::int64_t request = args.request_index.data == nullptr ? i : value_at(args.request_index, i);
  if (source < 0 || request < 0 || request >= args.requests) {
    found = ErrorKind::out_of_range;
    return dead_row(args);
  }
  const std::int64_t commit_len = plan_commit_len(value_at(args.num_accepted, request), offsets.length, args.capacity);
  if (commit_len == 0) return dead_row(args);
  PlanRow row = {static_cast<std::int32_t>(commit_len), source, args.null_block_id, 0};
  if (group.table != nullptr) {
    const std::int64_t num_computed = value_at(args.num_computed, request);
    if (num_computed < 0) {
      found = ErrorKind::out_of_range;
      return dead_row(args);
    }
    const AlignedPlan plan = aligned_plan(num_computed, commit_len, args.block_size);
    if (plan.final_column >= group.table_width) {
      found = ErrorKind::out_of_range;
      return dead_row(args);
    }
    const std::int32_t* const entries = group.table + request * group.table_stride[0];
    row.final_block = entries[plan.final_column * group.table_stride[1]];
    if (plan.boundary_column >= 0) row.boundary_block = entries[plan.boundary_column * group.table_stride[1]];
    row.boundary_len = static_cast<std::int32_t>(plan.boundary_len);
  }
  return is_null(row.final_block, args.null_block_id) ? dead_row(args) : row;
}

}  // namespace recoverssm::device
