// Measurements over all floats, or over every step-th of them, shared by the tests and the stand-alone program.
#pragma once

#include <cstdint>

#include "arithmetic/blocks.h"

namespace recoverssm::arithmetic_test {

// Every 1021st float: a prime, so that the sample walks through all exponents, both signs, and all residues of the low mantissa
// bits.
constexpr std::uint32_t kSampleStep = 1021;

// 1 if RECOVERSSM_EXHAUSTIVE=1, else kSampleStep.
std::uint32_t step_from_environment();

// "all 4294967296 floats", or which of them.
std::string describe_sample(std::uint32_t step);

struct Worst {
  double ulp = 0;
  float at = 0;
};

struct Accuracy {
  Worst normal;     // where the exact result is a normal fp32
  Worst subnormal;  // where it is subnormal or rounds to zero
  std::uint64_t tested = 0;
  std::uint64_t wrong =
      0;  // special cases (NaN, infinities, zeros, the side of 1 or 0 the result lies on) that are not as specified
  float first_wrong = 0;
};

// Error in units of the last place of the exact result (2^-149 in the subnormal range) against the C library's exp and log of
// double arguments. Those are within 1 ulp of double, which is 2^-29 of an fp32 ulp: nothing next to the errors measured here.
Accuracy measure_exp(const FloatLoop& loop, std::uint32_t step);
Accuracy measure_log(const FloatLoop& loop, std::uint32_t step);

struct Mismatches {
  std::uint64_t tested = 0;
  std::uint64_t wrong = 0;
  float first_wrong = 0;
};

// A 16-bit format, for an oracle that shares nothing with src/arithmetic.
struct NarrowFormat {
  const char* name;
  int mantissa_bits;
  int exponent_bits;
};
constexpr NarrowFormat kBf16 = {"bf16", 7, 8};
constexpr NarrowFormat kF16 = {"f16", 10, 5};

// The value of a bit pattern (finite, infinite or NaN) in double, from the definition of the format.
double value_of(const NarrowFormat& format, std::uint16_t pattern);

// Narrowing against the definition "the nearest value of the format, of two equally near the one with the even pattern": neighbours
// are looked up in a table of all values, compared in double, where differences of an fp32 and a 16-bit value are exact near it.
Mismatches check_narrowing(const NarrowLoop& loop, const NarrowFormat& format, std::uint32_t step);
// The same for all midpoints between neighbouring values, the values themselves, and the floats next to either; both signs.
Mismatches check_ties(const NarrowLoop& loop, const NarrowFormat& format);

// Whether two loops give the same bits (any NaN equals any NaN).
Mismatches compare(const FloatLoop& one, const FloatLoop& other, std::uint32_t step);
Mismatches compare(const NarrowLoop& one, const NarrowLoop& other, std::uint32_t step);

}  // namespace recoverssm::arithmetic_test
