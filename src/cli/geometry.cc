#include "cli/geometry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <vector>

namespace recoverssm::cli {

namespace {

using nlohmann::json;

constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();

std::string name_of(const std::string& place, const char* key) { return place.empty() ? key : fmt::format("{}.{}", place, key); }

// A value for a message: lists and objects can be long, and nested deeply.
std::string shown(const json& value) { return value.is_structured() ? fmt::format("an {}", value.type_name()) : value.dump(); }

[[noreturn]] void refuse(const std::string& name, const json& got, const std::string& expected) {
  throw std::runtime_error(fmt::format("config: {}: got {}, expected {}", name, shown(got), expected));
}

// Absent and null are the same here.
const json* find(const json& config, const char* key) {
  const auto at = config.find(key);
  return at == config.end() || at->is_null() ? nullptr : &*at;
}

const json* find_names(const json& config, const std::string& place, const char* key) {
  const json* list = find(config, key);
  if (list == nullptr) return nullptr;
  if (!list->is_array()) refuse(name_of(place, key), *list, "a list of names");
  for (const json& each : *list) {
    if (!each.is_string()) refuse(name_of(place, key), each, "names only");
  }
  return list;
}

std::int32_t integer(const json& config, const std::string& place, const char* key, std::int32_t least) {
  const std::string name = name_of(place, key);
  if (!config.contains(key)) throw std::runtime_error(fmt::format("config: {}: missing", name));
  const json& value = config.at(key);
  if (!value.is_number_integer() || value.get<std::int64_t>() < least || value.get<std::int64_t>() > kMost) {
    refuse(name, value, fmt::format("a whole number from {} to {}", least, kMost));
  }
  return value.get<std::int32_t>();
}

// Qwen: layer_types names each layer; without it every full_attention_interval-th layer has no state.
std::int32_t linear_layers(const json& config, const std::string& place, std::int32_t layers) {
  if (const json* types = find_names(config, place, "layer_types")) {
    if (static_cast<std::int64_t>(types->size()) != layers) {
      throw std::runtime_error(fmt::format("config: {}: got {} layers, expected num_hidden_layers, {}",
                                           name_of(place, "layer_types"), types->size(), layers));
    }
    return static_cast<std::int32_t>(std::ranges::count(*types, json("linear_attention")));
  }
  const std::int32_t interval =
      config.contains("full_attention_interval") ? integer(config, place, "full_attention_interval", 1) : 4;
  return layers - layers / interval;
}

ModelGeometry qwen(const json& config, const std::string& place, const std::string& name) {
  ModelGeometry m;
  m.name = name;
  m.layer.H = integer(config, place, "linear_num_key_heads", 1);
  m.layer.HV = integer(config, place, "linear_num_value_heads", 1);
  m.layer.K = integer(config, place, "linear_key_head_dim", 1);
  m.layer.V = integer(config, place, "linear_value_head_dim", 1);
  m.layer.W = integer(config, place, "linear_conv_kernel_dim", 0);
  m.all_layers = integer(config, place, "num_hidden_layers", 1);
  m.layers = linear_layers(config, place, m.all_layers);
  return m;
}

// Kimi: one head count and one head size for queries, keys and values; convolutions of q, k and v lie side by side in one line.
ModelGeometry kimi(const json& config, const std::string& place, const std::string& name) {
  const json& linear = config.at("linear_attn_config");
  const std::string at = place.empty() ? "linear_attn_config" : place + ".linear_attn_config";
  if (!linear.is_object()) refuse(at, linear, "an object");
  ModelGeometry m;
  m.name = name;
  m.layer.gate = Gate::kda;
  m.layer.H = m.layer.HV = integer(linear, at, "num_heads", 1);
  m.layer.K = m.layer.V = integer(linear, at, "head_dim", 1);
  m.layer.W = integer(linear, at, "short_conv_kernel_size", 0);
  m.all_layers = integer(config, place, "num_hidden_layers", 1);
  if (!linear.contains("kda_layers")) throw std::runtime_error(fmt::format("config: {}.kda_layers: missing", at));
  if (!linear["kda_layers"].is_array()) refuse(at + ".kda_layers", linear["kda_layers"], "a list of layer numbers");
  m.layers = static_cast<std::int32_t>(linear["kda_layers"].size());
  return m;
}

std::string architecture_of(const json& config) {
  const json* names = find_names(config, "", "architectures");
  if (names != nullptr && !names->empty()) return names->front().get<std::string>();
  const json* type = find(config, "model_type");
  if (type == nullptr) return "?";
  if (!type->is_string()) refuse("model_type", *type, "a name");
  return type->get<std::string>();
}

}  // namespace

ModelGeometry geometry_of(const json& config) {
  if (!config.is_object()) throw std::runtime_error("config: not a JSON object");
  const std::string name = architecture_of(config);
  const json* nested = find(config, "text_config");
  if (nested != nullptr && !nested->is_object()) refuse("text_config", *nested, "an object");
  // What the settings are called tells the family; names of architectures come and go.
  for (const auto& [settings, place] : {std::pair<const json*, const char*>{&config, ""}, {nested, "text_config"}}) {
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
    sizes(m.layer);  // refuses what no operation accepts, such as value heads that are no multiple of key heads
    return m;
  }
  throw std::runtime_error(fmt::format(
      "config: architecture {}: no gated delta rule settings found. Known: Qwen3-Next and Qwen3.5 (linear_num_value_heads, "
      "..., at the top or in text_config), Kimi-Linear (linear_attn_config)",
      name));
}

ModelGeometry read_config(const std::string& path) {
  // A directory can be opened, but not read.
  if (std::error_code error; std::filesystem::is_directory(path, error)) {
    throw std::runtime_error(fmt::format("cannot read {}: a directory", path));
  }
  std::ifstream file(path);
  if (!file) throw std::runtime_error(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  const json config = json::parse(file, nullptr, false);
  if (config.is_discarded()) throw std::runtime_error(fmt::format("{}: not JSON", path));
  try {
    return geometry_of(config);
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("{}: {}", path, error.what()));
  }
}

}  // namespace recoverssm::cli
