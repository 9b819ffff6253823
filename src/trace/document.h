// What a trace says, as plain structs: buffers, calls with their arguments, expectations. Format: docs/traces.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "recoverssm/types.hpp"
#include "trace/element.h"
#include "trace/safetensors.h"

namespace recoverssm::trace {

constexpr const char* kVersion = "1";  // of the format, __metadata__.recoverssm_trace
constexpr const char* kVersionKey = "recoverssm_trace";
constexpr const char* kDocumentKey = "document";

// A strided view of a buffer, all in elements, and within it: every element has been checked.
struct View {
  std::int32_t buffer = 0;  // index into Document::buffers
  DType dtype = DType::f32;
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  std::int64_t elements = 0;
};

// An argument: null, a scalar, a string, a view, a list, or an object. Which of them an operation takes is binding.h's matter.
struct Member;
struct Argument {
  std::variant<std::monostate, bool, std::int64_t, double, std::string, View, std::vector<Argument>, std::vector<Member>> value;
};
struct Member {
  std::string name;
  Argument argument;
};

struct BufferSpec {
  std::string name;
  DType dtype = DType::f32;
  std::int64_t elements = 0;
  const Tensor* init = nullptr;  // its contents; null: `fill` in every element
  Element fill{};

  std::uint64_t bytes() const { return static_cast<std::uint64_t>(elements * size_of(dtype)); }
};

constexpr int kStart = -1;  // a moment: before the first call. 0, 1, ...: after that call

// What a device's flag must say: a kind of error and the row it was found in.
struct ExpectedFlag {
  std::string code;
  std::int64_t row = 0;
};

// What a view must hold at some moment.
struct Expectation {
  enum class Kind : std::uint8_t {
    bits,             // the tensor's bits
    tolerance,        // |got - want| <= atol + rtol*|want|
    same_as,          // the bits of `other`
    unchanged_since,  // the bits it held at `moment`
    fill,             // `element` everywhere
    finite,           // no infinity, no NaN
    flag,             // a device backend's sticky flag; has no view
  };
  Kind kind = Kind::bits;
  View view;
  const Tensor* tensor = nullptr;
  double rtol = 0, atol = 0;
  View other;
  int moment = kStart;
  Element element{};
  std::optional<ExpectedFlag> raised;  // of a flag; nothing: it must be clear
};

// A call that must fail: with one of the kinds, its message holding each word, every buffer unchanged.
struct ExpectedError {
  std::vector<ErrorKind> kinds;
  std::vector<std::string> mentions;
};

struct Call {
  std::string id;
  std::string op;
  std::vector<Member> arguments;
  std::vector<Expectation> expectations;
  std::optional<ExpectedError> error;
  int repeat = 1;
};

struct Document {
  std::string name, description, source;
  std::string mode = "any";                          // "exact", "fast", "any"
  std::optional<std::vector<std::string>> backends;  // absent: all
  std::vector<BufferSpec> buffers;
  std::vector<Call> calls;
  std::vector<Expectation> finally;
};

// A trace file; the document points into it.
struct Trace {
  SafetensorsFile file;
  Document document;
};

// Reads and checks a whole trace, arguments included. Throws Malformed.
Trace read_trace(const std::string& path);
Trace parse_trace(SafetensorsFile file);

}  // namespace recoverssm::trace
