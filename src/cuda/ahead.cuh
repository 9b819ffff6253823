// State rows of a block's next pass, on their way into shared memory while the present pass is worked on.
#pragma once

#include "cuda/tokens.cuh"

namespace recoverssm::cuda {

// A thread fetches what it will take itself, so there is no barrier: its slot of row r, chunk j is [(r * CHUNKS + j) * threads + thread].
template <int CHUNKS, int ROWS, class State>
__device__ __forceinline__ void fetch_ahead(std::byte* slots, const State* head, int first, int V, int lane) {
  using Bits = Bits4<sizeof(State)>;
  __syncwarp();  // what the slots held has been read
  if (first < V) {
    const State* const p = head + static_cast<std::int64_t>(first) * (32 * CHUNKS) + 4 * lane;
    Bits* const slot = reinterpret_cast<Bits*>(slots) + threadIdx.x;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
      for (int j = 0; j < CHUNKS; ++j) {
        __pipeline_memcpy_async(slot + (r * CHUNKS + j) * static_cast<int>(blockDim.x), p + r * (32 * CHUNKS) + 32 * j,
                                sizeof(Bits));
      }
    }
  }
  __pipeline_commit();
}

// What was fetched, as load_tile would have loaded it.
template <int CHUNKS, int ROWS, class State>
__device__ __forceinline__ void take_ahead(Tile<CHUNKS, ROWS>& tile, const std::byte* slots, int first, int V) {
  using Bits = Bits4<sizeof(State)>;
  if (first >= V) return clear_tile(tile);
  const Bits* const slot = reinterpret_cast<const Bits*>(slots) + threadIdx.x;
  wait_for_copies();
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
#pragma unroll
    for (int j = 0; j < CHUNKS; ++j)
      tile.h[r][j] = load4(reinterpret_cast<const State*>(&slot[(r * CHUNKS + j) * static_cast<int>(blockDim.x)]));
  }
}

}  // namespace recoverssm::cuda
