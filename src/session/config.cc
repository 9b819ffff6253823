// session_sizes: what a configuration takes, and whether a session accepts it.
#include "session/config.h"

#include <algorithm>

#include "recoverssm/sizes.hpp"

namespace recoverssm {
namespace {

void check_group(Check& check, const SessionConfig& config, std::size_t index) {
  const GroupConfig& group = config.groups[index];
  const Name name = Name("groups").at(static_cast<std::int64_t>(index));
  check.at_least(name.dot("blocks"), group.blocks, 1);
  if (group.block_size.has_value() != config.groups[0].block_size.has_value()) {
    return check.invalid(name.dot("block_size"), group.block_size ? "given" : "missing", "in all groups or in none");
  }
  if (!group.block_size || !check.ok() || *group.block_size >= config.window_capacity) return;
  check.invalid(name.dot("block_size"), text(*group.block_size), text("at least window_capacity = ", config.window_capacity));
}

// What sizes() does not see.
void check_layer(Check& check, const SessionConfig& config, std::size_t index) {
  const LayerConfig& layer = config.layers[index];
  const Name name = Name("layers").at(static_cast<std::int64_t>(index));
  check.one_of(name.dot("kind"), layer.kind, {LayerKind::gdn, LayerKind::kda, LayerKind::short_conv}, "gdn, kda or short_conv");
  if (!check.ok()) return;
  if (layer.group < 0 || layer.group >= static_cast<std::int64_t>(config.groups.size())) {
    return check.invalid(name.dot("group"), text(layer.group), text("an index below the number of groups, ", config.groups.size()));
  }
  if (layer.kind == LayerKind::short_conv) {
    check.at_least(name.dot("W"), layer.W, 2);
    check.at_least(name.dot("dilation"), layer.dilation, 1);
    check.at_least(name.dot("channels"), layer.channels, 1);
    if (check.ok() && history_of(layer) >= INT32_MAX)
      check.invalid(name.dot("dilation"), text(layer.dilation), "a history below 2^31");
    return;
  }
  check.at_least(name.dot("HV"), layer.HV, 1);
  if (check.ok() && layer.K > 256) check.invalid(name.dot("K"), text(layer.K), "at most 256");
  if (check.ok() && layer.W > 8) check.invalid(name.dot("W"), text(layer.W), "0 or 2..8");
  if (check.ok() && layer.channels != 0) check.invalid(name.dot("channels"), text(layer.channels), "0: it is 2*H*K + HV*V");
}

void check_config(const SessionConfig& config) {
  Check check("session_sizes");
  check.at_least("window_capacity", config.window_capacity, 1);
  check.one_of("line_kind", config.line_kind, {LineKind::rolled, LineKind::anchored}, "rolled or anchored");
  check.at_least("null_block_id", config.null_block_id, -1);
  check.at_least("kept_boundaries", config.kept_boundaries, 0);
  if (check.ok() && config.layers.empty()) check.invalid("layers", "none", "at least one");
  if (check.ok() && config.groups.empty()) check.invalid("groups", "none", "at least one");
  for (std::size_t g = 0; check.ok() && g < config.groups.size(); ++g) check_group(check, config, g);
  for (std::size_t l = 0; check.ok() && l < config.layers.size(); ++l) check_layer(check, config, l);
  for (std::size_t g = 0; check.ok() && g < config.groups.size(); ++g) {
    const auto index = static_cast<std::int32_t>(g);
    if (std::ranges::find(config.layers, index, &LayerConfig::group) == config.layers.end()) {
      check.invalid(Name("groups").at(index), "no layer", "at least one layer a group");
    }
  }
  if (!check.ok()) throw Error(check.take());
}

SessionSizes::Layer layer_sizes(const SessionConfig& config, const LayerConfig& layer) {
  const bool rule = layer.kind != LayerKind::short_conv;
  Geometry geometry{.S = config.window_capacity, .activation = layer.activation, .state = layer.state};
  if (rule) {
    geometry.H = layer.H, geometry.HV = layer.HV, geometry.K = layer.K, geometry.V = layer.V, geometry.W = layer.W;
    geometry.gate = gate_of(layer);
  } else {
    geometry.W = static_cast<std::int32_t>(history_of(layer)) + 1;
    geometry.channels = layer.channels;
  }
  const Sizes s = sizes(geometry);
  return {.state = s.state,
          .line = config.line_kind == LineKind::rolled ? s.line_rolled : s.line_anchored,
          .records = s.records,
          .pending = rule && config.lazy ? 4 : 0};
}

}  // namespace

SessionSizes session_sizes(const SessionConfig& config) {
  check_config(config);
  SessionSizes sizes;
  sizes.block.resize(config.groups.size());
  sizes.checkpoint = checkpoint_overhead(config.layers.size());
  for (const LayerConfig& layer : config.layers) {
    sizes.layers.push_back(layer_sizes(config, layer));
    std::int64_t& block = sizes.block[static_cast<std::size_t>(layer.group)];
    block = plus(block, sizes.layers.back().block());
    sizes.checkpoint = plus(sizes.checkpoint, plus(sizes.layers.back().state, history_bytes(layer)));
  }
  const std::int64_t most_blocks = config.groups[0].block_size ? std::int64_t{2} + config.kept_boundaries : 1;
  for (std::size_t g = 0; g < config.groups.size(); ++g) {
    sizes.request = plus(sizes.request, times(sizes.block[g], most_blocks));
    sizes.pools = plus(sizes.pools, times(sizes.block[g], config.groups[g].blocks));
  }
  sizes.blocks_per_request = static_cast<std::int32_t>(std::min<std::int64_t>(most_blocks, INT32_MAX));
  if (sizes.pools == INT64_MAX || sizes.request == INT64_MAX || sizes.checkpoint == INT64_MAX) {
    Check check("session_sizes");
    check.invalid("groups", "more bytes than fit in 64 bits", "fewer blocks or smaller layers");
    throw Error(check.take());
  }
  return sizes;
}

}  // namespace recoverssm
