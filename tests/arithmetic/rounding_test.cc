#include "arithmetic/rounding.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "arithmetic/measure.h"

namespace recoverssm::arithmetic_test {
namespace {

using namespace recoverssm::arithmetic;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

void expect_exact_widening(const NarrowFormat& format, float (*widen)(std::uint16_t)) {
  for (std::uint32_t pattern = 0; pattern < 0x10000u; ++pattern) {
    const auto narrow = static_cast<std::uint16_t>(pattern);
    const double exact = value_of(format, narrow);
    const float wide = widen(narrow);
    if (std::isnan(exact)) {
      EXPECT_TRUE(std::isnan(wide)) << format.name << " " << std::hex << pattern;
    } else {
      EXPECT_EQ(bits(wide), bits(static_cast<float>(exact))) << format.name << " " << std::hex << pattern;
      EXPECT_EQ(static_cast<double>(wide), exact) << format.name << " " << std::hex << pattern;
    }
  }
}

TEST(Bf16, WideningIsExactForAllPatterns) {
  expect_exact_widening(kBf16, [](std::uint16_t x) { return from_bf16(x); });
}

TEST(F16, WideningIsExactForAllPatterns) {
  expect_exact_widening(kF16, [](std::uint16_t x) { return from_f16(x); });
}

TEST(Bf16, NarrowingUndoesWidening) {
  for (std::uint32_t pattern = 0; pattern < 0x10000u; ++pattern) {
    const auto narrow = static_cast<std::uint16_t>(pattern);
    if (std::isnan(from_bf16(narrow))) continue;
    EXPECT_EQ(to_bf16(from_bf16(narrow)), narrow);
  }
}

TEST(F16, NarrowingUndoesWidening) {
  for (std::uint32_t pattern = 0; pattern < 0x10000u; ++pattern) {
    const auto narrow = static_cast<std::uint16_t>(pattern);
    if (std::isnan(from_f16(narrow))) continue;
    EXPECT_EQ(to_f16(from_f16(narrow)), narrow);
  }
}

TEST(Bf16, ByHand) {
  EXPECT_EQ(to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(to_bf16(-0.0f), 0x8000);
  EXPECT_EQ(to_bf16(0x1.01p0f), 0x3f80);      // tie, down to even
  EXPECT_EQ(to_bf16(0x1.03p0f), 0x3f82);      // tie, up to even
  EXPECT_EQ(to_bf16(0x1.010002p0f), 0x3f81);  // just above a tie; truncation and round half down both give 3f80
  EXPECT_EQ(to_bf16(0x1.fep127f), 0x7f7f);
  EXPECT_EQ(to_bf16(0x1.fefffep127f), 0x7f7f);
  EXPECT_EQ(to_bf16(0x1.ffp127f), 0x7f80);  // tie with what would be 2^128
  EXPECT_EQ(to_bf16(-kInfinity), 0xff80);
  EXPECT_EQ(to_bf16(0x1p-133f), 0x0001);  // smallest subnormal
  EXPECT_EQ(to_bf16(0x1p-134f), 0x0000);
  // A signalling NaN whose upper half alone would be infinity.
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x7f800001u)), 0x7fc0);
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0xffffffffu)), 0xffff);
}

TEST(F16, ByHand) {
  EXPECT_EQ(to_f16(1.0f), 0x3c00);
  EXPECT_EQ(to_f16(-0.0f), 0x8000);
  EXPECT_EQ(to_f16(0x1.002p0f), 0x3c00);  // tie, down to even
  EXPECT_EQ(to_f16(0x1.006p0f), 0x3c02);  // tie, up to even
  EXPECT_EQ(to_f16(65504.0f), 0x7bff);
  EXPECT_EQ(to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(to_f16(65520.0f), 0x7c00);  // tie with what would be 65536
  EXPECT_EQ(to_f16(-1e10f), 0xfc00);
  EXPECT_EQ(to_f16(0x1p-14f), 0x0400);
  EXPECT_EQ(to_f16(0x1.ffep-15f), 0x0400);  // tie between the largest subnormal and the smallest normal
  EXPECT_EQ(to_f16(0x1p-24f), 0x0001);
  EXPECT_EQ(to_f16(0x1p-25f), 0x0000);  // tie, down to zero
  EXPECT_EQ(to_f16(-0x1.000002p-25f), 0x8001);
  EXPECT_EQ(to_f16(std::numeric_limits<float>::denorm_min()), 0x0000);
  EXPECT_EQ(to_f16(std::bit_cast<float>(0x7f800001u)), 0x7e00);
  EXPECT_EQ(to_f16(std::bit_cast<float>(0xff800001u)), 0xfe00);
}

void expect_none_wrong(const NarrowFormat& format, const char* what, const Mismatches& found) {
  std::printf("%s: %s, %llu floats tested\n", format.name, what, static_cast<unsigned long long>(found.tested));
  EXPECT_EQ(found.wrong, 0u) << format.name << ": first at " << std::hexfloat << found.first_wrong;
}

TEST(Bf16, EveryTieAndItsNeighbours) { expect_none_wrong(kBf16, "ties", check_ties(fastest_blocks().bf16, kBf16)); }

TEST(F16, EveryTieAndItsNeighbours) { expect_none_wrong(kF16, "ties", check_ties(fastest_blocks().f16, kF16)); }

TEST(Bf16, NearestOverAllFloats) {
  const std::uint32_t step = step_from_environment();
  expect_none_wrong(kBf16, describe_sample(step).c_str(), check_narrowing(fastest_blocks().bf16, kBf16, step));
}

TEST(F16, NearestOverAllFloats) {
  const std::uint32_t step = step_from_environment();
  expect_none_wrong(kF16, describe_sample(step).c_str(), check_narrowing(fastest_blocks().f16, kF16, step));
}

}  // namespace
}  // namespace recoverssm::arithmetic_test
