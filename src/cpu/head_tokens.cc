#include "cpu/head_tokens.h"

#include <algorithm>
#include <cstring>

#include "arithmetic/gates.h"
#include "contract/rules.h"
#include "cpu/view.h"

namespace recoverssm::cpu {
namespace {

// One element of a parameter that is T or f32.
float widen_one(const Kernels& kernels, const TensorView& view, std::int64_t i) {
  float value = 0;
  kernels.widen(view.dtype, at(view, i), &value, 1);
  return value;
}

// K contiguous or strided elements of a parameter row.
void widen_row(const Kernels& kernels, const TensorView& view, std::int64_t row, std::int64_t n, float* to) {
  if (view.stride[1] == 1) {
    kernels.widen(view.dtype, at(view, row), to, n);
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) kernels.widen(view.dtype, at(view, row, i), to + i, 1);
}

// Tokens rounded up to whole vectors of the widest target: a loop over few tokens would run its scalar remainder.
constexpr int whole_vectors(int count) { return (count + 15) / 16 * 16; }
static_assert(whole_vectors(kTokenChunk) == kTokenChunk);

// One element a token of a [n, HV] input, then zeros up to whole vectors.
void widen_head(const Kernels& kernels, const TensorView& view, std::int64_t first, int count, std::int64_t head, float* to) {
  for (int t = 0; t < count; ++t) kernels.widen(view.dtype, at(view, first + t, head), to + t, 1);
  std::fill(to + count, to + whole_vectors(count), 0.0F);
}

KdaGate kda_gate(const Kernels& kernels, const GateRule& rule, std::int64_t head) {
  return {.A_log = widen_one(kernels, rule.A_log, head),
          .bounded = rule.lower_bound.has_value(),
          .lower_bound = rule.lower_bound.value_or(0.0F),
          .softplus_beta = rule.softplus_beta,
          .softplus_threshold = rule.softplus_threshold};
}

GdnGate gdn_gate(const Kernels& kernels, const GateRule& rule, std::int64_t head) {
  return {.A_log = widen_one(kernels, rule.A_log, head),
          .dt_bias = widen_one(kernels, rule.dt_bias, head),
          .softplus_beta = rule.softplus_beta,
          .softplus_threshold = rule.softplus_threshold};
}

HeadTokens describe(const RuleShape& shape, Gate gate, int count, const HeadScratch& scratch) {
  return {.count = count,
          .K = shape.K,
          .k = scratch.k,
          .q = scratch.q,
          .k_dot_q = scratch.k_dot_q,
          .decay = scratch.decay,
          .decay_per_channel = gate == Gate::kda,
          .beta = scratch.beta};
}

}  // namespace

RuleShape shape_of(const RuleInputs& inputs) {
  RuleShape s;
  s.H = static_cast<int>(inputs.q.shape[1]);
  s.K = static_cast<int>(inputs.q.shape[2]);
  s.HV = static_cast<int>(inputs.v.shape[1]);
  s.V = static_cast<int>(inputs.v.shape[2]);
  s.k_stride = padded_k(s.K);
  s.v_stride = (s.V + kStateRows - 1) / kStateRows * kStateRows;
  s.scale = inputs.scale.value_or(arithmetic::default_scale(s.K));
  return s;
}

GateRule gate_rule_of(const RuleInputs& inputs) {
  return {inputs.gate,   inputs.A_log,         inputs.dt_bias,           inputs.lower_bound,
          inputs.l2norm, inputs.softplus_beta, inputs.softplus_threshold};
}

GateRule gate_rule_of(const Layer& layer) {
  return {layer.gate, layer.A_log, layer.dt_bias, layer.lower_bound, layer.l2norm, layer.softplus_beta, layer.softplus_threshold};
}

HeadScratch carve_head(Carver& carver, const RuleShape& shape, Gate gate, std::int64_t tokens, bool replay) {
  HeadScratch s;
  s.k = carver.take<float>(tokens * shape.k_stride);
  s.decay = carver.take<float>(gate == Gate::kda ? tokens * shape.k_stride : tokens);
  s.correction = carver.take<float>(tokens * shape.v_stride);
  s.gate_input = carver.take<float>(gate == Gate::kda ? shape.k_stride : tokens);
  if (gate == Gate::kda) s.dt_bias = carver.take<float>(shape.k_stride);
  if (replay) return s;
  s.q = carver.take<float>(tokens * shape.k_stride);
  s.k_dot_q = carver.take<float>(tokens);
  s.beta = carver.take<float>(tokens);
  s.v = carver.take<float>(tokens * shape.v_stride);
  s.out = carver.take<float>(tokens * shape.v_stride);
  s.keys_of = carver.take<std::int64_t>(1);
  return s;
}

HeadTokens prepare_inputs(const Kernels& kernels, const RuleInputs& inputs, const RuleShape& shape, std::int64_t head,
                          std::int64_t first, int count, const HeadScratch& scratch) {
  const GateRule rule = gate_rule_of(inputs);
  const std::int64_t from_head = key_head(head, shape.H, shape.HV);
  const std::int64_t key_padding = shape.k_stride - shape.K;
  const std::int64_t value_padding = shape.v_stride - shape.V;
  const std::int64_t size = size_of(inputs.q.dtype);
  if (const std::int64_t keys = first * shape.H + from_head; *scratch.keys_of != keys) {
    *scratch.keys_of = keys;
    kernels.prepare({.count = count,
                     .K = shape.K,
                     .dtype = inputs.q.dtype,
                     .k = at(inputs.k, first, from_head),
                     .q = at(inputs.q, first, from_head),
                     .k_step = inputs.k.stride[0] * size,
                     .q_step = inputs.q.stride[0] * size,
                     .l2norm = inputs.l2norm,
                     .scale_inverse = inputs.gate == Gate::kda,
                     .scale = shape.scale,
                     .k_out = scratch.k,
                     .q_out = scratch.q,
                     .k_dot_q = scratch.k_dot_q});
  }
  for (int t = 0; t < count; ++t) {
    float* v = scratch.v + static_cast<std::int64_t>(t) * shape.v_stride;
    kernels.widen(inputs.v.dtype, at(inputs.v, first + t, head), v, shape.V);
    std::memset(v + shape.V, 0, static_cast<std::size_t>(value_padding) * sizeof(float));
  }
  widen_head(kernels, inputs.b, first, count, head, scratch.beta);
  kernels.sigmoid(scratch.beta, scratch.beta, whole_vectors(count));

  if (inputs.gate == Gate::gdn) {
    widen_head(kernels, inputs.a, first, count, head, scratch.gate_input);
    kernels.gdn_decay(gdn_gate(kernels, rule, head), scratch.gate_input, scratch.decay, whole_vectors(count));
    return describe(shape, inputs.gate, count, scratch);
  }
  const KdaGate gate = kda_gate(kernels, rule, head);
  widen_row(kernels, inputs.dt_bias, head, shape.K, scratch.dt_bias);
  for (int t = 0; t < count; ++t) {
    float* decay = scratch.decay + static_cast<std::int64_t>(t) * shape.k_stride;
    kernels.widen(inputs.a.dtype, at(inputs.a, first + t, head), scratch.gate_input, shape.K);
    kernels.kda_decay(gate, scratch.gate_input, scratch.dt_bias, decay, shape.K);
    std::memset(decay + shape.K, 0, static_cast<std::size_t>(key_padding) * sizeof(float));
  }
  return describe(shape, inputs.gate, count, scratch);
}

HeadTokens prepare_records(const Kernels& kernels, const GateRule& rule, const Records& records, const RuleShape& shape,
                           std::int64_t block, std::int64_t head, int count, const HeadScratch& scratch) {
  const std::int64_t key_padding = shape.k_stride - shape.K;
  const bool kda = rule.gate == Gate::kda;
  const KdaGate gate = kda ? kda_gate(kernels, rule, head) : KdaGate{};
  if (kda) widen_row(kernels, rule.dt_bias, head, shape.K, scratch.dt_bias);
  for (int t = 0; t < count; ++t) {
    float* k = scratch.k + static_cast<std::int64_t>(t) * shape.k_stride;
    float* correction = scratch.correction + static_cast<std::int64_t>(t) * shape.v_stride;
    std::memset(k + shape.K, 0, static_cast<std::size_t>(key_padding) * sizeof(float));
    if (!kda) {
      const auto* record = reinterpret_cast<const float*>(at(records.packed, block, head, t));
      std::memcpy(correction, record, static_cast<std::size_t>(shape.V) * sizeof(float));
      std::memcpy(k, record + shape.V, static_cast<std::size_t>(shape.K) * sizeof(float));
      scratch.decay[t] = record[shape.V + shape.K];
      continue;
    }
    std::memcpy(correction, at(records.corrections, block, head, t), static_cast<std::size_t>(shape.V) * sizeof(float));
    const std::byte* key_gate = at(records.key_gate, block, head, t);
    kernels.prepare({.count = 1, .K = shape.K, .dtype = records.key_gate.dtype, .k = key_gate, .l2norm = rule.l2norm, .k_out = k});
    kernels.widen(records.key_gate.dtype, key_gate + shape.K * size_of(records.key_gate.dtype), scratch.gate_input, shape.K);
    float* decay = scratch.decay + static_cast<std::int64_t>(t) * shape.k_stride;
    kernels.kda_decay(gate, scratch.gate_input, scratch.dt_bias, decay, shape.K);
    std::memset(decay + shape.K, 0, static_cast<std::size_t>(key_padding) * sizeof(float));
  }
  return describe(shape, rule.gate, count, scratch);
}

void write_record(const RuleInputs& inputs, const Records& records, const RuleShape& shape, std::int64_t block, std::int64_t head,
                  std::int64_t position, std::int64_t token, const HeadTokens& tokens, int index, const float* correction) {
  const auto value_bytes = static_cast<std::size_t>(shape.V) * sizeof(float);
  if (inputs.gate == Gate::gdn) {
    auto* record = reinterpret_cast<float*>(at(records.packed, block, head, position));
    std::memcpy(record, correction, value_bytes);
    std::memcpy(record + shape.V, tokens.k + static_cast<std::int64_t>(index) * shape.k_stride,
                static_cast<std::size_t>(shape.K) * sizeof(float));
    record[shape.V + shape.K] = tokens.decay[index];
    return;
  }
  // Raw key and raw gate are copied bit by bit: commit recomputes k^ and d with the same functions.
  const auto key_bytes = static_cast<std::size_t>(shape.K * size_of(inputs.k.dtype));
  std::memcpy(at(records.corrections, block, head, position), correction, value_bytes);
  std::byte* key_gate = at(records.key_gate, block, head, position);
  std::memcpy(key_gate, at(inputs.k, token, key_head(head, shape.H, shape.HV)), key_bytes);
  std::memcpy(key_gate + key_bytes, at(inputs.a, token, head), key_bytes);
}

void prefetch_records(const Records& records, Gate gate, std::int64_t block, std::int64_t head, std::int64_t count) {
  const auto row = [&](const TensorView& view, std::int64_t t) {
    prefetch_write(at(view, block, head, t), view.shape[3] * size_of(view.dtype));
  };
  for (std::int64_t t = 0; t < count; ++t) {
    if (gate == Gate::gdn) {
      row(records.packed, t);
    } else {
      row(records.corrections, t);
      row(records.key_gate, t);
    }
  }
}

void prefetch_values(const RuleInputs& inputs, std::int64_t head, std::int64_t first, std::int64_t count) {
  for (std::int64_t t = 0; t < count; ++t) {
    prefetch_read(at(inputs.v, first + t, head), inputs.v.shape[2] * size_of(inputs.v.dtype));
  }
}

StateTile tile_of(const TensorView& state, std::int64_t block, std::int64_t head, int first) {
  return {at(state, block, head, first), state.dtype};
}

}  // namespace recoverssm::cpu
