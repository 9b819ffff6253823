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
  return {shared, token_floats(CHUNKS, block_rows, KDA), block_rows};
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

// ---- preparing tokens

// Key or query elements of a lane, from T.
template <int CHUNKS, bool WHOLE, class T>
__device__ __forceinline__ void load_key_as(float4 (&x)[CHUNKS], const T* p, bool vector, int K, int lane) {
#pragma unroll
  for (int j = 0; j < CHUNKS; ++j) {
    const int e = 32 * j + 4 * lane;
    if (WHOLE && vector) {
      x[j] = load4(p + e);
      continue;
    }
    x[j] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (e + 0 < K) x[j].x = widen(p[e + 0]);
    if (e + 1 < K) x[j].y = widen(p[e + 1]);
    if (e + 2 < K) x[j].z = widen(p[e + 2]);
    if (e + 3 < K) x[j].w = widen(p[e + 3]);
  }
}

template <int CHUNKS, bool WHOLE>
__device__ __forceinline__ void load_key(float4 (&x)[CHUNKS], const std::byte* p, DType dtype, bool vector, int K, int lane) {
  if (dtype == DType::bf16) return load_key_as<CHUNKS, WHOLE>(x, reinterpret_cast<const __nv_bfloat16*>(p), vector, K, lane);
  if (dtype == DType::f16) return load_key_as<CHUNKS, WHOLE>(x, reinterpret_cast<const __half*>(p), vector, K, lane);
  load_key_as<CHUNKS, WHOLE>(x, reinterpret_cast<const float*>(p), vector, K, lane);
}

template <int CHUNKS>
__device__ __forceinline__ void scale_key(float4 (&x)[CHUNKS], float by) {
#pragma unroll
  for (int j = 0; j < CHUNKS; ++j) x[j] = {x[j].x * by, x[j].y * by, x[j].z * by, x[j].w * by};
}

// 1 / |x|, the same in all lanes of the group.
template <int CHUNKS, bool WHOLE>
__device__ __forceinline__ float inverse_norm_of(const float4 (&x)[CHUNKS], int K, const Lane& lane) {
  const float squares = sum_of_group(quad(partial_sums<CHUNKS, WHOLE>(x, x, K, lane.in_row)), lane.group_mask);
  return arithmetic::inverse_norm(squares);
}

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

__device__ __forceinline__ float gdn_decay_of(const GateArgs& gate, float a, std::int64_t head) {
  const float dt_bias = load_float(at(gate.dt_bias, head), gate.dt_bias.dtype);
  const float A_log = load_float(at(gate.A_log, head), gate.A_log.dtype);
  return arithmetic::gdn_decay(a, dt_bias, A_log, gate.softplus_beta, gate.softplus_threshold);
}

__device__ __forceinline__ float kda_decay_of(const GateArgs& gate, float exp_A_log, float raw, std::int64_t head, int k) {
  const float y = raw + load_float(at(gate.dt_bias, head, k), gate.dt_bias.dtype);
  return gate.bounded ? arithmetic::kda_decay_bounded(y, exp_A_log, gate.lower_bound)
                      : arithmetic::kda_decay(y, exp_A_log, gate.softplus_beta, gate.softplus_threshold);
}

__device__ __forceinline__ float exp_A_log_of(const GateArgs& gate, std::int64_t head) {
  return arithmetic::exp_f32(load_float(at(gate.A_log, head), gate.A_log.dtype));
}

__device__ __forceinline__ float4 load4_of(const std::byte* p, DType dtype) {
  if (dtype == DType::bf16) return load4(reinterpret_cast<const __nv_bfloat16*>(p));
  if (dtype == DType::f16) return load4(reinterpret_cast<const __half*>(p));
  return load4(reinterpret_cast<const float*>(p));
}

