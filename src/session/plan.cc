#include "session/plan.h"

namespace recoverssm {
namespace {

// The columns a window can touch: its first token's and the next one, since B >= S. Tables hold these alone, and the request's count is
// given from that column's start on: the plan's formulas don't notice, and both stay small for any length of text.
constexpr std::int64_t kTableColumns = 2;

// One group's arrays for commit_plan, commit and align_advance, per row.
struct GroupPlan {
  std::vector<std::int32_t> source, table, computed, running, kept;
  std::vector<std::int32_t> commit_len, final_block, boundary, boundary_len;

  PlanOutputs outputs() { return {ints(commit_len), ints(final_block), ints(boundary), ints(boundary_len)}; }
  TensorView table_view() {
    return {table.data(), DType::i32, {static_cast<std::int64_t>(table.size()) / kTableColumns, kTableColumns}};
  }
};

std::int64_t first_column(const SessionState& state, std::size_t group, const CommitRow& row) {
  return column_after(state.block_size(group), row.computed);
}

GroupPlan group_plan(const SessionState& state, std::size_t g, std::span<const CommitRow> rows) {
  GroupPlan plan;
  const std::int32_t null = state.config.null_block_id;
  for (const CommitRow& row : rows) {
    const Columns& columns = row.request->groups[g];
    plan.source.push_back(columns.running_block(null));
    if (!state.align()) continue;
    const std::int64_t base = first_column(state, g, row);
    for (std::int64_t c = base; c < base + kTableColumns; ++c) {
      const Column* const column = columns.find(c);
      plan.table.push_back(column == nullptr ? null : column->block);
    }
    plan.computed.push_back(static_cast<std::int32_t>(row.computed - base * *state.block_size(g)));
    plan.running.push_back(static_cast<std::int32_t>(columns.running - base));
  }
  for (auto* values : {&plan.commit_len, &plan.final_block, &plan.boundary, &plan.boundary_len, &plan.kept}) {
    values->resize(rows.size());
  }
  return plan;
}

struct Shared {
  std::vector<std::int32_t> offsets{0}, accepted;
};

void plan_group(SessionState& state, std::size_t g, Shared& shared, GroupPlan& plan, Context& context) {
  CommitPlanParams p{.num_accepted = ints(shared.accepted),
                     .query_start_loc = ints(shared.offsets),
                     .state_indices = ints(plan.source),
                     .window_capacity = state.config.window_capacity,
                     .out = plan.outputs(),
                     .null_block_id = state.config.null_block_id};
  if (state.align()) p.block_table = plan.table_view(), p.num_computed = ints(plan.computed), p.block_size = state.block_size(g);
  run_op(state, context, commit_plan, p);
}

void plan_all(SessionState& state, Shared& shared, std::vector<GroupPlan>& plans, Context& context) {
  std::vector<PlanGroup> groups;
  for (GroupPlan& plan : plans) {
    groups.push_back({ints(plan.source), state.align() ? plan.table_view() : TensorView(), plan.outputs()});
  }
  CommitPlanGroupsParams p{.num_accepted = ints(shared.accepted),
                           .query_start_loc = ints(shared.offsets),
                           .window_capacity = state.config.window_capacity,
                           .groups = groups,
                           .null_block_id = state.config.null_block_id};
  if (state.align()) p.num_computed = ints(plans[0].computed), p.block_size = state.block_size(0);
  run_op(state, context, commit_plan_groups, p);
}

void advance(SessionState& state, std::size_t g, GroupPlan& plan, Context& context) {
  run_op(state, context, align_advance,
         AlignAdvanceParams{.commit_len = ints(plan.commit_len),
                            .state_indices = ints(plan.source),
                            .num_computed = ints(plan.computed),
                            .block_size = *state.block_size(g),
                            .running_column = ints(plan.running),
                            .num_accepted = ints(plan.kept),
                            .null_block_id = state.config.null_block_id});
}

// What the plan and the advance say about one group goes into the requests.
void take_over(SessionState& state, std::size_t g, const GroupPlan& plan, const GroupPlan& advanced,
               std::span<const CommitRow> rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (plan.commit_len[i] == 0) continue;
    Columns& columns = rows[i].request->groups[g];
    columns.running = first_column(state, g, rows[i]) + advanced.running[i];
    if (plan.boundary[i] <= state.config.null_block_id) continue;
    for (Column& column : columns.in_use) {
      if (column.block != plan.boundary[i]) continue;
      column.boundary = true;
      state.blocks[g].written(column.block, (column.column + 1) * *state.block_size(g), rows[i].step);
    }
  }
}

}  // namespace

void commit_rows(SessionState& state, std::span<const CommitRow> rows, Context& context) {
  if (rows.empty()) return;
  Shared shared;
  for (const CommitRow& row : rows) {
    shared.offsets.push_back(shared.offsets.back() + row.length);
    shared.accepted.push_back(row.accepted);
  }
  std::vector<GroupPlan> plans;
  for (std::size_t g = 0; g < state.groups(); ++g) plans.push_back(group_plan(state, g, rows));

  // The host knows the counts and needs the columns: planning there saves a device's launches and the wait for what they would say.
  Context& planner = state.place.on_device() ? state.planner : context;
  // Groups plan alike where they have one block size: counts, offsets and num_computed are the request's.
  if (state.one_block_size) {
    plan_all(state, shared, plans, planner);
  } else {
    for (std::size_t g = 0; g < plans.size(); ++g) plan_group(state, g, shared, plans[g], planner);
  }
  // Advancing writes these arrays alone, so commit comes last: if anything is refused, no state has changed.
  const std::size_t advances = !state.align() ? 0 : state.one_block_size ? 1 : plans.size();
  for (std::size_t g = 0; g < advances; ++g) advance(state, g, plans[g], planner);
  std::vector<CommitGroup> groups(plans.size());
  Upload indices;
  for (std::size_t g = 0; g < plans.size(); ++g) {
    GroupPlan& plan = plans[g];
    indices.add(plan.source, groups[g].state_indices);
    indices.add(plan.commit_len, groups[g].commit_len);
    indices.add(plan.final_block, groups[g].final_indices);
    indices.add(plan.boundary, groups[g].boundary_indices);
    indices.add(plan.boundary_len, groups[g].boundary_len);
  }
  indices.send(state.slots);
  run_op(state, context, commit,
         CommitParams{.groups = groups,
                      .layers = state.layers,
                      .window_capacity = state.config.window_capacity,
                      .null_block_id = state.config.null_block_id});
  for (std::size_t g = 0; state.align() && g < plans.size(); ++g)
    take_over(state, g, plans[g], plans[state.one_block_size ? 0 : g], rows);
  if (state.one_block_size) {
    ++state.counters.grouped_calls;
  } else {
    ++state.counters.per_group_calls;
    state.counters.per_group_reason = "block sizes differ";
  }
}

}  // namespace recoverssm
