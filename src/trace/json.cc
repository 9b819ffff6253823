#include "trace/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <vector>

namespace recoverssm::trace {

using nlohmann::json;

namespace {

// A first pass that builds nothing: depth, number of values, names used twice. (A parser callback could check the same while building, but
// nlohmann then scans an object again for each of its members.)
class Watch : public nlohmann::json_sax<json> {
 public:
  explicit Watch(std::string_view what) : what_(what) {}

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool start_object(std::size_t) override {
    names_.emplace_back();
    return open();
  }
  bool end_object() override {
    names_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (!names_.back().insert(name).second) throw Malformed(fmt::format("{}: \"{}\" twice in one object", what_, name));
    return value();
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    throw Malformed(fmt::format("{}: {}", what_, error.what()));
  }

 private:
  bool open() {
    if (++depth_ > kMaxJsonDepth) throw Malformed(fmt::format("{}: nested more than {} deep", what_, kMaxJsonDepth));
    return value();
  }
  bool value() {
    if (++values_ > kMaxJsonValues) throw Malformed(fmt::format("{}: more than {} values", what_, kMaxJsonValues));
    return true;
  }

  std::string_view what_;
  std::vector<std::unordered_set<std::string>> names_;  // of the objects that are open
  int depth_ = 0;
  std::int64_t values_ = 0;
};

}  // namespace

json parse_json(std::string_view text, std::string_view what) {
  Watch watch(what);
  json::sax_parse(text.begin(), text.end(), &watch);
  try {
    return json::parse(text.begin(), text.end());
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
