#include "trace/document.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "trace/binding.h"
#include "trace/json.h"

namespace recoverssm::trace {

using nlohmann::json;

namespace {

constexpr std::size_t kMaxViewDims = 16;  // an operation takes kMaxDims at most, and says so itself
constexpr int kMaxArgumentDepth = 8;
constexpr int kMaxRepeat = 1'000'000;

__extension__ typedef __int128 int128;

std::string key_at(const std::string& place, const std::string& key) { return place + "." + key; }
std::string index_at(const std::string& place, std::size_t i) { return fmt::format("{}[{}]", place, i); }

Number number_at(const json& value, const std::string& place) {
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    if (!std::isfinite(number)) throw Malformed(place + ": not finite");
    return number;
  }
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) return value.get<double>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  throw Malformed(fmt::format("{}: {}, expected a number", place, value.type_name()));
}

Element fill_at(const json& value, DType dtype, const std::string& place) {
  const auto element = encode(dtype, number_at(value, place));
  if (!element) throw Malformed(fmt::format("{}: {} is no {}", place, value.dump(), safetensors_name(dtype)));
  return *element;
}

double tolerance_at(const json& value, const std::string& place) {
  const auto number = std::visit([](auto n) { return static_cast<double>(n); }, number_at(value, place));
  if (number < 0) throw Malformed(fmt::format("{}: {}, expected 0 or more", place, number));
  return number;
}

class Parser {
 public:
  explicit Parser(const SafetensorsFile& file) : file_(file) {}

  Document document(const json& root) {
    check_names(root, "document", {"name", "buffers", "calls"},
                {"description", "source", "geometry", "finally", "mode", "backends"});
    Document d;
    d.name = string_at(root["name"], "name");
    if (root.contains("description")) d.description = string_at(root["description"], "description");
    if (root.contains("source")) d.source = string_at(root["source"], "source");
    if (root.contains("mode")) d.mode = mode(root["mode"]);
    if (root.contains("backends")) {
      d.backends.emplace();
      for (const json& name : array_at(root["backends"], "backends")) d.backends->push_back(string_at(name, "backends"));
    }
    d.buffers = buffers(root["buffers"]);
    const auto& calls = array_at(root["calls"], "calls");
    for (std::size_t i = 0; i < calls.size(); ++i) d.calls.push_back(call(calls[i], static_cast<int>(i)));
    if (root.contains("finally")) {
      d.finally = expectations(root["finally"], "finally", static_cast<int>(calls.size()) - 1);
    }
    return d;
  }

 private:
  static std::string mode(const json& value) {
    const std::string& name = string_at(value, "mode");
    if (name != "exact" && name != "fast" && name != "any") {
      throw Malformed(fmt::format("mode: \"{}\", expected exact, fast or any", name));
    }
    return name;
  }

  const Tensor& tensor(const json& value, const std::string& place) const {
    const std::string& name = string_at(value, place);
    const Tensor* found = file_.find(name);
    if (found == nullptr) throw Malformed(fmt::format("{}: the file has no tensor \"{}\"", place, name));
    return *found;
  }

  std::vector<BufferSpec> buffers(const json& value) {
    if (!value.is_object()) throw Malformed(fmt::format("buffers: {}, expected an object", value.type_name()));
    for (const auto& [name, spec] : value.items()) {
      const std::string place = key_at("buffers", name);
      check_names(spec, place, {"dtype", "elements", "init"});
      BufferSpec buffer;
      buffer.name = name;
      buffer.dtype = dtype(spec["dtype"], place);
      buffer.elements = integer_at(spec["elements"], place + ".elements", 0, kMaxElements);
      init(buffer, spec["init"], place + ".init");
      buffer_of_.emplace(name, static_cast<std::int32_t>(buffers_.size()));
      buffers_.push_back(std::move(buffer));
    }
    return buffers_;
  }

  static DType dtype(const json& value, const std::string& place) {
    const std::string& name = string_at(value, place + ".dtype");
    const auto found = dtype_named(name);
    if (!found) throw Malformed(fmt::format("{}.dtype: \"{}\", expected BF16, F16, F32, F64, I32, I64, U8 or BOOL", place, name));
    return *found;
  }

