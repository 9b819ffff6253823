// commit_plan and commit_plan_groups on the CPU. A plan is a few integers a row: it runs in the calling thread. The formulas are
// in contract/plan_rules.h.
#include "contract/plan_rules.h"
#include "cpu/ops.h"
#include "cpu/view.h"

namespace recoverssm::cpu {
namespace {

// What all groups of a call share.
struct Shared {
  const TensorView& num_accepted;
  const TensorView& query_start_loc;
  const TensorView& request_index;
  const TensorView& num_computed;
  std::int64_t capacity;
  std::int64_t block_size;  // 0: none mode
  std::int32_t null_block_id;
};

template <class Params>
Shared shared_of(const Params& p) {
  return {p.num_accepted,    p.query_start_loc,        p.request_index, p.num_computed,
          p.window_capacity, p.block_size.value_or(0), p.null_block_id};
}

struct Row {
  std::int32_t commit_len = 0, final_block = 0, boundary_block = 0, boundary_len = 0;
};

// Reads in this order, and stops at the first that makes the row dead: offsets, source, count, num_computed, table. What a dead row
// did not read may be anything.
Row plan_row(const Shared& s, const TensorView& state_indices, const TensorView& block_table, std::int64_t i) {
  const Row dead{.final_block = s.null_block_id, .boundary_block = s.null_block_id};
  const std::int64_t length = std::int64_t{i32_at(s.query_start_loc, i + 1)} - i32_at(s.query_start_loc, i);
  if (length <= 0) return dead;
  const std::int32_t source = i32_at(state_indices, i);
  if (is_null(source, s.null_block_id)) return dead;
  const std::int64_t request = s.request_index.present() ? i32_at(s.request_index, i) : i;
  const std::int64_t commit_len = plan_commit_len(i32_at(s.num_accepted, request), length, s.capacity);
  if (commit_len == 0) return dead;

  Row row{.commit_len = static_cast<std::int32_t>(commit_len), .final_block = source, .boundary_block = s.null_block_id};
  if (block_table.present()) {
    const AlignedPlan plan = aligned_plan(i32_at(s.num_computed, request), commit_len, s.block_size);
    row.final_block = i32_at(block_table, request, plan.final_column);
    if (plan.boundary_column >= 0) row.boundary_block = i32_at(block_table, request, plan.boundary_column);
    row.boundary_len = static_cast<std::int32_t>(plan.boundary_len);
  }
  return is_null(row.final_block, s.null_block_id) ? dead : row;
}

void store(const PlanOutputs& out, std::int64_t i, const Row& row) {
  store_i32(out.commit_len, row.commit_len, i);
  store_i32(out.final_indices, row.final_block, i);
  store_i32(out.boundary_indices, row.boundary_block, i);
  store_i32(out.boundary_len, row.boundary_len, i);
}

// Live rows and committed tokens; a plan moves no tensor data. Groups agree on every row's length, so one group speaks for all.
void count(Counters* counters, const Row& row) {
  if (counters == nullptr || row.commit_len == 0) return;
  counters->rows += 1;
  counters->tokens += row.commit_len;
}

}  // namespace

std::size_t scratch_size(const CommitPlanParams&, int) { return 0; }
std::size_t scratch_size(const CommitPlanGroupsParams&, int) { return 0; }

void execute(const CommitPlanParams& p, const Execution& e) {
  const Shared shared = shared_of(p);
  for (std::int64_t i = 0; i < p.state_indices.shape[0]; ++i) {
    const Row row = plan_row(shared, p.state_indices, p.block_table, i);
    store(p.out, i, row);
    count(e.counters, row);
  }
}

void execute(const CommitPlanGroupsParams& p, const Execution& e) {
  const Shared shared = shared_of(p);
  for (std::size_t g = 0; g < p.groups.size(); ++g) {
    const PlanGroup& group = p.groups[g];
    for (std::int64_t i = 0; i < group.state_indices.shape[0]; ++i) {
      const Row row = plan_row(shared, group.state_indices, group.block_table, i);
      store(group.out, i, row);
      if (g == 0) count(e.counters, row);
    }
  }
}

}  // namespace recoverssm::cpu
