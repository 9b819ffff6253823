// sizes, names and views.
#include <gtest/gtest.h>

#include "recoverssm/recoverssm.hpp"

namespace {

using namespace recoverssm;

Geometry example() {
  Geometry g;
  g.H = 16;
  g.HV = 48;
  g.K = g.V = 128;
  g.W = 4;
  g.S = 4;
  return g;
}

TEST(Sizes, TheContractsExample) {
  const Sizes s = sizes(example());
  const std::int64_t C = 2 * 16 * 128 + 48 * 128;
  EXPECT_EQ(s.state, 3145728);
  EXPECT_EQ(s.records, 197376);
  EXPECT_EQ(s.line_rolled, 6 * C * 2);
  EXPECT_EQ(s.line_anchored, 7 * C * 2);
  EXPECT_EQ(s.page_rolled, s.state + s.records + s.line_rolled);
  EXPECT_EQ(s.page_anchored, s.state + s.records + s.line_anchored);
  EXPECT_EQ(s.snapshots, 4 * s.state + s.line_rolled);
}

TEST(Sizes, KeyGateRecordsHoldRawInputs) {
  Geometry g = example();
  g.gate = Gate::kda;
  EXPECT_EQ(sizes(g).records, 48 * 4 * (128 * 4 + 2 * 128 * 2));
  g.activation = DType::f32;
  g.state = DType::bf16;
  EXPECT_EQ(sizes(g).records, 48 * 4 * (128 * 4 + 2 * 128 * 4));
  EXPECT_EQ(sizes(g).state, 3145728 / 2);
}

TEST(Sizes, LayersWithoutALineOrAState) {
  Geometry g = example();
  g.W = 0;
  EXPECT_EQ(sizes(g).line_rolled, 0);
  EXPECT_EQ(sizes(g).page_anchored, sizes(g).state + sizes(g).records);
  Geometry line;
  line.W = 10;  // a short convolution: 4 taps, dilation 3
  line.channels = 6;
  line.S = 3;
  EXPECT_EQ(sizes(line).state, 0);
  EXPECT_EQ(sizes(line).records, 0);
  EXPECT_EQ(sizes(line).line_rolled, 11 * 6 * 2);
  EXPECT_EQ(sizes(line).line_anchored, 12 * 6 * 2);
}

TEST(Sizes, RefusesWhatNoOperationAccepts) {
  const auto refused = [](void (*spoil)(Geometry&), const char* word) {
    Geometry g = example();
    spoil(g);
    try {
      (void)sizes(g);
      ADD_FAILURE() << word << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  };
  refused([](Geometry& g) { g.S = 0; }, "S");
  refused([](Geometry& g) { g.HV = 40; }, "HV");
  refused([](Geometry& g) { g.H = 0; }, "HV");
  refused([](Geometry& g) { g.K = 0; }, "K");
  refused([](Geometry& g) { g.V = -1; }, "V");
  refused([](Geometry& g) { g.W = 1; }, "W");
  refused([](Geometry& g) { g.state = DType::i32; }, "state");
  refused([](Geometry& g) { g.activation = DType::f64; }, "activation");
  refused([](Geometry& g) { g.gate = static_cast<Gate>(9); }, "gate");
  refused([](Geometry& g) { g.H = g.HV = g.K = g.V = INT32_MAX; }, "geometry");
}

// Numbers of no layer are refused or added up within 64 bits, never wrapped: the sanitizer builds (scripts/sanitize, scripts/fuzz) see a
// wrap, this test a size below zero.
TEST(Sizes, ExtremesInAnyTwoFieldsAreRefusedOrFit) {
  static constexpr std::int32_t Geometry::*kFields[] = {&Geometry::H, &Geometry::HV, &Geometry::K,       &Geometry::V,
                                                        &Geometry::W, &Geometry::S,  &Geometry::channels};
  static constexpr std::int32_t kExtremes[] = {INT32_MIN, INT32_MIN + 1, -1, 0, 1, INT32_MAX - 1, INT32_MAX};
  for (const auto first : kFields) {
    for (const auto second : kFields) {
      for (const std::int32_t one : kExtremes) {
        for (const std::int32_t other : kExtremes) {
          Geometry g = example();
          g.*first = one;
          g.*second = other;
          try {
            const Sizes s = sizes(g);
            for (const std::int64_t bytes :
                 {s.state, s.records, s.line_rolled, s.line_anchored, s.page_rolled, s.page_anchored, s.snapshots}) {
              EXPECT_GE(bytes, 0) << one << " and " << other;
            }
          } catch (const Error& error) {
            EXPECT_EQ(error.kind(), ErrorKind::invalid_argument) << error.what();
          }
        }
      }
    }
  }
}

TEST(Types, Names) {
  EXPECT_STREQ(name_of(DType::bf16), "bf16");
  EXPECT_STREQ(name_of(DType::boolean), "boolean");
  EXPECT_STREQ(name_of(ErrorKind::out_of_range), "out_of_range");
  EXPECT_STREQ(name_of(Target::avx2), "avx2");
  EXPECT_STREQ(record_layout_id(Gate::gdn), "gdn_f32");
  EXPECT_STREQ(record_layout_id(Gate::kda), "kda_act");
}

TEST(Types, Views) {
  float data[24];
  const TensorView dense(data, DType::f32, {2, 3, 4});
  EXPECT_EQ(dense.stride[0], 12);
  EXPECT_EQ(dense.stride[1], 4);
  EXPECT_EQ(dense.stride[2], 1);
  EXPECT_EQ(dense.elements(), 24);
  const TensorView strided(data, DType::f32, {2, 3}, {-3, 0});
  EXPECT_EQ(strided.stride[0], -3);
  EXPECT_TRUE(strided.present());
  EXPECT_FALSE(TensorView().present());
  EXPECT_TRUE(TensorView().empty());
  EXPECT_TRUE(TensorView(nullptr, DType::i32, {0}).present());
}

}  // namespace
