#include "check/calls.h"

#include <algorithm>

namespace recoverssm::check {

namespace {

// Verify of one row that is one window of n tokens, GDN, one head, fp32.
struct Window {
  Window(int n, int K)
      : tokens(n),
        keys(K),
        q(DType::f32, {n, 1, K}),
        k(DType::f32, {n, 1, K}),
        v(DType::f32, {n, 1, 1}),
        a(DType::f32, {n, 1}),
        b(DType::f32, {n, 1}),
        records(DType::f32, {2, 1, n, K + 2}) {}

  void run(const Place& place, const GdnGateInputs& gate) {
    const Tensor A_log = Tensor::floats({1}, {gate.A_log}), dt_bias = Tensor::floats({1}, {gate.dt_bias});
    const Tensor state(DType::f32, {2, 1, 1, keys}), out(DType::f32, {tokens, 1, 1});
    const Tensor offsets = Tensor::ints({0, tokens}), blocks = Tensor::ints({kBlock});
    gated_delta_rule_verify({.inputs = {.q = q,
                                        .k = k,
                                        .v = v,
                                        .a = a,
                                        .b = b,
                                        .A_log = A_log,
                                        .dt_bias = dt_bias,
                                        .softplus_beta = gate.softplus_beta,
                                        .softplus_threshold = gate.softplus_threshold},
                             .state = state,
                             .out = out,
                             .records = {.packed = records},
                             .rows = {.query_start_loc = offsets, .state_indices = blocks, .window_capacity = tokens}},
                            place.context);
  }

  // Field 0: the correction; 1..K: the key; K+1: the decay.
  float record(int token, int field) {
    float value = 0;
    std::memcpy(&value, records.slice((std::int64_t{kBlock} * tokens + token) * (keys + 2) + field, 1).data(), sizeof value);
    return value;
  }

  std::int32_t tokens, keys;
  Tensor q, k, v, a, b, records;
};

}  // namespace

Tensor convolve(const Place& place, const Tensor& x, const std::vector<float>& weight, const std::vector<float>& bias,
                Activation activation) {
  const auto C = static_cast<std::int64_t>(weight.size());
  Tensor weights(DType::f32, {C, 2});
  for (std::int64_t c = 0; c < C; ++c) weights.set(2 * c + 1, weight[static_cast<std::size_t>(c)]);
  const Tensor biases = Tensor::floats({C}, bias.empty() ? std::vector<float>(weight.size()) : bias);
  const Tensor out(x.dtype(), {1, C}), line(x.dtype(), {2, 1, C});
  const Tensor offsets = Tensor::ints({0, 1}), blocks = Tensor::ints({kBlock});
  causal_conv1d({.x = x,
                 .weight = weights,
                 .bias = biases,
                 .activation = activation,
                 .out = out,
                 .line = line,
                 .rows = {.query_start_loc = offsets, .state_indices = blocks}},
                place.context);
  return out;
}

std::vector<float> gdn_decays(const Place& place, const std::vector<float>& a, const GdnGateInputs& gate) {
  const auto n = static_cast<int>(a.size());
  Window window(n, 1);
  for (int t = 0; t < n; ++t) window.a.set(t, a[static_cast<std::size_t>(t)]);
  window.run(place, gate);
  std::vector<float> decays;
  for (int t = 0; t < n; ++t) decays.push_back(window.record(t, 2));
  return decays;
}

std::vector<float> kda_decays(const Place& place, const std::vector<float>& raw, const KdaGateInputs& gate) {
  constexpr std::int64_t K = 128;
  const auto count = static_cast<std::int64_t>(raw.size());
  const std::int64_t rows = (count + K - 1) / K;
  Tensor a(DType::f32, {rows, 1, K});
  for (std::int64_t i = 0; i < count; ++i) a.set(i, raw[static_cast<std::size_t>(i)]);
  const Tensor key(DType::f32, {rows, 1, K}), value(DType::f32, {rows, 1, 1}), b(DType::f32, {rows, 1}),
      out(DType::f32, {rows, 1, 1});
  const Tensor A_log = Tensor::floats({1}, {gate.A_log}), dt_bias = Tensor::filled(DType::f32, {1, K}, gate.dt_bias);
  Tensor state = Tensor::filled(DType::f32, {rows + 1, 1, 1, K}, 1.0F);
  std::vector<std::int32_t> offsets{0}, blocks;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(rows); ++i) {
    offsets.push_back(i + 1);
    blocks.push_back(i + 1);
  }
  const Tensor offset = Tensor::ints(offsets), block = Tensor::ints(blocks);
  gated_delta_rule({.inputs = {.gate = Gate::kda,
                               .q = key,
                               .k = key,
                               .v = value,
                               .a = a,
                               .b = b,
                               .A_log = A_log,
                               .dt_bias = dt_bias,
                               .lower_bound = gate.lower_bound,
                               .softplus_beta = gate.softplus_beta,
                               .softplus_threshold = gate.softplus_threshold},
                    .state = state,
                    .out = out,
                    .rows = {.query_start_loc = offset, .state_indices = block}},
                   place.context);
  std::vector<float> decays(raw.size());
  std::memcpy(decays.data(), state.slice(K, count).data(), decays.size() * sizeof(float));
  return decays;
}

std::vector<float> betas(const Place& place, const std::vector<float>& b) {
  const auto n = static_cast<int>(b.size());
  Window window(n, 1);
  for (int t = 0; t < n; ++t) {
    window.b.set(t, b[static_cast<std::size_t>(t)]);
    window.v.set(t, 1.0F);
  }
  window.run(place, {});
  std::vector<float> result;
  for (int t = 0; t < n; ++t) result.push_back(window.record(t, 0));
  return result;
}

std::vector<float> normalised(const Place& place, const std::vector<float>& keys, int K) {
  const auto n = static_cast<int>(keys.size()) / K;
  Window window(n, K);
  for (std::size_t i = 0; i < keys.size(); ++i) window.k.set(static_cast<std::int64_t>(i), keys[i]);
  window.run(place, {});
  std::vector<float> result;
  for (int t = 0; t < n; ++t) {
    for (int i = 0; i < K; ++i) result.push_back(window.record(t, 1 + i));
  }
  return result;
}

std::span<std::byte> bytes_of(std::vector<float>& values) { return std::as_writable_bytes(std::span(values)); }
std::span<const std::byte> bytes_of(const std::vector<float>& values) { return std::as_bytes(std::span(values)); }

}  // namespace recoverssm::check
