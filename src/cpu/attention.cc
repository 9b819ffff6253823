// gdn_attention on the CPU: the chain of the single operations over each part of a mixed step. Intermediates (mixed_qkv, b, a, and the
// ids and counts the convolution sees) live in the workspace; the parts run one after the other and share it.

#include "contract/attention_parts.h"
#include "contract/check.h"
#include "cpu/delta_head.h"
#include "cpu/ops.h"

namespace recoverssm::cpu {
namespace {

// Scratch the chain of one part needs beside its operations' own.
struct Intermediates {
  std::byte* mixed_qkv = nullptr;  // [tokens, C] T
  std::byte* b = nullptr;          // [tokens, HV] T
  std::byte* a = nullptr;          // [tokens, HV] T
  std::int32_t* ids = nullptr;     // [N]: blocks of the convolution
  std::int32_t* counts = nullptr;  // [N]: its num_accepted
};

std::int64_t channels_of(const GdnAttentionParams& p) {
  return 2 * std::int64_t{p.num_k_heads} * p.head_k_dim + std::int64_t{p.num_v_heads} * p.head_v_dim;
}

std::int64_t tokens_of(const GdnAttentionParams& p, const Rows& rows) {
  return rows.token_index.present() ? rows.token_index.shape[0] : p.qkvz.shape[0];
}

Intermediates carve_intermediates(Carver& carver, const GdnAttentionParams& p, const Rows& rows) {
  const std::int64_t tokens = tokens_of(p, rows);
  const std::int64_t size = size_of(p.qkvz.dtype);
  const std::int64_t N = rows.state_indices.shape[0];
  Intermediates m;
  m.mixed_qkv = carver.take<std::byte>(times(tokens, channels_of(p) * size));
  m.b = carver.take<std::byte>(times(tokens, p.num_v_heads * size));
  m.a = carver.take<std::byte>(times(tokens, p.num_v_heads * size));
  m.ids = carver.take<std::int32_t>(N);
  m.counts = carver.take<std::int32_t>(N);
  return m;
}

// Elements first.. of a view's leading dimension.
TensorView from_row(TensorView view, std::int64_t first, std::int64_t count) {
  view.data = at(view, first);
  view.shape[0] = count;
  return view;
}

// Splits the tokens of all rows: z is written for them and for no other.
void split(const GdnAttentionParams& p, const Rows& rows, const TensorView& mixed_qkv, const TensorView& b, const TensorView& a,
           const Execution& e) {
  const std::int64_t N = rows.state_indices.shape[0];
  const std::int64_t first = i32_at(rows.query_start_loc, 0);
  const std::int64_t count = i32_at(rows.query_start_loc, N) - first;
  SplitProjectionsParams s = {.qkvz = p.qkvz,
                              .ba = p.ba,
                              .layout = p.layout,
                              .num_k_heads = p.num_k_heads,
                              .num_v_heads = p.num_v_heads,
                              .head_k_dim = p.head_k_dim,
                              .head_v_dim = p.head_v_dim,
                              .mixed_qkv = from_row(mixed_qkv, first, count),
                              .z = p.z,
                              .b = from_row(b, first, count),
                              .a = from_row(a, first, count),
                              .token_index = rows.token_index};
  if (rows.token_index.present()) {
    s.token_index = from_row(rows.token_index, first, count);
  } else {
    s.qkvz = from_row(p.qkvz, first, count);
    s.ba = from_row(p.ba, first, count);
    s.z = from_row(p.z, first, count);
  }
  execute(s, e);
}

RuleInputs rule_inputs(const GdnAttentionParams& p, const TensorView& mixed_qkv, const TensorView& b, const TensorView& a) {
  const std::int64_t H = p.num_k_heads, HV = p.num_v_heads, K = p.head_k_dim, V = p.head_v_dim;
  const std::int64_t tokens = mixed_qkv.shape[0], C = channels_of(p);
  return {.gate = Gate::gdn,
          .q = {mixed_qkv.data, mixed_qkv.dtype, {tokens, H, K}, {C, K, 1}},
          .k = {at(mixed_qkv, 0, H * K), mixed_qkv.dtype, {tokens, H, K}, {C, K, 1}},
          .v = {at(mixed_qkv, 0, 2 * H * K), mixed_qkv.dtype, {tokens, HV, V}, {C, V, 1}},
          .a = a,
          .b = b,
          .A_log = p.A_log,
          .dt_bias = p.dt_bias,
          .lower_bound = std::nullopt,
          .scale = p.scale,
          .l2norm = p.l2norm,
          .softplus_beta = p.softplus_beta,
          .softplus_threshold = p.softplus_threshold};
}

// num_accepted as the line uses it. An anchored line in the lazy form moves by as many positions as records are folded.
TensorView line_counts(const GdnAttentionParams& p, const Rows& rows, const TensorView& pending, std::int32_t* counts) {
  if (!pending.present() || p.line_kind != LineKind::anchored || !rows.num_accepted.present()) return rows.num_accepted;
  const std::int64_t N = rows.state_indices.shape[0];
  for (std::int64_t i = 0; i < N; ++i) {
    counts[i] = 0;
    if (row_begin(rows, i) == row_end(rows, i)) continue;
    const std::int32_t block = i32_at(rows.state_indices, i);
    if (is_null(block, p.null_block_id)) continue;
    if (rows.has_initial_state.present() && !bool_at(rows.has_initial_state, i)) continue;
    counts[i] = static_cast<std::int32_t>(lazy_fold_count(i32_at(rows.num_accepted, i), i32_at(pending, block)));
  }
  return {counts, DType::i32, {N}};
}

// Blocks of a snapshots part's lines: column 0 of its table, null where the start is.
TensorView snapshot_line_ids(const GdnAttentionParams& p, const Rows& rows, std::int32_t* ids) {
  const std::int64_t N = rows.state_indices.shape[0];
  for (std::int64_t i = 0; i < N; ++i) {
    ids[i] = p.null_block_id;
    if (row_begin(rows, i) == row_end(rows, i)) continue;
    const std::int64_t start = snapshot_start_column(i32_at(rows.num_accepted, i));
    if (!is_null(i32_at(rows.state_indices, i, start), p.null_block_id)) ids[i] = i32_at(rows.state_indices, i, 0);
  }
  return {ids, DType::i32, {N}};
}

// The two params of a part's chain that differ between plain rows and windows are built by the caller; this is what they share.
struct PartTensors {
  TensorView mixed_qkv, b, a;
  RuleInputs inputs;
  Intermediates memory;
  Execution chain;       // scratch behind the intermediates
  std::size_t used = 0;  // bytes of them
};

PartTensors start_part(const GdnAttentionParams& p, const Rows& rows, const Execution& e) {
  Carver carver(e.scratch);
  const Intermediates memory = carve_intermediates(carver, p, rows);
  const std::int64_t tokens = tokens_of(p, rows), HV = p.num_v_heads;
  const DType T = p.qkvz.dtype;
  const TensorView mixed_qkv(memory.mixed_qkv, T, {tokens, channels_of(p)});
  const TensorView b(memory.b, T, {tokens, HV});
  const TensorView a(memory.a, T, {tokens, HV});
  const Execution chain = {e.kernels, e.parallel, carver.take<std::byte>(0), e.counters};
  return {mixed_qkv, b, a, rule_inputs(p, mixed_qkv, b, a), memory, chain, carver.used()};
}

Rows rows_of(const GdnAttentionParams& p, const Rows& part) {
  Rows rows = part;
  rows.null_block_id = p.null_block_id;
  return rows;
}

// Rows of a convolution over mixed_qkv, which is local already.
Rows local_rows(Rows rows, const TensorView& ids, const TensorView& counts) {
  rows.token_index = {};
  rows.state_indices = ids;
  rows.num_accepted = counts;
  return rows;
}

struct PlainChain {
  CausalConv1dParams conv;
  GatedDeltaRuleParams rule;
};

PlainChain plain_chain(const GdnAttentionParams& p, const PartTensors& t, const TensorView& counts) {
  const AttentionPlainPart& part = *p.plain;
  PlainChain chain;
  chain.conv = {.x = t.mixed_qkv,
                .weight = p.weight,
                .bias = p.bias,
                .activation = p.activation,
                .out = t.mixed_qkv,
                .line = p.line,
                .line_kind = p.line_kind,
                .rows = local_rows(rows_of(p, part.rows), part.rows.state_indices, counts)};
  chain.rule = {.inputs = t.inputs,
                .state = p.state,
                .out = p.out,
                .rows = rows_of(p, part.rows),
                .pending = plain_pending(p),
                .records = plain_records(p)};
  // Without pending the counts concern the line only.
  if (!chain.rule.pending.present()) chain.rule.rows.num_accepted = {};
  return chain;
}

CausalConv1dWindowParams window_conv(const GdnAttentionParams& p, const PartTensors& t, const TensorView& ids,
                                     const TensorView& counts) {
  return {.x = t.mixed_qkv,
          .weight = p.weight,
          .bias = p.bias,
          .activation = p.activation,
          .out = t.mixed_qkv,
          .line = p.line,
          .line_kind = p.line_kind,
          .rows = local_rows(rows_of(p, p.windows->rows), ids, counts)};
}

GatedDeltaRuleVerifyParams window_verify(const GdnAttentionParams& p, const PartTensors& t) {
  return {.inputs = t.inputs,
          .state = p.state,
          .out = p.out,
          .records = p.windows->records,
          .rows = rows_of(p, p.windows->rows),
          .pending = p.windows->pending};
}

GatedDeltaRuleSnapshotsParams window_snapshots(const GdnAttentionParams& p, const PartTensors& t) {
  return {.inputs = t.inputs, .state = p.state, .out = p.out, .rows = rows_of(p, p.windows->rows)};
}

// Every operation of the chain counts its bytes; rows and tokens are the rule's.
template <class F>
void count_bytes_only(Counters* counters, F&& run) {
  const std::int64_t rows = counters == nullptr ? 0 : counters->rows;
  const std::int64_t tokens = counters == nullptr ? 0 : counters->tokens;
  run();
  if (counters == nullptr) return;
  counters->rows = rows;
  counters->tokens = tokens;
}

void run_plain(const GdnAttentionParams& p, const Execution& e) {
  const PartTensors t = start_part(p, p.plain->rows, e);
  count_bytes_only(e.counters, [&] { split(p, p.plain->rows, t.mixed_qkv, t.b, t.a, t.chain); });
  const TensorView pending = plain_chain(p, t, {}).rule.pending;
  const PlainChain chain = plain_chain(p, t, line_counts(p, p.plain->rows, pending, t.memory.counts));
  count_bytes_only(e.counters, [&] { execute(chain.conv, t.chain); });
  execute(chain.rule, t.chain);
}

void run_windows(const GdnAttentionParams& p, const Execution& e) {
  const AttentionWindowPart& part = *p.windows;
  const PartTensors t = start_part(p, part.rows, e);
  count_bytes_only(e.counters, [&] { split(p, part.rows, t.mixed_qkv, t.b, t.a, t.chain); });
  if (part.mode == WindowMode::snapshots) {
    const TensorView ids = snapshot_line_ids(p, part.rows, t.memory.ids);
    count_bytes_only(e.counters, [&] { execute(window_conv(p, t, ids, part.rows.num_accepted), t.chain); });
    execute(window_snapshots(p, t), t.chain);
    return;
  }
  const TensorView counts = line_counts(p, part.rows, part.pending, t.memory.counts);
  count_bytes_only(e.counters, [&] { execute(window_conv(p, t, part.rows.state_indices, counts), t.chain); });
  execute(window_verify(p, t), t.chain);
}

// The same chains with no memory behind them, to ask their operations what they need.
std::size_t plain_scratch(const GdnAttentionParams& p, int workers) {
  const ParallelFor serial;
  const PartTensors t = start_part(p, p.plain->rows, {kernels_of(Target::portable), serial, nullptr, nullptr});
  const PlainChain chain = plain_chain(p, t, {});
  return t.used + std::max(scratch_size(chain.conv, workers), scratch_size(chain.rule, workers));
}

std::size_t window_scratch(const GdnAttentionParams& p, int workers) {
  const ParallelFor serial;
  const PartTensors t = start_part(p, p.windows->rows, {kernels_of(Target::portable), serial, nullptr, nullptr});
  const std::size_t conv = scratch_size(window_conv(p, t, p.windows->rows.state_indices, {}), workers);
  const std::size_t rule = p.windows->mode == WindowMode::snapshots ? scratch_size(window_snapshots(p, t), workers)
                                                                    : scratch_size(window_verify(p, t), workers);
  return t.used + std::max(conv, rule);
}

}  // namespace

std::size_t scratch_size(const GdnAttentionParams& params, int workers) {
  std::size_t bytes = 0;
  if (params.plain.has_value()) bytes = std::max(bytes, plain_scratch(params, workers));
  if (params.windows.has_value()) bytes = std::max(bytes, window_scratch(params, workers));
  return bytes;
}

void execute(const GdnAttentionParams& p, const Execution& e) {
  if (p.plain.has_value()) run_plain(p, e);
  if (p.windows.has_value()) run_windows(p, e);
}

}  // namespace recoverssm::cpu
