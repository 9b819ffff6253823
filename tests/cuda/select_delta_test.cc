// How the delta kernels are cut: every value row in exactly one place, within what a block may have.
#include "cuda/select_delta.h"

#include <gtest/gtest.h>

namespace recoverssm::cuda {
namespace {

constexpr int kKeySizes[] = {1, 16, 64, 100, 128, 200, 256};
constexpr std::int64_t kValueSizes[] = {1, 4, 30, 64, 128, 256, 1000};
constexpr std::int64_t kHeads[] = {1, 48, 127, 128, 384, 1536, 3072, 100000};

template <class F>
void for_all(F&& f) {
  for (const int K : kKeySizes) {
    for (const std::int64_t V : kValueSizes) {
      for (const std::int64_t heads : kHeads) {
        for (const bool kda : {false, true}) f(select_tile(K, K % 64 == 0 && V % 4 == 0, few_heads(heads)), K, V, heads, kda);
      }
    }
  }
}

void expect_covers(const DeltaTile& tile, const DeltaCut& cut, std::int64_t V, bool kda) {
  EXPECT_GE(cut.warps, 1);
  EXPECT_LE(cut.warps, kMaxWarps);
  EXPECT_GE(std::int64_t{cut.tiles} * cut.block_rows(tile), V);
  EXPECT_LT(std::int64_t{cut.tiles - 1} * cut.block_rows(tile), V);  // no block without a row
  EXPECT_GE(cut.token_chunk, 1);
  EXPECT_LE(shared_floats(tile, cut.block_rows(tile), kda, cut.token_chunk) * 4, kSharedBytes);
}

TEST(SelectDelta, TilesHoldTheKey) {
  for_all([](const DeltaTile& tile, int K, std::int64_t V, std::int64_t, bool) {
    EXPECT_GE(32 * tile.chunks, K);
    EXPECT_EQ(tile.whole, K == 32 * tile.chunks && V % 4 == 0 && K % 64 == 0);
  });
}

TEST(SelectDelta, WindowsCoverAllValueRows) {
  for_all([](const DeltaTile& tile, int, std::int64_t V, std::int64_t heads, bool kda) {
    for (const std::int64_t S : {1, 4, 16, 40}) {
      for (const bool together : {false, true}) {
        const DeltaCut cut = cut_windows(tile, V, heads, S, kda, together);
        expect_covers(tile, cut, V, kda);
        EXPECT_LE(cut.token_chunk, S < 16 ? S : 16);
        if (together) {
          EXPECT_EQ(cut.tiles, 1);
        }
      }
    }
  });
}

TEST(SelectDelta, PlainRowsStayInOnePass) {
  for_all([](const DeltaTile& tile, int, std::int64_t V, std::int64_t, bool kda) {
    const DeltaCut cut = cut_plain(tile, V, kda);
    expect_covers(tile, cut, V, kda);
    EXPECT_EQ(cut.passes, 1);
  });
}

TEST(SelectDelta, MoreHeadsThanRoomTakeFewerWarps) {
  EXPECT_EQ(window_warps(8, 384), 4);
  EXPECT_EQ(window_warps(8, 1536), 1);
  EXPECT_EQ(window_warps(8, 3072), 2);
  EXPECT_EQ(window_warps(1, 384), 1);
}

}  // namespace
}  // namespace recoverssm::cuda
