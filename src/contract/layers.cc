#include "contract/layers.h"

#include "contract/conv_inputs.h"
#include "contract/rule_inputs.h"
#include "contract/rules.h"

namespace recoverssm {
namespace {

void check_layer_state(Check& check, const Name& name, const Layer& layer, const LayersUse& use) {
  check_gate(check, name, layer.gate);
  check_state(check, name.dot("state"), layer.state, at_least("HV", 1), at_least("V", 1), at_least("K", 1));
  if (!use.records || !check.ok()) return;
  const std::int64_t blocks = layer.state.shape[0], HV = layer.state.shape[1], V = layer.state.shape[2], K = layer.state.shape[3];
  const Name records = name.dot("records");
  if (!layer.records.present()) return check.invalid(records, "missing", "records beside a state");
  const Dim S = use.capacity > 0 ? Dim{"window_capacity", use.capacity} : at_least("S", 1);
  check_records(check, records, layer.records, layer.gate, kFloats, {blocks, HV, V, K, S});
  const GateParameters gate{layer.gate,        layer.A_log,         layer.dt_bias,
                            layer.lower_bound, layer.softplus_beta, layer.softplus_threshold};
  // gdn records hold the decay itself; kda's is computed again from the raw gate input.
  if (layer.gate == Gate::kda) check_gate_tensors(check, name, gate, T_or_f32(layer.records.key_gate.dtype), HV, K);
  check_gate_scalars(check, name, gate);
}

void check_layer_line(Check& check, const Name& name, const Layer& layer, const LayersUse& use) {
  check_line_kind(check, name.dot("line_kind"), layer.line_kind);
  check.at_least(name.dot("conv_taps"), layer.conv_taps, kMinConvTaps);
  if (!check.ok()) return;
  const std::int64_t history = layer.conv_taps - 1;
  std::int64_t capacity = use.capacity;
  if (capacity == 0 && use.records && layer.state.present()) capacity = record_capacity(layer.gate, layer.records);
  const Dim columns = capacity > 0 ? window_columns(layer.line_kind, history, capacity) : history_columns(history);
  const Dim blocks = layer.state.present() ? Dim{"blocks", layer.state.shape[0]} : any("blocks");
  check_line(check, name.dot("line"), layer.line, kFloats, blocks, columns, any("C"));
}

void check_layer(Check& check, const Name& name, const Layer& layer, const LayersUse& use) {
  if (!check.ok()) return;
  if (!layer.state.present() && !layer.line.present()) return check.invalid(name, "neither line nor state", "at least one of them");
  if (layer.state.present()) {
    check_layer_state(check, name, layer, use);
  } else if (use.records && layer.records.present()) {
    check.invalid(name.dot("records"), "given", "none without a state");
  }
  if (layer.line.present()) check_layer_line(check, name, layer, use);
  if (use.pending_required)
    check.required(name.dot("pending"), layer.pending, "[blocks] of i32: the records that wait in each block");
  if (check.ok() && layer.pending.present()) check_pending(check, name.dot("pending"), layer.pending, layer_blocks(layer));
}

}  // namespace

void check_layers(Check& check, std::span<const Layer> layers, const LayersUse& use) {
  std::int64_t i = 0;
  for (const Layer& layer : layers) check_layer(check, Name("layers").at(i++), layer, use);
}

Operand layer_operand(std::span<const Layer> layers, const LayersUse& use, std::int64_t i) {
  const Layer& layer = layers[static_cast<std::size_t>(i / kLayerViews)];
  const Name name = Name("layers").at(i / kLayerViews);
  const bool replays = use.records && layer.state.present();
  const bool gate = replays && layer.gate == Gate::kda;
  const std::int32_t group = use.groups ? layer.group : -1;
  switch (i % kLayerViews) {
    case 0:
      return {name.dot("state"), &layer.state, true, group};
    case 1:
      return {name.dot("line"), &layer.line, true, group};
    case 2:
      return {name.dot("pending"), &layer.pending, true, group};
    case 3:
      return {name.dot("records"), replays ? &layer.records.packed : nullptr, false, group};
    case 4:
      return {name.dot("records").dot("corrections"), replays ? &layer.records.corrections : nullptr, false, group};
    case 5:
      return {name.dot("records").dot("key_gate"), replays ? &layer.records.key_gate : nullptr, false, group};
    case 6:
      return {name.dot("A_log"), gate ? &layer.A_log : nullptr};
    default:
      return {name.dot("dt_bias"), gate ? &layer.dt_bias : nullptr};
  }
}

bool layers_share(const Layer& a, const Layer& b) {
  const LayersUse use{.groups = true};
  for (std::int64_t i = 0; i < kLayerViews; ++i) {
    const Operand one = layer_operand({&a, 1}, use, i);
    if (one.cache_group < 0 || one.view == nullptr || one.view->empty()) continue;
    const Footprint footprint = footprint_of(*one.view);
    for (std::int64_t j = 0; j < kLayerViews; ++j) {
      const Operand other = layer_operand({&b, 1}, use, j);
      if (other.cache_group < 0 || other.view == nullptr || other.view->empty() || !(one.written || other.written)) continue;
      if (!surely_disjoint(footprint, footprint_of(*other.view)) && proven_overlap(*one.view, *other.view)) return true;
    }
  }
  return false;
}

std::int64_t layer_blocks(const Layer& layer) { return layer.state.present() ? layer.state.shape[0] : layer.line.shape[0]; }

std::int64_t layer_capacity(const Layer& layer) {
  if (layer.state.present()) return record_capacity(layer.gate, layer.records);
  if (layer.line.present() && layer.line_kind == LineKind::anchored) return layer.line.shape[1] - (layer.conv_taps - 1);
  return INT32_MAX;  // materialize leaves a rolled line alone
}

}  // namespace recoverssm