// Values of block_rows rows from value0 on; zeros from V on. `values`: where the first token has them.
__device__ __forceinline__ void prepare_values(const RuleArgs& args, const Tokens& to, float* values, std::int64_t first, int count,
                                               int head, int value0) {
  const int threads = static_cast<int>(blockDim.x), size = static_cast<int>(size_of(args.v.dtype));
  const std::byte* const base = at(args.v, first, head, value0);
  const std::int64_t token = args.v.stride[0] * size;
  const int width = args.vector_values ? 4 : 1, a_row = to.block_rows / width;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < count * a_row; i += threads) {
    const int t = i / a_row, r = i % a_row * width;
    const bool inside = value0 + r < args.V;
    const std::byte* p = base + t * token + r * size;
    float* const place = values + t * to.step + r;
    if (args.vector_values) {
      *reinterpret_cast<float4*>(place) = inside ? load4_of(p, args.v.dtype) : float4{0.0f, 0.0f, 0.0f, 0.0f};
    } else {
      *place = inside ? load_float(p, args.v.dtype) : 0.0f;
    }
  }
}

// Asks for what prepare_tokens will read of tokens first..first+count-1.
template <bool KDA>
__device__ __forceinline__ void prefetch_tokens(const RuleArgs& args, std::int64_t first, int count, int head, int value0,
                                                int block_rows) {
  constexpr int kLine = 128;
  const int size = static_cast<int>(size_of(args.q.dtype));
  const std::int64_t from_head = key_head(head, args.H, args.HV);
  const auto ask = [&](const std::byte* p, int bytes) {
    for (int b = 0; b < bytes; b += kLine) asm volatile("prefetch.global.L2 [%0];" ::"l"(p + b));
  };
  const int last = value0 + block_rows < args.V ? value0 + block_rows : args.V;
  for (int t = static_cast<int>(threadIdx.x); t < count; t += static_cast<int>(blockDim.x)) {
    ask(at(args.q, first + t, from_head), args.K * size);
    ask(at(args.k, first + t, from_head), args.K * size);
    if (last > value0) ask(at(args.v, first + t, head, value0), (last - value0) * size);
    ask(at(args.a, first + t, head), KDA ? args.K * size : 1);
    ask(at(args.b, first + t, head), 1);
  }
}

// Prepares local tokens first..first+count-1 for value rows value0.. of a head. All threads of the block; two barriers inside, the second
// after everything is in place. Nobody may still be reading the buffers.
template <int CHUNKS, bool WHOLE, bool KDA>
__device__ __forceinline__ void prepare_tokens(const RuleArgs& args, const Tokens& to, std::int64_t first, int count, int head,
                                               int value0, const Lane& lane) {
  using Places = TokenPlaces<CHUNKS, KDA>;
  constexpr int KP = Places::kKP;
  const std::int64_t from_head = key_head(head, args.H, args.HV);
  const int groups = static_cast<int>(blockDim.x) / kLanesPerRow;
  for (int job = static_cast<int>(threadIdx.x) / kLanesPerRow; job < 2 * count; job += groups) {
    const int t = job >> 1;
    const bool query = job & 1;
    const View& view = query ? args.q : args.k;
    float4 x[CHUNKS];
    load_key<CHUNKS, WHOLE>(x, at(view, first + t, from_head), view.dtype, args.vector_keys, args.K, lane.in_row);
    if (args.gate.l2norm) {
      const float inverse = inverse_norm_of<CHUNKS, WHOLE>(x, args.K, lane);
      if (query && KDA) {
        scale_key(x, inverse * args.scale);
      } else {
        scale_key(x, inverse);
        if (query) scale_key(x, args.scale);
      }
    } else if (query) {
      scale_key(x, args.scale);
    }
    store_key<CHUNKS>(to.base + t * to.step + (query ? Places::kQuery : 0), x, lane.in_row);
  }
  prepare_values(args, to, to.base + Places::kValues, first, count, head, value0);
  for (int t = static_cast<int>(threadIdx.x); t < count; t += static_cast<int>(blockDim.x)) {
    float* const token = to.base + t * to.step;
    token[Places::kBeta] = arithmetic::sigmoid(load_float(at(args.b, first + t, head), args.b.dtype));
    if constexpr (!KDA)
      token[Places::kDecay] = gdn_decay_of(args.gate, load_float(at(args.a, first + t, head), args.a.dtype), head);
  }
  if constexpr (KDA) {
    const float exp_A_log = exp_A_log_of(args.gate, head);
    for (int i = static_cast<int>(threadIdx.x); i < count * KP; i += static_cast<int>(blockDim.x)) {
      const int t = i / KP, k = i % KP;
      to.base[t * to.step + Places::kDecays + k] =
          k < args.K ? kda_decay_of(args.gate, exp_A_log, load_float(at(args.a, first + t, head, k), args.a.dtype), head, k) : 0.0f;
    }
  }
  __syncthreads();
  for (int t = static_cast<int>(threadIdx.x) / kLanesPerRow; t < count; t += groups) {
    float* const token = to.base + t * to.step;
    float4 k[CHUNKS], q[CHUNKS];
    read_key<CHUNKS>(k, token, lane.in_row);
    read_key<CHUNKS>(q, token + Places::kQuery, lane.in_row);
    const float dot = sum_of_group(quad(partial_sums<CHUNKS, WHOLE>(k, q, args.K, lane.in_row)), lane.group_mask);
    if (lane.in_row == 0) token[Places::kKeyDotQuery] = dot;
  }
  __syncthreads();
}

