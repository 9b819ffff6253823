#include "simulate/float64.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace recoverssm::simulate {

namespace {

using reference::Vector;

// From here on K x K products take longer than everything else together: rank-one updates then, the same in float64.
constexpr std::int32_t kDenseK = 12;

double value_of(DType dtype, const std::byte* at) { return static_cast<double>(load_float(dtype, at)); }

// Half a unit in the last place at |x|: one rounding to the dtype.
double half_ulp(DType dtype, double x) {
  const int bits = dtype == DType::f32 ? 24 : dtype == DType::f16 ? 11 : 8;
  const int lowest = dtype == DType::f16 ? -14 : -126;
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1.0, std::max(exponent - 1, lowest) - bits);
}

double parameter(const TensorView& view, std::int64_t i) {
  return value_of(view.dtype, static_cast<const std::byte*>(view.data) + i * size_of(view.dtype));
}

reference::Head head_of(const LayerModel& layer, std::int32_t head) {
  const LayerConfig& c = layer.config;
  reference::Head h;
  h.per_channel = layer.kda();
  h.A_log = parameter(c.A_log, head);
  if (layer.kda()) {
    for (std::int32_t k = 0; k < c.K; ++k) h.dt_bias.push_back(parameter(c.dt_bias, std::int64_t{head} * c.K + k));
  } else {
    h.dt_bias.push_back(parameter(c.dt_bias, head));
  }
  if (c.lower_bound) h.lower_bound = static_cast<double>(*c.lower_bound);
  h.normalise = c.l2norm;
  h.scale = c.scale ? static_cast<double>(*c.scale) : 1.0 / std::sqrt(static_cast<double>(c.K));
  h.softplus_beta = static_cast<double>(c.softplus_beta);
  h.softplus_threshold = static_cast<double>(c.softplus_threshold);
  return h;
}

Vector values(DType dtype, std::span<const std::byte> row, std::int64_t first, std::int64_t count) {
  Vector x;
  for (std::int64_t i = first; i < first + count; ++i) x.push_back(value_of(dtype, row.data() + i * size_of(dtype)));
  return x;
}

double round_to(DType dtype, double x) {
  // x is a float64 result, and double rounding is one of the two roundings that the tolerance of short_conv allows.
  std::byte bytes[4];
  store_float(dtype, bytes, static_cast<float>(x));
  return value_of(dtype, bytes);
}

}  // namespace

Float64Run::Float64Run(const std::vector<LayerModel>& layers) : layers_(&layers) {
  for (const LayerModel& layer : layers) {
    Layer state;
    for (std::int32_t j = 0; layer.rule() && j < layer.config.HV; ++j) {
      state.heads.push_back(head_of(layer, j));
      state.states.emplace_back(layer.config.V, layer.config.K);
    }
    if (layer.config.W > 0) {
      state.history.assign(static_cast<std::size_t>(layer.channels()), Vector(static_cast<std::size_t>(layer.history())));
    }
    state_.push_back(std::move(state));
  }
}

template <class What>
std::string Float64Run::compare(double got, double want, double rounding, double arithmetic, What what) {
  const double error = std::fabs(got - want);
  if (error <= rounding + arithmetic) {
    worst_ = std::max(worst_, (error - rounding) / arithmetic);
    return {};
  }
  return fmt::format("{}: got {}, float64 says {}, {} allowed", what(), got, want, rounding + arithmetic);
}

std::string Float64Run::check_conv(std::size_t l, const LayerRun& run) {
  const LayerModel& layer = (*layers_)[l];
  const LayerConfig& c = layer.config;
  const DType T = c.activation;
  const TokenRows& got = layer.rule() ? run.mixed : run.out;
  for (std::int64_t channel = 0; channel < layer.channels(); ++channel) {
    Vector& history = state_[l].history[static_cast<std::size_t>(channel)];
    Vector sequence = history;
    for (std::int64_t t = 0; t < run.in.x.rows(); ++t) sequence.push_back(values(T, run.in.x.row(t), channel, 1)[0]);
    Vector taps;
    for (std::int32_t w = 0; w < c.W; ++w) taps.push_back(parameter(c.weight, channel * c.W + w));
    const double bias = c.bias.present() ? parameter(c.bias, channel) : 0.0;
    const bool silu = c.conv_activation == Activation::silu;
    const Vector want = layer.rule()
                            ? reference::convolve(sequence, taps, bias, silu)
                            : reference::short_convolve(sequence, taps, c.dilation, [&](double x) { return round_to(T, x); });
    for (std::size_t t = 0; t < want.size(); ++t) {
      const std::int64_t at = static_cast<std::int64_t>(t);
      // At most nine fp32 roundings of sums below 10, and silu, which is no steeper than 1.1.
      constexpr double kArithmetic = 0x1p-19;
      double expected = want[t], rounding = half_ulp(T, std::fabs(expected) + kArithmetic);
      if (!layer.rule()) {
        // The sum and silu are rounded to T each: either may fall to the neighbour of what float64 rounds to.
        rounding = 2.2 * (half_ulp(T, 4) + half_ulp(T, expected));
        if (layer.outer_residual) {
          const double outer = values(T, run.in.outer.row(at), channel, 1)[0];
          const double inner = values(T, run.in.inner.row(at), channel, 1)[0];
          expected = outer + inner + expected;
          rounding += half_ulp(T, 2) + half_ulp(T, expected);  // inner + y and the whole are rounded once each
        }
      }
      const double value = value_of(layer.rule() ? T : layer.out_dtype(), got.row(at).data() + channel * size_of(T));
      if (std::string off = compare(value, expected, rounding, kArithmetic,
                                    [&] { return fmt::format("layer {}, channel {}, token {}", l, channel, tokens_ + at); });
          !off.empty()) {
        return off;
      }
    }
    history.assign(sequence.end() - static_cast<std::ptrdiff_t>(history.size()), sequence.end());
  }
  return {};
}

