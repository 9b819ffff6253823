// The text of an operation's schema, written by the same describe() that reads its arguments from the stack (stack.h).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "recoverssm/rows.hpp"

namespace recoverssm::torch_ops {

class SchemaWriter {
 public:
  explicit SchemaWriter(const char* name) : text_(std::string(name) + "(") {}

  void read(const char* name, TensorView&) { add("Tensor", name); }
  void maybe(const char* name, TensorView&) { add("Tensor?", name, "None"); }
  void write(const char* name, TensorView&) { add(written("Tensor"), name); }
  void read_list(const char* name, std::vector<TensorView>&) { add("Tensor[]", name); }
  void write_list(const char* name, std::vector<TensorView>&) { add(written("Tensor") + "[]", name); }

  void integer(const char* name, std::int32_t&) { add("int", name); }
  void integer(const char* name, std::int32_t&, std::int32_t otherwise) { add("int", name, std::to_string(otherwise)); }
  void optional_integer(const char* name, std::optional<std::int32_t>&) { add("int?", name, "None"); }
  void real(const char* name, float&, int otherwise) { add("float", name, std::to_string(otherwise) + "."); }
  void optional_real(const char* name, std::optional<float>&) { add("float?", name, "None"); }
  void flag(const char* name, bool&, bool otherwise) { add("bool", name, otherwise ? "True" : "False"); }
  template <class Words, class Enum>
  void word(const char* name, const Words&, Enum&) {
    add("str", name);
  }
  template <class Words, class Enum>
  void word(const char* name, const Words&, Enum&, const char* otherwise) {
    add("str", name, "\"" + std::string(otherwise) + "\"");
  }
  // None leaves the value as it is.
  template <class Words, class Enum>
  void optional_word(const char* name, const Words&, Enum&) {
    add("str?", name, "None");
  }

  void integers(const char* name, std::vector<std::int32_t>&) { add("int[]", name); }
  void reals(const char* name, std::vector<float>&) { add("float[]", name); }
  void flags(const char* name, std::vector<bool>&) { add("bool[]", name); }
  template <class Words, class Enum>
  void words(const char* name, const Words&, std::vector<Enum>&) {
    add("str[]", name);
  }

  std::string take() { return std::move(text_) + ") -> ()"; }

 private:
  void add(const std::string& type, const char* name, const std::string& otherwise = "") {
    if (text_.back() != '(') text_ += ", ";
    text_ += type + " " + name;
    if (!otherwise.empty()) text_ += "=" + otherwise;
  }
  std::string written(const char* type) { return std::string(type) + "(" + next_alias_++ + "!)"; }

  std::string text_;
  char next_alias_ = 'a';
};

}  // namespace recoverssm::torch_ops
