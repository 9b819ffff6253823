// Reads a call's arguments by name, and says so where a name is unknown, missing, or holds another kind of value.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "recoverssm/rows.hpp"
#include "trace/document.h"

namespace recoverssm::trace {

// Where a view's elements are. Given a null base for a buffer, the view still has its shape.
using Locate = std::function<std::byte*(std::int32_t buffer)>;

// One object of named arguments: a call's, or an object among them. Each name is asked for once; then finish() refuses names nobody
// asked for. A name that is missing or of another kind (a number where a view belongs) is Malformed. A null where a value is required,
// and a value that no Params struct can hold (an integer beyond 32 bits, five dimensions), is the operation's error: `refusal` then
// holds invalid_argument. A null view is an absent one, which the operation itself refuses where it needs it.
class Arguments {
 public:
  Arguments(const std::string& op, const std::string& path, const std::vector<Member>& members, const Locate& locate,
            Status& refusal);

  // The name must be there; null gives an absent view.
  TensorView view(std::string_view name) { return to_view(required(name), name); }
  // The name may be missing.
  TensorView view_or_absent(std::string_view name) { return to_view(find(name), name); }

  std::int32_t integer(std::string_view name);                             // null: refused
  std::int32_t integer_or(std::string_view name, std::int32_t otherwise);  // null or missing: otherwise
  std::optional<std::int32_t> optional_integer(std::string_view name);     // null: none
  std::optional<float> optional_real(std::string_view name);               // null: none
  float real_or(std::string_view name, float otherwise);                   // null or missing: otherwise
  bool flag(std::string_view name);                                        // null: refused
  bool flag_or(std::string_view name, bool otherwise);                     // null or missing: otherwise

  // A word of a list as its enumerator; null and unknown words give one that no operation knows.
  template <class Enum, std::size_t N>
  Enum word(std::string_view name, const std::pair<const char*, Enum> (&words)[N]) {
    return word_of(required(name), name, words);
  }
  template <class Enum, std::size_t N>
  Enum word_or(std::string_view name, const std::pair<const char*, Enum> (&words)[N], Enum otherwise) {
    const Argument* argument = find(name);
    return is_null(argument) ? otherwise : word_of(argument, name, words);
  }
  // The same, but null means `none`.
  template <class Enum, std::size_t N>
  Enum word_or_none(std::string_view name, const std::pair<const char*, Enum> (&words)[N], Enum none) {
    const Argument* argument = required(name);
    return is_null(argument) ? none : word_of(argument, name, words);
  }

  // A view (gdn), an object of two (kda), or null.
  Records records(std::string_view name) { return to_records(required(name), name); }
  Records records_or_absent(std::string_view name) { return to_records(find(name), name); }

  // Calls read(arguments) for each object of a list; a null list is refused.
  template <class Read>
  void list(std::string_view name, Read&& read) {
    const std::vector<Argument>* items = items_of(required(name), name);
    if (items == nullptr) return;
    for (std::size_t i = 0; i < items->size(); ++i) {
      Arguments inner = nested((*items)[i], path_of(name) + "[" + std::to_string(i) + "]");
      read(inner);
      inner.finish();
    }
  }

  // Calls read(arguments) unless the argument is null; says whether it did.
  template <class Read>
  bool object(std::string_view name, Read&& read) {
    const Argument* argument = required(name);
    if (is_null(argument)) return false;
    Arguments inner = nested(*argument, path_of(name));
    read(inner);
    inner.finish();
    return true;
  }

  void finish() const;

 private:
  static bool is_null(const Argument* argument) {
    return argument == nullptr || std::holds_alternative<std::monostate>(argument->value);
  }
  const Argument* find(std::string_view name);      // null: missing
  const Argument* required(std::string_view name);  // Malformed: missing
  Arguments nested(const Argument& argument, const std::string& path) const;
  std::string path_of(std::string_view name) const;
  void refuse(std::string_view name, const std::string& got, const std::string& expected) const;
  [[noreturn]] void wrong_kind(std::string_view name, const Argument& argument, const char* expected) const;

  TensorView to_view(const Argument* argument, std::string_view name) const;
  Records to_records(const Argument* argument, std::string_view name) const;
  std::int32_t to_integer(const Argument& argument, std::string_view name) const;
  float to_real(const Argument& argument, std::string_view name) const;
  bool to_flag(const Argument& argument, std::string_view name) const;
  const std::string& to_word(const Argument& argument, std::string_view name) const;
  const std::vector<Argument>* items_of(const Argument* argument, std::string_view name) const;

  template <class Enum, std::size_t N>
  Enum word_of(const Argument* argument, std::string_view name, const std::pair<const char*, Enum> (&words)[N]) const {
    constexpr auto kUnknown = static_cast<Enum>(255);
    if (is_null(argument)) return kUnknown;
    const std::string& text = to_word(*argument, name);
    for (const auto& [word, value] : words) {
      if (text == word) return value;
    }
    return kUnknown;
  }

  const std::string& op_;
  std::string path_;
  const std::vector<Member>& members_;
  const Locate& locate_;
  Status& refusal_;
  std::vector<bool> asked_;
};

}  // namespace recoverssm::trace
