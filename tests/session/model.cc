#include "session/model.h"

#include <cstring>
#include <sstream>

#include "session/place.h"
#include "support/convert.h"

namespace session_tests {

using recoverssm::LayerConfig;
using recoverssm::LayerKind;
using recoverssm::LayerPool;
using recoverssm::TensorView;
using support::dense;
using support::Tensor;

std::string Shape::text() const {
  std::ostringstream out;
  out << (rolled() ? "rolled" : "anchored") << (lazy ? " lazy" : " eager") << " S " << S << " groups";
  for (const auto& B : block_sizes) out << ' ' << (B ? std::to_string(*B) : "none");
  out << " T " << name_of(T) << " state " << name_of(state) << " kept " << kept_boundaries << (short_conv ? "" : " no short_conv");
  return out.str();
}

std::vector<Shape> all_shapes(std::int32_t block_size) {
  std::vector<Shape> shapes;
  for (const LineKind line : {LineKind::anchored, LineKind::rolled}) {
    for (const bool lazy : {false, true}) {
      for (const auto& B : {std::optional<std::int32_t>(), std::optional<std::int32_t>(block_size)}) {
        for (const std::size_t groups : {1U, 2U}) {
          Shape shape{.line = line, .lazy = lazy};
          shape.block_sizes.assign(groups, B);
          shapes.push_back(shape);
        }
      }
    }
  }
  return shapes;
}

std::uint64_t mixed(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  std::uint64_t z = a;
  for (const std::uint64_t more : {b, c, std::uint64_t{0x5eed}}) {
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U + more;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU + 0x9e3779b97f4a7c15U;
    z ^= z >> 31U;
  }
  return z;
}

namespace {

// Uniform in [-scale, scale).
void fill(const Tensor& tensor, std::uint64_t seed, double scale) {
  std::uint64_t n = 0;
  support::for_each(tensor, [&](const support::Index& i) {
    const double unit = static_cast<double>(mixed(seed, n++) >> 40U) / (1U << 23U) - 1;
    tensor.set_at(unit * scale, i);
  });
}

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

std::int64_t channels_of(const LayerConfig& layer) {
  return layer.kind == LayerKind::short_conv ? layer.channels : 2 * layer.H * layer.K + layer.HV * layer.V;
}

// Calls f(element, bytes) for everything in a block that belongs to its state after the last token.
template <class F>
void walk(const LayerPool& pool, std::int64_t history, std::int64_t block, F f) {
  if (pool.line.present()) {
    const auto line = support::slice(support::slice(pool.line, 0, block), 1, 0, history);
    support::for_each(line, [&](const support::Index& i) { f(support::element(line, i), recoverssm::size_of(line.dtype)); });
  }
  if (pool.state.present()) {
    const auto state = support::slice(pool.state, 0, block);
    support::for_each(state, [&](const support::Index& i) { f(support::element(state, i), recoverssm::size_of(state.dtype)); });
  }
}

}  // namespace

Bytes LayerIo::output(std::int64_t first, std::int64_t count) const {
  const std::int64_t token = out.view.stride[0] * recoverssm::size_of(out.dtype());
  const auto* const data = static_cast<const std::byte*>(out.view.data) + first * token;
  return {data, data + count * token};
}

Model::Model(const Shape& shape) : shape_(shape) {
  const auto last = static_cast<std::int32_t>(shape.block_sizes.size()) - 1;
  config_ = placed(config_);
  config_.window_capacity = shape.S;
  config_.line_kind = shape.line;
  config_.lazy = shape.lazy;
  config_.null_block_id = shape.null_block_id;
  config_.kept_boundaries = shape.kept_boundaries;
  for (const auto& B : shape.block_sizes) config_.groups.push_back({.blocks = shape.blocks, .block_size = B});
  config_.layers = {{.kind = LayerKind::gdn, .group = 0, .H = 1, .HV = 2, .K = 8, .V = 4, .W = 4},
                    {.kind = LayerKind::kda, .group = last, .H = 2, .HV = 2, .K = 6, .V = 5, .W = 3, .lower_bound = -3.0F},
                    {.kind = LayerKind::gdn, .group = last, .H = 1, .HV = 1, .K = 5, .V = 3, .W = 0}};
  if (shape.short_conv) {
    config_.layers.push_back({.kind = LayerKind::short_conv, .group = 0, .W = 3, .channels = 5, .dilation = 2});
  }
  const auto parameter = [&](const LayerConfig& layer, DType dtype, const support::Shape& size, double scale) {
    weights_.push_back(dense(dtype, size));
    fill(weights_.back(), mixed(shape.seed, weights_.size(), static_cast<std::uint64_t>(layer.kind)), scale);
    return weights_.back().view;
  };
  for (LayerConfig& layer : config_.layers) {
    layer.activation = shape.T, layer.state = shape.state;
    const std::int64_t C = channels_of(layer);
    if (layer.W > 0) layer.weight = parameter(layer, shape.T, {C, layer.W}, 1);
    if (layer.kind == LayerKind::short_conv) continue;
    if (layer.W > 0) layer.bias = parameter(layer, DType::f32, {C}, 0.25);
    layer.A_log = parameter(layer, DType::f32, {layer.HV}, 1);
    layer.dt_bias = layer.kind == LayerKind::kda ? parameter(layer, DType::f32, {layer.HV, layer.K}, 1)
                                                 : parameter(layer, DType::f32, {layer.HV}, 1);
  }
  for (std::int32_t l = 0; l < layers(); ++l) {
    const LayerConfig& layer = config_.layers[at(l)];
    LayerPool pool;
    if (layer.W > 0) {
      own_memory_.push_back(dense(shape.T, {2, history(l), channels_of(layer)}));
      pool.line = own_memory_.back();
    }
    if (!is_conv(l)) {
      own_memory_.push_back(dense(shape.state, {2, layer.HV, layer.V, layer.K}));
      pool.state = own_memory_.back();
    }
    own_.push_back(pool);
  }
}

bool Model::is_conv(std::int32_t layer) const { return config_.layers[at(layer)].kind == LayerKind::short_conv; }

std::int64_t Model::history(std::int32_t layer) const {
  const LayerConfig& config = config_.layers[at(layer)];
  return config.W == 0 ? 0 : (config.W - 1) * (is_conv(layer) ? config.dilation : 1);
}

std::int64_t Model::memory_bytes(std::int32_t layer) const {
  const LayerConfig& config = config_.layers[at(layer)];
  const std::int64_t line = history(layer) * channels_of(config) * recoverssm::size_of(config.activation);
  return is_conv(layer) ? line : line + config.HV * config.V * config.K * recoverssm::size_of(config.state);
}

Bytes Model::memory(std::int32_t layer, const LayerPool& pool, std::int32_t block) const {
  const LayerConfig& config = config_.layers[at(layer)];
  LayerPool one;  // the block's part of it
  if (config.W > 0) one.line = support::slice(pool.line, 0, block);
  if (!is_conv(layer)) one.state = support::slice(pool.state, 0, block);
  const OnHost line(one.line), state(one.state);
  one.line = line.view, one.state = state.view;
  Bytes bytes;
  walk(one, history(layer), 0,
       [&](const std::byte* element, std::int64_t size) { bytes.insert(bytes.end(), element, element + size); });
  return bytes;
}

LayerIo Model::io(std::int32_t layer, std::span<const Key> keys) const {
  const LayerConfig& config = config_.layers[at(layer)];
  const auto n = static_cast<std::int64_t>(keys.size());
  const DType T = config.activation;
  LayerIo io{.x = dense(T, {n, channels_of(config)}), .a = {}, .b = {}, .out = {}};
  if (is_conv(layer)) {
    io.b = dense(T, {n, config.channels}), io.out = dense(T, {n, config.channels});
  } else {
    io.a = config.kind == LayerKind::kda ? dense(T, {n, config.HV, config.K}) : dense(T, {n, config.HV});
    io.b = dense(T, {n, config.HV}), io.out = dense(T, {n, config.HV, config.V});
  }
  const auto fill_rows = [&](const Tensor& tensor, std::uint64_t which, double scale) {
    for (std::int64_t t = 0; tensor.present() && t < n; ++t) {
      fill({tensor.memory, support::slice(tensor, 0, t)}, mixed(keys[at(t)], static_cast<std::uint64_t>(layer), which), scale);
    }
  };
  fill_rows(io.x, 1, 2), fill_rows(io.a, 2, 4), fill_rows(io.b, 3, 4);
  if (is_conv(layer)) fill_rows(io.out, 4, 2);  // its residual, an input too
  return io;
}

const Known& Model::after(const Known& from, std::span<const Key> keys, std::vector<Bytes>* out) {
  if (out != nullptr) out->assign(at(layers()), {});
  const Known* known = &from;
  const std::size_t step = shape_.state == DType::f32 ? 1 : keys.size();
  for (std::size_t t = 0; t < keys.size(); t += step) {
    known = &edge(*known, keys.subspan(t, step));
    for (std::size_t l = 0; out != nullptr && l < out->size(); ++l) {
      (*out)[l].insert((*out)[l].end(), known->out[l].begin(), known->out[l].end());
    }
  }
  return *known;
}

const Known& Model::edge(const Known& from, std::span<const Key> keys) {
  // The tree grows under constant references.
  std::unique_ptr<Known>& next = const_cast<Known&>(from).next[{keys.begin(), keys.end()}];
  if (next != nullptr) return *next;
  next = std::make_unique<Known>();
  next->tokens = from.tokens + static_cast<std::int64_t>(keys.size());
  for (std::int32_t l = 0; l < layers(); ++l) run(l, from, keys, *next);
  return *next;
}

void Model::run(std::int32_t layer, const Known& from, std::span<const Key> keys, Known& to) {
  const LayerConfig& config = config_.layers[at(layer)];
  const LayerPool& pool = own_[at(layer)];
  if (from.tokens > 0) {
    const std::byte* next = from.memory[at(layer)].data();
    walk(pool, history(layer), 1, [&](std::byte* element, std::int64_t size) {
      std::memcpy(element, next, at(size));
      next += size;
    });
  }
  const LayerIo in = io(layer, keys);
  const auto n = static_cast<std::int64_t>(keys.size());
  const Tensor offsets = support::dense_i32({0, static_cast<int>(n)}), blocks = support::dense_i32({1});
  const Tensor has_state = support::dense_bool({from.tokens > 0 ? 1 : 0});
  const recoverssm::Rows rows{.query_start_loc = offsets, .state_indices = blocks, .has_initial_state = has_state};
  if (is_conv(layer)) {
    recoverssm::short_conv({.x = in.x,
                            .weight = config.weight,
                            .dilation = config.dilation,
                            .residual = in.out,
                            .outer_residual = in.b,
                            .line = pool.line,
                            .rows = rows},
                           context_);
  } else {
    Tensor mixed_tensor = in.x;
    if (config.W > 0) {
      mixed_tensor = dense(config.activation, {n, channels_of(config)});
      recoverssm::causal_conv1d({.x = in.x,
                                 .weight = config.weight,
                                 .bias = config.bias,
                                 .activation = config.conv_activation,
                                 .out = mixed_tensor,
                                 .line = pool.line,
                                 .rows = rows},
                                context_);
    }
    const auto heads = [&](std::int64_t first, std::int64_t count, std::int64_t width) {
      return TensorView(mixed_tensor.at(0, first), config.activation, {n, count, width}, {channels_of(config), width, 1});
    };
    const std::int64_t keys_width = config.H * config.K;
    recoverssm::gated_delta_rule({.inputs = {.gate = config.kind == LayerKind::kda ? recoverssm::Gate::kda : recoverssm::Gate::gdn,
                                             .q = heads(0, config.H, config.K),
                                             .k = heads(keys_width, config.H, config.K),
                                             .v = heads(2 * keys_width, config.HV, config.V),
                                             .a = in.a,
                                             .b = in.b,
                                             .A_log = config.A_log,
                                             .dt_bias = config.dt_bias,
                                             .lower_bound = config.lower_bound},
                                  .state = pool.state,
                                  .out = in.out,
                                  .rows = rows},
                                 context_);
  }
  to.memory.push_back(memory(layer, pool, 1));
  to.out.push_back(in.output(0, n));
}

}  // namespace session_tests
