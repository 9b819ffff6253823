// Which layers with a state a model has: from options or from a model's config.json.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "recoverssm/sizes.hpp"

namespace recoverssm::cli {

struct ModelGeometry {
  std::string name;         // of the architecture, or "options"
  Geometry layer;           // of each layer with a gated delta rule; S, dtypes and channels may be changed afterwards
  std::int32_t layers = 0;  // of these
  std::int32_t all_layers = 0;
};

// Qwen3-Next, Qwen3.5 (settings in text_config or at the top), Kimi-Linear. Throws std::runtime_error: what was found, what is known.
ModelGeometry geometry_of(const nlohmann::json& config);
ModelGeometry read_config(const std::string& path);

}  // namespace recoverssm::cli
