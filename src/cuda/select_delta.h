// Which delta kernel a call runs and how its work is cut: pure functions of shapes, compiled and tested without a device. No choice made
// here changes a bit of a result.
#pragma once

#include <cstdint>

namespace recoverssm::cuda {

// A state row is spread over eight lanes, four neighbours a lane and chunk of 32: the canonical dot's leaves. A warp holds four lane
// groups, a lane group `rows` rows.
constexpr int kLanesPerRow = 8;
constexpr int kGroupsPerWarp = 4;
constexpr int kMaxWarps = 8;
constexpr int kSharedBytes = 48 * 1024;  // what a block may have without asking

struct DeltaTile {
  int chunks = 4;     // of 32 key elements, in registers
  int rows = 4;       // of a lane group
  bool whole = true;  // K is 32 * chunks and all accesses are aligned: vector accesses, no bounds

  bool operator==(const DeltaTile&) const = default;
};

// K <= 256. aligned: every row of state, keys and queries starts on a multiple of four elements.
constexpr DeltaTile select_tile(int K, bool aligned) {
  if (aligned && K == 64) return {2, 4, true};
  if (aligned && K == 128) return {4, 4, true};
  if (aligned && K == 256) return {8, 2, true};
  return K <= 128 ? DeltaTile{4, 4, false} : DeltaTile{8, 2, false};
}

// How the value rows of a head go over blocks of threads.
struct DeltaCut {
  int warps = 2;
  int passes = 1;       // of a block over its value rows
  int tiles = 1;        // blocks a head
  int token_chunk = 1;  // tokens prepared at once in shared memory

  constexpr int pass_rows(const DeltaTile& tile) const { return warps * kGroupsPerWarp * tile.rows; }
  constexpr int block_rows(const DeltaTile& tile) const { return passes * pass_rows(tile); }
  bool operator==(const DeltaCut&) const = default;
};

constexpr int ceil_int(std::int64_t a, std::int64_t b) { return static_cast<int>((a + b - 1) / b); }
constexpr int round_up4(int n) { return (n + 3) / 4 * 4; }

// Floats of shared memory for `tokens` tokens: keys, queries, decays, beta, k.q, values.
constexpr std::int64_t shared_floats(const DeltaTile& tile, int block_rows, bool kda, int tokens) {
  const std::int64_t K = 32 * tile.chunks, scalars = round_up4(tokens);
  return tokens * (2 * K + (kda ? K : 0) + block_rows) + (kda ? 2 : 3) * scalars;
}

constexpr int most_tokens(const DeltaTile& tile, int block_rows, bool kda, int wanted) {
  int tokens = wanted < 1 ? 1 : wanted;
  while (tokens > 1 && shared_floats(tile, block_rows, kda, tokens) * 4 > kSharedBytes) --tokens;
  return tokens;
}

// Where blocks are plenty, one block takes a whole head and prepares its tokens once; where they are few, value rows are spread out.
constexpr std::int64_t kPlentyOfHeads = 1024;

// Rows of tokens that leave records or snapshots: at most S tokens. heads: rows of the call times value heads.
// together: no block may write records before all of the head has read the old ones (lazy form): one block a head.
constexpr DeltaCut cut_windows(const DeltaTile& tile, std::int64_t V, std::int64_t heads, std::int64_t S, bool kda, bool together) {
  const int warp_rows = kGroupsPerWarp * tile.rows;
  const int needed = ceil_int(V, warp_rows);
  DeltaCut cut;
  if (together) {
    cut.warps = needed < kMaxWarps ? needed : kMaxWarps;
    cut.passes = ceil_int(needed, cut.warps);
  } else {
    cut.warps = needed < 2 ? 1 : 2;
    const int all_passes = ceil_int(needed, cut.warps);
    cut.passes = heads >= kPlentyOfHeads ? all_passes : 1;
    if (cut.passes > 8) cut.passes = 8;
    cut.tiles = ceil_int(all_passes, cut.passes);
  }
  const int wanted = S < 16 ? static_cast<int>(S) : 16;
  cut.token_chunk = most_tokens(tile, cut.block_rows(tile), kda, wanted);
  return cut;
}

// Rows of any length: a block keeps its value rows in registers from the first token to the last.
constexpr DeltaCut cut_plain(const DeltaTile& tile, std::int64_t V, std::int64_t heads, bool kda) {
  const int needed = ceil_int(V, kGroupsPerWarp * tile.rows);
  DeltaCut cut;
  const int most = heads >= kPlentyOfHeads ? 4 : 2;
  cut.warps = needed < most ? needed : most;
  cut.tiles = ceil_int(needed, cut.warps);
  cut.token_chunk = most_tokens(tile, cut.block_rows(tile), kda, 16);
  return cut;
}

}  // namespace recoverssm::cuda
