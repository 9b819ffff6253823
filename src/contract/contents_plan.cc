// Index contents of commit_plan, commit_plan_groups and align_advance.
#include "contract/contents.h"
#include "contract/contents_rows.h"
#include "contract/plan_inputs.h"
#include "contract/plan_rules.h"

namespace recoverssm {
namespace {

struct GroupIndices {
  const TensorView& state_indices;
  const TensorView& block_table;
};

// Request of row i, in 0..requests-1.
bool request_of(Check& check, const TensorView& request_index, std::int64_t i, std::int64_t requests, std::int64_t& request) {
  request = request_index.present() ? index_at(request_index, i) : i;
  if (request >= 0 && request < requests) return true;
  check.out_of_range("request_index", text("row ", i, " has request ", request), text("a request 0..", requests - 1));
  return false;
}

bool check_num_computed(Check& check, std::int64_t request, std::int32_t num_computed) {
  if (num_computed >= 0) return true;
  check.out_of_range("num_computed", text("request ", request, " has ", num_computed), "at least 0");
  return false;
}

// What all groups' rows share: request, kept tokens, tokens before the window.
struct PlanRow {
  std::int64_t index, request, kept;
  std::int32_t num_computed;
};

// Nothing of a request is read unless a group names a live source block for the row.
bool read_row(Check& check, const PlanInputs& in, std::int64_t i, std::int64_t length, PlanRow& row) {
  row = {i, 0, 0, 0};
  if (!request_of(check, in.request_index, i, in.num_accepted.shape[0], row.request)) return false;
  row.kept = plan_commit_len(index_at(in.num_accepted, row.request), length, in.window_capacity);
  if (row.kept == 0 || !in.block_size) return true;
  row.num_computed = index_at(in.num_computed, row.request);
  return check_num_computed(check, row.request, row.num_computed);
}

// Whether a row with a live source commits in this group.
bool commits(Check& check, const PlanInputs& in, const Name& group, const TensorView& block_table, const PlanRow& row) {
  if (row.kept == 0 || !in.block_size) return row.kept > 0;
  const std::int64_t column = aligned_plan(row.num_computed, row.kept, *in.block_size).final_column;
  if (column >= block_table.shape[1]) {
    check.out_of_range(group.dot("block_table"),
                       text("width ", block_table.shape[1], " for row ", row.index, " of request ", row.request, " (num_computed ",
                            row.num_computed, ", ", row.kept, " kept)"),
                       text("a column ", column));
    return false;
  }
  return !is_null(index_at(block_table, row.request, column), in.null_block_id);
}

template <class Group>
Status plan_contents(const char* op, const PlanInputs& in, std::int64_t groups, Group&& group_of) {
  Check check(op);
  Rows offsets;
  offsets.query_start_loc = in.query_start_loc;
  const RowsContents rows{
      .rows = offsets, .local_tokens = kNoLocalTensors, .global_rows = INT64_MAX};  // no tensor bounds the tokens
  check_offsets(check, rows);
  for (std::int64_t i = 0; check.ok() && i < rows.count(); ++i) {
    const std::int64_t length = rows.length(i);
    if (length == 0) continue;
    PlanRow row{};
    bool row_read = false, first_commits = false;
    for (std::int64_t g = 0; check.ok() && g < groups; ++g) {
      const auto& [name, indices] = group_of(g);
      const std::int32_t source = index_at(indices.state_indices, i);
      bool live = !is_null(source, in.null_block_id);
      if (live && source < 0) {  // the pools and their number of blocks are not a plan's matter
        check.out_of_range(name.dot("state_indices"), text("row ", i, " has block ", source), "a block, or null");
        break;
      }
      if (live && !row_read) row_read = live = read_row(check, in, i, length, row);
      live = live && commits(check, in, name, indices.block_table, row);
      if (g == 0) first_commits = live;
      if (check.ok() && live != first_commits) {
        check.out_of_range(
            name.dot("state_indices"),
            text("row ", i, live ? " commits here and is dead in groups[0]" : " is dead here and commits in groups[0]"),
            "the same commit_len in all groups");
      }
    }
  }
  return check.take();
}

}  // namespace

std::size_t contents_workspace_size(const CommitPlanParams&) { return 0; }

Status validate_contents(const CommitPlanParams& p, Workspace) {
  return plan_contents("commit_plan", inputs_of(p), 1, [&](std::int64_t) {
    return std::pair{Name(""), GroupIndices{p.state_indices, p.block_table}};
  });
}

std::size_t contents_workspace_size(const CommitPlanGroupsParams&) { return 0; }

Status validate_contents(const CommitPlanGroupsParams& p, Workspace) {
  return plan_contents("commit_plan_groups", inputs_of(p), static_cast<std::int64_t>(p.groups.size()), [&](std::int64_t g) {
    const PlanGroup& group = p.groups[static_cast<std::size_t>(g)];
    return std::pair{Name("groups").at(g), GroupIndices{group.state_indices, group.block_table}};
  });
}

std::size_t contents_workspace_size(const AlignAdvanceParams& p) { return ContentsMemory::bytes(p.state_indices.shape[0], 0); }

Status validate_contents(const AlignAdvanceParams& p, Workspace workspace) {
  Check check("align_advance");
  ContentsMemory memory(workspace);
  const std::int64_t N = p.state_indices.shape[0], R = p.num_computed.shape[0];
  for (std::int64_t i = 0; check.ok() && i < N; ++i) {
    const std::int32_t kept = index_at(p.commit_len, i);
    if (kept == 0 || is_null(index_at(p.state_indices, i), p.null_block_id)) continue;
    if (kept < 0) {
      check.out_of_range("commit_len", text("row ", i, " has ", kept), "at least 0");
      break;
    }
    std::int64_t request = 0;
    if (!request_of(check, p.request_index, i, R, request)) break;
    const std::int32_t num_computed = index_at(p.num_computed, request);
    if (!check_num_computed(check, request, num_computed)) break;
    const std::int64_t column = state_column(std::int64_t{num_computed} + kept, p.block_size);
    if (column > INT32_MAX) {
      check.out_of_range("num_computed", text("request ", request, " has ", num_computed, " and keeps ", kept, ": column ", column),
                         "a running column that fits in int32");
      break;
    }
    memory.add({.block = static_cast<std::int32_t>(request), .row = i});
  }
  if (!check.ok()) return check.take();
  const Conflict conflict = find_conflict(memory.uses());
  if (conflict.first != nullptr) {
    check.out_of_range("request_index", text("request ", conflict.first->block, " in more than one live row"),
                       "one live row a request");
  }
  return check.take();
}

}  // namespace recoverssm
