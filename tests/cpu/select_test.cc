// Which kernel a shape gets, and how tasks are cut into pieces.
#include "cpu/select.h"

#include <gtest/gtest.h>

namespace recoverssm::cpu {
namespace {

TEST(Select, DeltaReadsWholeTilesOfWholeBlocksWhereTheyLie) {
  for (int K = 1; K <= 256; ++K) {
    for (int rows = 1; rows <= kStateRows; ++rows) {
      for (const bool has_state : {false, true}) {
        const DeltaChoice choice = select_delta(K, rows, has_state);
        EXPECT_EQ(choice.common_k, K == 128) << K;
        EXPECT_EQ(choice.whole_blocks, padded_k(K) == K) << K;
        EXPECT_EQ(choice.from_state, has_state && padded_k(K) == K && rows == 16) << K << " " << rows;
      }
    }
  }
  static_assert(select_delta(128, 16, true) == DeltaChoice{.common_k = true, .whole_blocks = true, .from_state = true});
  static_assert(select_delta(64, 16, true) == DeltaChoice{.common_k = false, .whole_blocks = true, .from_state = true});
  static_assert(select_delta(100, 16, true) == DeltaChoice{.common_k = false, .whole_blocks = false, .from_state = false});
}

TEST(Select, ReplayInRegistersForFp32RowsOfWholeBlocks) {
  for (int K = 1; K <= 256; ++K) {
    EXPECT_EQ(select_direct_replay(K, DType::f32), K % 32 == 0) << K;
    EXPECT_FALSE(select_direct_replay(K, DType::bf16)) << K;
    EXPECT_FALSE(select_direct_replay(K, DType::f16)) << K;
  }
}

TEST(Select, PaddedKHoldsK) {
  for (int K = 1; K <= 256; ++K) {
    EXPECT_GE(padded_k(K), K);
    EXPECT_LT(padded_k(K), K + 32);
    EXPECT_EQ(padded_k(K) % 32, 0);
  }
}

TEST(Select, PiecesShareEveryTaskOutOnce) {
  for (const int workers : {1, 2, 7, 128}) {
    for (const std::int64_t tasks :
         {std::int64_t{1}, std::int64_t{15}, std::int64_t{16}, std::int64_t{383}, std::int64_t{100000}}) {
      const std::int64_t pieces = pieces_of(tasks, workers);
      ASSERT_GE(pieces, 1);
      ASSERT_LE(pieces, tasks);
      std::int64_t next = 0;
      for (std::int64_t piece = 0; piece < pieces; ++piece) {
        ASSERT_EQ(share_of(tasks, piece, pieces), next);
        next = share_of(tasks, piece + 1, pieces);
        ASSERT_GE(next - share_of(tasks, piece, pieces), tasks / pieces);
        ASSERT_LE(next - share_of(tasks, piece, pieces), tasks / pieces + 1);
      }
      ASSERT_EQ(next, tasks);
    }
  }
  // Where the product of both would not fit.
  constexpr std::int64_t kMany = INT64_MAX;
  EXPECT_EQ(share_of(kMany, 32, 32), kMany);
}

}  // namespace
}  // namespace recoverssm::cpu
