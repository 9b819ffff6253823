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
constexpr std::int64_t kMultiprocessors = 132;  // an H200's
constexpr int kSharedBytes = 48 * 1024;         // what a block may have without asking

struct DeltaTile {
  int chunks = 4;     // of 32 key elements, in registers
  int rows = 4;       // of a lane group
  bool whole = true;  // K is 32 * chunks, V a multiple of four, all accesses aligned: vector accesses, no bounds

  bool operator==(const DeltaTile&) const = default;
};

// K <= 256. aligned: every row of the state starts on a multiple of four elements, and there is a multiple of four of them.
// few: rather many warps with one row a lane group than few with many. Sizes out of the ordinary take the same way.
constexpr DeltaTile select_tile(int K, bool aligned, bool few) {
  if (aligned && K == 64) return {2, few ? 1 : 4, true};
  if (aligned && K == 128) return {4, few ? 1 : 4, true};
  if (aligned && K == 256) return {8, few ? 1 : 2, true};
  return {K <= 128 ? 4 : 8, 1, false};
}

// What the lazy verify runs in place of `tile`: it also folds records, which spills at four rows of 128. With one row it was slower than with two
// as well: its one block a head has eight warps' room in any case.
constexpr DeltaTile lazy_tile(const DeltaTile& tile) { return tile.whole && tile.chunks == 4 ? DeltaTile{4, 2, true} : tile; }

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

// Floats of shared memory a prepared token takes: key, query, kda's decays; decay, beta, k.q; values, which become outputs; corrections.
constexpr std::int64_t token_floats(int chunks, std::int64_t block_rows, bool kda) {
  return 32 * chunks * (kda ? 3 : 2) + 4 + 2 * block_rows;
}

constexpr std::int64_t shared_floats(const DeltaTile& tile, std::int64_t block_rows, bool kda, int tokens) {
  return tokens * token_floats(tile.chunks, block_rows, kda);
}

constexpr int kMostTokens = 16;
constexpr int most_tokens(const DeltaTile& tile, std::int64_t block_rows, bool kda, int wanted, std::int64_t bytes_beside = 0) {
  int tokens = wanted < 1 ? 1 : wanted;
  while (tokens > 1 && shared_floats(tile, block_rows, kda, tokens) * 4 + bytes_beside > kSharedBytes) --tokens;
  return tokens;
}

// Where heads are few, value rows are spread over several blocks; otherwise a block takes a whole head and prepares its tokens once.
// heads: rows of the call times value heads. Of 48 heads a row one row is few; two, whose blocks of many warps did not all find room at once, took
// up to a third less the other way (windows and prefill).
constexpr std::int64_t kFewHeads = 64;
constexpr bool few_heads(std::int64_t heads) { return heads < kFewHeads; }

// Most passes of a block whose prepared tokens still fit: with value heads of thousands of rows not all of a head.
constexpr int most_passes(const DeltaTile& tile, int warps, bool kda, int wanted) {
  const std::int64_t values = (kSharedBytes / 4 - token_floats(tile.chunks, 0, kda)) / 2;
  const std::int64_t most = values / (warps * kGroupsPerWarp * tile.rows);
  return most < 1 ? 1 : most < wanted ? static_cast<int>(most) : wanted;
}

// Warps of a block that takes a whole head of `needed` warps' rows, where a multiprocessor has room for sixteen warps at a time and for blocks
// of `bytes` of shared memory. More warps make a block quicker, but not in proportion (it prepares its tokens first), and blocks beyond the
// room wait for a second turn: turns times the time of a turn, (4 + warps) / warps. With many turns two warps, but for small states and few
// tokens. From measurements on an H200; what shared memory leaves room for is arithmetic alone.
constexpr std::int64_t kRoomForWarps = 16, kRoomForBytes = 227 * 1024;
constexpr int window_warps(int needed, std::int64_t heads, std::int64_t S, std::int64_t state_size, std::int64_t bytes) {
  if (heads > 2 * kMultiprocessors * kRoomForWarps && (state_size == 4 || S > 4)) return needed < 2 ? 1 : 2;
  const std::int64_t fit = bytes <= kRoomForBytes / kRoomForWarps ? kRoomForWarps
                           : bytes < kRoomForBytes                ? kRoomForBytes / bytes
                                                                  : 1;
  int best = 1;
  std::int64_t least = INT64_MAX;
  for (int warps = 1; warps <= kMaxWarps && warps <= needed; warps *= 2) {
    const std::int64_t blocks = kMultiprocessors * (fit < kRoomForWarps / warps ? fit : kRoomForWarps / warps);
    const std::int64_t turns = (heads + blocks - 1) / blocks;
    const std::int64_t time = turns * (4 + warps) * (kMaxWarps / warps);
    if (time < least) {
      least = time;
      best = warps;
    }
  }
  return best;
}

