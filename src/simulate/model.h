// The model that is simulated: layers with random parameters. They do not feed each other: the inputs of a layer are a function of the
// token, so that each layer can be checked alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "check/tensor.h"
#include "recoverssm/session_config.hpp"
#include "simulate/buffers.h"

namespace recoverssm::simulate {

using check::Random;

// Names a token together with the text before it: two requests share a prefix exactly as far as their keys agree.
using Key = std::uint64_t;

inline Key mix(Key a, Key b) { return Random(a * 0x9e3779b97f4a7c15U + b).next(); }

struct LayerModel {
  LayerConfig config;  // its views point into the tensors here
  check::Tensor weight, bias, A_log, dt_bias;
  DType out = DType::f32;       // gdn, kda: T or f32
  bool outer_residual = false;  // short_conv
  float input_scale = 1.0F;     // of x; a power of two
  std::uint64_t seed = 0;

  bool rule() const { return config.kind != LayerKind::short_conv; }
  bool kda() const { return config.kind == LayerKind::kda; }
  std::int64_t channels() const {
    return rule() ? std::int64_t{2} * config.H * config.K + std::int64_t{config.HV} * config.V : config.channels;
  }
  std::int64_t gate_width() const { return kda() ? std::int64_t{config.HV} * config.K : config.HV; }
  // Positions of conv history.
  std::int64_t history() const { return config.W == 0 ? 0 : rule() ? config.W - 1 : std::int64_t{config.W - 1} * config.dilation; }
  std::int64_t out_width() const { return rule() ? std::int64_t{config.HV} * config.V : config.channels; }
  DType out_dtype() const { return rule() ? out : config.activation; }
  std::int64_t state_elements() const { return rule() ? std::int64_t{config.HV} * config.V * config.K : 0; }
  std::int64_t state_bytes() const { return state_elements() * size_of(config.state); }
  std::int64_t history_bytes() const { return history() * channels() * size_of(config.activation); }
};

std::string text_of(const LayerModel& layer);

// What may differ between the layers of one model.
struct LayerRanges {
  std::vector<DType> states{DType::f32};
  std::vector<DType> activations{DType::bf16};
};

LayerModel random_layer(Random& random, const LayerRanges& ranges, std::int32_t group);

// Inputs of some tokens.
struct LayerTokens {
  TokenRows x, a, b;       // a, b: gdn, kda
  TokenRows inner, outer;  // short_conv with an outer residual: what stands in residual before the call, and the outer one

  // Of `keys`; key 0: a token of padding, NaN. `extra`: rows behind them; `gap`: elements between rows.
  void fill(const LayerModel& layer, std::span<const Key> keys, std::int64_t extra, std::int64_t gap);
};

}  // namespace recoverssm::simulate