std::string Float64Run::check_rule(std::size_t l, const Memory& before, const LayerRun& run, const Memory& after) {
  const LayerModel& layer = (*layers_)[l];
  const LayerConfig& c = layer.config;
  const DType T = c.activation;
  const TokenRows& mixed = c.W > 0 ? run.mixed : run.in.x;
  const std::int64_t n = run.out.rows(), state_size = std::int64_t{c.V} * c.K;
  const bool carried = c.state == DType::f32;
  // Error of fp32 arithmetic: values of a few units, some hundred roundings of 2^-24 each in a token's two dots and its gates. Errors of
  // earlier tokens decay with the state or stay, they do not grow, so that a long run adds them up at most.
  const double arithmetic = 0x1p-17 + 0x1p-21 * static_cast<double>(carried ? tokens_ + n : n);
  for (std::int32_t j = 0; j < c.HV; ++j) {
    reference::Matrix& state = state_[l].states[static_cast<std::size_t>(j)];
    if (!carried && before.tokens > 0) {
      state.data = values(c.state, before.layers[l].state, j * state_size, state_size);
    } else if (before.tokens == 0) {
      std::ranges::fill(state.data, 0.0);
    }
    const std::int64_t key_head = j / (c.HV / c.H);
    for (std::int64_t t = 0; t < n; ++t) {
      const reference::Token token = {
          .q = values(T, mixed.row(t), key_head * c.K, c.K),
          .k = values(T, mixed.row(t), (c.H + key_head) * c.K, c.K),
          .v = values(T, mixed.row(t), std::int64_t{2} * c.H * c.K + std::int64_t{j} * c.V, c.V),
          .gate = layer.kda() ? values(T, run.in.a.row(t), std::int64_t{j} * c.K, c.K) : values(T, run.in.a.row(t), j, 1),
          .b = values(T, run.in.b.row(t), j, 1)[0]};
      const reference::Head& head = state_[l].heads[static_cast<std::size_t>(j)];
      const reference::Step step =
          c.K <= kDenseK ? reference::advance(head, token, state) : reference::advance_rank_one(head, token, state);
      for (std::int32_t v = 0; v < c.V; ++v) {
        const double want = step.out[static_cast<std::size_t>(v)];
        const double got = value_of(layer.out, run.out.row(t).data() + (std::int64_t{j} * c.V + v) * size_of(layer.out));
        if (std::string off =
                compare(got, want, half_ulp(layer.out, std::fabs(want) + arithmetic), arithmetic * (1 + std::fabs(want)),
                        [&] { return fmt::format("layer {}, head {}, output {} of token {}", l, j, v, tokens_ + t); });
            !off.empty()) {
          return off;
        }
      }
    }
    for (std::int64_t i = 0; i < state_size; ++i) {
      const double want = state.data[static_cast<std::size_t>(i)];
      const double got = value_of(c.state, after.layers[l].state.data() + (j * state_size + i) * size_of(c.state));
      if (std::string off =
              compare(got, want, half_ulp(c.state, std::fabs(want) + arithmetic), arithmetic * (1 + std::fabs(want)),
                      [&] { return fmt::format("layer {}, head {}, state {} after {} tokens", l, j, i, tokens_ + n); });
          !off.empty()) {
        return off;
      }
    }
  }
  return {};
}

std::string Float64Run::advance(const Memory& before, const PlainRun& plain, const Memory& after) {
  for (std::size_t l = 0; l < layers_->size(); ++l) {
    const LayerRun& run = plain.last(l);
    if ((*layers_)[l].config.W > 0) {
      if (std::string off = check_conv(l, run); !off.empty()) return off;
    }
    if ((*layers_)[l].rule()) {
      if (std::string off = check_rule(l, before, run, after); !off.empty()) return off;
    }
  }
  tokens_ = after.tokens;
  return {};
}

}  // namespace recoverssm::simulate
