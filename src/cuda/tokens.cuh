// Tokens of the delta rules in shared memory: from tensors to Tokens, and their results back.
#pragma once

#include <cuda_pipeline_primitives.h>

#include <cstdint>
#include <type_traits>

#include "arithmetic/gates.h"
#include "contract/rules.h"
#include "cuda/delta.cuh"

namespace recoverssm::cuda {

// Key or query elements of a lane, from T.
template <int CHUNKS, bool WHOLE, class T>
__device__ __forceinline__ void load_key_as(float4 (&x)[CHUNKS], const T* p, bool vector, int K, int lane) {
  if (WHOLE && vector) {  // outside the loop: one wait for all
#pragma unroll
    for (int j = 0; j < CHUNKS; ++j) x[j] = load4(p + 32 * j + 4 * lane);
    return;
  }
#pragma unroll
  for (int j = 0; j < CHUNKS; ++j) {
    const int e = 32 * j + 4 * lane;
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

// Calls f with the function of raw gate input + dt_bias that kda's decay is. Which one that is is found out once, outside f: a branch for each decay
// kept those of a thread from running side by side.
template <class F>
__device__ __forceinline__ void with_kda_decay(const GateArgs& gate, float exp_A_log, F&& f) {
  if (gate.bounded) return f([&](float y) { return arithmetic::kda_decay_bounded(y, exp_A_log, gate.lower_bound); });
  if (gate.softplus_beta == 1.0f)
    return f([&](float y) { return arithmetic::kda_decay_of_one(y, exp_A_log, gate.softplus_threshold); });
  f([&](float y) { return arithmetic::kda_decay(y, exp_A_log, gate.softplus_beta, gate.softplus_threshold); });
}
__device__ __forceinline__ float gate_input(const GateArgs& gate, float raw, std::int64_t head, int k) {
  return raw + load_float(at(gate.dt_bias, head, k), gate.dt_bias.dtype);
}

__device__ __forceinline__ float exp_A_log_of(const GateArgs& gate, std::int64_t head) {
  return arithmetic::exp_f32(load_float(at(gate.A_log, head), gate.A_log.dtype));
}

// What is known of a call's tokens when a kernel is compiled. bf16: q, k, v, a, b and out are, four neighbours can be had at once, and there
// is no token_index. Finding out at run time made verify's code 1.6 times as long, and its registers spill.
enum class Form : std::uint8_t { any, bf16 };

template <Form F>
__device__ __forceinline__ DType dtype_of(const View& view) {
  return F == Form::bf16 ? DType::bf16 : view.dtype;
}

inline bool tokens_are_bf16(const RuleArgs& rule, const RowsArgs& rows, const View& out) {
  for (const View* view : {&rule.q, &rule.k, &rule.v, &rule.a, &rule.b, &out}) {
    if (view->dtype != DType::bf16) return false;
  }
  return rule.vector_keys && rule.vector_values && !rows.token_index.present;
}

// Which kernels there are in both forms: a matter of what they take to compile.
template <int CHUNKS, bool WHOLE, bool KDA>
constexpr bool kBothForms = CHUNKS == 4 && WHOLE && !KDA;

// Four neighbours as they lie in memory.
template <int kSize>
using Bits4 = std::conditional_t<kSize == 4, uint4, uint2>;

template <int kSize>
__device__ __forceinline__ float4 widen4(const Bits4<kSize>& bits, DType dtype) {
  if constexpr (kSize == 4)
    return {__uint_as_float(bits.x), __uint_as_float(bits.y), __uint_as_float(bits.z), __uint_as_float(bits.w)};
  else
    return dtype == DType::bf16 ? load4(reinterpret_cast<const __nv_bfloat16*>(&bits))
                                : load4(reinterpret_cast<const __half*>(&bits));
}

template <int kSize, class Bits>
__device__ __forceinline__ void copy4_async(Bits* to, const std::byte* from) {
  static_assert(sizeof(Bits) == 4 * kSize);
  __pipeline_memcpy_async(to, from, sizeof(Bits));
}

// Waits for this thread's asynchronous copies but the last `behind` groups. What it reads of them stays behind the wait: the intrinsic's asm
// says nothing of memory.
template <int behind = 0>
__device__ __forceinline__ void wait_for_copies() {
  __pipeline_wait_prior(behind);
  asm volatile("" ::: "memory");
}

// Calls f with the bytes of an element of an activation.
template <class F>
__device__ __forceinline__ void with_size(DType dtype, F&& f) {
  if (dtype == DType::f32) return f(std::integral_constant<int, 4>{});
  f(std::integral_constant<int, 2>{});
}

// How a block shares its tokens out over threads. Spread (one state row a lane group: few heads, and ragged sizes): it has more threads than its
// tokens give work, and the longest chain of a thread is what counts. Otherwise the number of instructions is.
template <int ROWS>
constexpr bool kSpread = ROWS == 1;

// Values four by four: calls f(token, row) for the fours of `count` tokens that are this thread's. Spread, the first token's are those of the warp
// in the middle: the first warps have keys to prepare, the last ones gates.
template <bool SPREAD, class F>
__device__ __forceinline__ void for_value_fours(const Tokens& tokens, int count, F&& f) {
  const int warps = static_cast<int>(blockDim.x) / 32, warp = static_cast<int>(threadIdx.x) / 32, middle = SPREAD ? warps / 2 : 0;
#pragma unroll 1
  for (int t = warp < middle ? warp + warps - middle : warp - middle; t < count; t += warps) {
#pragma unroll 1
    for (int row = static_cast<int>(threadIdx.x) % 32 * 4; row < tokens.block_rows; row += 4 * 32) f(t, row);
  }
}

// A block's threads shared out over tokens with `elements` each: as many threads for a token as that takes, in powers of two, and several tokens
// at a time where threads are left.
struct TokenThreads {
  int first, step;  // tokens first, first + step, ...; kMostTokens, beyond all of them, for a thread that is left over
  int lane, width;  // elements lane, lane + width, ...
};

// thread: threadIdx.x, or the place from the block's end.
__device__ __forceinline__ TokenThreads token_threads(int elements, int thread) {
  const int threads = static_cast<int>(blockDim.x);
  int shift = 5;
  while ((1 << shift) < elements && (2 << shift) <= threads) ++shift;
  const int step = threads >> shift, first = thread >> shift;
  return {first < step ? first : kMostTokens, step, thread & ((1 << shift) - 1), 1 << shift};
}

__device__ __forceinline__ bool takes_query(const Lane& lane) { return (lane.group & 1) != 0; }

// Tokens whose keys and queries this lane's group prepares. Spread, a token's two are neighbouring groups of one warp, so that what is a long chain
// for either, a norm, goes through once for both. Otherwise a group takes both, one after the other.
template <bool SPREAD, class F>
__device__ __forceinline__ void for_keys(int count, F&& f) {
  constexpr int kLanes = SPREAD ? 2 * kLanesPerRow : kLanesPerRow;
#pragma unroll 1
  for (int t = static_cast<int>(threadIdx.x) / kLanes; t < count; t += static_cast<int>(blockDim.x) / kLanes) f(t);
}

// What a thread holds of tokens that were asked for: gates in registers. The thread number `gate_token` from the end works out that token's
// decay (gdn), the one `beta_token` from there beta.
struct AskedGates {
  float a, A_log, dt_bias, b;
};

__device__ __forceinline__ int gate_token() { return static_cast<int>(blockDim.x) - 1 - static_cast<int>(threadIdx.x); }
__device__ __forceinline__ int beta_token() { return gate_token() - (blockDim.x > 32 ? 32 : kMostTokens); }

// Where this thread's share of local token 0 lies. Of strides and heads alone, no row: there before the kernel may read anything.
struct TokenSource {
  const std::byte *key, *query;       // this lane's first fours; spread, both are of whichever its group takes
  std::int64_t key_step, query_step;  // bytes from token to token
  const std::byte* value;             // the part's first value
  const std::byte *a, *b;             // gdn's gate; beta's
};

template <bool SPREAD, Form F>
__device__ __forceinline__ TokenSource token_source(const RuleArgs& args, const HeadPart& part, const Lane& lane) {
  const View& k = SPREAD && takes_query(lane) ? args.q : args.k;
  const View& q = SPREAD ? k : args.q;
  const std::int64_t size = dtype_of<F>(args.k) == DType::f32 ? 4 : 2;
  return {at(k, 0, part.key_head) + 4 * size * lane.in_row,
          at(q, 0, part.key_head) + 4 * size * lane.in_row,
          k.stride[0] * size,
          q.stride[0] * size,
          at(args.v, 0, part.head, part.value0),
          at(args.a, 0, part.head),
          at(args.b, 0, part.head)};
}

__device__ __forceinline__ void settle(TokenSource& source) {
  settle(source.key);
  settle(source.query);
  settle(source.value);
  settle(source.a);
  settle(source.b);
  settle(source.key_step, source.query_step);
}

// Asks for local tokens first..first+count-1 (at most kMostTokens): what is asked for before the state need not wait behind it. Keys, queries
// and values go, as they are, into the buffers, which nobody may still be reading; a thread asks for what it will work on itself.
template <int CHUNKS, bool WHOLE, bool KDA, bool SPREAD, Form F>
__device__ __forceinline__ AskedGates ask_tokens(const RuleArgs& args, const TokenSource& source, const Tokens& to,
                                                 std::int64_t first, int count, const HeadPart& part, const Lane& lane) {
  using Places = TokenPlaces<CHUNKS, KDA>;
  if (WHOLE && (F == Form::bf16 || args.vector_keys)) {
    with_size(dtype_of<F>(args.k), [&](auto size) {
      constexpr int kSize = decltype(size)::value;
      for_keys<SPREAD>(count, [&](int t) {
        float* const token = to.base + t * to.step;
        const auto ask = [&](float* place, const std::byte* from) {
          auto* const bits = reinterpret_cast<Bits4<kSize>*>(place) + lane.in_row;
#pragma unroll
          for (int j = 0; j < CHUNKS; ++j) copy4_async<kSize>(bits + 8 * j, from + 32 * kSize * j);
        };
        ask(token + (SPREAD && takes_query(lane) ? Places::kQuery : 0), source.key + (first + t) * source.key_step);
        if (!SPREAD) ask(token + Places::kQuery, source.query + (first + t) * source.query_step);
      });
    });
  }
  if (F == Form::bf16 || args.vector_values) {
    with_size(dtype_of<F>(args.v), [&](auto size) {
      constexpr int kSize = decltype(size)::value;
      const std::int64_t step = args.v.stride[0] * kSize;
      const std::byte* const v = source.value + first * step;
      for_value_fours<SPREAD>(to, count, [&](int t, int row) {
        auto* const place = reinterpret_cast<Bits4<kSize>*>(to.base + t * to.step + Places::kValues + to.block_rows) + row / 4;
        if (part.value0 + row < args.V) {
          copy4_async<kSize>(place, v + t * step + row * kSize);
        } else {
          *place = {};
        }
      });
    });
  }
  __pipeline_commit();
  AskedGates gates{};
  if constexpr (!KDA) {
    if (const int t = gate_token(); t < count) {
      gates.a = load_float(source.a + ((first + t) * args.a.stride[0] << args.a.shift), dtype_of<F>(args.a));
      gates.A_log = load_float(at(args.gate.A_log, part.head), args.gate.A_log.dtype);
      gates.dt_bias = load_float(at(args.gate.dt_bias, part.head), args.gate.dt_bias.dtype);
    }
  }
  if (const int t = beta_token(); t >= 0 && t < count) {
    gates.b = load_float(source.b + ((first + t) * args.b.stride[0] << args.b.shift), dtype_of<F>(args.b));
  }
  return gates;
}

// Brings what ask_tokens will ask for into L2.
template <bool KDA>
__device__ __forceinline__ void prefetch_tokens(const RuleArgs& args, std::int64_t first, int count, const HeadPart& part,
                                                int block_rows) {
  constexpr int kLine = 128;
  const int size = static_cast<int>(size_of(args.q.dtype));
  const auto ask = [&](const std::byte* p, int bytes) {
    for (int b = 0; b < bytes; b += kLine) asm volatile("prefetch.global.L2 [%0];" ::"l"(p + b));
  };
  const int last = part.value0 + block_rows < args.V ? part.value0 + block_rows : args.V;
  for (int t = static_cast<int>(threadIdx.x); t < count; t += static_cast<int>(blockDim.x)) {
    ask(at(args.q, first + t, part.key_head), args.K * size);
    ask(at(args.k, first + t, part.key_head), args.K * size);
    if (last > part.value0) ask(at(args.v, first + t, part.head, part.value0), (last - part.value0) * size);
    ask(at(args.a, first + t, part.head), KDA ? args.K * size : 1);
    ask(at(args.b, first + t, part.head), 1);
  }
}

// A lane's elements of a key or query of one token: asked for, or from where it is.
template <int CHUNKS, bool WHOLE, Form F>
__device__ __forceinline__ void take_key(float4 (&x)[CHUNKS], const float* place, const View& view, std::int64_t local,
                                         int from_head, const RuleArgs& args, const Lane& lane) {
  if (!(WHOLE && (F == Form::bf16 || args.vector_keys))) {
    return load_key<CHUNKS, WHOLE>(x, at(view, local, from_head), view.dtype, false, args.K, lane.in_row);
  }
  with_size(dtype_of<F>(view), [&](auto size) {
    constexpr int kSize = decltype(size)::value;
    const auto* const bits = reinterpret_cast<const Bits4<kSize>*>(place) + lane.in_row;
#pragma unroll
    for (int j = 0; j < CHUNKS; ++j) x[j] = widen4<kSize>(bits[8 * j], dtype_of<F>(view));
  });
  __syncwarp(lane.group_mask);  // the place takes the prepared key next, at other offsets
}

// Key or query of one token, by one lane group: x is what it ends as.
template <int CHUNKS, bool WHOLE, bool KDA, Form F>
__device__ __forceinline__ void prepare_key(float4 (&x)[CHUNKS], const RuleArgs& args, float* token, bool query, std::int64_t local,
                                            int from_head, const Lane& lane) {
  float* const place = token + (query ? TokenPlaces<CHUNKS, KDA>::kQuery : 0);
  take_key<CHUNKS, WHOLE, F>(x, place, query ? args.q : args.k, local, from_head, args, lane);
  float scale = query ? args.scale : 1.0f;
  if (args.gate.l2norm) {
    const float inverse = inverse_norm_of<CHUNKS, WHOLE>(x, args.K, lane);
    if constexpr (KDA) {
      scale = inverse * scale;
    } else {
      scale_key(x, inverse);
    }
  }
  if (query || (KDA && args.gate.l2norm)) scale_key(x, scale);
  store_key<CHUNKS>(place, x, lane.in_row);
}

// Both, and their dot.
template <int CHUNKS, bool WHOLE, bool KDA, bool SPREAD, Form F>
__device__ __forceinline__ void prepare_keys(const RuleArgs& args, float* token, std::int64_t local, int from_head,
                                             const Lane& lane) {
  float4 x[CHUNKS], k[CHUNKS];
  if constexpr (SPREAD) {
    prepare_key<CHUNKS, WHOLE, KDA, F>(x, args, token, takes_query(lane), local, from_head, lane);
    __syncwarp(0xffffu << (lane.group / 2 * 16));
  } else {
    prepare_key<CHUNKS, WHOLE, KDA, F>(x, args, token, false, local, from_head, lane);
    prepare_key<CHUNKS, WHOLE, KDA, F>(x, args, token, true, local, from_head, lane);
  }
  // Read back, not kept: registers are short while the state is on its way. The key's group of a pair goes along, for nothing.
  read_key<CHUNKS>(k, token, lane.in_row);
  const float dot = sum_of_group(quad(partial_sums<CHUNKS, WHOLE>(k, x, args.K, lane.in_row)), lane.group_mask);
  if (lane.in_row == 0 && (!SPREAD || takes_query(lane))) token[TokenPlaces<CHUNKS, KDA>::kKeyDotQuery] = dot;
}

template <int CHUNKS, bool KDA, bool SPREAD, Form F>
__device__ __forceinline__ void prepare_values(const RuleArgs& args, const Tokens& to, std::int64_t first, int count,
                                               const HeadPart& part) {
  using Places = TokenPlaces<CHUNKS, KDA>;
  const DType dtype = dtype_of<F>(args.v);
  if (F != Form::bf16 && !args.vector_values) {
    for (int i = static_cast<int>(threadIdx.x); i < count * to.block_rows; i += static_cast<int>(blockDim.x)) {
      const int t = i / to.block_rows, r = i % to.block_rows;
      to.base[t * to.step + Places::kValues + r] =
          part.value0 + r < args.V ? load_float(at(args.v, first + t, part.head, part.value0 + r), dtype) : 0.0f;
    }
    return;
  }
  with_size(dtype, [&](auto size) {
    constexpr int kSize = decltype(size)::value;
    for_value_fours<SPREAD>(to, count, [&](int t, int row) {
      float* const values = to.base + t * to.step + Places::kValues;
      const auto* const bits = reinterpret_cast<const Bits4<kSize>*>(values + to.block_rows) + row / 4;
      *reinterpret_cast<float4*>(values + row) = widen4<kSize>(*bits, dtype);
    });
  });
}

// Prepares what ask_tokens has asked for, with the same arguments. All threads of the block; a barrier at the end. Keys start with the first
// warp, decays with the last, beta with the one before: each is a long chain.
template <int CHUNKS, bool WHOLE, bool KDA, bool SPREAD, Form F>
__device__ __forceinline__ void prepare_tokens(const RuleArgs& args, const Tokens& to, const AskedGates& gates, std::int64_t first,
                                               int count, const HeadPart& part, const Lane& lane) {
  using Places = TokenPlaces<CHUNKS, KDA>;
  constexpr int KP = Places::kKP;
  const int threads = static_cast<int>(blockDim.x);
  wait_for_copies();
  for_keys<SPREAD>(count, [&](int t) {
    prepare_keys<CHUNKS, WHOLE, KDA, SPREAD, F>(args, to.base + t * to.step, first + t, part.key_head, lane);
  });
  if constexpr (!KDA) {
    if (const int t = gate_token(); t < count) {
      to.base[t * to.step + Places::kDecay] =
          arithmetic::gdn_decay(gates.a, gates.dt_bias, gates.A_log, args.gate.softplus_beta, args.gate.softplus_threshold);
    }
  }
  if (const int t = beta_token(); t >= 0 && t < count) to.base[t * to.step + Places::kBeta] = arithmetic::sigmoid(gates.b);
  if constexpr (KDA) {
    with_kda_decay(args.gate, exp_A_log_of(args.gate, part.head), [&](auto decay) {
      for (int i = static_cast<int>(threadIdx.x); i < count * KP; i += threads) {
        const int t = i / KP, k = i % KP;
        float& place = to.base[t * to.step + Places::kDecays + k];
        if (k < args.K) {
          place = decay(gate_input(args.gate, load_float(at(args.a, first + t, part.head, k), dtype_of<F>(args.a)), part.head, k));
        } else {
          place = 0.0f;
        }
      }
    });
  }
  prepare_values<CHUNKS, KDA, SPREAD, F>(args, to, first, count, part);
  __syncthreads();
}

// ---- results

// Outputs of a null row: zeros for the part's value rows of its tokens.
__device__ __forceinline__ void zero_out(const View& out, const RowsArgs& rows, const DeviceRow& row, const HeadPart& part,
                                         int block_rows, int V) {
  const int last = part.value0 + block_rows < V ? part.value0 + block_rows : V;
  const int n = last - part.value0;
  if (n <= 0) return;
  const int size = static_cast<int>(size_of(out.dtype));
  for (std::int64_t i = threadIdx.x; i < row.length * n; i += blockDim.x) {
    clear_element(at(out, global_row(rows, row.begin + i / n), part.head, part.value0 + i % n), size);
  }
}

// Where a row's results of a part go: of its first token, and in the block's records (null: none).
struct Results {
  std::byte* out;
  float* corrections;
};

__device__ __forceinline__ Results results_of(const View& out, const View& corrections, const DeviceRow& row,
                                              const HeadPart& part) {
  return {at(out, row.begin, part.head, part.value0),
          corrections.present ? reinterpret_cast<float*>(at(corrections, row.block, part.head, 0, part.value0)) : nullptr};
}

// Stores results of `count` tokens that have gone through `step`, the row's tokens first..: value rows row0..row0+row_count-1 of the block. All
// threads of the block, between barriers.
template <int CHUNKS, bool KDA, Form F>
__device__ __forceinline__ void store_results(const Tokens& tokens, const Results& results, const RowsArgs& rows, const View& out,
                                              const View& corrections, const DeviceRow& row, const HeadPart& part, int first,
                                              int count, int row0, int row_count, int V) {
  using Places = TokenPlaces<CHUNKS, KDA>;
  const int last = V - part.value0 < row0 + row_count ? V - part.value0 : row0 + row_count;
  const DType dtype = dtype_of<F>(out);
  const int size = static_cast<int>(size_of(dtype));
  const bool listed = F != Form::bf16 && rows.token_index.present;
  const TokenThreads threads = token_threads(row_count, static_cast<int>(threadIdx.x));
  const std::int64_t out_step = out.stride[0] * size, record_step = corrections.stride[2];
  const float* values = tokens.base + threads.first * tokens.step + Places::kValues;
  std::byte* to = results.out + (first + threads.first) * out_step;
  float* record = results.corrections + (first + threads.first) * record_step;
#pragma unroll 1
  for (int t = threads.first; t < count; t += threads.step) {
    if (listed) to = at(out, global_row(rows, row.begin + first + t), part.head, part.value0);
    for (int r = row0 + threads.lane; r < last; r += threads.width) {
      store_float(to + r * size, dtype, values[r]);
      if (results.corrections != nullptr) record[r] = values[tokens.block_rows + r];
    }
    values += threads.step * tokens.step;
    to += threads.step * out_step;
    record += threads.step * record_step;
  }
}

}  // namespace recoverssm::cuda
