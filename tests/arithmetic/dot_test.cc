#include "arithmetic/dot.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace recoverssm::arithmetic_test {
namespace {

using arithmetic::dot;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

struct Vectors {
  std::vector<float> x, y;
  int size() const { return static_cast<int>(x.size()); }
};

Vectors random_vectors(int n, std::mt19937& random) {
  std::normal_distribution<float> normal;
  Vectors v;
  for (int i = 0; i < n; ++i) {
    v.x.push_back(normal(random));
    v.y.push_back(normal(random));
  }
  return v;
}

// The same order told differently: a leaf is a chain of fma over every 32nd element, and a node is the sum of its two halves.
float leaf(const Vectors& v, int index) {
  float sum = 0.0f;
  for (int i = index; i < v.size(); i += 32) {
    sum = std::fma(v.x[static_cast<std::size_t>(i)], v.y[static_cast<std::size_t>(i)], sum);
  }
  return sum;
}

float node(const Vectors& v, int first, int leaves) {
  if (leaves == 1) return leaf(v, first);
  return node(v, first, leaves / 2) + node(v, first + leaves / 2, leaves / 2);
}

TEST(Dot, IsTheTreeOfNeighbours) {
  std::mt19937 random(1);
  for (int n = 0; n <= 300; ++n) {
    const Vectors v = random_vectors(n, random);
    EXPECT_EQ(bits(dot(v.x.data(), v.y.data(), n)), bits(node(v, 0, 32))) << "n = " << n;
  }
}

TEST(Dot, IsCloseToTheExactSum) {
  std::mt19937 random(2);
  for (const int n : {1, 5, 16, 31, 32, 33, 64, 100, 128, 256, 1000}) {
    for (int repeat = 0; repeat < 50; ++repeat) {
      const Vectors v = random_vectors(n, random);
      long double exact = 0, magnitude = 0;
      for (std::size_t i = 0; i < v.x.size(); ++i) {
        const long double product = static_cast<long double>(v.x[i]) * static_cast<long double>(v.y[i]);
        exact += product;
        magnitude += std::fabs(product);
      }
      // One rounding per element of the longest chain and five of the tree, each of at most 2^-24 of what has been summed.
      const int roundings = (n + 31) / 32 + 5;
      const long double tolerance = 1.01L * roundings * 0x1p-24L * magnitude;
      EXPECT_LE(std::fabs(static_cast<long double>(dot(v.x.data(), v.y.data(), n)) - exact), tolerance) << "n = " << n;
    }
  }
}

// Values for which another order of the same operations gives other bits.
struct OrderCase {
  const char* what;
  int n;
  std::vector<std::pair<int, float>> x, y;  // elements that are not 0 (x) and not 1 (y)
  float expected;
};

std::vector<OrderCase> order_cases() {
  const float big = 0x1p24f;  // big + 1 is a tie and rounds back to big
  return {
      {"neighbours are added first: not the two halves, not one after the other", 32, {{0, big}, {16, 1}, {17, 1}}, {}, big + 2},
      {"1 is lost in its neighbour, not saved by the other end", 32, {{0, big}, {1, 1}, {31, 1}}, {}, big},
      {"tree of depth two: (0+1) + (2+3)", 32, {{0, big}, {2, 1}, {3, 1}}, {}, big + 2},
      {"leaf of index mod 32: 1 and 33 share one, 0 and 1 do not", 64, {{0, big}, {1, 1}, {33, 1}}, {}, big + 2},
      {"rising index within a leaf", 96, {{0, big}, {32, 1}, {64, -big}}, {}, 0.0f},
      {"rising index within a leaf, the other way round", 96, {{0, big}, {32, -big}, {64, 1}}, {}, 1.0f},
      {"a product is not rounded before it is added",
       64,
       {{0, -0x1.000004p0f}, {32, 0x1.000002p0f}},
       {{32, 0x1.000002p0f}},
       0x1p-46f},
      {"a tail of one", 1, {{0, 3}}, {{0, 0.5f}}, 1.5f},
      {"a tail of five: (0+1) + (2+3) is big + 2, and 1 more is a tie, up to even",
       5,
       {{0, big}, {1, 1}, {2, 1}, {3, 1}, {4, 1}},
       {},
       big + 4},
      {"a tail of 33: the last element goes to leaf 0", 33, {{0, big}, {32, -big}, {1, 1}}, {}, 1.0f},
      {"a tail of 100: index 99 is leaf 3", 100, {{3, big}, {99, -big}, {2, 1}}, {}, 1.0f},
  };
}

TEST(Dot, OrderDecidesTheseBits) {
  for (const OrderCase& c : order_cases()) {
    // What lies behind the end is NaN: it must not be read.
    std::vector<float> x(static_cast<std::size_t>(c.n) + 64, kNaN);
    std::vector<float> y(x);
    for (std::size_t i = 0; i < static_cast<std::size_t>(c.n); ++i) {
      x[i] = 0.0f;
      y[i] = 1.0f;
    }
    for (const auto& [i, value] : c.x) x[static_cast<std::size_t>(i)] = value;
    for (const auto& [i, value] : c.y) y[static_cast<std::size_t>(i)] = value;
    EXPECT_EQ(bits(dot(x.data(), y.data(), c.n)), bits(c.expected)) << c.what;
  }
}

// A product below half the smallest subnormal makes a partial sum of -0, which shows whether an empty leaf is added and whether
// padding is multiplied.
TEST(Dot, MinusZero) {
  const std::vector<float> x(64, -1e-30f), y(64, 1e-30f);
  const float minus_zero = -0.0f, plus_zero = 0.0f;
  EXPECT_EQ(bits(dot(x.data(), y.data(), 0)), bits(plus_zero));
  EXPECT_EQ(bits(dot(x.data(), y.data(), 1)), bits(plus_zero)) << "an empty leaf is +0 and is added";
  EXPECT_EQ(bits(dot(x.data(), y.data(), 31)), bits(plus_zero)) << "one empty leaf is enough";
  EXPECT_EQ(bits(dot(x.data(), y.data(), 32)), bits(minus_zero));
  EXPECT_EQ(bits(dot(x.data(), y.data(), 33)), bits(minus_zero)) << "no fma of padding: it would make -0 a +0";
  EXPECT_EQ(bits(dot(x.data(), y.data(), 64)), bits(minus_zero));

  const std::vector<float> zeros(32, -0.0f), ones(32, 1.0f);
  EXPECT_EQ(bits(dot(zeros.data(), ones.data(), 32)), bits(plus_zero)) << "a chain starts from +0, not from its first product";
}

TEST(Dot, SubnormalsAreKept) {
  const std::vector<float> x(32, 0x1p-140f), y(32, 1.0f);
  EXPECT_EQ(dot(x.data(), y.data(), 32), 0x1p-135f);
}

}  // namespace
}  // namespace recoverssm::arithmetic_test
