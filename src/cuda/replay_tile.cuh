// State rows in a warp's registers while records are replayed into them. A replay sums nothing along a row, so that lanes need not share rows as
// the canonical dot wants it: where all accesses are aligned a warp holds FOURS * 32 neighbouring fours of a head's state, and a lane
// reads a key's column once for all of its rows.
#pragma once

#include "cuda/tokens.cuh"

namespace recoverssm::cuda {

template <int CHUNKS, bool WHOLE, int FOURS>
struct ReplayTile {
  static constexpr int kRowFours = 8 * CHUNKS;
  static constexpr int kWarpRows = 32 * FOURS / kRowFours;
  static constexpr int kColumns = kRowFours <= 32 ? 1 : kRowFours / 32;  // fours of a key that a lane reads
  float4 h[FOURS];                                                       // number i: four i * 32 + lane of the warp's rows

  // Of number i: its row among the warp's, and which of the lane's columns it is in.
  static __device__ __forceinline__ int row(int i, int lane) {
    return kRowFours >= 32 ? i / kColumns : i * (32 / kRowFours) + lane / kRowFours;
  }
  static __device__ __forceinline__ int column(int i) { return i % kColumns; }
};

// Ragged: a lane group's rows, as in the other operations.
template <int CHUNKS, int FOURS>
struct ReplayTile<CHUNKS, false, FOURS> {
  static constexpr int kWarpRows = kGroupsPerWarp * kReplayRows;
  Tile<CHUNKS, kReplayRows> rows;
};

// A state four from memory and back. For fp32 states what was written leaves L2 first, for 16-bit ones what a first pass has read: the other way
// round commits took up to 1 and 7 percent longer on an H200.
__device__ __forceinline__ float4 load_state(const float* p) { return load4(p); }
template <class State>
__device__ __forceinline__ float4 load_state(const State* p) {
  return load4_once(p);
}
__device__ __forceinline__ void store_state(float* p, float4 x) { store4_once(p, x); }
template <class State>
__device__ __forceinline__ void store_state(State* p, float4 x) {
  store4(p, x);
}

// In what follows `first` is the warp's first row of the head, `row` the same among the block's; rows from V on are zero and are never stored.

template <int CHUNKS, bool WHOLE, int FOURS, class State>
__device__ __forceinline__ void load_rows(ReplayTile<CHUNKS, WHOLE, FOURS>& tile, const State* head, int first, int V, int K,
                                          const Lane& lane) {
  if constexpr (WHOLE) {
    const int in_warp = threadIdx.x % 32;
    const State* const p = head + static_cast<std::int64_t>(first) * (32 * CHUNKS) + 4 * in_warp;
#pragma unroll
    for (int i = 0; i < FOURS; ++i) {
      tile.h[i] = {0.0f, 0.0f, 0.0f, 0.0f};
      if (first + tile.row(i, in_warp) < V) tile.h[i] = load_state(p + 128 * i);
    }
  } else {
    load_tile<CHUNKS, kReplayRows, false>(tile.rows, head, first + lane.group * kReplayRows, V, K, lane.in_row);
  }
}

template <int CHUNKS, bool WHOLE, int FOURS, class State>
__device__ __forceinline__ void store_rows(const ReplayTile<CHUNKS, WHOLE, FOURS>& tile, State* head, int first, int V, int K,
                                           const Lane& lane) {
  if constexpr (WHOLE) {
    const int in_warp = threadIdx.x % 32;
    State* const p = head + static_cast<std::int64_t>(first) * (32 * CHUNKS) + 4 * in_warp;
#pragma unroll
    for (int i = 0; i < FOURS; ++i) {
      if (first + tile.row(i, in_warp) < V) store_state(p + 128 * i, tile.h[i]);
    }
  } else {
    store_tile<CHUNKS, kReplayRows, false>(tile.rows, head, first + lane.group * kReplayRows, V, K, lane.in_row);
  }
}

// Rows of a block's next pass, on their way into shared memory while the present pass is worked on. A thread fetches what it will take itself, so
// there is no barrier: its slot of number i is [i * threads + thread].
template <int CHUNKS, int FOURS, class State>
__device__ __forceinline__ void fetch_ahead(std::byte* slots, const State* head, int first, int V) {
  using Bits = Bits4<sizeof(State)>;
  using Rows = ReplayTile<CHUNKS, true, FOURS>;
  const int in_warp = threadIdx.x % 32;
  __syncwarp();  // what the slots held has been read
  const State* const p = head + static_cast<std::int64_t>(first) * (32 * CHUNKS) + 4 * in_warp;
  Bits* const slot = reinterpret_cast<Bits*>(slots) + threadIdx.x;
#pragma unroll
  for (int i = 0; i < FOURS; ++i) {
    if (first + Rows::row(i, in_warp) < V) __pipeline_memcpy_async(slot + i * kReplayThreads, p + 128 * i, sizeof(Bits));
  }
  __pipeline_commit();
}

// What was fetched, as load_rows would have loaded it.
template <int CHUNKS, int FOURS, class State>
__device__ __forceinline__ void take_ahead(ReplayTile<CHUNKS, true, FOURS>& tile, const std::byte* slots, int first, int V) {
  using Bits = Bits4<sizeof(State)>;
  const int in_warp = threadIdx.x % 32;
  const Bits* const slot = reinterpret_cast<const Bits*>(slots) + threadIdx.x;
  wait_for_copies();
#pragma unroll
  for (int i = 0; i < FOURS; ++i) {
    tile.h[i] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (first + tile.row(i, in_warp) < V) tile.h[i] = load4(reinterpret_cast<const State*>(slot + i * kReplayThreads));
  }
}

// Replays a prepared record.
template <int CHUNKS, bool WHOLE, bool KDA, int FOURS>
__device__ __forceinline__ void replay_record(ReplayTile<CHUNKS, WHOLE, FOURS>& tile, const float* token, int row,
                                              const Lane& lane) {
  if constexpr (!WHOLE) {
    replay_step<CHUNKS, kReplayRows, KDA>(tile.rows, token, row + lane.group * kReplayRows, lane);
  } else {
    using Places = TokenPlaces<CHUNKS, KDA>;
    using Rows = ReplayTile<CHUNKS, true, FOURS>;
    const int in_warp = threadIdx.x % 32, four = in_warp % Rows::kRowFours;
    const float* const values = token + Places::kValues + row;
    float4 k[Rows::kColumns], d[Rows::kColumns];
#pragma unroll
    for (int j = 0; j < Rows::kColumns; ++j) {
      k[j] = *reinterpret_cast<const float4*>(token + 4 * (32 * j + four));
      if constexpr (KDA) {
        d[j] = *reinterpret_cast<const float4*>(token + Places::kDecays + 4 * (32 * j + four));
      } else {
        const float x = token[Places::kDecay];
        d[j] = {x, x, x, x};
      }
    }
#pragma unroll
    for (int i = 0; i < FOURS; ++i) {
      float4& h = tile.h[i];
      const float4 by = d[tile.column(i)];
      h = {h.x * by.x, h.y * by.y, h.z * by.z, h.w * by.w};
      add_rank_one(h, values[tile.row(i, in_warp)], k[tile.column(i)]);
    }
  }
}

}  // namespace recoverssm::cuda
