// The plain run: what every request must come to. Each request has memory of its own, and its committed tokens go through
// causal_conv1d, gated_delta_rule and short_conv one at a time: no windows, no records, no blocks, nothing of the session.
//
// A 16-bit state is rounded once a call. There the tokens of one committed row go through the rule in one call, as they did in the
// session: same grouping, same bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "recoverssm/context.hpp"
#include "simulate/model.h"

namespace recoverssm::simulate {

// One request's memory.
struct Memory {
  struct Layer {
    Bytes state;    // [HV, V, K]
    Bytes history;  // [positions, C]
  };
  std::int64_t tokens = 0;
  std::vector<Layer> layers;
};

// What one run of some tokens gave, layer by layer.
struct LayerRun {
  LayerTokens in;
  TokenRows mixed;  // gdn, kda: what enters the rule, T
  TokenRows out;
};

class PlainRun {
 public:
  PlainRun(const std::vector<LayerModel>& layers, Target target);

  Memory empty() const;  // no token; its bytes are NaN
  // Runs tokens that follow those of the memory.
  void advance(Memory& memory, std::span<const Key> keys);
  // Of the last advance.
  const LayerRun& last(std::size_t layer) const { return runs_[layer]; }

 private:
  void convolve(const LayerModel& layer, Memory::Layer& memory, LayerRun& run, std::int64_t first, bool has_state);
  void rule(const LayerModel& layer, Memory::Layer& memory, LayerRun& run, std::int64_t first, std::int64_t count, bool has_state);

  const std::vector<LayerModel>& layers_;
  std::vector<LayerRun> runs_;
  Context context_;
};

}  // namespace recoverssm::simulate
