// Elements: names, rounding of fills, texts.
#include "trace/element.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

namespace recoverssm::trace {
namespace {

template <class T>
T as(const std::optional<Element>& element) {
  T value{};
  EXPECT_TRUE(element);
  if (element) std::memcpy(&value, element->data(), sizeof value);
  return value;
}

TEST(Element, NamesGoBothWays) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32, DType::i64, DType::u8, DType::boolean}) {
    EXPECT_EQ(dtype_named(safetensors_name(dtype)), dtype);
  }
  EXPECT_FALSE(dtype_named("f32"));
  EXPECT_FALSE(dtype_named(""));
}

TEST(Element, FillsAreRoundedOnceToNearestEven) {
  EXPECT_EQ(as<std::uint32_t>(encode(DType::f32, 0.1)), 0x3dcccccdU);
  EXPECT_EQ(as<std::uint16_t>(encode(DType::bf16, 1.00390625)), 0x3f80U);            // a tie: to even
  EXPECT_EQ(as<std::uint16_t>(encode(DType::bf16, 1.00390625 + 0x1p-40)), 0x3f81U);  // above it; a float in between would lose that
  EXPECT_EQ(as<std::uint16_t>(encode(DType::bf16, 1.01171875 - 0x1p-40)), 0x3f81U);  // below a tie
  EXPECT_EQ(as<std::uint16_t>(encode(DType::f16, 1.00048828125 + 0x1p-40)), 0x3c01U);  // the same for half
  EXPECT_EQ(as<std::uint16_t>(encode(DType::f16, 0x1p-24)), 0x0001U);                  // subnormal
  EXPECT_EQ(as<std::uint16_t>(encode(DType::f16, 70000.0)), 0x7c00U);                  // infinity
  EXPECT_EQ(as<std::uint64_t>(encode(DType::f64, std::int64_t{1})), 0x3ff0000000000000U);
}

TEST(Element, FillsKeepTheSignOfZero) {
  EXPECT_EQ(as<std::uint32_t>(encode(DType::f32, -0.0)), 0x80000000U);
  EXPECT_EQ(as<std::uint16_t>(encode(DType::bf16, -0.0)), 0x8000U);
  EXPECT_EQ(as<std::uint16_t>(encode(DType::f16, -0.0)), 0x8000U);
  EXPECT_EQ(as<std::uint32_t>(encode(DType::f32, 0.0)), 0U);
}

TEST(Element, IntegerFillsMustBeValuesOfTheDtype) {
  EXPECT_EQ(as<std::int32_t>(encode(DType::i32, -7.0)), -7);
  EXPECT_EQ(as<std::int64_t>(encode(DType::i64, INT64_MAX)), INT64_MAX);
  EXPECT_EQ(as<std::uint8_t>(encode(DType::boolean, std::int64_t{1})), 1);
  EXPECT_FALSE(encode(DType::i32, 0.5));
  EXPECT_FALSE(encode(DType::i32, std::int64_t{1} << 31));
  EXPECT_FALSE(encode(DType::i64, 0x1p63));
  EXPECT_FALSE(encode(DType::u8, std::int64_t{256}));
  EXPECT_FALSE(encode(DType::boolean, std::int64_t{2}));
}

TEST(Element, TextShowsValueAndBits) {
  EXPECT_EQ(text_of(DType::bf16, encode(DType::bf16, 0.5)->data()), "0.5 (0x3f00)");
  EXPECT_EQ(text_of(DType::f32, encode(DType::f32, -0.0)->data()), "-0 (0x80000000)");
  EXPECT_EQ(text_of(DType::i32, encode(DType::i32, -3.0)->data()), "-3");
}

}  // namespace
}  // namespace recoverssm::trace
