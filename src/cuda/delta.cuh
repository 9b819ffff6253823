// The gated delta rule on the device: what rule, snapshots, verify and replay are made of.
//
// A block of threads works on one value head of one row. Tokens are prepared once for all its value rows, in shared memory (Tokens): the
// normalised key and query, their dot, decay, beta, values. A warp's registers hold the state rows it owns (Tile); eight lanes share a row,
// so that a lane's four neighbours are two levels of the canonical dot's tree and three shuffles the rest.
#pragma once

#include <cstdint>

#include "arithmetic/gates.h"
#include "contract/rules.h"
#include "cuda/rows.cuh"
#include "cuda/select_delta.h"
#include "cuda/view.cuh"
#include "recoverssm/rows.hpp"

namespace recoverssm::cuda {

// How keys and raw gate inputs become k^ and d: what verify and commit must agree on.
struct GateArgs {
  View A_log, dt_bias;
  float lower_bound = 0;
  float softplus_beta = 1;
  float softplus_threshold = 20;
  bool bounded = false;
  bool l2norm = true;
};

struct RuleArgs {
  View q, k, v, a, b;
  GateArgs gate;
  float scale = 0;
  int H = 0, HV = 0, K = 0, V = 0;
  bool vector_keys = false;    // every row of q and k starts on a multiple of four elements
  bool vector_values = false;  // the same of v, and V is a multiple of four
};

struct RecordArgs {
  View packed, corrections, key_gate;
};

// What a block works on: rows value0.. of a value head, and the key head that it reads.
struct HeadPart {
  int head, key_head, value0;
};

// Grid: x parts of a head, y value heads, z rows. No data is read.
__device__ __forceinline__ HeadPart part_of_block(const RuleArgs& args, int block_rows) {
  const int head = static_cast<int>(blockIdx.y);
  return {head, key_head(head, args.H, args.HV), static_cast<int>(blockIdx.x) * block_rows};
}

// Where a block's threads keep prepared tokens, in shared memory: one after the other, each
//   k [KP] | q [KP] | decay [KP], kda only | decay (gdn), beta, k.q, - | v [block_rows] | c [block_rows]
// with KP = 32 * chunks and zeros from K on. A step leaves the token's outputs where its values were, and its corrections behind them; so
// results leave a block in whole rows. For replay v holds the corrections, and the rest but k and decay is not there.
struct Tokens {
  float* base;
  int step;  // floats from token to token
  int block_rows;
};

template <int CHUNKS, bool KDA>
struct TokenPlaces {
  static constexpr int kKP = 32 * CHUNKS;
  static constexpr int kQuery = kKP, kDecays = 2 * kKP, kScalars = (KDA ? 3 : 2) * kKP;
  static constexpr int kDecay = kScalars, kBeta = kScalars + 1, kKeyDotQuery = kScalars + 2, kValues = kScalars + 4;
};

template <int CHUNKS, bool KDA>
__device__ __forceinline__ Tokens tokens_in(float* shared, int block_rows) {
  return {shared, static_cast<int>(token_floats(CHUNKS, block_rows, KDA)), block_rows};
}

// A thread's place: lane 0..7 of its row, group 0..3 of its warp.
struct Lane {
  int in_row, group, warp;
  unsigned group_mask;
};

__device__ __forceinline__ Lane lane_of_thread() {
  const int lane = threadIdx.x % 32;
  return {lane % 8, lane / 8, static_cast<int>(threadIdx.x) / 32, 0xffu << (lane / 8 * 8)};
}

// ---- the canonical dot, spread over eight lanes

__device__ __forceinline__ float quad(float4 p) { return (p.x + p.y) + (p.z + p.w); }

// Partial sums 4l..4l+3 of x.y. Ragged: nothing is multiplied for an index >= K.
template <int CHUNKS, bool WHOLE>
__device__ __forceinline__ float4 partial_sums(const float4 (&x)[CHUNKS], const float4 (&y)[CHUNKS], int K, int lane) {
  float4 p = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int j = 0; j < CHUNKS; ++j) {
    const int e = 32 * j + 4 * lane;
    if (WHOLE || e + 0 < K) p.x = __fmaf_rn(x[j].x, y[j].x, p.x);
    if (WHOLE || e + 1 < K) p.y = __fmaf_rn(x[j].y, y[j].y, p.y);
    if (WHOLE || e + 2 < K) p.z = __fmaf_rn(x[j].z, y[j].z, p.z);
    if (WHOLE || e + 3 < K) p.w = __fmaf_rn(x[j].w, y[j].w, p.w);
  }
  return p;
}

// The upper three levels of the tree; every lane of the group gets the sum.
__device__ __forceinline__ float sum_of_group(float x, unsigned mask) {
  x = x + __shfl_xor_sync(mask, x, 1);
  x = x + __shfl_xor_sync(mask, x, 2);
  return x + __shfl_xor_sync(mask, x, 4);
}

