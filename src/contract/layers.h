// Shape rules of the layers that commit, materialize and align_move take, and what their contents checks ask about a layer.
#pragma once

#include <cstdint>
#include <span>

#include "contract/check.h"
#include "contract/overlap.h"
#include "recoverssm/rows.hpp"

namespace recoverssm {

// What an op reads of its layers.
struct LayersUse {
  bool records = true;            // align_move reads none
  bool pending_required = false;  // materialize
  std::int64_t capacity = 0;      // S; 0: each layer's records say it
  bool groups = false;            // commit: layers of different groups may lie in the same pages
};

void check_layers(Check& check, std::span<const Layer> layers, const LayersUse& use);

// The views of a layer, for the overlap rule.
constexpr std::int64_t kLayerViews = 8;
Operand layer_operand(std::span<const Layer> layers, const LayersUse& use, std::int64_t i);

// Whether two layers are proven to share an element that one of them may write in a commit.
bool layers_share(const Layer& a, const Layer& b);

// Of layers that passed.
std::int64_t layer_blocks(const Layer& layer);
// The most tokens of a window that the layer's records, or else its line, have room for.
std::int64_t layer_capacity(const Layer& layer);

}  // namespace recoverssm