// Value rows of a head that the lazy verify takes: its one block a head has all of them in shared memory, whatever the tile and gate.
constexpr std::int64_t kMostLazyValues = 5632;

// Blocks of kMaxWarps warps that a multiprocessor's registers are shared out for.
constexpr int window_blocks(int chunks, int rows, bool lazy) { return chunks * rows <= 8 && lazy ? 3 : 2; }

// Rows of at most S tokens, which leave records or snapshots. together: no block may write records before all of the head has read the old
// ones (lazy form): one block a head.
constexpr DeltaCut cut_windows(const DeltaTile& tile, std::int64_t V, std::int64_t heads, std::int64_t S, bool kda,
                               std::int64_t state_size, bool together) {
  const int needed = ceil_int(V, kGroupsPerWarp * tile.rows);
  const int wanted = S < kMostTokens ? static_cast<int>(S) : kMostTokens;
  const std::int64_t all_rows = std::int64_t{needed} * kGroupsPerWarp * tile.rows;
  const std::int64_t bytes = shared_floats(tile, all_rows, kda, most_tokens(tile, all_rows, kda, wanted)) * 4;
  DeltaCut cut;
  cut.warps =
      together || few_heads(heads) ? (needed < kMaxWarps ? needed : kMaxWarps) : window_warps(needed, heads, S, state_size, bytes);
  const int all_passes = ceil_int(needed, cut.warps);
  cut.passes = together ? all_passes : few_heads(heads) ? 1 : most_passes(tile, cut.warps, kda, all_passes);
  cut.tiles = ceil_int(all_passes, cut.passes);
  cut.token_chunk = most_tokens(tile, cut.block_rows(tile), kda, wanted);
  return cut;
}

// Verify of few heads and few tokens, where a warp works alone (few.cuh): value rows of a lane group, what registers leave room for beside a
// token's key and query, and the next one's.
constexpr int few_rows(int chunks, bool whole) { return (whole ? 4 : 2) * 4 / (chunks < 4 ? 4 : chunks); }

// A warp alone prepares every token itself. With more tokens than these, a block's warps sharing that out, or many heads' blocks, were quicker;
// kda's decays make a token dearer. With value rows by the thousand a call is no longer little more than latency.
constexpr std::int64_t kAloneHeads = 128, kMostAloneValues = 1024;
constexpr bool warps_alone(std::int64_t heads, std::int64_t V, std::int64_t S, bool kda) {
  return heads < kAloneHeads && V <= kMostAloneValues && S <= (few_heads(heads) ? 2 : 3) - (kda ? 1 : 0);
}

// Plain rows by warps alone: K = 128, fp32 states, about a token a row. On an H200 5 to 10 percent quicker from 8 rows to 256, 8 percent
// (kda 26) for one; 16-bit states are half as many bytes, and preparing a token once for a whole head was quicker.
constexpr bool decodes_alone(int K, bool aligned, std::int64_t V, std::int64_t state_size, std::int64_t tokens, std::int64_t rows) {
  return aligned && K == 128 && V <= kMostAloneValues && state_size == 4 && tokens <= rows;
}
// Of a lane group: with more of them fewer warps prepare a token, which for kda is dearer.
constexpr int decode_rows(std::int64_t heads, bool kda) { return kda && heads >= kAloneHeads ? 4 : 2; }

struct FewCut {
  int tiles = 1;  // of a head: one a warp
  int warps = 1;  // of a block

  bool operator==(const FewCut&) const = default;
};

