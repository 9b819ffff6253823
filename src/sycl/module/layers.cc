#include "sycl/module/layers.h"

#include "contract/layers.h"

namespace recoverssm::sycl_backend {
namespace {

std::int64_t bytes_of_stride(const TensorView& view, std::size_t d) { return view.stride[d] * size_of(view.dtype); }

}  // namespace

device::LayerArgs layer_args(const Layer& layer, std::int64_t index) {
  device::LayerArgs args;
  args.index = static_cast<std::int32_t>(index);
  args.group = layer.group;
  args.blocks = layer_blocks(layer);
  args.line_kind = layer.line_kind;
  if (layer.state.present()) {
    args.state = static_cast<std::byte*>(layer.state.data);
    args.state_block = bytes_of_stride(layer.state, 0);
    args.state_dtype = layer.state.dtype;
    args.HV = static_cast<std::int32_t>(layer.state.shape[1]);
    args.V = static_cast<std::int32_t>(layer.state.shape[2]);
    args.K = static_cast<std::int32_t>(layer.state.shape[3]);
    const TensorView& records = layer.gate == Gate::gdn ? layer.records.packed : layer.records.corrections;
    args.records = static_cast<std::byte*>(records.data);
    for (std::size_t d = 0; d < 3; ++d) args.record_stride[d] = bytes_of_stride(records, d);
  }
  if (!layer.state.present() || layer.records.present()) {
    args.capacity = static_cast<std::int32_t>(min64(layer_capacity(layer), INT32_MAX));
  }
  if (layer.gate == Gate::kda && layer.state.present()) {
    const TensorView& key_gate = layer.records.key_gate;
    args.key_gate = static_cast<std::byte*>(key_gate.data);
    for (std::size_t d = 0; d < 3; ++d) args.key_gate_stride[d] = bytes_of_stride(key_gate, d);
    args.key_gate_dtype = key_gate.dtype;
    args.A_log = static_cast<std::byte*>(layer.A_log.data);
    args.A_log_stride = bytes_of_stride(layer.A_log, 0);
    args.A_log_dtype = layer.A_log.dtype;
    args.dt_bias = static_cast<std::byte*>(layer.dt_bias.data);
    args.dt_bias_stride[0] = bytes_of_stride(layer.dt_bias, 0);
    args.dt_bias_stride[1] = bytes_of_stride(layer.dt_bias, 1);
    args.dt_bias_dtype = layer.dt_bias.dtype;
    args.bounded = layer.lower_bound.has_value();
    args.lower_bound = layer.lower_bound.value_or(0.0F);
    args.softplus_beta = layer.softplus_beta;
    args.softplus_threshold = layer.softplus_threshold;
    args.l2norm = layer.l2norm;
  }
  if (layer.line.present()) {
    args.line = static_cast<std::byte*>(layer.line.data);
    for (std::size_t d = 0; d < 3; ++d) args.line_stride[d] = bytes_of_stride(layer.line, d);
    args.line_dtype = layer.line.dtype;
    args.channels = static_cast<std::int32_t>(layer.line.shape[2]);
    args.history = layer.conv_taps - 1;
  }
  if (layer.pending.present()) {
    args.pending = static_cast<std::int32_t*>(layer.pending.data);
    args.pending_stride = layer.pending.stride[0];
  }
  return args;
}

}  // namespace recoverssm::sycl_backend
