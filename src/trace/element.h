// Single elements of the trace format's dtypes: names, numbers, texts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "recoverssm/types.hpp"

namespace recoverssm::trace {

// An element's bytes; the first size_of(dtype) count.
using Element = std::array<std::byte, 8>;

// A number of a JSON text, exact.
using Number = std::variant<std::int64_t, double>;

// "BF16", "F16", "F32", "F64", "I32", "I64", "U8", "BOOL", as in safetensors files.
const char* safetensors_name(DType dtype);
std::optional<DType> dtype_named(std::string_view safetensors_name);

bool is_floating(DType dtype);

// The number as an element, rounded once to nearest even. Nothing if the dtype holds integers and the number is none of its values.
std::optional<Element> encode(DType dtype, Number number);

// The element's value; an i64 may be rounded.
double value_of(DType dtype, const std::byte* element);

// Value and bits, for messages: "0.5 (0x3f00)".
std::string text_of(DType dtype, const std::byte* element);

}  // namespace recoverssm::trace
