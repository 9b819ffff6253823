// gated_delta_rule on the CPU: plain rows. One task is one value head of one row.

#include "cpu/delta_head.h"
#include "cpu/ops.h"

namespace recoverssm::cpu {
namespace {

std::int64_t fold_capacity(const GatedDeltaRuleParams& p) {
  return p.pending.present() ? record_capacity(p.inputs.gate, p.records) : 0;
}

bool from_zero(const Rows& rows, std::int64_t i) { return rows.has_initial_state.present() && !bool_at(rows.has_initial_state, i); }

// Waiting records that row i folds first.
int waiting_count(const GatedDeltaRuleParams& p, std::int64_t i, std::int64_t block) {
  if (!p.pending.present() || from_zero(p.rows, i)) return 0;
  return static_cast<int>(lazy_fold_count(i32_at(p.rows.num_accepted, i), i32_at(p.pending, block)));
}

void run_row_head(const GatedDeltaRuleParams& p, const RuleShape& shape, const Execution& e, std::int64_t i, std::int64_t head,
                  int worker) {
  const std::int64_t begin = row_begin(p.rows, i);
  const std::int64_t end = row_end(p.rows, i);
  if (begin == end) return;
  const std::int32_t block = i32_at(p.rows.state_indices, i);
  if (is_null(block, p.rows.null_block_id)) {
    zero_out(p.out, p.rows, begin, end, head);
    return;
  }
  const HeadWork work = head_work_of(e, shape, p.inputs.gate, fold_capacity(p), worker);
  HeadRow row = {.block = block,
                 .head = head,
                 .first_token = begin,
                 .length = end - begin,
                 .from_zero = from_zero(p.rows, i),
                 .store_final = true,
                 .waiting = {}};
  if (const int n = waiting_count(p, i, block); n > 0) {
    row.waiting = prepare_records(e.kernels, gate_rule_of(p.inputs), p.records, shape, block, head, n, work.fold);
  }
  run_head(e.kernels, p.inputs, shape, p.state, work, row, [&](const HeadTokens&, int index, std::int64_t t) {
    store_out(e.kernels, p.out, p.rows, begin + t, head, work.tokens.out + static_cast<std::int64_t>(index) * shape.v_stride);
  });
}

}  // namespace

std::size_t scratch_size(const GatedDeltaRuleParams& params, int workers) {
  return head_work_size(shape_of(params.inputs), params.inputs.gate, fold_capacity(params), workers);
}

void execute(const GatedDeltaRuleParams& p, const Execution& e) {
  const RuleShape shape = shape_of(p.inputs);
  const std::int64_t rows = p.rows.state_indices.shape[0];
  forget_keys(e, shape, p.inputs.gate, fold_capacity(p));
  parallel_for(e, rows * shape.HV,
               [&](std::int64_t task, int worker) { run_row_head(p, shape, e, task / shape.HV, task % shape.HV, worker); });

  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t length = row_end(p.rows, i) - row_begin(p.rows, i);
    if (length == 0) continue;
    const std::int32_t block = i32_at(p.rows.state_indices, i);
    if (is_null(block, p.rows.null_block_id)) continue;
    if (e.counters != nullptr) {
      const int waiting = waiting_count(p, i, block);
      count_tokens(*e.counters, p.inputs, p.out, length);
      e.counters->state_read += from_zero(p.rows, i) ? 0 : state_bytes(p.state);
      e.counters->state_written += state_bytes(p.state);
      if (waiting > 0) e.counters->record_read += waiting * record_bytes(p.inputs.gate, p.records);
    }
    // Only now: every head of the row has read the count.
    if (p.pending.present()) store_i32(p.pending, 0, block);
  }
}

}  // namespace recoverssm::cpu