// The same for 2*ROWS values at once, each lane ending with the sum of one: half of the values change lanes at each level. Even lanes get
// one of the first ROWS, odd lanes the same row of the others; which row: row_of_lane.
template <int ROWS>
__device__ __forceinline__ float scatter_sums(const float (&v)[2 * ROWS], int lane) {
  static_assert(ROWS == 1 || ROWS == 2 || ROWS == 4);
  const bool odd = lane & 1, second = lane & 2, fourth = lane & 4;
  float a[ROWS];
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    const float keep = odd ? v[ROWS + i] : v[i], give = odd ? v[i] : v[ROWS + i];
    a[i] = keep + __shfl_xor_sync(~0u, give, 1);
  }
  if constexpr (ROWS == 1) {
    const float pair = a[0] + __shfl_xor_sync(~0u, a[0], 2);
    return pair + __shfl_xor_sync(~0u, pair, 4);
  } else {
    float b[ROWS / 2];
#pragma unroll
    for (int i = 0; i < ROWS / 2; ++i) {
      const float keep = second ? a[ROWS / 2 + i] : a[i], give = second ? a[i] : a[ROWS / 2 + i];
      b[i] = keep + __shfl_xor_sync(~0u, give, 2);
    }
    if constexpr (ROWS == 2) {
      return b[0] + __shfl_xor_sync(~0u, b[0], 4);
    } else {
      const float keep = fourth ? b[1] : b[0], give = fourth ? b[0] : b[1];
      return keep + __shfl_xor_sync(~0u, give, 4);
    }
  }
}

// Row of its group whose sums a lane ends up with, and the even lane that has row r.
template <int ROWS>
__device__ __forceinline__ int row_of_lane(int lane) {
  if constexpr (ROWS == 1) return 0;
  return ROWS == 4 ? (lane >> 1 & 1) * 2 + (lane >> 2 & 1) : lane >> 1 & 1;
}
template <int ROWS>
__device__ __forceinline__ int lane_of_row(int r) {
  return ROWS == 4 ? (r & 2) + (r & 1) * 4 : r * 2;
}
// With fewer than four rows several lanes end with the same sums: the first of them speaks.
template <int ROWS>
__device__ __forceinline__ bool lane_speaks(int lane) {
  return ROWS == 4 || lane < 2 * ROWS;
}

// ---- state rows in registers

template <int CHUNKS, int ROWS>
struct Tile {
  float4 h[ROWS][CHUNKS];
};

template <int CHUNKS, int ROWS>
__device__ __forceinline__ void clear_tile(Tile<CHUNKS, ROWS>& tile) {
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
#pragma unroll
    for (int j = 0; j < CHUNKS; ++j) tile.h[r][j] = {0.0f, 0.0f, 0.0f, 0.0f};
  }
}

// Rows first..first+ROWS-1 of a head's [V][K] state; rows from V on are zero and are never stored. Whole: V is a multiple of four, so
// that a lane group's rows are all there or none.
template <int CHUNKS, int ROWS, bool WHOLE, class State>
__device__ __forceinline__ void load_tile(Tile<CHUNKS, ROWS>& tile, const State* head, int first, int V, int K, int lane) {
  if constexpr (WHOLE) {
    if (first >= V) return clear_tile(tile);
    const State* p = head + static_cast<std::int64_t>(first) * (32 * CHUNKS) + 4 * lane;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
      for (int j = 0; j < CHUNKS; ++j) tile.h[r][j] = load4_once(p + r * (32 * CHUNKS) + 32 * j);
    }
  } else {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const State* row = head + static_cast<std::int64_t>(first + r) * K;
#pragma unroll
      for (int j = 0; j < CHUNKS; ++j) {
        const int e = 32 * j + 4 * lane;
        const bool there = first + r < V;
        float4 x = {0.0f, 0.0f, 0.0f, 0.0f};
        if (there && e + 0 < K) x.x = widen(row[e + 0]);
        if (there && e + 1 < K) x.y = widen(row[e + 1]);
        if (there && e + 2 < K) x.z = widen(row[e + 2]);
        if (there && e + 3 < K) x.w = widen(row[e + 3]);
        tile.h[r][j] = x;
      }
    }
  }
}

template <int CHUNKS, int ROWS, bool WHOLE, class State>
__device__ __forceinline__ void store_tile(const Tile<CHUNKS, ROWS>& tile, State* head, int first, int V, int K, int lane) {
  if constexpr (WHOLE) {
    if (first >= V) return;
    State* p = head + static_cast<std::int64_t>(first) * (32 * CHUNKS) + 4 * lane;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
      for (int j = 0; j < CHUNKS; ++j) store4(p + r * (32 * CHUNKS) + 32 * j, tile.h[r][j]);
    }
  } else {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      if (first + r >= V) continue;
      State* row = head + static_cast<std::int64_t>(first + r) * K;
#pragma unroll
      for (int j = 0; j < CHUNKS; ++j) {
        const int e = 32 * j + 4 * lane;
        const float4 x = tile.h[r][j];
        if (e + 0 < K) row[e + 0] = narrow<State>(x.x);
        if (e + 1 < K) row[e + 1] = narrow<State>(x.y);
        if (e + 2 < K) row[e + 2] = narrow<State>(x.z);
        if (e + 3 < K) row[e + 3] = narrow<State>(x.w);
      }
    }
  }
}