// Blocks for all multiprocessors, of as few warps as that takes: the next kernel's blocks, which start beside them, then find the same room
// everywhere. With blocks of two warps instead of six a call of two rows took a quarter longer.
constexpr FewCut cut_few(int tile_rows, std::int64_t V, std::int64_t HV, std::int64_t rows) {
  const int tiles = ceil_int(V, kGroupsPerWarp * tile_rows);
  const int warps = ceil_int(HV * tiles, rows < kMultiprocessors ? kMultiprocessors / rows : 1);  // no block has warps of two rows
  return {tiles, warps < kMaxWarps ? warps : kMaxWarps};
}
// With many heads room is found anyway, by small blocks best.
constexpr FewCut cut_decode(int tile_rows, std::int64_t V, std::int64_t HV, std::int64_t rows) {
  if (HV * rows < kAloneHeads) return cut_few(tile_rows, V, HV, rows);
  return {ceil_int(V, kGroupsPerWarp * tile_rows), 1};
}
constexpr std::int64_t few_blocks(const FewCut& cut, std::int64_t HV) { return ceil_int(HV * cut.tiles, cut.warps); }

// Commit and materialize: fours of state rows that a thread holds at a time (ragged: rows of a lane group), and blocks of a multiprocessor.
// Seven blocks of eight fours took 3 to 6 percent longer: on an H200, memory likes few long streams. kda, which works out decays before its
// loads are used, is 12 percent quicker with a fourth block (K = 128); gdn 1 percent slower.
constexpr int kReplayThreads = 128;
constexpr int kReplayRows = 2;
constexpr int replay_fours(std::int64_t state_size) { return state_size == 4 ? 16 : 8; }
constexpr int replay_blocks(bool whole, int chunks, bool kda) { return !whole ? 7 : kda && chunks == 4 ? 4 : 3; }
constexpr int replay_pass_rows(bool whole, int chunks, std::int64_t state_size) {
  return whole ? kReplayThreads * replay_fours(state_size) / (8 * chunks) : kReplayThreads / kLanesPerRow * kReplayRows;
}

// Passes of a block over its value rows. 16-bit states are half as many bytes, so half as many are on their way at a time: several passes,
// and the next one's rows fetched during each. With fp32 states that was slower.
constexpr int replay_passes(bool whole, std::int64_t state_size) { return whole && state_size == 2 ? 4 : 1; }
constexpr int replay_value_rows(const DeltaTile& tile, std::int64_t state_size) {
  return replay_passes(tile.whole, state_size) * replay_pass_rows(tile.whole, tile.chunks, state_size);
}

// A block's shared memory beside that for tokens: state rows on their way.
constexpr std::int64_t replay_ahead_bytes(const DeltaTile& tile, std::int64_t state_size) {
  return replay_passes(tile.whole, state_size) == 1 ? 0 : std::int64_t{kReplayThreads} * replay_fours(state_size) * 4 * state_size;
}
constexpr int replay_tokens(const DeltaTile& tile, std::int64_t state_size, bool kda) {
  return most_tokens(tile, replay_value_rows(tile, state_size), kda, 8, replay_ahead_bytes(tile, state_size));
}

// Rows of any length: a block keeps its value rows in registers from the first token to the last. Where rows are short (so few tokens of a
// row on the average) and heads many, it takes a whole head, one pass after the other: what it prepares serves all of them.
constexpr std::int64_t kShortRow = 4;
constexpr DeltaCut cut_plain(const DeltaTile& tile, std::int64_t V, std::int64_t heads, std::int64_t rows, std::int64_t tokens,
                             bool kda) {
  const int needed = ceil_int(V, kGroupsPerWarp * tile.rows);
  const int most = tile.rows == 1 ? kMaxWarps : 4;
  const bool whole_heads = !few_heads(heads) && tokens <= kShortRow * rows;
  DeltaCut cut;
  cut.warps = needed < most ? needed : most;
  const int all_passes = ceil_int(needed, cut.warps);
  cut.passes = whole_heads ? most_passes(tile, cut.warps, kda, all_passes) : 1;
  cut.tiles = ceil_int(all_passes, cut.passes);
  cut.token_chunk = most_tokens(tile, cut.block_rows(tile), kda, whole_heads ? static_cast<int>(kShortRow) : kMostTokens);
  return cut;
}

}  // namespace recoverssm::cuda
