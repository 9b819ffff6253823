// How the delta kernels are cut: every value row in exactly one place, within what a block may have.
#include "cuda/select_delta.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace recoverssm::cuda {
namespace {

constexpr int kKeySizes[] = {1, 16, 64, 100, 128, 200, 256};
constexpr std::int64_t kValueSizes[] = {1, 4, 30, 64, 128, 256, 1000, 8192, 100000, 1 << 30};
constexpr std::int64_t kHeads[] = {1, 48, 63, 64, 96, 127, 128, 384, 1536, 3072, 100000};

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

TEST(SelectDelta, WarpsAloneCoverAllValueRows) {
  for (const int K : kKeySizes) {
    for (const std::int64_t V : kValueSizes) {
      for (const std::int64_t HV : {1, 2, 5, 9, 48, 127}) {
        const DeltaTile tile = select_tile(K, K % 64 == 0 && V % 4 == 0, /*few=*/true);
        EXPECT_EQ(tile.rows, 1);  // whose kernels launch_few takes
        const int tile_rows = few_rows(tile.chunks, tile.whole);
        EXPECT_TRUE(tile_rows == 1 || tile_rows == 2 || tile_rows == 4) << tile_rows;
        EXPECT_LE(tile.chunks * tile_rows, 16);
        for (std::int64_t rows = 1; warps_alone(HV * rows, V, 1, false); ++rows) {
          const FewCut cut = cut_few(tile_rows, V, HV, rows);
          EXPECT_GE(std::int64_t{cut.tiles} * kGroupsPerWarp * tile_rows, V);
          EXPECT_LT(std::int64_t{cut.tiles - 1} * kGroupsPerWarp * tile_rows, V);  // no warp without a value row
          EXPECT_GE(cut.warps, 1);
          EXPECT_LE(cut.warps, kMaxWarps);
          EXPECT_GE(few_blocks(cut, HV) * cut.warps, HV * cut.tiles);
          const bool one_turn = rows * few_blocks(cut, HV) <= kMultiprocessors;
          EXPECT_TRUE(one_turn || cut.warps == kMaxWarps) << HV << " x " << rows;
        }
      }
    }
  }
}

// What was measured on an H200, 48 value heads: one row and two.
TEST(SelectDelta, WarpsWorkAloneOnFewHeadsAndTokens) {
  for (const bool kda : {false, true}) {
    for (const std::int64_t V : {std::int64_t{1}, std::int64_t{128}, kMostAloneValues}) {
      for (const std::int64_t heads : {1, 48, 63}) {
        EXPECT_TRUE(warps_alone(heads, V, 2 - kda, kda));
        EXPECT_FALSE(warps_alone(heads, V, 3 - kda, kda));
      }
      for (const std::int64_t heads : {64, 96, 127}) {
        EXPECT_TRUE(warps_alone(heads, V, 3 - kda, kda));
        EXPECT_FALSE(warps_alone(heads, V, 4 - kda, kda));
      }
      EXPECT_FALSE(warps_alone(128, V, 1, kda));
    }
    EXPECT_FALSE(warps_alone(48, kMostAloneValues + 1, 1, kda));
  }
  EXPECT_EQ(cut_few(4, 128, 48, 1), (FewCut{8, 3}));  // 128 blocks
  EXPECT_EQ(cut_few(4, 128, 48, 2), (FewCut{8, 6}));
}

TEST(SelectDelta, WarpsDecodeAloneAboutATokenARow) {
  for (const std::int64_t rows : {1, 2, 8, 256, 65535}) {
    EXPECT_TRUE(decodes_alone(128, true, 128, 4, rows, rows));
    EXPECT_TRUE(decodes_alone(128, true, kMostAloneValues, 4, 1, rows));
    EXPECT_FALSE(decodes_alone(128, true, 128, 4, rows + 1, rows));
    EXPECT_FALSE(decodes_alone(128, true, kMostAloneValues + 4, 4, rows, rows));
    EXPECT_FALSE(decodes_alone(128, true, 128, 2, rows, rows));
    EXPECT_FALSE(decodes_alone(128, false, 128, 4, rows, rows));
    for (const int K : {64, 127, 256}) EXPECT_FALSE(decodes_alone(K, K % 64 == 0, 128, 4, rows, rows));
    for (const bool kda : {false, true}) {
      for (const std::int64_t V : {1, 7, 128, 1000}) {
        for (const std::int64_t HV : {1, 5, 48}) {
          const int tile_rows = decode_rows(HV * rows, kda);
          const FewCut cut = cut_decode(tile_rows, V, HV, rows);
          EXPECT_GE(std::int64_t{cut.tiles} * kGroupsPerWarp * tile_rows, V);
          EXPECT_LT(std::int64_t{cut.tiles - 1} * kGroupsPerWarp * tile_rows, V);
          EXPECT_GE(few_blocks(cut, HV) * cut.warps, HV * cut.tiles);
          EXPECT_TRUE(cut.warps == 1 || (HV * rows < kAloneHeads && cut.warps <= kMaxWarps));
        }
      }
    }
  }
  EXPECT_EQ(decode_rows(127, true), 2);
  EXPECT_EQ(decode_rows(128, true), 4);
  EXPECT_EQ(decode_rows(12288, false), 2);
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
