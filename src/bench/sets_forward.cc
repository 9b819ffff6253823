// Data sets of the operations of a forward pass: projections, convolutions, delta rules, gdn_attention.
#include "bench/set_parts.h"

namespace recoverssm::bench {
namespace {

std::int64_t tokens_of(const Shape& s) { return static_cast<std::int64_t>(s.rows) * s.tokens; }

constexpr std::int32_t kDilation = 3;

template <class Params>
std::unique_ptr<Call<Params>> conv(const Shape& s, std::int64_t columns, Arena& arena) {
  auto call = std::make_unique<Call<Params>>();
  Params& p = call->params;
  p.x = arena.values(s.activation, {tokens_of(s), s.channels()});
  p.weight = arena.values(s.activation, {s.channels(), s.W});
  p.line = conv_line(s, s.rows, columns, arena);
  p.line_kind = s.line_kind;
  p.rows = rows_of(s, arena);
  return call;
}

RuleInputs rule_inputs(const Shape& s, Arena& arena) {
  RuleInputs in;
  in.gate = s.gate;
  in.q = arena.values(s.activation, {tokens_of(s), s.H, s.K});
  in.k = arena.values(s.activation, {tokens_of(s), s.H, s.K});
  in.v = arena.values(s.activation, {tokens_of(s), s.HV, s.V});
  in.a = s.gate == Gate::gdn ? arena.values(s.activation, {tokens_of(s), s.HV})
                             : arena.values(s.activation, {tokens_of(s), s.HV, s.K});
  in.b = arena.values(s.activation, {tokens_of(s), s.HV});
  in.A_log = gate_logs(s, arena);
  in.dt_bias = gate_bias(s, arena);
  return in;
}

std::unique_ptr<Call<GdnAttentionParams>> attention(const Shape& s, std::int64_t columns, Arena& arena) {
  auto call = std::make_unique<Call<GdnAttentionParams>>();
  GdnAttentionParams& p = call->params;
  p.qkvz = arena.values(s.activation, {tokens_of(s), s.channels() + s.HV * s.V});
  p.ba = arena.values(s.activation, {tokens_of(s), 2 * s.HV});
  p.num_k_heads = static_cast<std::int32_t>(s.H);
  p.num_v_heads = static_cast<std::int32_t>(s.HV);
  p.head_k_dim = static_cast<std::int32_t>(s.K);
  p.head_v_dim = static_cast<std::int32_t>(s.V);
  p.weight = arena.values(s.activation, {s.channels(), s.W});
  p.activation = Activation::silu;
  p.A_log = gate_logs(s, arena);
  p.dt_bias = gate_bias(s, arena);
  p.line = conv_line(s, s.rows, columns, arena);
  p.line_kind = s.line_kind;
  p.state = states(s, s.rows, arena);
  p.out = outputs(s, arena);
  p.z = outputs(s, arena);
  p.null_block_id = kNull;
  return call;
}

}  // namespace

std::unique_ptr<DataSet> build_split_projections(const Shape& s, Arena& arena) {
  auto call = std::make_unique<Call<SplitProjectionsParams>>();
  SplitProjectionsParams& p = call->params;
  p.qkvz = arena.values(s.activation, {tokens_of(s), s.channels() + s.HV * s.V});
  p.ba = arena.values(s.activation, {tokens_of(s), 2 * s.HV});
  p.num_k_heads = static_cast<std::int32_t>(s.H);
  p.num_v_heads = static_cast<std::int32_t>(s.HV);
  p.head_k_dim = static_cast<std::int32_t>(s.K);
  p.head_v_dim = static_cast<std::int32_t>(s.V);
  p.mixed_qkv = arena.values(s.activation, {tokens_of(s), s.channels()});
  p.z = outputs(s, arena);
  p.b = arena.values(s.activation, {tokens_of(s), s.HV});
  p.a = arena.values(s.activation, {tokens_of(s), s.HV});
  return call;
}

std::unique_ptr<DataSet> build_conv(const Shape& s, Arena& arena) {
  auto call = conv<CausalConv1dParams>(s, s.W - 1, arena);
  call->params.activation = Activation::silu;
  call->params.out = arena.values(s.activation, {tokens_of(s), s.channels()});
  return call;
}

std::unique_ptr<DataSet> build_conv_window(const Shape& s, Arena& arena) {
  auto call = conv<CausalConv1dWindowParams>(s, line_columns(s, s.W - 1), arena);
  call->params.activation = Activation::silu;
  call->params.out = arena.values(s.activation, {tokens_of(s), s.channels()});
  return call;
}

std::unique_ptr<DataSet> build_short_conv(const Shape& s, Arena& arena) {
  auto call = conv<ShortConvParams>(s, (s.W - 1) * kDilation, arena);
  call->params.line_kind = LineKind::plain;
  call->params.dilation = kDilation;
  call->params.residual = arena.values(s.activation, {tokens_of(s), s.channels()});
  return call;
}

std::unique_ptr<DataSet> build_short_conv_window(const Shape& s, Arena& arena) {
  auto call = conv<ShortConvParams>(s, line_columns(s, (s.W - 1) * kDilation), arena);
  call->params.dilation = kDilation;
  call->params.residual = arena.values(s.activation, {tokens_of(s), s.channels()});
  return call;
}

std::unique_ptr<DataSet> build_rule(const Shape& s, Arena& arena) {
  auto call = std::make_unique<Call<GatedDeltaRuleParams>>();
  call->params.inputs = rule_inputs(s, arena);
  call->params.state = states(s, s.rows, arena);
  call->params.out = outputs(s, arena);
  call->params.rows = rows_of(s, arena);
  return call;
}

// Every row starts from its first column, whose state the call then replaces: as after a window of which one token was kept.
std::unique_ptr<DataSet> build_snapshots(const Shape& s, Arena& arena) {
  auto call = std::make_unique<Call<GatedDeltaRuleSnapshotsParams>>();
  const std::int64_t blocks = s.rows * s.window();
  call->params.inputs = rule_inputs(s, arena);
  call->params.state = states(s, blocks, arena);
  call->params.out = outputs(s, arena);
  call->params.rows = rows_of(s, arena);
  call->params.rows.state_indices = arena.ints(s.rows, s.window(), counting(blocks));
  call->params.rows.num_accepted = arena.ints(s.rows, 1);
  return call;
}

// Lazy: after the first call the whole window waits, of which num_accepted = waiting are folded by the next.
std::unique_ptr<DataSet> build_verify(const Shape& s, Arena& arena) {
  auto call = std::make_unique<Call<GatedDeltaRuleVerifyParams>>();
  call->params.inputs = rule_inputs(s, arena);
  call->params.state = states(s, s.rows, arena);
  call->params.out = outputs(s, arena);
  call->params.records = records_of(s, s.rows, arena);
  call->params.rows = rows_of(s, arena);
  if (s.waiting > 0) {
    call->params.rows.num_accepted = arena.ints(s.rows, s.waiting);
    call->params.pending = arena.ints(s.rows, static_cast<std::int32_t>(s.window()));
  }
  return call;
}

std::unique_ptr<DataSet> build_attention_plain(const Shape& s, Arena& arena) {
  auto call = attention(s, s.W - 1, arena);
  AttentionPlainPart part;
  part.rows = rows_of(s, arena);
  call->params.plain = part;
  return call;
}

std::unique_ptr<DataSet> build_attention_windows(const Shape& s, Arena& arena) {
  auto call = attention(s, line_columns(s, s.W - 1), arena);
  AttentionWindowPart part;
  part.rows = rows_of(s, arena);
  part.records = records_of(s, s.rows, arena);
  call->params.windows = part;
  return call;
}

}  // namespace recoverssm::bench
