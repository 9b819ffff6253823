// The one place where an error message is built: "op: argument: what was got, expected what was expected". A Check keeps the first error
// and turns every later check into nothing, so a validator reads as a flat list of rules. Nothing is allocated until a rule is broken.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <sstream>
#include <string>
#include <utility>

#include "recoverssm/types.hpp"

namespace recoverssm {

// What an argument is called in docs and traces: "state", "layers[1].records.key_gate", "windows.num_accepted".
class Name {
 public:
  Name(const char* word) : words_{word, nullptr, nullptr} {}  // NOLINT: a word is a name

  Name at(std::int64_t index) const {
    Name name = *this;
    name.index_ = index;
    return name;
  }
  // Appends a field. An empty name takes the field as its first word.
  Name dot(const char* field) const;

  std::string text() const;

 private:
  const char* words_[3];
  std::int64_t index_ = -1;  // of the first word, -1: none
};

// A set of dtypes an argument may have.
class DTypes {
 public:
  // A number that is no dtype is in no set.
  constexpr DTypes(DType dtype) : bits_(static_cast<unsigned>(dtype) < 32 ? 1U << static_cast<unsigned>(dtype) : 0) {}  // NOLINT
  constexpr DTypes(std::initializer_list<DType> dtypes) {
    for (DType dtype : dtypes) bits_ |= DTypes(dtype).bits_;
  }
  constexpr bool has(DType dtype) const { return (bits_ & DTypes(dtype).bits_) != 0; }
  std::string text() const;

 private:
  unsigned bits_ = 0;
};

constexpr DTypes kFloats = {DType::f32, DType::bf16, DType::f16};  // activations and states

// Each parameter is by itself T or f32, and so are the delta rules' outputs.
constexpr DTypes T_or_f32(DType T) { return {T, DType::f32}; }

// What a dimension must be. `what` is the contract's word or formula for it.
struct Dim {
  enum class Rule : std::uint8_t { any, exactly, at_least };

  const char* what;
  std::int64_t size = 0;
  Rule rule = Rule::exactly;
};

constexpr Dim any(const char* what) { return {what, 0, Dim::Rule::any}; }
constexpr Dim at_least(const char* what, std::int64_t size) { return {what, size, Dim::Rule::at_least}; }

// Shape arithmetic that stays at the largest int64 instead of overflowing: no view has a dimension of that size, so a saturated
// expectation is never met.
inline std::int64_t plus(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}
inline std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

// Joins values to a text. Only to be called when a message is needed.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

class Check {
 public:
  explicit Check(const char* op) : op_(op) {}

  bool ok() const { return status_.ok(); }
  Status take() { return std::move(status_); }

  // Keeps an error. `got` and `expected` are phrases.
  void invalid(const Name& name, const std::string& got, const std::string& expected) {
    fail(ErrorKind::invalid_argument, name, got, expected);
  }
  void out_of_range(const Name& name, const std::string& got, const std::string& expected) {
    fail(ErrorKind::out_of_range, name, got, expected);
  }
  void bad_state(const Name& name, const std::string& got, const std::string& expected) {
    fail(ErrorKind::bad_state, name, got, expected);
  }

  // A required view: present, of one of the dtypes and of this shape, with data where there are elements, its addresses within 64 bits.
  void view(const Name& name, const TensorView& view, DTypes dtypes, std::initializer_list<Dim> dims);
  // The same, or absent.
  void optional_view(const Name& name, const TensorView& view, DTypes dtypes, std::initializer_list<Dim> dims) {
    if (view.present()) this->view(name, view, dtypes, dims);
  }
  void required(const Name& name, const TensorView& view, const char* expected);
  void absent(const Name& name, const TensorView& view, const char* expected);

  // Stride of dimension d, where it has more than one element. A view without elements may have any strides.
  void stride(const Name& name, const TensorView& view, int d, const Dim& dim);
  // The last dimension is contiguous.
  void contiguous_last(const Name& name, const TensorView& view) { stride(name, view, view.dims - 1, {"", 1}); }

  // Scalars.
  void at_least(const Name& name, std::int64_t value, std::int64_t least);
  void finite(const Name& name, float value);
  void positive(const Name& name, float value);

  // An enum that reached the library as a number may hold anything.
  template <class Enum>
  void one_of(const Name& name, Enum value, std::initializer_list<Enum> allowed, const char* names) {
    if (!ok()) return;
    for (Enum one : allowed) {
      if (value == one) return;
    }
    invalid(name, text("value ", static_cast<int>(value)), names);
  }

 private:
  void fail(ErrorKind kind, const Name& name, const std::string& got, const std::string& expected);
  void addressable(const Name& name, const TensorView& view);

  const char* op_;
  Status status_;
};

// "[4, 2, 16]"
std::string list(const std::array<std::int64_t, kMaxDims>& values, int count);

}  // namespace recoverssm
