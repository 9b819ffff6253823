#include "arithmetic/exp_log.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "arithmetic/measure.h"

namespace recoverssm::arithmetic_test {
namespace {

using arithmetic::exp_f32;
using arithmetic::log_f32;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }
float from_bits(std::uint32_t x) { return std::bit_cast<float>(x); }

TEST(Exp, SpecialValues) {
  EXPECT_EQ(bits(exp_f32(0.0f)), bits(1.0f));
  EXPECT_EQ(bits(exp_f32(-0.0f)), bits(1.0f));
  EXPECT_EQ(exp_f32(kInfinity), kInfinity);
  EXPECT_EQ(bits(exp_f32(-kInfinity)), bits(0.0f));
  for (const std::uint32_t nan : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu}) {
    EXPECT_TRUE(std::isnan(exp_f32(from_bits(nan)))) << std::hex << nan;
  }
}

TEST(Exp, OverflowsAtTheLastPossibleFloat) {
  const float last = from_bits(0x42b17217u);
  EXPECT_EQ(last, 88.72283f);
  EXPECT_TRUE(std::isfinite(exp_f32(last)));
  EXPECT_EQ(exp_f32(std::nextafter(last, kInfinity)), kInfinity);
  EXPECT_EQ(exp_f32(std::numeric_limits<float>::max()), kInfinity);
}

TEST(Exp, UnderflowsToPlusZero) {
  EXPECT_EQ(bits(exp_f32(std::nextafter(-104.0f, -kInfinity))), 0u);
  EXPECT_EQ(bits(exp_f32(std::numeric_limits<float>::lowest())), 0u);
  // The smallest subnormal is reached, and the step from it to zero is at ln(2^-150) = -103.97208.
  EXPECT_EQ(bits(exp_f32(-103.9f)), 1u);
  EXPECT_EQ(bits(exp_f32(-103.98f)), 0u);
}

TEST(Exp, TinyArgumentsGiveOne) {
  const float denormal = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(exp_f32(denormal), 1.0f);
  EXPECT_EQ(exp_f32(-denormal), 1.0f);
  EXPECT_EQ(exp_f32(std::numeric_limits<float>::min()), 1.0f);
}

TEST(Log, SpecialValues) {
  EXPECT_EQ(bits(log_f32(1.0f)), bits(0.0f));
  EXPECT_EQ(log_f32(0.0f), -kInfinity);
  EXPECT_EQ(log_f32(-0.0f), -kInfinity);
  EXPECT_EQ(log_f32(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(log_f32(-kInfinity)));
  EXPECT_TRUE(std::isnan(log_f32(-1.0f)));
  EXPECT_TRUE(std::isnan(log_f32(-std::numeric_limits<float>::denorm_min())));
  for (const std::uint32_t nan : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu}) {
    EXPECT_TRUE(std::isnan(log_f32(from_bits(nan)))) << std::hex << nan;
  }
}

TEST(Log, SubnormalArguments) {
  for (const std::uint32_t pattern : {0x1u, 0x2u, 0x3u, 0x1234u, 0x400000u, 0x7fffffu, 0x800000u}) {
    const double exact = std::log(static_cast<double>(from_bits(pattern)));
    EXPECT_NEAR(log_f32(from_bits(pattern)), exact, 0x1p-18) << std::hex << pattern;  // 1 ulp at 64..128
  }
}

// What docs/arithmetic.md states, measured over all floats, rounded up. The contract allows 1.
constexpr double kExpBound = 0.684;
constexpr double kExpSubnormalBound = 0.771;
constexpr double kLogBound = 0.719;

void print(const char* name, const Accuracy& accuracy, std::uint32_t step) {
  std::printf("%s over %s\n  largest error %.4f ulp at %a; subnormal results %.4f ulp at %a\n", name, describe_sample(step).c_str(),
              accuracy.normal.ulp, static_cast<double>(accuracy.normal.at), accuracy.subnormal.ulp,
              static_cast<double>(accuracy.subnormal.at));
}

TEST(Exp, ErrorOverAllFloats) {
  const std::uint32_t step = step_from_environment();
  const Accuracy accuracy = measure_exp(fastest_blocks().exp, step);
  print("exp", accuracy, step);
  EXPECT_LE(accuracy.normal.ulp, kExpBound);
  EXPECT_LE(accuracy.subnormal.ulp, kExpSubnormalBound);
  EXPECT_EQ(accuracy.wrong, 0u) << "first at " << std::hexfloat << accuracy.first_wrong;
}

TEST(Log, ErrorOverAllFloats) {
  const std::uint32_t step = step_from_environment();
  const Accuracy accuracy = measure_log(fastest_blocks().log, step);
  print("log", accuracy, step);
  EXPECT_LE(accuracy.normal.ulp, kLogBound);
  EXPECT_EQ(accuracy.wrong, 0u) << "first at " << std::hexfloat << accuracy.first_wrong;
}

}  // namespace
}  // namespace recoverssm::arithmetic_test
