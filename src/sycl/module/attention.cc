// gdn_attention on SYCL: per part three launches, and the delta rule's own if it takes more than one. The first looks at the rows and moves z, b
// and a; the second convolves straight from the packed rows; the third is the delta rule. Intermediates live in the workspace; the parts run
// one after the other and share it.
#include "device/attention.h"

#include <algorithm>

#include "contract/attention_parts.h"
#include "sycl/module/conv.h"
#include "sycl/module/operations.h"

namespace recoverssm::sycl_backend {
namespace {

using device::PackedSizes;
using device::PartKind;
using device::view_of;

constexpr std::int64_t kRowItems = 128;    // of a work-group
constexpr std::int64_t kMaxShares = 4096;  // work-groups a row

// What a part's chain works on beside the caller's tensors.
struct Intermediates {
  TensorView mixed_qkv, b, a;  // [tokens, ...] T
  std::int32_t *ids = nullptr, *counts = nullptr;
  Workspace rule;  // what is left is the delta rule's
};

PackedSizes sizes_of(const GdnAttentionParams& p) { return {p.layout, p.num_k_heads, p.num_v_heads, p.head_k_dim, p.head_v_dim}; }

std::int64_t global_rows_of(const GdnAttentionParams& p) {
  return std::min({p.qkvz.shape[0], p.ba.shape[0], p.out.shape[0], p.z.shape[0]});
}

std::int64_t local_tokens_of(const GdnAttentionParams& p, const Rows& rows) {
  return rows.token_index.present() ? rows.token_index.shape[0] : global_rows_of(p);
}

// `base` null: measures. Returns the bytes before the rule's.
std::size_t carve(std::byte* base, const GdnAttentionParams& p, const Rows& rows, Intermediates& m) {
  const PackedSizes s = sizes_of(p);
  const std::int64_t tokens = local_tokens_of(p, rows), C = device::qkv_channels(s), size = size_of(p.qkvz.dtype);
  const std::int64_t N = rows.state_indices.shape[0];
  std::size_t used = 0;
  const auto take = [&](std::int64_t bytes) -> void* {
    const std::size_t at = used;
    used += static_cast<std::size_t>(ceil_div(bytes, kWorkspaceAlignment) * static_cast<std::int64_t>(kWorkspaceAlignment));
    return base == nullptr ? nullptr : base + at;
  };
  m.mixed_qkv = TensorView(take(tokens * C * size), p.qkvz.dtype, {tokens, C});
  m.b = TensorView(take(tokens * s.HV * size), p.qkvz.dtype, {tokens, s.HV});
  m.a = TensorView(take(tokens * s.HV * size), p.qkvz.dtype, {tokens, s.HV});
  m.ids = static_cast<std::int32_t*>(take(N * std::int64_t{sizeof(std::int32_t)}));
  m.counts = static_cast<std::int32_t*>(take(N * std::int64_t{sizeof(std::int32_t)}));
  return used;
}

PartKind window_kind(const GdnAttentionParams& p) {
  return p.windows->mode == WindowMode::snapshots ? PartKind::snapshots : PartKind::verify;
}

std::int64_t capacity_of(const Rows& rows, PartKind kind) {
  if (kind == PartKind::plain) return 0;
  return kind == PartKind::snapshots ? rows.state_indices.shape[1] : rows.window_capacity;
}

RuleInputs rule_inputs(const GdnAttentionParams& p, const Intermediates& m) {
  const PackedSizes s = sizes_of(p);
  const std::int64_t tokens = m.mixed_qkv.shape[0], C = device::qkv_channels(s), size = size_of(p.qkvz.dtype);
  const DType T = p.qkvz.dtype;
  auto* const base = static_cast<std::byte*>(m.mixed_qkv.data);
  const auto from = [&](std::int64_t channel) -> void* { return base == nullptr ? nullptr : base + channel * size; };
  return {.gate = Gate::gdn,
          .q = {from(0), T, {tokens, s.H, s.K}, {C, s.K, 1}},
          .k = {from(s.H * s.K), T, {tokens, s.H, s.K}, {C, s.K, 1}},
          .v = {from(2 * s.H * s.K), T, {tokens, s.HV, s.V}, {C, s.V, 1}},
          .a = m.a,
          .b = m.b,
          .A_log = p.A_log,
          .dt_bias = p.dt_bias,
          .lower_bound = std::nullopt,
          .scale = p.scale,
          .l2norm = p.l2norm,
          .softplus_beta = p.softplus_beta,
          .softplus_threshold = p.softplus_threshold};
}

// `out` with no more rows than every globally addressed tensor has, so that the rule and the rows kernel refuse the same offsets.
TensorView common_out(const GdnAttentionParams& p) {
  TensorView out = p.out;
  out.shape[0] = global_rows_of(p);
  return out;
}

// The rows as the rule and, with `counts`, the convolution take them.
Rows rows_by_id(const GdnAttentionParams& p, Rows rows, const Intermediates& m) {
  rows.null_block_id = p.null_block_id;
  rows.state_indices = TensorView(m.ids, DType::i32, {rows.state_indices.shape[0]});
  return rows;
}

GatedDeltaRuleParams plain_rule(const GdnAttentionParams& p, const Intermediates& m) {
  GatedDeltaRuleParams rule;
  rule.inputs = rule_inputs(p, m);
  rule.state = p.state;
  rule.out = common_out(p);
  rule.rows = rows_by_id(p, p.plain->rows, m);
  rule.pending = plain_pending(p);
  rule.records = plain_records(p);
  if (!rule.pending.present()) rule.rows.num_accepted = {};  // it concerns the line only
  return rule;
}

GatedDeltaRuleSnapshotsParams snapshots_rule(const GdnAttentionParams& p, const Intermediates& m) {
  GatedDeltaRuleSnapshotsParams rule{.inputs = rule_inputs(p, m), .state = p.state, .out = common_out(p), .rows = p.windows->rows};
  rule.rows.null_block_id = p.null_block_id;
  return rule;
}

GatedDeltaRuleVerifyParams verify_rule(const GdnAttentionParams& p, const Intermediates& m) {
  GatedDeltaRuleVerifyParams rule;
  rule.inputs = rule_inputs(p, m);
  rule.state = p.state;
  rule.out = common_out(p);
  rule.records = p.windows->records;
  rule.rows = rows_by_id(p, p.windows->rows, m);
  rule.pending = p.windows->pending;
  return rule;
}

// Calls f with the delta rule of a part.
template <class F>
void with_rule(const GdnAttentionParams& p, PartKind kind, const Intermediates& m, F&& f) {
  if (kind == PartKind::plain) return f(plain_rule(p, m));
  if (kind == PartKind::snapshots) return f(snapshots_rule(p, m));
  f(verify_rule(p, m));
}

std::size_t part_bytes(const GdnAttentionParams& p, const Rows& rows, PartKind kind, ::sycl::queue& queue) {
  Intermediates m;
  std::size_t bytes = carve(nullptr, p, rows, m);
  with_rule(p, kind, m, [&](const auto& rule) { bytes += workspace_bytes(rule, queue); });
  return bytes;
}

void launch_rows(const GdnAttentionParams& p, Rows rows, PartKind kind, const Intermediates& m, const Launch& launch,
                 ::sycl::queue& queue) {
  rows.null_block_id = p.null_block_id;
  const std::int64_t N = rows.state_indices.shape[0], tokens = m.mixed_qkv.shape[0], capacity = capacity_of(rows, kind);
  const TensorView& pending = kind == PartKind::plain ? plain_pending(p) : p.windows->pending;
  device::PartArgs part;
  part.rows = device::rows_args(rows, capacity, tokens, global_rows_of(p), min64(p.state.shape[0], p.line.shape[0]),
                                Operation::gdn_attention, launch);
  part.qkvz = view_of(p.qkvz);
  part.ba = view_of(p.ba);
  part.z = view_of(p.z);
  part.b = view_of(m.b);
  part.a = view_of(m.a);
  part.pending = view_of(pending);
  part.sizes = sizes_of(p);
  part.kind = kind;
  part.line_kind = p.line_kind;
  if (pending.present()) {
    part.record_capacity = kind == PartKind::plain ? record_capacity(Gate::gdn, plain_records(p)) : rows.window_capacity;
  }
  part.history = p.weight.shape[1] - 1;
  part.columns = p.line.shape[1];
  part.ids = m.ids;
  part.counts = m.counts;
  const std::int64_t shares = kind == PartKind::plain ? ceil_div(tokens, N) : min64(capacity, tokens);
  launch_kernel(queue, kernel_of(queue, kAttentionProgram, "rows"),
                range_of(1, N, std::clamp<std::int64_t>(shares, 1, kMaxShares), kRowItems), part);
}

void launch_part_conv(const GdnAttentionParams& p, const Rows& given, PartKind kind, const Intermediates& m, const Launch& launch,
                      ::sycl::queue& queue) {
  Rows rows = rows_by_id(p, given, m);
  rows.num_accepted = TensorView(m.counts, DType::i32, {given.state_indices.shape[0]});
  device::ConvArgs conv;
  conv.rows = device::rows_args(rows, capacity_of(given, kind), m.mixed_qkv.shape[0], global_rows_of(p), p.line.shape[0],
                                Operation::gdn_attention, launch);
  conv.line = device::line_args(p.line, p.line_kind, p.weight.shape[1] - 1);
  conv.x = view_of(p.qkvz);
  conv.out = view_of(m.mixed_qkv);
  conv.weight = view_of(p.weight);
  conv.bias = view_of(p.bias);
  conv.sizes = sizes_of(p);
  conv.channels = device::qkv_channels(conv.sizes);
  conv.taps = static_cast<std::int32_t>(p.weight.shape[1]);
  conv.silu = p.activation == Activation::silu;
  conv.window = kind != PartKind::plain;
  launch_conv(queue, conv, true);
}

void launch_part(const GdnAttentionParams& p, const Rows& rows, PartKind kind, const Launch& on, ::sycl::queue& queue) {
  if (rows.state_indices.shape[0] == 0) return;
  Intermediates m;
  auto* const base = static_cast<std::byte*>(on.workspace.data);
  const std::size_t used = carve(base, p, rows, m);
  launch_rows(p, rows, kind, m, on, queue);
  launch_part_conv(p, rows, kind, m, on, queue);
  Launch rest = on;
  rest.workspace = {base + used, on.workspace.bytes - used};
  with_rule(p, kind, m, [&](const auto& rule) { launch(rule, rest, queue); });
}

void prepare_part(const GdnAttentionParams& p, const Rows& rows, PartKind kind, ::sycl::queue& queue) {
  kernel_of(queue, kAttentionProgram, "rows");
  prepare_conv(queue, true);
  Intermediates m;
  carve(nullptr, p, rows, m);
  with_rule(p, kind, m, [&](const auto& rule) { prepare(rule, queue); });
}

}  // namespace

std::size_t workspace_bytes(const GdnAttentionParams& p, ::sycl::queue& queue) {
  std::size_t bytes = 0;
  if (p.plain) bytes = std::max(bytes, part_bytes(p, p.plain->rows, PartKind::plain, queue));
  if (p.windows) bytes = std::max(bytes, part_bytes(p, p.windows->rows, window_kind(p), queue));
  return bytes;
}

void prepare(const GdnAttentionParams& p, ::sycl::queue& queue) {
  if (p.plain) prepare_part(p, p.plain->rows, PartKind::plain, queue);
  if (p.windows) prepare_part(p, p.windows->rows, window_kind(p), queue);
}

void launch(const GdnAttentionParams& p, const Launch& launch, ::sycl::queue& queue) {
  if (p.plain) launch_part(p, p.plain->rows, PartKind::plain, launch, queue);
  if (p.windows) launch_part(p, p.windows->rows, window_kind(p), launch, queue);
}

}  // namespace recoverssm::sycl_backend
