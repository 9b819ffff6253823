// Index contents of the delta rules.
#include "contract/contents_rule.h"

#include <algorithm>

#include "contract/contents.h"
#include "contract/contents_rows.h"
#include "contract/rule_inputs.h"

namespace recoverssm {
namespace {

RowsContents rule_rows(const RuleInputs& in, const TensorView& out, const Rows& rows, std::int64_t capacity) {
  return {.rows = rows,
          .null_block_id = rows.null_block_id,
          .capacity = capacity,
          .local_tokens = std::min({in.q.shape[0], in.k.shape[0], in.v.shape[0], in.a.shape[0], in.b.shape[0]}),
          .global_rows = out.shape[0]};
}

std::size_t rule_memory(const Rows& rows, const TensorView& out, std::int64_t uses_per_row) {
  return ContentsMemory::bytes(times(rows.state_indices.shape[0], uses_per_row), token_memory(rows.token_index, out.shape[0]));
}

constexpr std::uint8_t kStart = 0;  // roles of snapshots
constexpr std::uint8_t kColumn = 1;

}  // namespace

bool check_waiting_records(Check& check, const RowsContents& r, const Name& pending_name, const TensorView& pending,
                           std::int64_t capacity, std::int64_t row, std::int32_t block) {
  return check_count(check, r.part.dot("num_accepted"), row, index_at(r.rows.num_accepted, row), capacity) &&
         check_pending_count(check, pending_name, row, block, index_at(pending, block), capacity);
}

void check_snapshot_rows(Check& check, const RowsContents& r, std::int64_t blocks, ContentsMemory& memory) {
  const Name state_indices = r.part.dot("state_indices");
  for (std::int64_t i = 0; check.ok() && i < r.count(); ++i) {
    const std::int64_t length = r.length(i);
    if (length == 0) continue;
    // Read also where the row turns out to be null, since it says which column decides that.
    const std::int32_t count = index_at(r.rows.num_accepted, i);
    if (!check_count(check, r.part.dot("num_accepted"), i, count, r.capacity)) return;
    const std::int32_t start = index_at(r.rows.state_indices, i, snapshot_start_column(count));
    if (is_null(start, r.null_block_id)) continue;
    if (!check_block(check, state_indices, i, start, blocks)) return;
    memory.add({.block = start, .role = kStart, .row = i});
    for (std::int64_t t = 0; t < length; ++t) {
      const std::int32_t block = index_at(r.rows.state_indices, i, t);
      if (is_null(block, r.null_block_id)) continue;
      if (!check_block(check, state_indices, i, block, blocks)) return;
      memory.add({.block = block, .role = kColumn, .once = true, .row = i});
    }
  }
}

std::size_t contents_workspace_size(const GatedDeltaRuleParams& p) { return rule_memory(p.rows, p.out, 1); }

Status validate_contents(const GatedDeltaRuleParams& p, Workspace workspace) {
  Check check("gated_delta_rule");
  ContentsMemory memory(workspace);
  const RowsContents rows = rule_rows(p.inputs, p.out, p.rows, 0);
  const bool lazy = p.pending.present();
  const std::int64_t capacity = lazy ? record_capacity(p.inputs.gate, p.records) : 0;
  check_offsets(check, rows);
  check_tokens(check, rows, memory);
  check_live_rows(check, rows, p.state.shape[0], memory, [&](std::int64_t i, std::int32_t block) {
    // A row that starts from zero only clears its pending count.
    if (lazy && starts_from_block(p.rows, i)) check_waiting_records(check, rows, "pending", p.pending, capacity, i, block);
  });
  check_shared_blocks(check, "", memory);
  return check.take();
}

std::size_t contents_workspace_size(const GatedDeltaRuleSnapshotsParams& p) {
  return rule_memory(p.rows, p.out, plus(p.rows.state_indices.shape[1], 1));
}

Status validate_contents(const GatedDeltaRuleSnapshotsParams& p, Workspace workspace) {
  Check check("gated_delta_rule_snapshots");
  ContentsMemory memory(workspace);
  const RowsContents rows = rule_rows(p.inputs, p.out, p.rows, p.rows.state_indices.shape[1]);
  check_offsets(check, rows);
  check_tokens(check, rows, memory);
  check_snapshot_rows(check, rows, p.state.shape[0], memory);
  check_shared_blocks(check, "", memory);
  return check.take();
}

std::size_t contents_workspace_size(const GatedDeltaRuleVerifyParams& p) { return rule_memory(p.rows, p.out, 1); }

Status validate_contents(const GatedDeltaRuleVerifyParams& p, Workspace workspace) {
  Check check("gated_delta_rule_verify");
  ContentsMemory memory(workspace);
  const RowsContents rows = rule_rows(p.inputs, p.out, p.rows, p.rows.window_capacity);
  check_offsets(check, rows);
  check_tokens(check, rows, memory);
  check_live_rows(check, rows, p.state.shape[0], memory, [&](std::int64_t i, std::int32_t block) {
    if (p.pending.present()) check_waiting_records(check, rows, "pending", p.pending, p.rows.window_capacity, i, block);
  });
  check_shared_blocks(check, "", memory);
  return check.take();
}

}  // namespace recoverssm
