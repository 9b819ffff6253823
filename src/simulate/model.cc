#include "simulate/model.h"

#include <fmt/format.h>

namespace recoverssm::simulate {

namespace {

using check::Tensor;

template <class T>
T one_of(Random& random, const std::vector<T>& values) {
  return values[static_cast<std::size_t>(random.between(0, static_cast<int>(values.size()) - 1))];
}

bool chance(Random& random, int percent) { return random.between(0, 99) < percent; }

void random_rule(Random& random, LayerModel& layer) {
  LayerConfig& c = layer.config;
  const DType T = c.activation;
  c.H = random.between(1, 2);
  c.HV = c.H * random.between(1, 3);
  // Small, and around the vector lengths.
  c.K = one_of<std::int32_t>(random, {8, 16, 12, 4, 1, 3, 17, 31, 33});
  c.V = one_of<std::int32_t>(random, {8, 4, 16, 1, 5, 7, 17});
  c.W = chance(random, 15) ? 0 : random.between(2, 5);
  layer.out = chance(random, 50) ? T : DType::f32;
  if (chance(random, 12)) {
    // Without normalisation a key longer than sqrt(2) makes the rule unstable: short ones.
    c.l2norm = false;
    layer.input_scale = 0.125F;
  }
  if (chance(random, 20)) c.scale = 0.5F;
  if (chance(random, 15)) c.softplus_beta = 2.0F, c.softplus_threshold = 4.0F;
  if (layer.kda() && chance(random, 40)) c.lower_bound = -5.0F;
  layer.A_log = Tensor::random(chance(random, 50) ? T : DType::f32, {c.HV}, random);
  const DType bias_type = chance(random, 50) ? T : DType::f32;
  layer.dt_bias = layer.kda() ? Tensor::random(bias_type, {c.HV, c.K}, random) : Tensor::random(bias_type, {c.HV}, random);
  c.A_log = layer.A_log;
  c.dt_bias = layer.dt_bias;
}

void random_short_conv(Random& random, LayerModel& layer) {
  LayerConfig& c = layer.config;
  c.channels = one_of<std::int32_t>(random, {8, 1, 5, 16, 17, 24});
  c.W = random.between(2, 4);
  c.dilation = random.between(1, 3);
  layer.outer_residual = chance(random, 50);
}

// 64 random bits make five numbers: multiples of 2^-11 in [-1, 1), times a power of two.
void fill_row(Random& random, DType dtype, std::byte* row, std::int64_t width, float scale) {
  std::uint64_t bits = 0;
  int left = 0;
  for (std::int64_t i = 0; i < width; ++i, --left, bits >>= 12) {
    if (left == 0) bits = random.next(), left = 5;
    const auto value = static_cast<std::int32_t>(bits & 0xfffU) - 2048;
    store_float(dtype, row + i * size_of(dtype), static_cast<float>(value) * 0x1p-11F * scale);
  }
}

}  // namespace

std::string text_of(const LayerModel& layer) {
  const LayerConfig& c = layer.config;
  if (!layer.rule()) {
    return fmt::format("short_conv C {} Kc {} dilation {} {} group {}", c.channels, c.W, c.dilation, name_of(c.activation),
                       c.group);
  }
  return fmt::format("{} H {} HV {} K {} V {} W {} {} state {} group {}", layer.kda() ? "kda" : "gdn", c.H, c.HV, c.K, c.V, c.W,
                     name_of(c.activation), name_of(c.state), c.group);
}

LayerModel random_layer(Random& random, const LayerRanges& ranges, std::int32_t group) {
  LayerModel layer;
  LayerConfig& c = layer.config;
  c.group = group;
  c.kind = one_of<LayerKind>(random, {LayerKind::gdn, LayerKind::gdn, LayerKind::kda, LayerKind::kda, LayerKind::short_conv});
  c.activation = one_of(random, ranges.activations);
  c.state = one_of(random, ranges.states);
  if (layer.rule()) {
    random_rule(random, layer);
  } else {
    random_short_conv(random, layer);
  }
  if (c.W > 0) {
    layer.weight = Tensor::random(chance(random, 50) ? c.activation : DType::f32, {layer.channels(), c.W}, random);
    c.weight = layer.weight;
    if (layer.rule()) c.conv_activation = chance(random, 80) ? Activation::silu : Activation::none;
    if (layer.rule() && chance(random, 50)) {
      layer.bias =
          Tensor::random(chance(random, 50) ? c.activation : DType::f32, {layer.channels()}, random, layer.input_scale / 4);
      c.bias = layer.bias;
    }
  }
  layer.seed = random.next();
  return layer;
}

void LayerTokens::fill(const LayerModel& layer, std::span<const Key> keys, std::int64_t extra, std::int64_t gap) {
  const DType T = layer.config.activation;
  const auto n = static_cast<std::int64_t>(keys.size());
  x.reset(T, n + extra, layer.channels(), gap);
  if (layer.rule()) {
    a.reset(T, n + extra, layer.gate_width(), gap);
    b.reset(T, n + extra, layer.config.HV, gap);
  } else if (layer.outer_residual) {
    inner.reset(T, n + extra, layer.channels(), gap);
    outer.reset(T, n + extra, layer.channels(), gap);
  }
  for (std::int64_t t = 0; t < n; ++t) {
    const Key key = keys[static_cast<std::size_t>(t)];
    if (key == 0) continue;
    Random random(mix(layer.seed, key));
    fill_row(random, T, x.row(t), layer.channels(), layer.input_scale);
    if (layer.rule()) {
      fill_row(random, T, a.row(t), layer.gate_width(), 4.0F);
      fill_row(random, T, b.row(t), layer.config.HV, 4.0F);
    } else if (layer.outer_residual) {
      fill_row(random, T, inner.row(t), layer.channels(), 1.0F);
      fill_row(random, T, outer.row(t), layer.channels(), 1.0F);
    }
  }
}

}  // namespace recoverssm::simulate
