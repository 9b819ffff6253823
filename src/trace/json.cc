#include "trace/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <vector>

namespace recoverssm::trace {

using nlohmann::json;

json parse_json(std::string_view text, std::string_view what) {
  std::vector<std::unordered_set<std::string>> names;  // of the objects that are open
  int depth = 0;
  std::int64_t values = 0;
  const auto watch = [&](int, json::parse_event_t event, json& parsed) {
    if (++values > kMaxJsonValues) throw Malformed(fmt::format("{}: more than {} values", what, kMaxJsonValues));
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        if (++depth > kMaxJsonDepth) throw Malformed(fmt::format("{}: nested more than {} deep", what, kMaxJsonDepth));
        if (event == json::parse_event_t::object_start) names.emplace_back();
        break;
      case json::parse_event_t::object_end:
        names.pop_back();
        --depth;
        break;
      case json::parse_event_t::array_end:
        --depth;
        break;
      case json::parse_event_t::key: {
        const auto& name = parsed.get_ref<const std::string&>();
        if (!names.back().insert(name).second) throw Malformed(fmt::format("{}: \"{}\" twice in one object", what, name));
        break;
      }
      case json::parse_event_t::value:
        break;
    }
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), watch);
  } catch (const json::exception& error) {
    throw Malformed(fmt::format("{}: {}", what, error.what()));
  }
}

void check_names(const json& value, const std::string& place, std::initializer_list<std::string_view> required,
                 std::initializer_list<std::string_view> optional) {
  if (!value.is_object()) throw Malformed(fmt::format("{}: {}, expected an object", place, value.type_name()));
  for (const std::string_view name : required) {
    if (!value.contains(name)) throw Malformed(fmt::format("{}: \"{}\" is missing", place, name));
  }
  const auto among = [](std::initializer_list<std::string_view> names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const auto& [name, unused] : value.items()) {
    if (!among(required, name) && !among(optional, name)) throw Malformed(fmt::format("{}: unknown name \"{}\"", place, name));
  }
}

std::int64_t integer_at(const json& value, const std::string& place, std::int64_t lowest, std::int64_t highest) {
  const bool too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX);
  if (!value.is_number_integer() || too_large) {
    throw Malformed(fmt::format("{}: {}, expected an integer", place, value.is_number() ? value.dump() : value.type_name()));
  }
  const auto number = value.get<std::int64_t>();
  if (number < lowest || number > highest) {
    throw Malformed(fmt::format("{}: {}, expected {}..{}", place, number, lowest, highest));
  }
  return number;
}

const std::string& string_at(const json& value, const std::string& place) {
  if (!value.is_string()) throw Malformed(fmt::format("{}: {}, expected a string", place, value.type_name()));
  return value.get_ref<const std::string&>();
}

const json::array_t& array_at(const json& value, const std::string& place) {
  if (!value.is_array()) throw Malformed(fmt::format("{}: {}, expected a list", place, value.type_name()));
  return value.get_ref<const json::array_t&>();
}

}  // namespace recoverssm::trace