// Records first..first+count-1 of a head in `block`: keys, decays and corrections of value rows value0... One barrier, at the end.
template <int CHUNKS, bool WHOLE, bool KDA>
__device__ __forceinline__ void prepare_records(const RecordArgs& records, const GateArgs& gate, const Tokens& to,
                                                std::int64_t block, int head, int first, int count, int value0, int K, int V,
                                                const Lane& lane) {
  using Places = TokenPlaces<CHUNKS, KDA>;
  constexpr int KP = Places::kKP;
  const int threads = static_cast<int>(blockDim.x);
  const View& corrections = KDA ? records.corrections : records.packed;
#pragma unroll 4
  for (int t = 0; t < count; ++t) {
    const float* const record = reinterpret_cast<const float*>(at(corrections, block, head, first + t));
    float* const token = to.base + t * to.step;
    for (int r = static_cast<int>(threadIdx.x); r < to.block_rows; r += threads) {
      token[Places::kValues + r] = value0 + r < V ? record[value0 + r] : 0.0f;
    }
    if constexpr (!KDA) {
      for (int k = static_cast<int>(threadIdx.x); k < KP; k += threads) token[k] = k < K ? record[V + k] : 0.0f;
      if (threadIdx.x == 0) token[Places::kDecay] = record[V + K];
    }
  }
  if constexpr (KDA) {
    const DType dtype = records.key_gate.dtype;
    for (int t = static_cast<int>(threadIdx.x) / kLanesPerRow; t < count; t += threads / kLanesPerRow) {
      float4 x[CHUNKS];
      load_key<CHUNKS, WHOLE>(x, at(records.key_gate, block, head, first + t), dtype, false, K, lane.in_row);
      if (gate.l2norm) scale_key(x, inverse_norm_of<CHUNKS, WHOLE>(x, K, lane));
      store_key<CHUNKS>(to.base + t * to.step, x, lane.in_row);
    }
    const float exp_A_log = exp_A_log_of(gate, head);
    for (int i = static_cast<int>(threadIdx.x); i < count * KP; i += threads) {
      const int t = i / KP, k = i % KP;
      to.base[t * to.step + Places::kDecays + k] =
          k < K ? kda_decay_of(gate, exp_A_log, load_float(at(records.key_gate, block, head, first + t, K + k), dtype), head, k)
                : 0.0f;
    }
  }
  __syncthreads();
}

// Writes what commit needs to repeat k^ and d of tokens already prepared: positions position..position+count-1 of the head's records.
template <int CHUNKS, bool KDA>
__device__ __forceinline__ void write_keys(const RuleArgs& args, const RecordArgs& records, const Tokens& tokens,
                                           std::int64_t block, int head, std::int64_t first_token, int position, int count) {
  using Places = TokenPlaces<CHUNKS, KDA>;
  const int threads = static_cast<int>(blockDim.x);
  if constexpr (!KDA) {
    for (int t = 0; t < count; ++t) {
      float* const record = reinterpret_cast<float*>(at(records.packed, block, head, position + t, args.V));
      const float* const token = tokens.base + t * tokens.step;
      for (int k = static_cast<int>(threadIdx.x); k < args.K; k += threads) record[k] = token[k];
      if (threadIdx.x == 0) record[args.K] = token[Places::kDecay];
    }
  } else {
    // Raw key and raw gate input, bit by bit: commit computes k^ and d with the same functions.
    const int size = static_cast<int>(size_of(args.k.dtype));
    const std::int64_t from_head = key_head(head, args.H, args.HV);
    for (int t = 0; t < count; ++t) {
      std::byte* const record = at(records.key_gate, block, head, position + t);
      const std::byte* const key = at(args.k, first_token + t, from_head);
      const std::byte* const gate = at(args.a, first_token + t, head);
      for (int k = static_cast<int>(threadIdx.x); k < args.K; k += threads) {
        copy_element(record + k * size, key + k * size, size);
        copy_element(record + (args.K + k) * size, gate + k * size, size);
      }
    }
  }
}

