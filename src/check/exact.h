// Division and square root of fp32 numbers in integer arithmetic: correctly rounded by construction, with no floating-point unit.
#pragma once

#include <bit>
#include <cstdint>

#include "arithmetic/portable.h"

namespace recoverssm::check {

// A positive normal float as significand * 2^exponent, 2^23 <= significand < 2^24.
struct Parts {
  std::uint64_t significand;
  int exponent;
};
inline Parts parts_of(float x) {
  const std::uint32_t bits = arithmetic::bits_of(x) & 0x7fffffffU;
  return {(bits & 0x7fffffU) | 0x800000U, static_cast<int>(bits >> 23) - 150};
}

// significand * 2^exponent, `more` telling that the exact value is a little above it, rounded to nearest even. The result is normal.
inline float rounded(unsigned __int128 significand, int exponent, bool more) {
  const auto high = static_cast<std::uint64_t>(significand >> 64);
  const int bits = high != 0 ? 128 - std::countl_zero(high) : 64 - std::countl_zero(static_cast<std::uint64_t>(significand));
  const int drop = bits - 24;  // at least 1 in every use here
  auto kept = static_cast<std::uint32_t>(significand >> drop);
  const unsigned __int128 rest = significand & ((static_cast<unsigned __int128>(1) << drop) - 1);
  const unsigned __int128 half = static_cast<unsigned __int128>(1) << (drop - 1);
  int scale = exponent + drop;
  if (rest > half || (rest == half && (more || (kept & 1U) != 0))) ++kept;
  if (kept == 0x1000000U) {
    kept >>= 1;
    ++scale;
  }
  return arithmetic::float_of((static_cast<std::uint32_t>(scale + 150) << 23) | (kept & 0x7fffffU));
}

// x / y of positive normal floats with a normal quotient.
inline float exact_quotient(float x, float y) {
  const Parts a = parts_of(x), b = parts_of(y);
  const unsigned __int128 dividend = static_cast<unsigned __int128>(a.significand) << 40;
  return rounded(dividend / b.significand, a.exponent - b.exponent - 40, dividend % b.significand != 0);
}

// The square root of a positive normal float.
inline float exact_root(float x) {
  Parts p = parts_of(x);
  int exponent = p.exponent - 40;
  unsigned __int128 square = static_cast<unsigned __int128>(p.significand) << 40;
  if ((exponent & 1) != 0) {
    square <<= 1;
    --exponent;
  }
  std::uint64_t root = 0;  // the largest with root^2 <= square < 2^65
  for (int bit = 32; bit >= 0; --bit) {
    const std::uint64_t next = root | (std::uint64_t{1} << bit);
    if (static_cast<unsigned __int128>(next) * next <= square) root = next;
  }
  return rounded(root, exponent / 2, static_cast<unsigned __int128>(root) * root != square);
}

// Significands x, y in 2^23..2^24-1 whose quotient lies as near to the middle between two floats as any: for an odd y there is a
// middle m with m*y one above or below a multiple of 2^24.
struct HardQuotient {
  float x;
  float y;
};
inline HardQuotient hard_quotient(std::uint32_t seed, bool below) {
  const std::uint64_t y = (seed & 0x7fffffU) | 0x800001U;
  std::uint64_t inverse = 1;  // of y, modulo 2^24, by Newton's iteration
  for (int i = 0; i < 6; ++i) inverse = inverse * (2 - y * inverse);
  inverse &= 0xffffffU;
  const std::uint64_t middle = 0x1000000U | (below ? 0x1000000U - inverse : inverse);  // 25 bits; odd, as inverse is
  const std::uint64_t x = (middle * y + (below ? 1 : std::uint64_t(-1))) >> 24;        // exact
  return {static_cast<float>(x), static_cast<float>(y)};
}

}  // namespace recoverssm::check
