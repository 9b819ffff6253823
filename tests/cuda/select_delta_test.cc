// How the delta kernels are cut: every value row in exactly one place, within what a block may have.
#include "cuda/select_delta.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace recoverssm::cuda {
namespace {

constexpr int kKeySizes[] = {1, 16, 64, 100, 128, 200, 256};
constexpr std::int64_t kValueSizes[] = {1, 4, 30, 64, 128, 256, 1000, 8192, 100000, 1 << 30};
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

TEST(SelectDelta, TheLazyTileHoldsTheKeyAndCoversTheValues) {
  for (const int K : kKeySizes) {
    for (const std::int64_t V : kValueSizes) {
      for (const std::int64_t heads : kHeads) {
        const bool aligned = K % 64 == 0 && V % 4 == 0;
        const DeltaTile other = select_tile(K, aligned, few_heads(heads)), tile = lazy_tile(other);
        EXPECT_EQ(tile.chunks, other.chunks);
        EXPECT_EQ(tile.whole, other.whole);
        EXPECT_LE(tile.rows, std::max(other.rows, 2));
        if (V <= kMostLazyValues) expect_covers(tile, cut_windows(tile, V, heads, 4, false, 4, true), V, false);
      }
    }
  }
  EXPECT_EQ(lazy_tile(select_tile(128, true, false)), (DeltaTile{4, 2, true}));
  EXPECT_EQ(lazy_tile(select_tile(128, true, true)), (DeltaTile{4, 2, true}));
}

TEST(SelectDelta, WindowsCoverAllValueRows) {
  for_all([](const DeltaTile& tile, int, std::int64_t V, std::int64_t heads, bool kda) {
    for (const std::int64_t S : {1, 4, 16, 40}) {
      for (const bool together : {false, true}) {
        for (const std::int64_t state_size : {2, 4}) {
          const DeltaCut cut = cut_windows(tile, V, heads, S, kda, state_size, together);
          if (together && V > kMostLazyValues) continue;
          expect_covers(tile, cut, V, kda);
          EXPECT_LE(cut.token_chunk, S < kMostTokens ? S : kMostTokens);
          if (together) {
            EXPECT_EQ(cut.tiles, 1);
          }
        }
      }
    }
  });
}

TEST(SelectDelta, PlainRowsStayInOnePassUnlessAllAreShort) {
  for_all([](const DeltaTile& tile, int, std::int64_t V, std::int64_t heads, bool kda) {
    for (const std::int64_t tokens : {1, 4, 5, 1000}) {  // of a row
      const DeltaCut cut = cut_plain(tile, V, heads, 10, 10 * tokens, kda);
      expect_covers(tile, cut, V, kda);
      EXPECT_LE(cut.token_chunk, kMostTokens);
      if (few_heads(heads) || tokens > kShortRow) {
        EXPECT_EQ(cut.passes, 1);
      } else if (V <= 1000) {
        EXPECT_EQ(cut.tiles, 1);
      }
    }
  });
}

TEST(SelectDelta, CommitsPassesFitWithTheirFetchedRows) {
  for (const int K : kKeySizes) {
    for (const bool kda : {false, true}) {
      for (const std::int64_t state_size : {2, 4}) {
        const DeltaTile tile = select_tile(K, K % 64 == 0, true);
        const int rows = replay_value_rows(tile, state_size), tokens = replay_tokens(tile, state_size, kda);
        EXPECT_GE(tokens, 1);
        EXPECT_LE(shared_floats(tile, rows, kda, tokens) * 4 + replay_ahead_bytes(tile, state_size), kSharedBytes);
      }
    }
  }
  EXPECT_EQ(replay_tokens(select_tile(256, true, true), 2, true), 8);
  EXPECT_EQ(replay_tokens(select_tile(128, true, true), 4, false), 8);
}

TEST(SelectDelta, TokensMakeRoomForWhatLiesBesideThem) {
  const DeltaTile tile = select_tile(256, true, true);
  EXPECT_EQ(most_tokens(tile, 128, true, 8, 0), 8);
  EXPECT_EQ(most_tokens(tile, 128, true, 8, 16 * 1024), 7);
  EXPECT_EQ(most_tokens(tile, 128, true, 8, kSharedBytes), 1);  // one there is in any case
}

// A pass is as many state elements as its threads hold, and each warp has whole rows.
TEST(SelectDelta, ReplayPassesAreWholeWarpsOfRows) {
  for (const int chunks : {2, 4, 8}) {
    for (const std::int64_t state_size : {2, 4}) {
      EXPECT_EQ(replay_pass_rows(true, chunks, state_size) * 32 * chunks, kReplayThreads * replay_fours(state_size) * 4);
      EXPECT_EQ(replay_pass_rows(true, chunks, state_size) % (kReplayThreads / 32), 0);
    }
  }
  EXPECT_EQ(replay_pass_rows(true, 4, 4), 64);
  EXPECT_EQ(replay_value_rows(select_tile(128, true, true), 2), 128);
  EXPECT_EQ(replay_value_rows(select_tile(100, false, true), 4), 32);
}

TEST(SelectDelta, TheLazyFormFitsUpToItsLimit) {
  for (const int K : kKeySizes) {
    for (const bool kda : {false, true}) {
      for (const std::int64_t heads : kHeads) {
        const DeltaTile tile = lazy_tile(select_tile(K, K % 64 == 0, few_heads(heads)));
        const DeltaCut cut = cut_windows(tile, kMostLazyValues, heads, 16, kda, 4, true);
        EXPECT_EQ(cut.tiles, 1);
        expect_covers(tile, cut, kMostLazyValues, kda);
      }
    }
  }
}

TEST(SelectDelta, MoreHeadsThanRoomTakeFewerWarps) {
  constexpr std::int64_t kSmall = 8 * 1024, kLarge = 21 * 1024;  // of shared memory
  EXPECT_EQ(window_warps(8, 384, 4, 4, kSmall), 4);
  EXPECT_EQ(window_warps(8, 1536, 4, 4, kSmall), 1);
  EXPECT_EQ(window_warps(8, 1536, 8, 4, kLarge), 2);  // ten blocks of one warp fit, not sixteen
  EXPECT_EQ(window_warps(8, 3072, 4, 4, kSmall), 2);
  EXPECT_EQ(window_warps(8, 12288, 4, 4, kSmall), 2);
  EXPECT_EQ(window_warps(8, 12288, 4, 2, kSmall), 1);
  EXPECT_EQ(window_warps(8, 12288, 8, 2, kSmall), 2);
  EXPECT_EQ(window_warps(1, 384, 4, 4, kSmall), 1);
  EXPECT_EQ(window_warps(1, 12288, 4, 4, kSmall), 1);
}

// What the figures of docs/benchmarks/h200.md were measured with.
TEST(SelectDelta, GdnWindowsOf128AreCutAsMeasured) {
  const auto warps = [](std::int64_t rows, std::int64_t S) {
    const DeltaTile tile = select_tile(128, true, few_heads(48 * rows));
    return cut_windows(tile, 128, 48 * rows, S, false, 4, false).warps;
  };
  for (const std::int64_t S : {1, 2, 4, 8}) {
    EXPECT_EQ(warps(1, S), 8);
    EXPECT_EQ(warps(8, S), 4);
    EXPECT_EQ(warps(32, S), 1);
    EXPECT_EQ(warps(64, S), 2);
    EXPECT_EQ(warps(128, S), 2);
    EXPECT_EQ(warps(256, S), 2);
  }
}

}  // namespace
}  // namespace recoverssm::cuda
