// How the CUDA backend cuts calls, and where it looks in packed rows: what of it is host arithmetic.
#include "cuda/select.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

#include "cuda/packed.cuh"
#include "recoverssm/recoverssm.hpp"

namespace recoverssm::cuda {
namespace {

TEST(CutRows, NotWhereNoRowCanBeLong) {
  EXPECT_EQ(cut_rows(0, 0, 64), Segments{});
  EXPECT_EQ(cut_rows(0, 8, 64), Segments{});
  EXPECT_EQ(cut_rows(256, 256, 64), Segments{});  // decode
  EXPECT_EQ(cut_rows(64, 1, 64), Segments{});
  EXPECT_EQ(cut_rows(65, 1, 64), (Segments{64, 1}));
  EXPECT_EQ(cut_rows(8192, 1, 64), (Segments{64, 127}));
  EXPECT_EQ(cut_rows(8193, 1, 64), (Segments{64, 128}));
}

// What segments.cuh does on the device: every token of every row is in one segment, and each extra item is some row's or nobody's.
void expect_each_token_once(const std::vector<std::int64_t>& offsets, std::int64_t tokens, std::int64_t segment,
                            std::int64_t extra) {
  const auto rows = static_cast<std::int64_t>(offsets.size()) - 1;
  const auto begin = [&](std::int64_t i) { return offsets[static_cast<std::size_t>(i)]; };
  std::vector<int> seen(static_cast<std::size_t>(tokens), 0);
  const auto take = [&](std::int64_t i, std::int64_t number) {
    const std::int64_t first = begin(i) + number * segment;
    for (std::int64_t t = first; t < std::min(begin(i + 1), first + segment); ++t) ++seen[static_cast<std::size_t>(t)];
  };
  for (std::int64_t i = 0; i < rows; ++i) take(i, 0);
  for (std::int64_t e = 0; e < extra; ++e) {
    const std::int64_t mark = mark_of(e, segment);
    for (std::int64_t i = 0; i < rows; ++i) {
      if (begin(i) >= mark || mark >= begin(i + 1)) continue;
      const std::int64_t number = segment_of_mark(mark, begin(i), segment);
      EXPECT_GE(number, 1);
      if (begin(i) + number * segment >= begin(i + 1)) continue;
      EXPECT_EQ(item_of_second(begin(i), segment) + number - 1, e);
      take(i, number);
    }
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    if (begin(i + 1) - begin(i) > segment) {
      EXPECT_LT(item_of_second(begin(i), segment), extra);
    }
    for (std::int64_t t = begin(i); t < begin(i + 1); ++t)
      ASSERT_EQ(seen[static_cast<std::size_t>(t)], 1) << "row " << i << " token " << t;
  }
}

RC_GTEST_PROP(CutRows, EachTokenIsInOneSegment, ()) {
  const auto segment = *rc::gen::inRange<std::int64_t>(1, 9);
  std::vector<std::int64_t> offsets = {*rc::gen::inRange<std::int64_t>(0, 12)};
  const auto rows = *rc::gen::inRange(1, 7);
  for (int i = 0; i < rows; ++i) offsets.push_back(offsets.back() + *rc::gen::inRange<std::int64_t>(0, 40));
  const std::int64_t tokens = offsets.back() + *rc::gen::inRange<std::int64_t>(0, 5);
  const Segments cut = cut_rows(tokens, rows, segment);
  if (cut.extra == 0) return;
  RC_ASSERT(cut.segment == segment);
  expect_each_token_once(offsets, tokens, segment, cut.extra);
}

TEST(CutRows, RowsAtTheEdgesOfMarks) {
  for (std::int64_t begin = 0; begin <= 8; ++begin) {
    for (std::int64_t length = 0; length <= 20; ++length) {
      const std::int64_t tokens = begin + length;
      expect_each_token_once({begin, tokens}, tokens, 4, tokens > 0 ? (tokens - 1) / 4 : 0);
    }
  }
}

TEST(Lanes, FitWhereBaseAndStridesAreMultiples) {
  alignas(16) float memory[8] = {};
  EXPECT_TRUE(lanes_fit(memory, 4, 1, {8, 4}, 4));
  EXPECT_TRUE(lanes_fit(memory, 4, 1, {-8}, 4));
  EXPECT_FALSE(lanes_fit(memory + 1, 4, 1, {8}, 4));
  EXPECT_FALSE(lanes_fit(memory, 4, 2, {8}, 4));
  EXPECT_FALSE(lanes_fit(memory, 4, 1, {8, 6}, 4));
  EXPECT_TRUE(lanes_fit(memory + 2, 2, 1, {4}, 4));  // 8 bytes in
  EXPECT_TRUE(lanes_fit(memory + 1, 4, 1, {7}, 1));
}

TEST(Conv, WideThreadsOnlyWhereEnoughOfThemAreLeft) {
  EXPECT_FALSE(wide_conv(true, 10240, 1));
  EXPECT_FALSE(wide_conv(true, 10240, 13));
  EXPECT_TRUE(wide_conv(true, 10240, 14));
  EXPECT_FALSE(wide_conv(false, 10240, 14));
  EXPECT_FALSE(wide_conv(true, 10242, 1000));
  for (const int lanes : {1, kConvLanes}) {
    for (std::int64_t channels = 1; channels < 3000; channels += 37) {
      EXPECT_GE(conv_tiles(channels, lanes) * kConvThreads * lanes, channels);
      EXPECT_LT((conv_tiles(channels, lanes) - 1) * kConvThreads * lanes, channels);
    }
  }
  static_assert(kConvSegment >= 7, "the halo of a segment lies in the one before it");
}

TEST(Split, SeveralTokensAThreadInLargeCalls) {
  EXPECT_EQ(split_tokens(17, 1), 1);
  EXPECT_EQ(split_tokens(17, 120), 1);
  EXPECT_EQ(split_tokens(17, 128), kSplitTokens);
  EXPECT_EQ(split_tokens(300, 1), kSplitTokens);
}

// A packed row whose elements are their columns, split by the CPU: what arrives at an output's element is the column it came from.
void expect_columns_of_the_cpu(const PackedSizes& s) {
  const std::int64_t C = qkv_channels(s), values = s.HV * s.V;
  std::vector<float> qkvz(static_cast<std::size_t>(C + values)), ba(static_cast<std::size_t>(2 * s.HV));
  for (std::size_t i = 0; i < qkvz.size(); ++i) qkvz[i] = static_cast<float>(i);
  for (std::size_t i = 0; i < ba.size(); ++i) ba[i] = static_cast<float>(i);
  std::vector<float> mixed(static_cast<std::size_t>(C)), z(static_cast<std::size_t>(values)), b(static_cast<std::size_t>(s.HV)),
      a(b);
  SplitProjectionsParams p;
  p.layout = s.layout;
  p.num_k_heads = static_cast<std::int32_t>(s.H);
  p.num_v_heads = static_cast<std::int32_t>(s.HV);
  p.head_k_dim = static_cast<std::int32_t>(s.K);
  p.head_v_dim = static_cast<std::int32_t>(s.V);
  p.qkvz = {qkvz.data(), DType::f32, {1, C + values}};
  p.ba = {ba.data(), DType::f32, {1, 2 * s.HV}};
  p.mixed_qkv = {mixed.data(), DType::f32, {1, C}};
  p.z = {z.data(), DType::f32, {1, s.HV, s.V}};
  p.b = {b.data(), DType::f32, {1, s.HV}};
  p.a = {a.data(), DType::f32, {1, s.HV}};
  const Status status = run(p, Launch{});
  ASSERT_TRUE(status.ok()) << status.message;
  for (std::int64_t c = 0; c < C; ++c) EXPECT_EQ(static_cast<float>(qkv_column(s, c)), mixed[static_cast<std::size_t>(c)]) << c;
  for (std::int64_t j = 0; j < s.HV; ++j) {
    EXPECT_EQ(static_cast<float>(b_column(s, j)), b[static_cast<std::size_t>(j)]) << j;
    EXPECT_EQ(static_cast<float>(a_column(s, j)), a[static_cast<std::size_t>(j)]) << j;
    for (std::int64_t v = 0; v < s.V; ++v) {
      EXPECT_EQ(static_cast<float>(z_column(s, j, v)), z[static_cast<std::size_t>(j * s.V + v)]) << j << " " << v;
    }
  }
}

TEST(Packed, ColumnsAreTheCpus) {
  for (const Layout layout : {Layout::interleaved, Layout::flat}) {
    for (const PackedSizes& s : {PackedSizes{layout, 1, 1, 1, 1}, PackedSizes{layout, 2, 6, 4, 8}, PackedSizes{layout, 3, 3, 5, 2},
                                 PackedSizes{layout, 4, 8, 7, 3}, PackedSizes{layout, 16, 48, 128, 128}}) {
      expect_columns_of_the_cpu(s);
    }
  }
}

TEST(Packed, LanesThatFitAreNeighbours) {
  for (const Layout layout : {Layout::interleaved, Layout::flat}) {
    for (const int lanes : {4, 8}) {
      const PackedSizes s{layout, 2, 4, 16, 8};
      ASSERT_TRUE(packed_lanes_fit(s, lanes));
      for (std::int64_t c = 0; c < qkv_channels(s); ++c) {
        const std::int64_t first = c / lanes * lanes;
        EXPECT_EQ(qkv_column(s, c), qkv_column(s, first) + c % lanes);
        EXPECT_EQ(qkv_column(s, first) % lanes, 0);
      }
    }
  }
  EXPECT_FALSE(packed_lanes_fit({Layout::flat, 2, 4, 16, 6}, 4));
  EXPECT_FALSE(packed_lanes_fit({Layout::flat, 2, 4, 6, 16}, 4));
}

}  // namespace
}  // namespace recoverssm::cuda
