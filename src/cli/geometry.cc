#include "cli/geometry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <vector>

namespace recoverssm::cli {

namespace {

using nlohmann::json;

std::int32_t integer(const json& config, const std::string& place, const char* key) {
  const std::string name = place.empty() ? key : fmt::format("{}.{}", place, key);
  if (!config.contains(key)) throw std::runtime_error(fmt::format("config: {}: missing", name));
  const json& value = config.at(key);
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0 ||
      value.get<std::int64_t>() > std::numeric_limits<std::int32_t>::max()) {
    throw std::runtime_error(fmt::format("config: {}: got {}, expected a whole number >= 0", name, value.dump()));
  }
  return value.get<std::int32_t>();
}

// Qwen: layer_types names each layer; without it every full_attention_interval-th layer has no state.
std::int32_t linear_layers(const json& config, const std::string& place, std::int32_t layers) {
  if (config.contains("layer_types") && config["layer_types"].is_array()) {
    const auto& types = config["layer_types"];
    if (static_cast<std::int64_t>(types.size()) != layers) {
      throw std::runtime_error(fmt::format("config: layer_types: {} layers, num_hidden_layers is {}", types.size(), layers));
    }
    return static_cast<std::int32_t>(std::ranges::count(types, json("linear_attention")));
  }
  const std::int32_t interval = config.contains("full_attention_interval") ? integer(config, place, "full_attention_interval") : 4;
  if (interval == 0) throw std::runtime_error("config: full_attention_interval: got 0, expected at least 1");
  return layers - layers / interval;
}

ModelGeometry qwen(const json& config, const std::string& place, const std::string& name) {
  ModelGeometry m;
  m.name = name;
  m.layer.H = integer(config, place, "linear_num_key_heads");
  m.layer.HV = integer(config, place, "linear_num_value_heads");
  m.layer.K = integer(config, place, "linear_key_head_dim");
  m.layer.V = integer(config, place, "linear_value_head_dim");
  m.layer.W = integer(config, place, "linear_conv_kernel_dim");
  m.all_layers = integer(config, place, "num_hidden_layers");
  m.layers = linear_layers(config, place, m.all_layers);
  return m;
}

// Kimi: one head count and one head size for queries, keys and values; convolutions of q, k and v lie side by side in one line.
ModelGeometry kimi(const json& config, const std::string& place, const std::string& name) {
  const json& linear = config.at("linear_attn_config");
  const std::string at = place.empty() ? "linear_attn_config" : place + ".linear_attn_config";
  if (!linear.is_object()) throw std::runtime_error(fmt::format("config: {}: got {}, expected an object", at, linear.dump()));
  ModelGeometry m;
  m.name = name;
  m.layer.gate = Gate::kda;
  m.layer.H = m.layer.HV = integer(linear, at, "num_heads");
  m.layer.K = m.layer.V = integer(linear, at, "head_dim");
  m.layer.W = integer(linear, at, "short_conv_kernel_size");
  m.all_layers = integer(config, place, "num_hidden_layers");
  if (!linear.contains("kda_layers") || !linear["kda_layers"].is_array()) {
    throw std::runtime_error(fmt::format("config: {}.kda_layers: missing, expected a list of layer numbers", at));
  }
  m.layers = static_cast<std::int32_t>(linear["kda_layers"].size());
  return m;
}

std::string architecture_of(const json& config) {
  if (config.contains("architectures") && config["architectures"].is_array() && !config["architectures"].empty() &&
      config["architectures"][0].is_string()) {
    return config["architectures"][0].get<std::string>();
  }
  return config.contains("model_type") && config["model_type"].is_string() ? config["model_type"].get<std::string>() : "?";
}

}  // namespace

ModelGeometry geometry_of(const json& config) {
  if (!config.is_object()) throw std::runtime_error("config: not a JSON object");
  const std::string name = architecture_of(config);
  const bool nested = config.contains("text_config") && config["text_config"].is_object();
  // What the settings are called tells the family; names of architectures come and go.
  for (const auto& [settings, place] :
       {std::pair<const json*, const char*>{&config, ""}, {nested ? &config["text_config"] : nullptr, "text_config"}}) {
    if (settings == nullptr) continue;
    ModelGeometry m;
    if (settings->contains("linear_num_value_heads")) {
      m = qwen(*settings, place, name);
    } else if (settings->contains("linear_attn_config") && !(*settings)["linear_attn_config"].is_null()) {
      m = kimi(*settings, place, name);
    } else {
      continue;
    }
    if (m.layers == 0)
      throw std::runtime_error(fmt::format("config: {}: none of its {} layers has a gated delta rule", name, m.all_layers));
    return m;
  }
  throw std::runtime_error(fmt::format(
      "config: architecture {}: no gated delta rule settings found. Known: Qwen3-Next and Qwen3.5 (linear_num_value_heads, "
      "..., at the top or in text_config), Kimi-Linear (linear_attn_config)",
      name));
}

ModelGeometry read_config(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(fmt::format("cannot read {}", path));
  const json config = json::parse(file, nullptr, false);
  if (config.is_discarded()) throw std::runtime_error(fmt::format("{}: not JSON", path));
  try {
    return geometry_of(config);
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("{}: {}", path, error.what()));
  }
}

}  // namespace recoverssm::cli
