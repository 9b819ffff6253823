// Checks of what a view holds.
#include "trace/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace recoverssm::trace {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNaN = std::nanf("");

View view_of(std::vector<std::int64_t> shape, std::vector<std::int64_t> strides, std::int64_t offset = 0,
             DType dtype = DType::f32) {
  View v;
  v.dtype = dtype;
  v.offset = offset;
  v.elements = 1;
  for (const std::int64_t n : shape) v.elements *= n;
  v.shape = std::move(shape);
  v.strides = std::move(strides);
  return v;
}

template <class T>
const std::byte* bytes(const std::vector<T>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

Finding close(const std::vector<float>& got, const std::vector<float>& want, double rtol, double atol) {
  return check_tolerance(view_of({static_cast<std::int64_t>(got.size())}, {1}), bytes(got), bytes(want), rtol, atol);
}

TEST(CheckTolerance, AbsoluteAndRelativeAdd) {
  EXPECT_TRUE(close({1.5F}, {1.0F}, 0, 0.5).holds);
  EXPECT_FALSE(close({1.5F}, {1.0F}, 0, 0.499).holds);
  EXPECT_TRUE(close({1.5F}, {1.0F}, 0.25, 0.25).holds);
  EXPECT_FALSE(close({1.5F}, {1.0F}, 0.25, 0.249).holds);
  EXPECT_TRUE(close({3.0F}, {4.0F}, 0.25, 0).holds);  // relative to want, not to got
  EXPECT_FALSE(close({4.0F}, {3.0F}, 0.25, 0).holds);
  EXPECT_DOUBLE_EQ(close({1.5F, 1.25F}, {1.0F, 1.0F}, 0, 1).max_error, 0.5);
}

TEST(CheckTolerance, WhatIsNotFinite) {
  EXPECT_TRUE(close({kNaN}, {kNaN}, 0, 0).holds);
  EXPECT_TRUE(close({kNaN}, {-kNaN}, 0, 0).holds);
  EXPECT_TRUE(close({kInf, -kInf}, {kInf, -kInf}, 0, 0).holds);
  EXPECT_FALSE(close({kInf}, {-kInf}, 1, 1).holds);
  EXPECT_FALSE(close({kNaN}, {1.0F}, 1, 1e30).holds);
  EXPECT_FALSE(close({1.0F}, {kNaN}, 1, 1e30).holds);
  EXPECT_FALSE(close({1.0F}, {kInf}, 1, 0).holds);  // |got - want| <= rtol*|want| would read inf <= inf
  EXPECT_FALSE(close({kInf}, {1.0F}, 1, 1e30).holds);
  EXPECT_TRUE(std::isinf(close({kNaN}, {1.0F}, 0, 0).max_error));
  EXPECT_EQ(close({kInf, kNaN}, {kInf, kNaN}, 0, 0).max_error, 0);
}

TEST(CheckTolerance, ZeroesOfBothSignsAreEqual) { EXPECT_TRUE(close({0.0F}, {-0.0F}, 0, 0).holds); }

TEST(CheckBits, SignOfZeroAndNaNPayloadCount) {
  const auto same = [](std::uint32_t got, std::uint32_t want) {
    const std::vector<std::uint32_t> g = {got}, w = {want};
    return check_bits(view_of({1}, {1}), bytes(g), bytes(w)).holds;
  };
  EXPECT_TRUE(same(0x7fc12345U, 0x7fc12345U));
  EXPECT_FALSE(same(0x7fc12345U, 0x7fc00000U));
  EXPECT_FALSE(same(0x80000000U, 0U));
}

TEST(CheckBits, TellsTheFirstDifference) {
  const std::vector<float> got = {0, 9, 1, 9, 2, 9, 3, 9, 4, 9, 5, 9};  // every second element is in the view
  const std::vector<float> want = {0, 1, 2, 8, 4, 8};
  const Finding finding = check_bits(view_of({2, 3}, {6, 2}), bytes(got), bytes(want));
  EXPECT_FALSE(finding.holds);
  EXPECT_EQ(finding.detail, "index [1, 0]: got 3 (0x40400000), want 8 (0x41000000) (2 of 6 elements)");
}

TEST(CheckBits, AnyStrides) {
  const std::vector<float> got = {1, 2, 3, 4, 5, 6};
  const std::vector<float> transposed = {1, 4, 2, 5, 3, 6}, reversed = {6, 5, 4}, repeated = {2, 2, 2};
  EXPECT_TRUE(check_bits(view_of({3, 2}, {1, 3}), bytes(got), bytes(transposed)).holds);
  EXPECT_TRUE(check_bits(view_of({3}, {-1}, 5), bytes(got), bytes(reversed)).holds);
  EXPECT_TRUE(check_bits(view_of({3}, {0}, 1), bytes(got), bytes(repeated)).holds);
  EXPECT_TRUE(check_bits(view_of({}, {}, 3), bytes(got), bytes(std::vector<float>{4})).holds);
  EXPECT_FALSE(check_bits(view_of({}, {}, 3), bytes(got), bytes(std::vector<float>{5})).holds);
  EXPECT_TRUE(check_bits(view_of({2, 0, 3}, {1, 1, 1}), bytes(got), nullptr).holds);
  // Strides that are never multiplied may be anything.
  EXPECT_TRUE(check_bits(view_of({1, 2, 1}, {INT64_MAX, 1, INT64_MIN}), bytes(got), bytes(got)).holds);
  const std::vector<float> blocks = {1, 2, 4, 5};
  EXPECT_TRUE(check_bits(view_of({2, 1, 2}, {3, INT64_MAX, 1}), bytes(got), bytes(blocks)).holds);
}

TEST(CheckSame, TwoViewsOfDifferentStrides) {
  const std::vector<float> x = {1, 2, 3, 4}, y = {1, 3, 2, 4};
  const View rows = view_of({2, 2}, {2, 1}), columns = view_of({2, 2}, {1, 2});
  EXPECT_TRUE(check_same(rows, bytes(x), columns, bytes(y)).holds);
  const Finding finding = check_same(rows, bytes(x), rows, bytes(y));
  EXPECT_FALSE(finding.holds);
  EXPECT_NE(finding.detail.find("index [0, 1]: got 2"), std::string::npos) << finding.detail;
}

TEST(CheckContents, IsBitwiseButForNaNs) {
  const auto same = [](const std::vector<float>& got, const std::vector<float>& want) {
    return check_contents(view_of({static_cast<std::int64_t>(got.size())}, {1}), bytes(got), bytes(want));
  };
  EXPECT_TRUE(same({1.0F, kNaN, kInf}, {1.0F, -kNaN, kInf}).holds);
  EXPECT_FALSE(same({0.0F}, {-0.0F}).holds);
  const Finding finding = same({1.0F, kNaN, 3.0F}, {1.0F, 2.0F, 4.0F});
  EXPECT_FALSE(finding.holds);
  EXPECT_NE(finding.detail.find("[1]"), std::string::npos) << finding.detail;
  EXPECT_NE(finding.detail.find("2 of 3"), std::string::npos) << finding.detail;
  const std::vector<std::int32_t> nan_bits{0x7fc00000}, other{0x7fc00001};  // no floats: no NaNs
  EXPECT_FALSE(check_contents(view_of({1}, {1}, 0, DType::i32), bytes(nan_bits), bytes(other)).holds);
}

TEST(CheckFill, IsBitwise) {
  const Element zero = *encode(DType::f32, 0.0);
  EXPECT_TRUE(check_fill(view_of({2}, {1}), bytes(std::vector<float>{0.0F, 0.0F}), zero).holds);
  EXPECT_FALSE(check_fill(view_of({2}, {1}), bytes(std::vector<float>{0.0F, -0.0F}), zero).holds);
}

TEST(CheckFinite, NoInfinityNoNaN) {
  const View v = view_of({2}, {1});
  EXPECT_TRUE(check_finite(v, bytes(std::vector<float>{0.0F, 3e38F})).holds);
  EXPECT_FALSE(check_finite(v, bytes(std::vector<float>{0.0F, kInf})).holds);
  EXPECT_FALSE(check_finite(v, bytes(std::vector<float>{kNaN, 0.0F})).holds);
  const std::vector<std::uint16_t> halves = {0x3c00U, 0x7c00U};
  EXPECT_FALSE(check_finite(view_of({2}, {1}, 0, DType::f16), bytes(halves)).holds);
  EXPECT_TRUE(check_finite(view_of({2}, {1}, 0, DType::bf16), bytes(halves)).holds);  // 0x7c00 is an ordinary bf16
  EXPECT_TRUE(check_finite(view_of({2}, {1}, 0, DType::i32), bytes(std::vector<std::int32_t>{-1, 0x7fc00000})).holds);
}

}  // namespace
}  // namespace recoverssm::trace
