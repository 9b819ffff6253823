#include "session/tiny.h"

#include <numeric>

namespace session_tests {

using namespace recoverssm;

namespace {

std::int64_t channels_of(const LayerConfig& layer) {
  return layer.kind == LayerKind::short_conv ? layer.channels : 2 * layer.H * layer.K + layer.HV * layer.V;
}

}  // namespace

Tiny::Tiny(const TinyShape& shape) {
  for (std::int32_t layer = 0; layer < (shape.short_conv ? kLayers : kLayers - 1); ++layer) tensors_.emplace_back(shape.memory);
  config_.backend = shape.backend;
  config_.stream = shape.stream;
  config_.groups.resize(shape.two_groups ? 2 : 1);
  for (GroupConfig& group : config_.groups) group = {.blocks = shape.blocks, .block_size = shape.block_size};
  config_.window_capacity = shape.S;
  config_.line_kind = shape.line_kind;
  config_.lazy = shape.lazy;
  config_.null_block_id = shape.null_block_id;
  config_.kept_boundaries = shape.kept_boundaries;
  const std::int32_t last = shape.two_groups ? 1 : 0;
  config_.layers = {{.kind = LayerKind::gdn, .group = 0, .H = 1, .HV = 2, .K = 4, .V = 3, .W = 3},
                    {.kind = LayerKind::kda, .group = last, .H = 1, .HV = 1, .K = 4, .V = 2, .W = 2},
                    {.kind = LayerKind::short_conv, .group = last, .W = 2, .channels = 3, .dilation = 2}};
  config_.layers.resize(tensors_.size());
  std::uint32_t seed = 1000;
  parameters_.reserve(16);  // views stay right
  const auto parameter = [&](std::initializer_list<std::int64_t> sizes) {
    std::int64_t count = 1;
    for (const std::int64_t n : sizes) count *= n;
    add_numbers(parameters_.emplace_back(shape.memory), count, ++seed);
    return view(parameters_.back(), sizes);
  };
  for (LayerConfig& layer : config_.layers) {
    layer.activation = shape.activation;
    layer.state = shape.state;
  }
  for (LayerConfig& layer : config_.layers) {
    layer.weight = parameter({channels_of(layer), layer.W});
    if (layer.kind == LayerKind::short_conv) continue;
    layer.bias = parameter({channels_of(layer)});
    layer.A_log = parameter({layer.HV});
    layer.dt_bias = layer.kind == LayerKind::kda ? parameter({layer.HV, layer.K}) : parameter({layer.HV});
  }
}

void Tiny::add_numbers(Bytes& bytes, std::int64_t count, std::uint32_t seed) const {
  const auto size = static_cast<std::size_t>(size_of(config_.layers[0].activation));
  for (std::int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525U + 1013904223U;
    const float value = static_cast<float>(static_cast<std::int32_t>(seed)) / 2147483648.0F;
    const auto* const end = reinterpret_cast<const std::byte*>(&value + 1);
    bytes.insert(bytes.end(), end - size, end);  // bf16: the upper half
  }
}

TensorView Tiny::view(const Bytes& bytes, std::initializer_list<std::int64_t> shape) const {
  return {const_cast<std::byte*>(bytes.data()), config_.layers[0].activation, shape};
}

void Tiny::inputs(std::span<const std::uint32_t> seeds) {
  tokens_ = static_cast<std::int32_t>(seeds.size());
  for (std::size_t l = 0; l < tensors_.size(); ++l) {
    const LayerConfig& layer = config_.layers[l];
    const bool rule = layer.kind != LayerKind::short_conv;
    LayerTensors& t = tensors_[l];
    for (Bytes* bytes : {&t.x, &t.a, &t.b, &t.out}) bytes->clear();
    for (const std::uint32_t token : seeds) {
      const auto seed = (token * 10 + static_cast<std::uint32_t>(l)) * 2654435761U;
      add_numbers(t.x, channels_of(layer), seed);
      if (!rule) continue;
      add_numbers(t.a, layer.HV * (layer.kind == LayerKind::kda ? layer.K : 1), seed + 1);
      add_numbers(t.b, layer.HV, seed + 2);
    }
    const std::int64_t width = rule ? layer.HV * layer.V : layer.channels;
    t.out.assign(static_cast<std::size_t>(tokens_ * width * size_of(layer.activation)), std::byte{0});
  }
}

void Tiny::inputs(std::int32_t tokens, std::uint32_t seed) {
  std::vector<std::uint32_t> seeds(static_cast<std::size_t>(tokens));
  std::iota(seeds.begin(), seeds.end(), seed);
  inputs(seeds);
}

DeltaInputs Tiny::delta(std::int32_t index) const {
  const LayerConfig& layer = config_.layers[static_cast<std::size_t>(index)];
  const LayerTensors& t = tensors_[static_cast<std::size_t>(index)];
  DeltaInputs inputs;
  inputs.x = view(t.x, {tokens_, channels_of(layer)});
  inputs.a = layer.kind == LayerKind::kda ? view(t.a, {tokens_, layer.HV, layer.K}) : view(t.a, {tokens_, layer.HV});
  inputs.b = view(t.b, {tokens_, layer.HV});
  inputs.out = view(t.out, {tokens_, layer.HV, layer.V});
  return inputs;
}

ShortConvInputs Tiny::short_conv() const {
  const LayerTensors& t = tensors_[kShortConv];
  const std::int64_t channels = config_.layers[kShortConv].channels;
  return {.x = view(t.x, {tokens_, channels}), .residual = view(t.out, {tokens_, channels}), .outer_residual = {}};
}

std::span<const std::byte> Tiny::output(std::int32_t layer) const { return tensors_[static_cast<std::size_t>(layer)].out; }

void Tiny::forward(Session& session, StepId step, std::int32_t tokens, std::uint32_t seed, Context& context) {
  inputs(tokens, seed);
  for (std::int32_t layer = 0; layer < kShortConv; ++layer) session.forward(step, layer, delta(layer), context);
  if (tensors_.size() > kShortConv) session.forward(step, kShortConv, short_conv(), context);
}

}  // namespace session_tests
