// gated_delta_rule_verify on the CPU: windows that leave records. One task is one value head of one row, so that a head's waiting records
// are read before the same task overwrites them.

#include "cpu/delta_head.h"
#include "cpu/ops.h"

namespace recoverssm::cpu {
namespace {

std::int64_t fold_capacity(const GatedDeltaRuleVerifyParams& p) { return p.pending.present() ? p.rows.window_capacity : 0; }

// Records of the previous window that row i folds into its state first (lazy form).
int waiting_count(const GatedDeltaRuleVerifyParams& p, std::int64_t i, std::int64_t block) {
  if (!p.pending.present()) return 0;
  return static_cast<int>(lazy_fold_count(i32_at(p.rows.num_accepted, i), i32_at(p.pending, block)));
}

void run_row_head(const GatedDeltaRuleVerifyParams& p, const RuleShape& shape, const Execution& e, std::int64_t i,
                  std::int64_t head, int worker) {
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
                 .from_zero = false,
                 .store_final = false,
                 .waiting = {}};
  // Old keys and decays move to scratch here; old corrections too. After this the block's records may be overwritten.
  if (const int n = waiting_count(p, i, block); n > 0) {
    row.waiting = prepare_records(e.kernels, gate_rule_of(p.inputs), p.records, shape, block, head, n, work.fold);
  }
  const std::int64_t soon = std::min<std::int64_t>(row.length, kTokenChunk);
  prefetch_records(p.records, p.inputs.gate, block, head, soon);
  if (head + 1 < shape.HV) prefetch_values(p.inputs, head + 1, begin, soon);
  run_head(e.kernels, p.inputs, shape, p.state, work, row, [&](const HeadTokens& tokens, int index, std::int64_t t) {
    const std::int64_t at_token = static_cast<std::int64_t>(index) * shape.v_stride;
    store_out(e.kernels, p.out, p.rows, begin + t, head, work.tokens.out + at_token);
    write_record(p.inputs, p.records, shape, block, head, t, begin + t, tokens, index, work.tokens.correction + at_token);
  });
}

}  // namespace

std::size_t scratch_size(const GatedDeltaRuleVerifyParams& params, int workers) {
  return head_work_size(shape_of(params.inputs), params.inputs.gate, fold_capacity(params), workers);
}

void execute(const GatedDeltaRuleVerifyParams& p, const Execution& e) {
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
      e.counters->state_read += state_bytes(p.state);
      e.counters->state_written += waiting > 0 ? state_bytes(p.state) : 0;
      e.counters->record_read += waiting * record_bytes(p.inputs.gate, p.records);
      e.counters->record_written += length * record_bytes(p.inputs.gate, p.records);
    }
    // Only now: every head of the row has read the count.
    if (p.pending.present()) store_i32(p.pending, static_cast<std::int32_t>(length), block);
  }
}

}  // namespace recoverssm::cpu
