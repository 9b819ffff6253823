#include "simulate/plain.h"

#include <array>

#include "recoverssm/recoverssm.hpp"

namespace recoverssm::simulate {

namespace {

// Tokens first..first+count-1 as the one row of a call, on the one block there is.
struct OneRow {
  OneRow(std::int64_t first, std::int64_t count, bool has)
      : offsets{static_cast<std::int32_t>(first), static_cast<std::int32_t>(first + count)}, has_state{has} {}

  Rows rows() {
    return {.query_start_loc = TensorView(offsets.data(), DType::i32, {2}),
            .state_indices = TensorView(block.data(), DType::i32, {1}),
            .has_initial_state = TensorView(has_state.data(), DType::boolean, {1}),
            .null_block_id = -1};
  }

  std::array<std::int32_t, 2> offsets;
  std::array<std::int32_t, 1> block{0};
  std::array<bool, 1> has_state;
};

TensorView line_of(const LayerModel& layer, Memory::Layer& memory) {
  return {memory.history.data(), layer.config.activation, {1, layer.history(), layer.channels()}};
}

}  // namespace

PlainRun::PlainRun(const std::vector<LayerModel>& layers, Target target) : layers_(layers), runs_(layers.size()), context_(1) {
  context_.target = target;
}

Memory PlainRun::empty() const {
  Memory memory;
  for (const LayerModel& layer : layers_) {
    memory.layers.push_back({Bytes(static_cast<std::size_t>(layer.state_bytes()), kUnwritten),
                             Bytes(static_cast<std::size_t>(layer.history_bytes()), kUnwritten)});
  }
  return memory;
}

void PlainRun::convolve(const LayerModel& layer, Memory::Layer& memory, LayerRun& run, std::int64_t first, bool has_state) {
  OneRow row(first, 1, has_state);
  const LayerConfig& c = layer.config;
  if (layer.rule()) {
    causal_conv1d({.x = run.in.x.view(),
                   .weight = c.weight,
                   .bias = c.bias,
                   .activation = c.conv_activation,
                   .out = run.mixed.view(),
                   .line = line_of(layer, memory),
                   .rows = row.rows()},
                  context_);
  } else {
    short_conv({.x = run.in.x.view(),
                .weight = c.weight,
                .dilation = c.dilation,
                .residual = run.out.view(),
                .outer_residual = layer.outer_residual ? run.in.outer.view() : TensorView(),
                .line = line_of(layer, memory),
                .line_kind = LineKind::plain,
                .rows = row.rows()},
               context_);
  }
}

void PlainRun::rule(const LayerModel& layer, Memory::Layer& memory, LayerRun& run, std::int64_t first, std::int64_t count,
                    bool has_state) {
  OneRow row(first, count, has_state);
  const LayerConfig& c = layer.config;
  const TokenRows& mixed = c.W > 0 ? run.mixed : run.in.x;
  const std::int64_t H = c.H, HV = c.HV, K = c.K, V = c.V;
  gated_delta_rule({.inputs = {.gate = layer.kda() ? Gate::kda : Gate::gdn,
                               .q = mixed.view(0, H, K),
                               .k = mixed.view(H * K, H, K),
                               .v = mixed.view(2 * H * K, HV, V),
                               .a = layer.kda() ? run.in.a.view(0, HV, K) : run.in.a.view(),
                               .b = run.in.b.view(),
                               .A_log = c.A_log,
                               .dt_bias = c.dt_bias,
                               .lower_bound = c.lower_bound,
                               .scale = c.scale,
                               .l2norm = c.l2norm,
                               .softplus_beta = c.softplus_beta,
                               .softplus_threshold = c.softplus_threshold},
                    .state = TensorView(memory.state.data(), c.state, {1, HV, V, K}),
                    .out = run.out.view(0, HV, V),
                    .rows = row.rows()},
                   context_);
}

void PlainRun::advance(Memory& memory, std::span<const Key> keys) {
  const auto n = static_cast<std::int64_t>(keys.size());
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const LayerModel& layer = layers_[l];
    LayerRun& run = runs_[l];
    run.in.fill(layer, keys, 0, 0);
    if (layer.outer_residual) {
      run.out = run.in.inner;
    } else {
      run.out.reset(layer.out_dtype(), n, layer.out_width(), 0);
    }
    if (layer.rule() && layer.config.W > 0) run.mixed.reset(layer.config.activation, n, layer.channels(), 0);
    const bool one_call = layer.rule() && layer.config.state != DType::f32;
    for (std::int64_t t = 0; t < n; ++t) {
      const bool has_state = memory.tokens + t > 0;
      if (layer.config.W > 0) convolve(layer, memory.layers[l], run, t, has_state);
      if (layer.rule() && !one_call) rule(layer, memory.layers[l], run, t, 1, has_state);
    }
    if (one_call && n > 0) rule(layer, memory.layers[l], run, 0, n, memory.tokens > 0);
  }
  memory.tokens += n;
}

}  // namespace recoverssm::simulate
