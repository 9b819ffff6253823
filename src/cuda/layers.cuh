// Layers of commit, materialize and align_move as kernels take them: tables in a kernel's parameters, so that nothing is copied to the
// device before a launch and one launch does many layers. A call with more layers than a table holds takes several launches; rows of
// different layers share nothing, so their order means nothing.
#pragma once

#include <cstdint>
#include <span>

#include "contract/layers.h"
#include "cuda/delta_host.cuh"
#include "cuda/select.h"
#include "recoverssm/commit.hpp"

namespace recoverssm::cuda {

// Addresses and strides (in elements) of one layer, packed: a kernel's parameters are 32,764 bytes.
struct LayerArgs {
  std::byte* state = nullptr;
  std::int64_t state_block = 0;
  std::byte* records = nullptr;  // gdn: packed; kda: corrections
  std::int64_t record_stride[3] = {};
  std::byte* key_gate = nullptr;
  std::int64_t key_gate_stride[3] = {};
  std::byte* line = nullptr;
  std::int64_t line_stride[3] = {};
  std::int32_t* pending = nullptr;
  std::int64_t pending_stride = 0;
  std::byte* A_log = nullptr;
  std::byte* dt_bias = nullptr;
  std::int64_t blocks = 0;  // the smallest pool's
  std::int64_t A_log_stride = 0, dt_bias_stride[2] = {};
  std::int32_t HV = 0, V = 0, K = 0, channels = 0, history = 0, index = 0;
  float lower_bound = 0, softplus_beta = 1, softplus_threshold = 20;
  std::int16_t group = 0;
  std::int16_t capacity = 0;  // S of its records, or of its line
  DType state_dtype = DType::f32, line_dtype = DType::f32, key_gate_dtype = DType::f32, A_log_dtype = DType::f32,
        dt_bias_dtype = DType::f32;
  LineKind line_kind = LineKind::rolled;
  bool bounded = false, l2norm = true;
  bool line_lanes = false;  // four neighbouring channels can be moved as one value
};

constexpr int kLayersPerLaunch = 128;
constexpr int kGroupsPerLaunch = 16;

// A [N] int32 view of a plan.
struct Column {
  std::int32_t* data = nullptr;
  std::int64_t stride = 0;
};

inline Column column_of(const TensorView& view) { return {static_cast<std::int32_t*>(view.data), view.stride[0]}; }
__device__ __forceinline__ std::int32_t& value_at(const Column& column, std::int64_t i) { return column.data[i * column.stride]; }

inline LayerArgs layer_args(const Layer& layer, int index) {
  LayerArgs args;
  args.index = index;
  args.group = static_cast<std::int16_t>(layer.group);
  args.blocks = layer_blocks(layer);
  args.line_kind = layer.line_kind;
  if (layer.state.present()) {
    args.state = static_cast<std::byte*>(layer.state.data);
    args.state_block = layer.state.stride[0];
    args.state_dtype = layer.state.dtype;
    args.HV = static_cast<std::int32_t>(layer.state.shape[1]);
    args.V = static_cast<std::int32_t>(layer.state.shape[2]);
    args.K = static_cast<std::int32_t>(layer.state.shape[3]);
    const TensorView& records = layer.gate == Gate::gdn ? layer.records.packed : layer.records.corrections;
    args.records = static_cast<std::byte*>(records.data);
    for (int d = 0; d < 3; ++d) args.record_stride[d] = records.stride[static_cast<std::size_t>(d)];
  }
  if (!layer.state.present() || layer.records.present()) {
    args.capacity = static_cast<std::int16_t>(min64(layer_capacity(layer), INT16_MAX));
  }
  if (layer.gate == Gate::kda && layer.state.present()) {
    const TensorView& key_gate = layer.records.key_gate;
    args.key_gate = static_cast<std::byte*>(key_gate.data);
    for (int d = 0; d < 3; ++d) args.key_gate_stride[d] = key_gate.stride[static_cast<std::size_t>(d)];
    args.key_gate_dtype = key_gate.dtype;
    args.A_log = static_cast<std::byte*>(layer.A_log.data);
    args.A_log_stride = layer.A_log.stride[0];
    args.A_log_dtype = layer.A_log.dtype;
    args.dt_bias = static_cast<std::byte*>(layer.dt_bias.data);
    args.dt_bias_stride[0] = layer.dt_bias.stride[0];
    args.dt_bias_stride[1] = layer.dt_bias.stride[1];
    args.dt_bias_dtype = layer.dt_bias.dtype;
    args.bounded = layer.lower_bound.has_value();
    args.lower_bound = layer.lower_bound.value_or(0.0F);
    args.softplus_beta = layer.softplus_beta;
    args.softplus_threshold = layer.softplus_threshold;
    args.l2norm = layer.l2norm;
  }
  if (layer.line.present()) {
    args.line = static_cast<std::byte*>(layer.line.data);
    for (int d = 0; d < 3; ++d) args.line_stride[d] = layer.line.stride[static_cast<std::size_t>(d)];
    args.line_dtype = layer.line.dtype;
    args.channels = static_cast<std::int32_t>(layer.line.shape[2]);
    args.history = layer.conv_taps - 1;
    args.line_lanes = args.channels % 4 == 0 && lanes_fit(layer.line.data, size_of(layer.line.dtype), layer.line.stride[2],
                                                          {layer.line.stride[0], layer.line.stride[1]}, 4);
  }
  if (layer.pending.present()) {
    args.pending = static_cast<std::int32_t*>(layer.pending.data);
    args.pending_stride = layer.pending.stride[0];
  }
  return args;
}

__device__ __forceinline__ View packed_view(std::byte* data, const std::int64_t (&stride)[3], DType dtype) {
  View v;
  v.data = data;
  v.stride[0] = stride[0];
  v.stride[1] = stride[1];
  v.stride[2] = stride[2];
  v.stride[3] = 1;  // not of a line, whose third stride is the channels'
  v.dtype = dtype;
  v.shift = shift_of(dtype);
  v.present = data != nullptr;
  return v;
}

__device__ __forceinline__ RecordArgs records_of(const LayerArgs& layer) {
  const View records = packed_view(layer.records, layer.record_stride, DType::f32);
  return {records, records, packed_view(layer.key_gate, layer.key_gate_stride, layer.key_gate_dtype)};
}

__device__ __forceinline__ GateArgs gate_of(const LayerArgs& layer) {
  GateArgs gate;
  gate.A_log.data = layer.A_log;
  gate.A_log.stride[0] = layer.A_log_stride;
  gate.A_log.dtype = layer.A_log_dtype;
  gate.A_log.shift = shift_of(layer.A_log_dtype);
  gate.dt_bias.data = layer.dt_bias;
  gate.dt_bias.stride[0] = layer.dt_bias_stride[0];
  gate.dt_bias.stride[1] = layer.dt_bias_stride[1];
  gate.dt_bias.dtype = layer.dt_bias_dtype;
  gate.dt_bias.shift = shift_of(layer.dt_bias_dtype);
  gate.lower_bound = layer.lower_bound;
  gate.softplus_beta = layer.softplus_beta;
  gate.softplus_threshold = layer.softplus_threshold;
  gate.bounded = layer.bounded;
  gate.l2norm = layer.l2norm;
  return gate;
}

// Address of a line's position and channel in a block.
__device__ __forceinline__ std::byte* line_at(const LayerArgs& layer, std::int64_t block, std::int64_t position,
                                              std::int64_t channel) {
  return layer.line + (block * layer.line_stride[0] + position * layer.line_stride[1] + channel * layer.line_stride[2]) *
                          size_of(layer.line_dtype);
}

}  // namespace recoverssm::cuda