  void init(BufferSpec& buffer, const json& value, const std::string& place) const {
    if (value.is_string()) {
      buffer.init = &tensor(value, place);
      const Tensor& t = *buffer.init;
      if (t.dtype != buffer.dtype || t.shape != std::vector<std::int64_t>{buffer.elements}) {
        throw Malformed(fmt::format("{}: tensor {} is {} [{}], expected {} [{}]", place, value.get<std::string>(),
                                    safetensors_name(t.dtype), fmt::join(t.shape, ", "), safetensors_name(buffer.dtype),
                                    buffer.elements));
      }
    } else if (value.is_object() && value.contains("bytes")) {
      check_names(value, place, {"bytes"});
      buffer.fill.fill(static_cast<std::byte>(integer_at(value["bytes"], place + ".bytes", 0, 255)));
    } else {
      check_names(value, place, {"fill"});
      buffer.fill = fill_at(value["fill"], buffer.dtype, place + ".fill");
    }
  }

  View view(const json& value, const std::string& place) const {
    check_names(value, place, {"buffer", "offset", "shape", "strides"}, {"dtype"});
    const std::string& name = string_at(value["buffer"], place + ".buffer");
    const auto at = buffer_of_.find(name);
    if (at == buffer_of_.end()) throw Malformed(fmt::format("{}: there is no buffer \"{}\"", place, name));
    const BufferSpec& buffer = buffers_[static_cast<std::size_t>(at->second)];
    View v;
    v.buffer = at->second;
    v.dtype = buffer.dtype;
    if (value.contains("dtype") && dtype(value["dtype"], place) != buffer.dtype) {
      throw Malformed(
          fmt::format("{}.dtype: {}, its buffer is {}", place, value["dtype"].get<std::string>(), safetensors_name(buffer.dtype)));
    }
    v.offset = integer_at(value["offset"], place + ".offset", 0);
    for (const json& n : array_at(value["shape"], place + ".shape")) v.shape.push_back(integer_at(n, place + ".shape"));
    for (const json& n : array_at(value["strides"], place + ".strides")) v.strides.push_back(integer_at(n, place + ".strides"));
    if (v.shape.size() != v.strides.size() || v.shape.size() > kMaxViewDims) {
      throw Malformed(fmt::format("{}: shape of {} dimensions, {} strides; expected as many of both, at most {}", place,
                                  v.shape.size(), v.strides.size(), kMaxViewDims));
    }
    v.elements = count_elements(v.shape, place);
    check_bounds(v, buffer, place);
    return v;
  }

  // Reach in 128 bits: kMaxViewDims products of two int64 cannot overflow there. An empty view reaches nothing.
  static void check_bounds(const View& v, const BufferSpec& buffer, const std::string& place) {
    if (v.elements == 0) return;
    int128 lowest = v.offset, highest = v.offset;
    for (std::size_t d = 0; d < v.shape.size(); ++d) {
      const int128 reach = static_cast<int128>(v.shape[d] - 1) * v.strides[d];
      (reach < 0 ? lowest : highest) += reach;
    }
    if (lowest < 0 || highest >= buffer.elements) {
      throw Malformed(fmt::format("{}: offset {}, shape [{}], strides [{}] leave buffer {} of {} elements", place, v.offset,
                                  fmt::join(v.shape, ", "), fmt::join(v.strides, ", "), buffer.name, buffer.elements));
    }
  }

  Argument argument(const json& value, const std::string& place, int depth = 0) const {
    if (depth > kMaxArgumentDepth) throw Malformed(fmt::format("{}: nested more than {} deep", place, kMaxArgumentDepth));
    Argument a;
    switch (value.type()) {
      case json::value_t::null:
        break;
      case json::value_t::boolean:
        a.value = value.get<bool>();
        break;
      case json::value_t::string:
        a.value = value.get<std::string>();
        break;
      case json::value_t::array: {
        std::vector<Argument> list;
        for (std::size_t i = 0; i < value.size(); ++i) list.push_back(argument(value[i], index_at(place, i), depth + 1));
        a.value = std::move(list);
        break;
      }
      case json::value_t::object:
        if (value.contains("buffer")) {
          a.value = view(value, place);
        } else {
          a.value = members(value, place, depth + 1);
        }
        break;
      default:
        std::visit([&](auto number) { a.value = number; }, number_at(value, place));
    }
    return a;
  }

