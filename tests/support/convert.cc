#include "support/convert.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace support {

using recoverssm::DType;

namespace {

struct Format {
  int precision;     // significant bits, the hidden one included
  int min_exponent;  // of the smallest normal number
  int max_exponent;  // of the largest
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {24, -126, 127};
    case DType::bf16:
      return {8, -126, 127};
    case DType::f16:
      return {11, -14, 15};
    default:
      throw std::logic_error("not a floating dtype of the tests");
  }
}

int quantum_exponent(const Format& f, double value) {
  const int lowest = f.min_exponent - (f.precision - 1);
  if (value == 0.0) return lowest;
  int exponent = 0;
  std::frexp(value, &exponent);  // |value| = m * 2^exponent, m in [0.5, 1)
  return std::max(exponent - f.precision, lowest);
}

double rounded(const Format& f, double value) {
  if (!std::isfinite(value) || value == 0.0) return value;
  const int quantum = quantum_exponent(f, value);
  const double result = std::ldexp(std::nearbyint(std::ldexp(value, -quantum)), quantum);
  const double largest = std::ldexp(2.0 - std::ldexp(1.0, 1 - f.precision), f.max_exponent);
  return std::fabs(result) > largest ? std::copysign(std::numeric_limits<double>::infinity(), value) : result;
}

// Packs a value that the format holds exactly.
std::uint32_t pack(const Format& f, int total_bits, double value) {
  const int fraction_bits = f.precision - 1;
  const std::uint32_t sign = std::signbit(value) ? 1U << (total_bits - 1) : 0U;
  const std::uint32_t top = (1U << (total_bits - 1 - fraction_bits)) - 1;
  if (std::isnan(value)) return sign | (top << fraction_bits) | (1U << (fraction_bits - 1));
  if (std::isinf(value)) return sign | (top << fraction_bits);
  if (value == 0.0) return sign;
  int exponent = 0;
  const double mantissa = std::frexp(std::fabs(value), &exponent);
  if (exponent - 1 < f.min_exponent) {
    return sign | static_cast<std::uint32_t>(std::ldexp(std::fabs(value), fraction_bits - f.min_exponent));
  }
  const auto fraction = static_cast<std::uint32_t>(std::ldexp(mantissa, f.precision)) - (1U << fraction_bits);
  const auto biased = static_cast<std::uint32_t>(exponent - 1 + f.max_exponent);
  return sign | (biased << fraction_bits) | fraction;
}

double unpack(const Format& f, int total_bits, std::uint32_t bits) {
  const int fraction_bits = f.precision - 1;
  const std::uint32_t top = (1U << (total_bits - 1 - fraction_bits)) - 1;
  const std::uint32_t biased = (bits >> fraction_bits) & top;
  const double fraction = static_cast<double>(bits & ((1U << fraction_bits) - 1));
  const double sign = (bits >> (total_bits - 1)) != 0 ? -1.0 : 1.0;
  if (biased == top) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  if (biased == 0) return sign * std::ldexp(fraction, f.min_exponent - fraction_bits);
  return sign * std::ldexp(fraction + std::ldexp(1.0, fraction_bits), static_cast<int>(biased) - f.max_exponent - fraction_bits);
}

}  // namespace

std::uint64_t raw_bits(DType dtype, const void* element) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, element, static_cast<std::size_t>(recoverssm::size_of(dtype)));
  return bits;
}

void set_raw_bits(DType dtype, std::uint64_t bits, void* element) {
  std::memcpy(element, &bits, static_cast<std::size_t>(recoverssm::size_of(dtype)));
}

double decode(DType dtype, const void* element) {
  if (dtype == DType::f32) {
    float value = 0;
    std::memcpy(&value, element, sizeof value);
    return static_cast<double>(value);
  }
  if (dtype == DType::i32) {
    std::int32_t value = 0;
    std::memcpy(&value, element, sizeof value);
    return static_cast<double>(value);
  }
  if (dtype == DType::boolean) return raw_bits(dtype, element) != 0 ? 1.0 : 0.0;
  return unpack(format_of(dtype), 16, static_cast<std::uint32_t>(raw_bits(dtype, element)));
}

void encode(DType dtype, double value, void* element) {
  if (dtype == DType::i32) {
    const auto integer = static_cast<std::int32_t>(value);
    std::memcpy(element, &integer, sizeof integer);
    return;
  }
  if (dtype == DType::boolean) {
    set_raw_bits(dtype, value != 0.0 ? 1 : 0, element);
    return;
  }
  const Format f = format_of(dtype);
  if (dtype == DType::f32) {
    const auto narrow = static_cast<float>(rounded(f, value));
    std::memcpy(element, &narrow, sizeof narrow);
    return;
  }
  set_raw_bits(dtype, pack(f, 16, rounded(f, value)), element);
}

double round_to(DType dtype, double value) { return rounded(format_of(dtype), value); }

double ulp(DType dtype, double value) {
  const Format f = format_of(dtype);
  return std::ldexp(1.0, quantum_exponent(f, value));
}

}  // namespace support
