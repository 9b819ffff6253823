// gated_delta_rule_snapshots on the CPU: windows that leave a state per token. One task is one value head of one row.

#include <algorithm>

#include "cpu/delta_head.h"
#include "cpu/ops.h"

namespace recoverssm::cpu {
namespace {

std::int32_t start_block(const Rows& rows, std::int64_t i) {
  return i32_at(rows.state_indices, i, snapshot_start_column(i32_at(rows.num_accepted, i)));
}

// Token t of prepared ones, by itself.
HeadTokens one_token(HeadTokens tokens, int t) {
  const std::int64_t row = static_cast<std::int64_t>(t) * padded_k(tokens.K);
  tokens.count = 1;
  tokens.k += row;
  tokens.q += row;
  tokens.k_dot_q += t;
  tokens.decay += tokens.decay_per_channel ? row : t;
  tokens.beta += t;
  return tokens;
}

void run_row_head(const GatedDeltaRuleSnapshotsParams& p, const RuleShape& shape, const Execution& e, std::int64_t i,
                  std::int64_t head, int worker) {
  const std::int64_t begin = row_begin(p.rows, i);
  const std::int64_t length = row_end(p.rows, i) - begin;
  if (length == 0) return;
  const std::int32_t source = start_block(p.rows, i);
  if (is_null(source, p.rows.null_block_id)) {
    zero_out(p.out, p.rows, begin, begin + length, head);
    return;
  }
  const HeadWork work = head_work_of(e, shape, p.inputs.gate, /*fold_capacity=*/0, worker);
  const bool one_chunk = length <= kTokenChunk;
  for (std::int64_t chunk = 0; chunk < length; chunk += kTokenChunk) {
    const int count = static_cast<int>(std::min<std::int64_t>(kTokenChunk, length - chunk));
    const HeadTokens tokens = prepare_inputs(e.kernels, p.inputs, shape, head, begin + chunk, count, work.tokens);
    // A tile goes through all tokens before the next one: it is read before any snapshot of its rows is written, and stays in cache.
    for (int first = 0; first < shape.V; first += kStateRows) {
      for (int t = 0; t < count; ++t) {
        const std::int32_t target = i32_at(p.rows.state_indices, i, chunk + t);
        const bool wanted = !is_null(target, p.rows.null_block_id);
        const std::int64_t at_token = static_cast<std::int64_t>(t) * shape.v_stride + first;
        // The carried state stays fp32 for the whole window: a snapshot rounds a copy.
        e.kernels.delta({.tokens = one_token(tokens, t),
                         .rows = std::min(kStateRows, shape.V - first),
                         .from = chunk + t == 0 ? tile_of(p.state, source, head, first) : StateTile{},
                         .to = wanted ? tile_of(p.state, target, head, first) : StateTile{},
                         .keep = chunk + t + 1 < length,
                         .h = work.h + (one_chunk ? 0 : static_cast<std::int64_t>(first) * shape.k_stride),
                         .token_stride = shape.v_stride,
                         .v = work.tokens.v + at_token,
                         .correction = work.tokens.correction + at_token,
                         .out = work.tokens.out + at_token});
      }
    }
    for (int t = 0; t < count; ++t) {
      store_out(e.kernels, p.out, p.rows, begin + chunk + t, head, work.tokens.out + static_cast<std::int64_t>(t) * shape.v_stride);
    }
  }
}

void count_row(const GatedDeltaRuleSnapshotsParams& p, std::int64_t i, Counters& counters) {
  const std::int64_t length = row_end(p.rows, i) - row_begin(p.rows, i);
  if (length == 0 || is_null(start_block(p.rows, i), p.rows.null_block_id)) return;
  count_tokens(counters, p.inputs, p.out, length);
  counters.state_read += state_bytes(p.state);
  for (std::int64_t t = 0; t < length; ++t) {
    if (!is_null(i32_at(p.rows.state_indices, i, t), p.rows.null_block_id)) counters.state_written += state_bytes(p.state);
  }
}

}  // namespace

std::size_t scratch_size(const GatedDeltaRuleSnapshotsParams& params, int workers) {
  return head_work_size(shape_of(params.inputs), params.inputs.gate, /*fold_capacity=*/0, workers);
}

void execute(const GatedDeltaRuleSnapshotsParams& p, const Execution& e) {
  const RuleShape shape = shape_of(p.inputs);
  const std::int64_t rows = p.rows.state_indices.shape[0];
  forget_keys(e, shape, p.inputs.gate, /*fold_capacity=*/0);
  parallel_for(e, rows * shape.HV,
               [&](std::int64_t task, int worker) { run_row_head(p, shape, e, task / shape.HV, task % shape.HV, worker); });
  if (e.counters == nullptr) return;
  for (std::int64_t i = 0; i < rows; ++i) count_row(p, i, *e.counters);
}

}  // namespace recoverssm::cpu
