// Records of windows: what a verify leaves, and how they come back.
#pragma once

#include "cuda/tokens.cuh"

namespace recoverssm::cuda {

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

}  // namespace recoverssm::cuda
