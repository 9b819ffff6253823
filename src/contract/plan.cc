// commit_plan and commit_plan_groups: shapes, dtypes, and which arguments make align mode.
#include "recoverssm/plan.hpp"

#include "contract/overlap.h"
#include "contract/plan_inputs.h"
#include "contract/rows.h"

namespace recoverssm {

PlanInputs inputs_of(const CommitPlanParams& p) {
  return {p.num_accepted, p.query_start_loc, p.request_index, p.num_computed, p.block_size, p.window_capacity, p.null_block_id};
}

PlanInputs inputs_of(const CommitPlanGroupsParams& p) {
  return {p.num_accepted, p.query_start_loc, p.request_index, p.num_computed, p.block_size, p.window_capacity, p.null_block_id};
}

namespace {

constexpr const char* kAlignTogether = "block_table, num_computed and block_size together, or none of them";

// The arguments that all groups share. N rows; R requests.
void check_shared(Check& check, const PlanInputs& in) {
  check_indices(check, "query_start_loc", in.query_start_loc, at_least("N+1", 1));
  check.at_least("window_capacity", in.window_capacity, 1);
  if (!check.ok()) return;
  const std::int64_t N = in.query_start_loc.shape[0] - 1;
  check_optional_indices(check, "request_index", in.request_index, {"N", N});
  // Without a request_index, row i belongs to request i.
  check_indices(check, "num_accepted", in.num_accepted, in.request_index.present() ? any("R") : at_least("R", N));
  if (!check.ok()) return;
  check_optional_indices(check, "num_computed", in.num_computed, {"R", in.num_accepted.shape[0]});
  if (in.num_computed.present() != in.block_size.has_value()) {
    const char* missing = in.block_size ? "num_computed" : "block_size";
    if (check.ok()) check.invalid(missing, "missing", kAlignTogether);
  }
  if (check.ok() && in.block_size && *in.block_size < in.window_capacity) {
    check.invalid("block_size", text(*in.block_size), text("at least window_capacity = ", in.window_capacity));
  }
}

struct GroupViews {
  const TensorView& state_indices;
  const TensorView& block_table;
  const PlanOutputs& out;
};

// `group` prefixes the names.
void check_group(Check& check, const Name& group, const PlanInputs& in, const GroupViews& views) {
  if (!check.ok()) return;
  const Dim N{"N", in.query_start_loc.shape[0] - 1};
  check_indices(check, group.dot("state_indices"), views.state_indices, N);
  const Name table = group.dot("block_table");
  check.optional_view(table, views.block_table, DType::i32, {{"R", in.num_accepted.shape[0]}, any("width")});
  if (check.ok() && views.block_table.present() != in.block_size.has_value()) {
    if (in.block_size) {
      check.invalid(table, "missing", kAlignTogether);
    } else {
      check.invalid("block_size", text("missing beside ", table.text()), kAlignTogether);
    }
  }
  check_indices(check, group.dot("commit_len"), views.out.commit_len, N);
  check_indices(check, group.dot("final_indices"), views.out.final_indices, N);
  check_indices(check, group.dot("boundary_indices"), views.out.boundary_indices, N);
  check_indices(check, group.dot("boundary_len"), views.out.boundary_len, N);
}

constexpr std::int64_t kSharedViews = 4;
constexpr std::int64_t kGroupViews = 6;

Operand shared_operand(const PlanInputs& in, std::int64_t i) {
  switch (i) {
    case 0:
      return {"num_accepted", &in.num_accepted};
    case 1:
      return {"query_start_loc", &in.query_start_loc};
    case 2:
      return {"request_index", &in.request_index};
    default:
      return {"num_computed", &in.num_computed};
  }
}

Operand group_operand(const Name& group, const GroupViews& views, std::int64_t i) {
  switch (i) {
    case 0:
      return {group.dot("state_indices"), &views.state_indices};
    case 1:
      return {group.dot("block_table"), &views.block_table};
    case 2:
      return {group.dot("commit_len"), &views.out.commit_len, true};
    case 3:
      return {group.dot("final_indices"), &views.out.final_indices, true};
    case 4:
      return {group.dot("boundary_indices"), &views.out.boundary_indices, true};
    default:
      return {group.dot("boundary_len"), &views.out.boundary_len, true};
  }
}

}  // namespace

Status validate(const CommitPlanParams& p) {
  Check check("commit_plan");
  const PlanInputs in = inputs_of(p);
  const GroupViews views{p.state_indices, p.block_table, p.out};
  check_shared(check, in);
  check_group(check, "", in, views);
  if (!check.ok()) return check.take();
  check_overlap(check, kSharedViews + kGroupViews, [&](std::int64_t i) {
    return i < kSharedViews ? shared_operand(in, i) : group_operand("", views, i - kSharedViews);
  });
  return check.take();
}

Status validate(const CommitPlanGroupsParams& p) {
  Check check("commit_plan_groups");
  const PlanInputs in = inputs_of(p);
  const auto views_of = [&](std::int64_t g) {
    const PlanGroup& group = p.groups[static_cast<std::size_t>(g)];
    return GroupViews{group.state_indices, group.block_table, group.out};
  };
  const auto groups = static_cast<std::int64_t>(p.groups.size());
  check_shared(check, in);
  for (std::int64_t g = 0; g < groups; ++g) check_group(check, Name("groups").at(g), in, views_of(g));
  if (!check.ok()) return check.take();
  check_overlap(check, kSharedViews + groups * kGroupViews, [&](std::int64_t i) {
    if (i < kSharedViews) return shared_operand(in, i);
    const std::int64_t g = (i - kSharedViews) / kGroupViews;
    return group_operand(Name("groups").at(g), views_of(g), (i - kSharedViews) % kGroupViews);
  });
  return check.take();
}

}  // namespace recoverssm