// The state as it reads back after a store.
template <class State, int CHUNKS, int ROWS>
__device__ __forceinline__ void round_tile(Tile<CHUNKS, ROWS>& tile) {
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
#pragma unroll
    for (int j = 0; j < CHUNKS; ++j) {
      float4& x = tile.h[r][j];
      x = {widen(narrow<State>(x.x)), widen(narrow<State>(x.y)), widen(narrow<State>(x.z)), widen(narrow<State>(x.w))};
    }
  }
}

// ---- one token

template <int CHUNKS>
__device__ __forceinline__ void store_key(float* to, const float4 (&x)[CHUNKS], int lane) {
#pragma unroll
  for (int j = 0; j < CHUNKS; ++j) *reinterpret_cast<float4*>(to + 32 * j + 4 * lane) = x[j];
}

template <int CHUNKS>
__device__ __forceinline__ void read_key(float4 (&x)[CHUNKS], const float* from, int lane) {
#pragma unroll
  for (int j = 0; j < CHUNKS; ++j) x[j] = *reinterpret_cast<const float4*>(from + 32 * j + 4 * lane);
}

// h * d, rounded.
template <int CHUNKS, int ROWS, bool KDA>
__device__ __forceinline__ void decay_tile(Tile<CHUNKS, ROWS>& tile, const float* token, int lane) {
  using Places = TokenPlaces<CHUNKS, KDA>;
#pragma unroll
  for (int j = 0; j < CHUNKS; ++j) {
    float4 d;
    if constexpr (KDA) {
      d = *reinterpret_cast<const float4*>(token + Places::kDecays + 32 * j + 4 * lane);
    } else {
      const float x = token[Places::kDecay];
      d = {x, x, x, x};
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      float4& h = tile.h[r][j];
      h = {h.x * d.x, h.y * d.y, h.z * d.z, h.w * d.w};
    }
  }
}

__device__ __forceinline__ void add_rank_one(float4& h, float c, float4 k) {
  h = {__fmaf_rn(c, k.x, h.x), __fmaf_rn(c, k.y, h.y), __fmaf_rn(c, k.z, h.z), __fmaf_rn(c, k.w, h.w)};
}

// A prepared token. row: of the block's value rows, the first one of this lane group.
template <int CHUNKS, int ROWS, bool WHOLE, bool KDA>
__device__ __forceinline__ void step(Tile<CHUNKS, ROWS>& tile, float* token, int row, int block_rows, int K, const Lane& lane) {
  using Places = TokenPlaces<CHUNKS, KDA>;
  decay_tile<CHUNKS, ROWS, KDA>(tile, token, lane.in_row);
  float sums[2 * ROWS];
  float4 k[CHUNKS];
  read_key<CHUNKS>(k, token, lane.in_row);
#pragma unroll
  for (int r = 0; r < ROWS; ++r) sums[r] = quad(partial_sums<CHUNKS, WHOLE>(tile.h[r], k, K, lane.in_row));
  {
    float4 q[CHUNKS];
    read_key<CHUNKS>(q, token + Places::kQuery, lane.in_row);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) sums[ROWS + r] = quad(partial_sums<CHUNKS, WHOLE>(tile.h[r], q, K, lane.in_row));
  }
  const float sum = scatter_sums<ROWS>(sums, lane.in_row);
  // Of the lanes that end with a row's sums one even lane speaks, and is alone in reading and writing the row's value.
  const bool speaks = !(lane.in_row & 1) && lane_speaks<ROWS>(lane.in_row);
  float* const value = token + Places::kValues + row + row_of_lane<ROWS>(lane.in_row);
  const float with_query = __shfl_xor_sync(~0u, sum, 1);
  const float correction = ((speaks ? *value : 0.0f) - sum) * token[Places::kBeta];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const float c = __shfl_sync(~0u, correction, lane_of_row<ROWS>(r), kLanesPerRow);
#pragma unroll
    for (int j = 0; j < CHUNKS; ++j) add_rank_one(tile.h[r][j], c, k[j]);
  }
  if (speaks) {
    value[0] = __fmaf_rn(correction, token[Places::kKeyDotQuery], with_query);
    value[block_rows] = correction;
  }
}

// Replays a prepared record.
template <int CHUNKS, int ROWS, bool KDA>
__device__ __forceinline__ void replay_step(Tile<CHUNKS, ROWS>& tile, const float* token, int row, const Lane& lane) {
  using Places = TokenPlaces<CHUNKS, KDA>;
  decay_tile<CHUNKS, ROWS, KDA>(tile, token, lane.in_row);
  float c[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) c[r] = token[Places::kValues + row + r];
#pragma unroll
  for (int j = 0; j < CHUNKS; ++j) {
    const float4 k = *reinterpret_cast<const float4*>(token + 32 * j + 4 * lane.in_row);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) add_rank_one(tile.h[r][j], c[r], k);
  }
}

}  // namespace recoverssm::cuda