  std::vector<Member> members(const json& value, const std::string& place, int depth) const {
    if (!value.is_object()) throw Malformed(fmt::format("{}: {}, expected an object", place, value.type_name()));
    std::vector<Member> members;
    for (const auto& [name, item] : value.items()) members.push_back({name, argument(item, key_at(place, name), depth)});
    return members;
  }

  Call call(const json& value, int index) {
    std::string place = index_at("calls", static_cast<std::size_t>(index));
    check_names(value, place, {"id", "op", "args"}, {"expect", "error", "repeat"});
    Call c;
    c.id = string_at(value["id"], place + ".id");
    place += fmt::format(" ({})", c.id);
    if (c.id == "start") throw Malformed(place + ".id: \"start\" names the moment before the first call");
    if (!call_of_.emplace(c.id, index).second) throw Malformed(fmt::format("{}.id: \"{}\" twice", place, c.id));
    c.op = string_at(value["op"], place + ".op");
    c.arguments = members(value["args"], place + ".args", 0);
    if (value.contains("expect")) c.expectations = expectations(value["expect"], place + ".expect", index);
    if (value.contains("error") && !value["error"].is_null()) c.error = error(value["error"], place + ".error");
    if (value.contains("repeat")) c.repeat = static_cast<int>(integer_at(value["repeat"], place + ".repeat", 1, kMaxRepeat));
    return c;
  }

  static ExpectedError error(const json& value, const std::string& place) {
    check_names(value, place, {"kind", "mentions"});
    ExpectedError e;
    const auto add = [&](const json& kind) {
      const std::string& name = string_at(kind, place + ".kind");
      for (const auto known :
           {ErrorKind::invalid_argument, ErrorKind::out_of_range, ErrorKind::unsupported, ErrorKind::bad_state}) {
        if (name == name_of(known)) return e.kinds.push_back(known);
      }
      throw Malformed(
          fmt::format("{}.kind: \"{}\", expected invalid_argument, out_of_range, unsupported or bad_state", place, name));
    };
    if (value["kind"].is_array()) {
      for (const json& kind : value["kind"]) add(kind);
    } else {
      add(value["kind"]);
    }
    if (e.kinds.empty()) throw Malformed(place + ".kind: an empty list");
    for (const json& word : array_at(value["mentions"], place + ".mentions")) {
      e.mentions.push_back(string_at(word, place + ".mentions"));
    }
    return e;
  }

  // Expectations that are looked at right after call `now`.
  std::vector<Expectation> expectations(const json& value, const std::string& place, int now) const {
    const auto& entries = array_at(value, place);
    std::vector<Expectation> list;
    for (std::size_t i = 0; i < entries.size(); ++i) list.push_back(expectation(entries[i], index_at(place, i), now));
    return list;
  }

  // What is compared element by element costs time: no more of it than the buffer has (stride 0 could ask for 2^34 elements of one).
  View expected_view(const json& value, const std::string& place) const {
    View v = view(value, place);
    const std::int64_t held = buffers_[static_cast<std::size_t>(v.buffer)].elements;
    if (v.elements > held) throw Malformed(fmt::format("{}: {} elements of a buffer of {}", place, v.elements, held));
    return v;
  }

