#include "arithmetic/gates.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace recoverssm::arithmetic_test {
namespace {

using namespace recoverssm::arithmetic;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

// |got - exact| in units of the last place of exact.
double ulps(float got, double exact) {
  int exponent;
  std::frexp(exact, &exponent);
  return std::fabs(static_cast<double>(got) - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

TEST(Sigmoid, KnownValues) {
  EXPECT_EQ(sigmoid(0.0f), 0.5f);
  EXPECT_EQ(sigmoid(kInfinity), 1.0f);
  EXPECT_EQ(bits(sigmoid(-kInfinity)), bits(0.0f));
  EXPECT_EQ(bits(sigmoid(-89.0f)), bits(0.0f));  // exp overflows: 1/inf
  EXPECT_TRUE(std::isnan(sigmoid(kNaN)));
}

TEST(Sigmoid, CloseToDouble) {
  for (float x = -80.0f; x <= 80.0f; x += 0.01f) {
    EXPECT_LE(ulps(sigmoid(x), 1.0 / (1.0 + std::exp(-static_cast<double>(x)))), 2.5) << x;
  }
}

TEST(Silu, KnownValues) {
  EXPECT_EQ(bits(silu(0.0f)), bits(0.0f));
  EXPECT_EQ(bits(silu(-0.0f)), bits(-0.0f));
  EXPECT_EQ(silu(100.0f), 100.0f);
  EXPECT_EQ(silu(kInfinity), kInfinity);
  EXPECT_EQ(bits(silu(-89.0f)), bits(-0.0f));
  EXPECT_TRUE(std::isnan(silu(-kInfinity)));  // -inf/inf: the formula, not its limit
  EXPECT_TRUE(std::isnan(silu(kNaN)));
}

TEST(Silu, IsOneQuotient) {
  // x * sigmoid(x) rounds twice and differs here.
  int differ = 0;
  for (float x = -20.0f; x <= 20.0f; x += 0.01f) {
    const double exact = static_cast<double>(x) / (1.0 + std::exp(-static_cast<double>(x)));
    EXPECT_LE(ulps(silu(x), exact), 2.5) << x;
    if (bits(silu(x)) != bits(x * sigmoid(x))) ++differ;
  }
  EXPECT_GT(differ, 0);
}

TEST(Softplus, ThresholdIsInclusiveAndComparesTheProduct) {
  // A low threshold: at 20 the two sides have the same bits.
  const float above = std::nextafter(2.0f, 3.0f);
  EXPECT_EQ(bits(softplus(2.0f, 1.0f, 2.0f)), bits(log_f32(1.0f + exp_f32(2.0f))));
  EXPECT_NE(softplus(2.0f, 1.0f, 2.0f), 2.0f);
  EXPECT_EQ(softplus(above, 1.0f, 2.0f), above);
  // beta x = 12 > 10, although x = 6 is not: x itself comes out.
  EXPECT_EQ(softplus(6.0f, 2.0f, 10.0f), 6.0f);
  EXPECT_EQ(bits(softplus(4.0f, 2.0f, 10.0f)), bits(log_f32(1.0f + exp_f32(8.0f)) / 2.0f));
  EXPECT_EQ(bits(softplus(4.0f, 0.3f, 20.0f)), bits(log_f32(1.0f + exp_f32(0.3f * 4.0f)) / 0.3f));
}

TEST(Softplus, KnownValues) {
  EXPECT_EQ(bits(softplus(-200.0f, 1.0f, 20.0f)), bits(0.0f));
  EXPECT_EQ(bits(softplus(-kInfinity, 1.0f, 20.0f)), bits(0.0f));
  EXPECT_EQ(softplus(kInfinity, 1.0f, 20.0f), kInfinity);
  EXPECT_EQ(softplus(500.0f, 1.0f, 20.0f), 500.0f);  // the branch not taken overflows, and must not show
  EXPECT_TRUE(std::isnan(softplus(kNaN, 1.0f, 20.0f)));
}

// Whichever of the two a backend calls: every 2^10th float, of all signs and sizes (a device's own against the host's, all of them:
// tests/cuda/exhaustive.cc).
TEST(Softplus, BetaOfOneAddsNoRounding) {
  std::uint32_t pattern = 1;
  do {
    const float x = float_of(pattern);
    for (const float threshold : {20.0f, 0.5f, -1.0f}) {
      const auto same = [](float a, float b) { return bits(a) == bits(b) || (std::isnan(a) && std::isnan(b)); };
      ASSERT_TRUE(same(softplus(x, 1.0f, threshold), softplus_of_one(x, threshold))) << x << ", " << threshold;
      ASSERT_TRUE(same(kda_decay(x, 0.7f, 1.0f, threshold), kda_decay_of_one(x, 0.7f, threshold))) << x << ", " << threshold;
    }
    pattern += 1024;
  } while (pattern > 1024);
}

TEST(GdnDecay, IsTheContractsFormula) {
  for (float a = -8.0f; a <= 25.0f; a += 0.07f) {
    for (const float A_log : {-3.0f, 0.0f, 0.4f, 2.5f}) {
      const float sum = a + 0.3f;
      const float soft = sum <= 20.0f ? log_f32(1.0f + exp_f32(sum)) : sum;
      const float expected = exp_f32((-exp_f32(A_log)) * soft);
      EXPECT_EQ(bits(gdn_decay(a, 0.3f, A_log, 1.0f, 20.0f)), bits(expected));
    }
  }
}

TEST(GdnDecay, CloseToDouble) {
  for (float a = -8.0f; a <= 25.0f; a += 0.07f) {
    const double sum = static_cast<double>(a + 0.3f);
    const double exponent = -std::exp(0.4) * std::log1p(std::exp(sum));
    const double got = gdn_decay(a, 0.3f, 0.4f, 1.0f, 20.0f);
    // The exponent is right to a few units of 2^-24, of which log(1 + exp) has one absolute; exp turns that into a relative error.
    const double relative = 0x1p-24 * (3.0 + 6.0 * (1.5 + std::fabs(exponent)));
    EXPECT_NEAR(got, std::exp(exponent), std::exp(exponent) * relative + 0x1p-149) << a;
  }
}

TEST(GdnDecay, StaysBetweenZeroAndOne) {
  for (float a = -200.0f; a <= 200.0f; a += 0.37f) {
    for (const float A_log : {-20.0f, -1.0f, 0.0f, 3.0f, 80.0f}) {
      const float decay = gdn_decay(a, 0.0f, A_log, 1.0f, 20.0f);
      EXPECT_GE(decay, 0.0f);
      EXPECT_LE(decay, 1.0f);
    }
  }
  EXPECT_TRUE(std::isnan(gdn_decay(kNaN, 0.0f, 0.0f, 1.0f, 20.0f)));
  EXPECT_TRUE(std::isnan(gdn_decay(0.0f, kNaN, 0.0f, 1.0f, 20.0f)));
  EXPECT_TRUE(std::isnan(gdn_decay(0.0f, 0.0f, kNaN, 1.0f, 20.0f)));
}

TEST(KdaDecay, WithoutBoundIsTheGdnFormula) {
  for (float y = -8.0f; y <= 25.0f; y += 0.07f) {
    EXPECT_EQ(bits(kda_decay(y, exp_f32(0.4f), 1.0f, 20.0f)), bits(gdn_decay(y, 0.0f, 0.4f, 1.0f, 20.0f))) << y;
    EXPECT_EQ(bits(kda_decay(y, exp_f32(0.4f), 1.5f, 10.0f)), bits(gdn_decay(y, 0.0f, 0.4f, 1.5f, 10.0f))) << y;
  }
}

TEST(KdaDecay, WithLowerBound) {
  const float exp_A_log = exp_f32(0.4f);
  for (float y = -20.0f; y <= 20.0f; y += 0.07f) {
    const float decay = kda_decay_bounded(y, exp_A_log, -5.0f);
    EXPECT_EQ(bits(decay), bits(exp_f32(-5.0f / (1.0f + exp_f32((-exp_A_log) * y))))) << y;
    EXPECT_GE(decay, exp_f32(-5.0f)) << y;
    EXPECT_LE(decay, 1.0f) << y;
  }
  EXPECT_EQ(kda_decay_bounded(0.0f, exp_A_log, -5.0f), exp_f32(-2.5f));
  EXPECT_EQ(kda_decay_bounded(kInfinity, exp_A_log, -5.0f), exp_f32(-5.0f));
  EXPECT_EQ(kda_decay_bounded(-kInfinity, exp_A_log, -5.0f), 1.0f);
  EXPECT_TRUE(std::isnan(kda_decay_bounded(kNaN, exp_A_log, -5.0f)));
}

TEST(InverseNorm, EpsilonIsInsideTheRoot) {
  EXPECT_EQ(bits(inverse_norm(0.0f)), bits(1.0f / std::sqrt(1e-6f)));
  EXPECT_EQ(bits(inverse_norm(1.0f)), bits(1.0f / std::sqrt(1.0f + 1e-6f)));
  EXPECT_EQ(bits(inverse_norm(kInfinity)), bits(0.0f));
  EXPECT_TRUE(std::isnan(inverse_norm(kNaN)));
  for (float s = 1e-8f; s < 1e8f; s *= 1.01f) {
    const double exact = 1.0 / std::sqrt(static_cast<double>(s) + static_cast<double>(1e-6f));
    EXPECT_LE(ulps(inverse_norm(s), exact), 2.5) << s;  // three roundings, the first halved by the root
  }
}

TEST(DefaultScale, IsRoundedOnceFromDouble) {
  EXPECT_EQ(default_scale(64), 0.125f);
  EXPECT_EQ(default_scale(128), 0x1.6a09e6p-4f);
  EXPECT_EQ(default_scale(256), 0.0625f);
  // fp32 throughout rounds twice, and gives other bits for some head sizes.
  int differ = 0;
  for (int K = 1; K <= 512; ++K) {
    EXPECT_EQ(bits(default_scale(K)), bits(static_cast<float>(1.0 / std::sqrt(static_cast<double>(K))))) << K;
    if (bits(default_scale(K)) != bits(1.0f / std::sqrt(static_cast<float>(K)))) ++differ;
  }
  EXPECT_GT(differ, 0);
}

}  // namespace
}  // namespace recoverssm::arithmetic_test
