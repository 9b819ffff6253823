#include "trace/element.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "arithmetic/rounding.h"

namespace recoverssm::trace {

namespace {

constexpr std::pair<DType, const char*> kNames[] = {
    {DType::f32, "F32"}, {DType::bf16, "BF16"}, {DType::f16, "F16"}, {DType::f64, "F64"},
    {DType::i32, "I32"}, {DType::i64, "I64"},   {DType::u8, "U8"},   {DType::boolean, "BOOL"},
};

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
Element store(T value) {
  Element element{};
  std::memcpy(element.data(), &value, sizeof value);
  return element;
}

// Rounds to odd: a value that is not a float becomes the neighbour with an odd last bit, so that a second rounding to fewer bits gives
// what one rounding would.
float to_float_odd(double x) {
  const auto nearest = static_cast<float>(x);
  if (!std::isfinite(nearest) || static_cast<double>(nearest) == x) return nearest;
  if ((std::bit_cast<std::uint32_t>(nearest) & 1U) != 0) return nearest;
  return std::nextafter(nearest, x > static_cast<double>(nearest) ? INFINITY : -INFINITY);
}

template <class T>
std::optional<Element> encode_integer(Number number, std::int64_t lowest, std::int64_t highest) {
  if (const auto* real = std::get_if<double>(&number)) {
    if (!(*real >= -0x1p63 && *real < 0x1p63) || *real != std::trunc(*real)) return std::nullopt;
    number = static_cast<std::int64_t>(*real);
  }
  const std::int64_t integer = std::get<std::int64_t>(number);
  if (integer < lowest || integer > highest) return std::nullopt;
  return store(static_cast<T>(integer));
}

}  // namespace

const char* safetensors_name(DType dtype) {
  for (const auto& [known, name] : kNames) {
    if (known == dtype) return name;
  }
  return "?";
}

std::optional<DType> dtype_named(std::string_view safetensors_name) {
  for (const auto& [dtype, name] : kNames) {
    if (safetensors_name == name) return dtype;
  }
  return std::nullopt;
}

bool is_floating(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f64; }

std::optional<Element> encode(DType dtype, Number number) {
  const auto real = std::visit([](auto n) { return static_cast<double>(n); }, number);
  switch (dtype) {
    case DType::f64:
      return store(real);
    case DType::f32:
      return store(static_cast<float>(real));
    case DType::bf16:
      return store(arithmetic::to_bf16(to_float_odd(real)));
    case DType::f16:
      return store(arithmetic::to_f16(to_float_odd(real)));
    case DType::i64:
      return encode_integer<std::int64_t>(number, INT64_MIN, INT64_MAX);
    case DType::i32:
      return encode_integer<std::int32_t>(number, INT32_MIN, INT32_MAX);
    case DType::u8:
      return encode_integer<std::uint8_t>(number, 0, 255);
    case DType::boolean:
      return encode_integer<std::uint8_t>(number, 0, 1);
  }
  return std::nullopt;
}

double value_of(DType dtype, const std::byte* element) {
  switch (dtype) {
    case DType::f64:
      return load<double>(element);
    case DType::f32:
      return static_cast<double>(load<float>(element));
    case DType::bf16:
      return static_cast<double>(arithmetic::from_bf16(load<std::uint16_t>(element)));
    case DType::f16:
      return static_cast<double>(arithmetic::from_f16(load<std::uint16_t>(element)));
    case DType::i64:
      return static_cast<double>(load<std::int64_t>(element));
    case DType::i32:
      return load<std::int32_t>(element);
    case DType::u8:
    case DType::boolean:
      return load<std::uint8_t>(element);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

std::string text_of(DType dtype, const std::byte* element) {
  switch (dtype) {
    case DType::f64:
      return fmt::format("{} (0x{:016x})", load<double>(element), load<std::uint64_t>(element));
    case DType::f32:
      return fmt::format("{} (0x{:08x})", load<float>(element), load<std::uint32_t>(element));
    case DType::bf16:
    case DType::f16:
      return fmt::format("{} (0x{:04x})", value_of(dtype, element), load<std::uint16_t>(element));
    case DType::i64:
      return fmt::format("{}", load<std::int64_t>(element));
    case DType::i32:
      return fmt::format("{}", load<std::int32_t>(element));
    case DType::u8:
    case DType::boolean:
      return fmt::format("{}", load<std::uint8_t>(element));
  }
  return "?";
}

}  // namespace recoverssm::trace
