// What several files ask about a layer of a configuration.
#pragma once

#include <cstddef>

#include "contract/check.h"
#include "recoverssm/session_config.hpp"

namespace recoverssm {

inline Gate gate_of(const LayerConfig& layer) { return layer.kind == LayerKind::kda ? Gate::kda : Gate::gdn; }

inline std::int64_t channels_of(const LayerConfig& layer) {
  if (layer.kind == LayerKind::short_conv) return layer.channels;
  return std::int64_t{2} * layer.H * layer.K + std::int64_t{layer.HV} * layer.V;
}

// Positions of conv history: W-1, short_conv (Kc-1)*dilation, 0 without a convolution.
inline std::int64_t history_of(const LayerConfig& layer) {
  if (layer.W == 0) return 0;
  return layer.kind == LayerKind::short_conv ? times(layer.W - 1, layer.dilation) : layer.W - 1;
}

inline std::int64_t history_bytes(const LayerConfig& layer) {
  return times(times(history_of(layer), channels_of(layer)), size_of(layer.activation));
}

// "gdn_f32", "kda_act", "" for a layer without records.
inline const char* layout_of(const LayerConfig& layer) {
  return layer.kind == LayerKind::short_conv ? "" : record_layout_id(gate_of(layer));
}

// Layout ids of several layers in one text, as in BlockTag::layout.
inline std::string joined_layouts(bool gdn, bool kda) {
  std::string text = gdn ? record_layout_id(Gate::gdn) : "";
  if (gdn && kda) text += '+';
  if (kda) text += record_layout_id(Gate::kda);
  return text;
}

// Bytes of a checkpoint beside states and histories.
std::int64_t checkpoint_overhead(std::size_t layers);

}  // namespace recoverssm