  Expectation expectation(const json& value, const std::string& place, int now) const {
    using Kind = Expectation::Kind;
    Expectation e;
    if (value.is_object() && value.contains("flag")) {
      check_names(value, place, {"flag"});
      e.raised = flag(value["flag"], place + ".flag");
      e.kind = Kind::flag;
      return e;
    }
    check_names(value, place, {"view"}, {"tensor", "match", "same_as", "unchanged_since", "fill", "finite"});
    e.view = expected_view(value["view"], place + ".view");
    if (value.contains("tensor")) {
      check_names(value, place, {"view", "tensor", "match"});
      e.tensor = &tensor(value["tensor"], place + ".tensor");
      if (e.tensor->dtype != e.view.dtype || e.tensor->shape != e.view.shape) {
        throw Malformed(fmt::format("{}: tensor {} is {} [{}], its view {} [{}]", place, value["tensor"].get<std::string>(),
                                    safetensors_name(e.tensor->dtype), fmt::join(e.tensor->shape, ", "),
                                    safetensors_name(e.view.dtype), fmt::join(e.view.shape, ", ")));
      }
      match(e, value["match"], place + ".match");
    } else if (value.contains("same_as")) {
      check_names(value, place, {"view", "same_as"});
      e.kind = Kind::same_as;
      e.other = expected_view(value["same_as"], place + ".same_as");
      if (e.other.dtype != e.view.dtype || e.other.shape != e.view.shape) {
        throw Malformed(fmt::format("{}: same_as is {} [{}], its view {} [{}]", place, safetensors_name(e.other.dtype),
                                    fmt::join(e.other.shape, ", "), safetensors_name(e.view.dtype), fmt::join(e.view.shape, ", ")));
      }
    } else if (value.contains("unchanged_since")) {
      check_names(value, place, {"view", "unchanged_since"});
      e.kind = Kind::unchanged_since;
      e.moment = moment(value["unchanged_since"], place + ".unchanged_since", now);
    } else if (value.contains("fill")) {
      check_names(value, place, {"view", "fill"});
      e.kind = Kind::fill;
      e.element = fill_at(value["fill"], e.view.dtype, place + ".fill");
    } else {
      check_names(value, place, {"view", "finite"});
      if (value["finite"] != true) throw Malformed(place + ".finite: expected true");
      e.kind = Kind::finite;
    }
    return e;
  }

  static void match(Expectation& e, const json& value, const std::string& place) {
    if (value == "bits") return;
    if (!value.is_object()) throw Malformed(place + ": expected \"bits\", or rtol and atol");
    check_names(value, place, {"rtol", "atol"});
    e.kind = Expectation::Kind::tolerance;
    e.rtol = tolerance_at(value["rtol"], place + ".rtol");
    e.atol = tolerance_at(value["atol"], place + ".atol");
  }

  static std::optional<ExpectedFlag> flag(const json& value, const std::string& place) {
    if (value.is_null()) return std::nullopt;
    check_names(value, place, {"code", "row"});
    return ExpectedFlag{string_at(value["code"], place + ".code"), integer_at(value["row"], place + ".row")};
  }

  int moment(const json& value, const std::string& place, int now) const {
    const std::string& id = string_at(value, place);
    if (id == "start") return kStart;
    const auto at = call_of_.find(id);
    if (at == call_of_.end() || at->second > now) {
      throw Malformed(fmt::format("{}: \"{}\" is neither \"start\" nor a call that has run by then", place, id));
    }
    return at->second;
  }

  const SafetensorsFile& file_;
  std::vector<BufferSpec> buffers_;
  std::unordered_map<std::string, std::int32_t> buffer_of_;
  std::unordered_map<std::string, int> call_of_;
};

}  // namespace

Trace parse_trace(SafetensorsFile file) {
  const auto version = file.metadata().find(kVersionKey);
  if (version == file.metadata().end()) throw Malformed(fmt::format("no trace: __metadata__ has no \"{}\"", kVersionKey));
  if (version->second != kVersion) {
    throw Malformed(fmt::format("trace format version \"{}\", this build reads \"{}\"", version->second, kVersion));
  }
  const auto text = file.metadata().find(kDocumentKey);
  if (text == file.metadata().end()) throw Malformed(fmt::format("__metadata__ has no \"{}\"", kDocumentKey));
  Document document = Parser(file).document(parse_json(text->second, "document"));
  check_arguments(document);
  return {std::move(file), std::move(document)};
}

Trace read_trace(const std::string& path) { return parse_trace(SafetensorsFile::read(path)); }

}  // namespace recoverssm::trace