// ---- one token

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
  float* const value = token + Places::kValues + row + row_of_lane<ROWS>(lane.in_row);
  const float correction = (*value - sum) * token[Places::kBeta];  // means something in even lanes
  const float out = __fmaf_rn(__shfl_xor_sync(~0u, correction, 1), token[Places::kKeyDotQuery], sum);  // in odd lanes
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const float c = __shfl_sync(~0u, correction, lane_of_row<ROWS>(r), kLanesPerRow);
#pragma unroll
    for (int j = 0; j < CHUNKS; ++j) add_rank_one(tile.h[r][j], c, k[j]);
  }
  // All lanes have read the value: the shuffles above came after.
  const bool odd = lane.in_row & 1;
  if (lane_speaks<ROWS>(lane.in_row)) value[odd ? 0 : block_rows] = odd ? out : correction;
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

// Folds records 0..n-1 of `block` into a tile, as a commit would before rounding. All threads of the block, with barriers.
template <int CHUNKS, int ROWS, bool WHOLE, bool KDA>
__device__ __forceinline__ void fold_records(Tile<CHUNKS, ROWS>& tile, const RecordArgs& records, const GateArgs& gate,
                                             const Tokens& buffers, int token_chunk, std::int64_t block, int head, int n,
                                             int value0, int row, int K, int V, const Lane& lane) {
  for (int first = 0; first < n; first += token_chunk) {
    const int count = n - first < token_chunk ? n - first : token_chunk;
    __syncthreads();  // the buffers may still be read
    prepare_records<CHUNKS, WHOLE, KDA>(records, gate, buffers, block, head, first, count, value0, K, V, lane);
    const float* token = buffers.base;
#pragma unroll 1
    for (int t = 0; t < count; ++t, token += buffers.step) replay_step<CHUNKS, ROWS, KDA>(tile, token, row, lane);
  }
}

// ---- results

// Outputs of a null row: zeros for value rows value0..value0+rows-1 of its tokens.
__device__ __forceinline__ void zero_out(const View& out, const RowsArgs& rows, const DeviceRow& row, int head, int value0,
                                         int block_rows, int V) {
  const int last = value0 + block_rows < V ? value0 + block_rows : V;
  const int n = last - value0;
  if (n <= 0) return;
  const int size = static_cast<int>(size_of(out.dtype));
  for (std::int64_t i = threadIdx.x; i < row.length * n; i += blockDim.x) {
    clear_element(at(out, global_row(rows, row.begin + i / n), head, value0 + i % n), size);
  }
}

// Stores results of tokens that have gone through `step`: value rows row0..row0+rows-1 of the block, local tokens first_token.., positions
// position.. of the block's records (corrections not present: none). All threads of the block, between barriers.
template <int CHUNKS, bool KDA>
__device__ __forceinline__ void store_results(const Tokens& tokens, const RowsArgs& rows, const View& out, const View& corrections,
                                              std::int64_t block, int head, std::int64_t first_token, std::int64_t position,
                                              int count, int value0, int row0, int row_count, int V) {
  using Places = TokenPlaces<CHUNKS, KDA>;
  const int last = V - value0 < row0 + row_count ? V - value0 : row0 + row_count;
  const int size = static_cast<int>(size_of(out.dtype));
  for (int t = 0; t < count; ++t) {
    const float* const values = tokens.base + t * tokens.step + Places::kValues;
    std::byte* const to = at(out, global_row(rows, first_token + t), head, value0);
    float* const record =
        corrections.present ? reinterpret_cast<float*>(at(corrections, block, head, position + t, value0)) : nullptr;
    for (int r = row0 + static_cast<int>(threadIdx.x); r < last; r += static_cast<int>(blockDim.x)) {
      store_float(to + r * size, out.dtype, values[r]);
      if (record != nullptr) record[r] = values[tokens.block_rows + r];
    }
  }
}

}  // namespace recoverssm::cuda
