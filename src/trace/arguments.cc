#include "trace/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "trace/malformed.h"

namespace recoverssm::trace {

namespace {

const char* kind_of(const Argument& argument) {
  constexpr const char* kKinds[] = {"null", "a boolean", "an integer", "a number", "a string", "a view", "a list", "an object"};
  return kKinds[argument.value.index()];
}

}  // namespace

Arguments::Arguments(const std::string& op, const std::string& path, const std::vector<Member>& members, const Locate& locate,
                     Status& refusal)
    : op_(op), path_(path), members_(members), locate_(locate), refusal_(refusal), asked_(members.size()) {}

std::string Arguments::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

const Argument* Arguments::find(std::string_view name) {
  const auto at = std::find_if(members_.begin(), members_.end(), [&](const Member& member) { return member.name == name; });
  if (at == members_.end()) return nullptr;
  asked_[static_cast<std::size_t>(at - members_.begin())] = true;
  return &at->argument;
}

const Argument* Arguments::required(std::string_view name) {
  const Argument* argument = find(name);
  if (argument == nullptr) throw Malformed(fmt::format("{}: argument {} is missing", op_, path_of(name)));
  return argument;
}

void Arguments::finish() const {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!asked_[i]) throw Malformed(fmt::format("{}: unknown argument {}", op_, path_of(members_[i].name)));
  }
}

Arguments Arguments::nested(const Argument& argument, const std::string& path) const {
  const auto* members = std::get_if<std::vector<Member>>(&argument.value);
  if (members == nullptr) throw Malformed(fmt::format("{}: {}: {}, expected an object", op_, path, kind_of(argument)));
  return {op_, path, *members, locate_, refusal_};
}

void Arguments::refuse(std::string_view name, const std::string& got, const std::string& expected) const {
  if (!refusal_.ok()) return;  // the first one is told
  refusal_ = {ErrorKind::invalid_argument, fmt::format("{}: {}: {}, expected {}", op_, path_of(name), got, expected)};
}

void Arguments::wrong_kind(std::string_view name, const Argument& argument, const char* expected) const {
  throw Malformed(fmt::format("{}: {}: {}, expected {}", op_, path_of(name), kind_of(argument), expected));
}

std::int32_t Arguments::integer(std::string_view name) {
  const Argument* argument = required(name);
  if (!is_null(argument)) return to_integer(*argument, name);
  refuse(name, "null", "an integer");
  return 0;
}

std::int32_t Arguments::integer_or(std::string_view name, std::int32_t otherwise) {
  const Argument* argument = find(name);
  return is_null(argument) ? otherwise : to_integer(*argument, name);
}

std::optional<std::int32_t> Arguments::optional_integer(std::string_view name) {
  const Argument* argument = required(name);
  if (is_null(argument)) return std::nullopt;
  return to_integer(*argument, name);
}

std::optional<float> Arguments::optional_real(std::string_view name) {
  const Argument* argument = required(name);
  if (is_null(argument)) return std::nullopt;
  return to_real(*argument, name);
}

float Arguments::real_or(std::string_view name, float otherwise) {
  const Argument* argument = find(name);
  return is_null(argument) ? otherwise : to_real(*argument, name);
}

bool Arguments::flag(std::string_view name) {
  const Argument* argument = required(name);
  if (!is_null(argument)) return to_flag(*argument, name);
  refuse(name, "null", "true or false");
  return false;
}

bool Arguments::flag_or(std::string_view name, bool otherwise) {
  const Argument* argument = find(name);
  return is_null(argument) ? otherwise : to_flag(*argument, name);
}

TensorView Arguments::to_view(const Argument* argument, std::string_view name) const {
  TensorView result;
  if (is_null(argument)) return result;
  const auto* view = std::get_if<View>(&argument->value);
  if (view == nullptr) wrong_kind(name, *argument, "a view or null");
  if (view->shape.size() > kMaxDims) {
    refuse(name, fmt::format("shape [{}]", fmt::join(view->shape, ", ")), fmt::format("at most {} dimensions", kMaxDims));
    return result;
  }
  std::byte* base = locate_(view->buffer);
  // An empty view may stand outside its buffer, where no pointer may point.
  if (base != nullptr && view->elements > 0) result.data = base + view->offset * size_of(view->dtype);
  result.dtype = view->dtype;
  result.dims = static_cast<int>(view->shape.size());
  std::copy(view->shape.begin(), view->shape.end(), result.shape.begin());
  std::copy(view->strides.begin(), view->strides.end(), result.stride.begin());
  return result;
}

Records Arguments::to_records(const Argument* argument, std::string_view name) const {
  Records records;
  if (is_null(argument)) return records;
  if (!std::holds_alternative<std::vector<Member>>(argument->value)) {
    records.packed = to_view(argument, name);
    return records;
  }
  Arguments inner = nested(*argument, path_of(name));
  records.corrections = inner.view("corrections");
  records.key_gate = inner.view("key_gate");
  inner.finish();
  return records;
}

std::int32_t Arguments::to_integer(const Argument& argument, std::string_view name) const {
  const auto* number = std::get_if<std::int64_t>(&argument.value);
  if (number == nullptr) wrong_kind(name, argument, "an integer");
  if (*number >= INT32_MIN && *number <= INT32_MAX) return static_cast<std::int32_t>(*number);
  refuse(name, std::to_string(*number), "a 32-bit integer");
  return 0;
}

float Arguments::to_real(const Argument& argument, std::string_view name) const {
  if (const auto* number = std::get_if<double>(&argument.value)) return static_cast<float>(*number);
  if (const auto* number = std::get_if<std::int64_t>(&argument.value)) return static_cast<float>(*number);
  wrong_kind(name, argument, "a number");
}

bool Arguments::to_flag(const Argument& argument, std::string_view name) const {
  const auto* flag = std::get_if<bool>(&argument.value);
  if (flag == nullptr) wrong_kind(name, argument, "true or false");
  return *flag;
}

const std::string& Arguments::to_word(const Argument& argument, std::string_view name) const {
  const auto* text = std::get_if<std::string>(&argument.value);
  if (text == nullptr) wrong_kind(name, argument, "a string");
  return *text;
}

const std::vector<Argument>* Arguments::items_of(const Argument* argument, std::string_view name) const {
  if (is_null(argument)) {
    refuse(name, "null", "a list");
    return nullptr;
  }
  const auto* items = std::get_if<std::vector<Argument>>(&argument->value);
  if (items == nullptr) wrong_kind(name, *argument, "a list");
  return items;
}

}  // namespace recoverssm::trace
