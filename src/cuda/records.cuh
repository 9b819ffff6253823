// Records of windows: what a verify leaves, and how they come back.
#pragma once

#include "cuda/tokens.cuh"

namespace recoverssm::cuda {

// The float records of a head in a block: row t is token t's.
struct HeadRecords {
  const float* base;
  std::int64_t step;  // floats from row to row
};

template <bool KDA>
__device__ __forceinline__ HeadRecords head_records(const RecordArgs& records, std::int64_t block, int head) {
  const View& rows = KDA ? records.corrections : records.packed;
  return {reinterpret_cast<const float*>(at(rows, block, head)), rows.stride[2]};
}

// Asks for records first..first+count-1, for value rows value0..: keys and decays (gdn) and corrections go into the buffers, which nobody may
// still be reading. Float by float: rows of V + K + 1 start on no multiple of anything.
template <int CHUNKS, bool KDA>
__device__ __forceinline__ void ask_records(const HeadRecords& records, const Tokens& to, int first, int count, int value0, int K,
                                            int V) {
  using Places = TokenPlaces<CHUNKS, KDA>;
  constexpr int kKeys = KDA ? 0 : Places::kKP + 1;  // of each: key, with the zeros behind it, and decay; then corrections
  const float* const record = records.base + first * records.step;
  const int each = kKeys + to.block_rows;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < count * each; i += static_cast<int>(blockDim.x)) {
    const int t = i / each, e = i % each;
    const bool value = e >= kKeys, decay = e == kKeys - 1;
    const int from = value ? value0 + e - kKeys : decay ? V + K : V + e;
    float* const place = to.base + t * to.step + (value ? Places::kValues + e - kKeys : decay ? Places::kDecay : e);
    if (value ? from < V : decay || e < K) {
      __pipeline_memcpy_async(place, record + t * records.step + from, sizeof(float));
    } else {
      *place = 0.0f;
    }
  }
  __pipeline_commit();
}

// Prepares records that were asked for, with the same arguments. `behind`: groups of asynchronous copies asked for since. One barrier, at the
// end.
template <int CHUNKS, bool WHOLE, bool KDA, int behind = 0>
__device__ __forceinline__ void prepare_records(const RecordArgs& records, const GateArgs& gate, const Tokens& to,
                                                std::int64_t block, int head, int first, int count, int K, const Lane& lane) {
  using Places = TokenPlaces<CHUNKS, KDA>;
  constexpr int KP = Places::kKP;
  const int threads = static_cast<int>(blockDim.x);
  if constexpr (KDA) {
    const DType dtype = records.key_gate.dtype;
    for (int t = static_cast<int>(threadIdx.x) / kLanesPerRow; t < count; t += threads / kLanesPerRow) {
      float4 x[CHUNKS];
      load_key<CHUNKS, WHOLE>(x, at(records.key_gate, block, head, first + t), dtype, false, K, lane.in_row);
      if (gate.l2norm) scale_key(x, inverse_norm_of<CHUNKS, WHOLE>(x, K, lane));
      store_key<CHUNKS>(to.base + t * to.step, x, lane.in_row);
    }
    with_kda_decay(gate, exp_A_log_of(gate, head), [&](auto decay) {
      for (int i = static_cast<int>(threadIdx.x); i < count * KP; i += threads) {
        const int t = i / KP, k = i % KP;
        float& place = to.base[t * to.step + Places::kDecays + k];
        if (k < K) {
          place = decay(gate_input(gate, load_float(at(records.key_gate, block, head, first + t, K + k), dtype), head, k));
        } else {
          place = 0.0f;
        }
      }
    });
  }
  wait_for_copies<behind>();
  __syncthreads();
}

// kda's record of the row's token t: raw key and raw gate input, bit by bit; commit computes k^ and d with the same functions. By threads first,
// first + width, ...
__device__ __forceinline__ void copy_key_and_gate(const RuleArgs& args, const RecordArgs& records, const DeviceRow& row, int head,
                                                  int key_head, int t, int first, int width) {
  const int size = static_cast<int>(size_of(args.k.dtype));
  std::byte* const record = at(records.key_gate, row.block, head, t);
  const std::byte* const key = at(args.k, row.begin + t, key_head);
  const std::byte* const gate = at(args.a, row.begin + t, head);
  for (int k = first; k < args.K; k += width) {
    copy_element(record + k * size, key + k * size, size);
    copy_element(record + (args.K + k) * size, gate + k * size, size);
  }
}

// Writes what commit needs to repeat k^ and d of tokens already prepared: the row's tokens first..first+count-1, at these positions of the head's
// records. The parts of a head have all prepared them; each writes its share. Threads count from the block's end: the first ones store results.
template <int CHUNKS, bool KDA>
__device__ __forceinline__ void write_keys(const RuleArgs& args, const RecordArgs& records, const Results& results,
                                           const Tokens& tokens, const DeviceRow& row, const HeadPart& part, int first, int count,
                                           int parts) {
  using Places = TokenPlaces<CHUNKS, KDA>;
  const TokenThreads threads = token_threads(args.K, static_cast<int>(blockDim.x - 1 - threadIdx.x));
  const int share = static_cast<int>(blockIdx.x) + threads.first * parts, step = threads.step * parts;
  if constexpr (!KDA) {
    float* record = results.corrections - part.value0 + args.V + (first + share) * records.packed.stride[2];
    const float* token = tokens.base + share * tokens.step;
#pragma unroll 1
    for (int t = share; t < count; t += step) {
      for (int k = threads.lane; k < args.K; k += threads.width) record[k] = token[k];
      if (threads.lane == 0) record[args.K] = token[Places::kDecay];
      record += step * records.packed.stride[2];
      token += step * tokens.step;
    }
  } else {
#pragma unroll 1
    for (int t = share; t < count; t += step) {
      copy_key_and_gate(args, records, row, part.head, part.key_head, first + t, threads.lane, threads.width);
    }
  }
}

// Folds records 0..n-1 of `block` into a tile, as a commit would before rounding. All threads of the block, with barriers.
template <int CHUNKS, int ROWS, bool WHOLE, bool KDA>
__device__ __forceinline__ void fold_records(Tile<CHUNKS, ROWS>& tile, const RecordArgs& records, const GateArgs& gate,
                                             const Tokens& buffers, int token_chunk, std::int64_t block, const HeadPart& part,
                                             int n, int row, int K, int V, const Lane& lane) {
  for (int first = 0; first < n; first += token_chunk) {
    const int count = n - first < token_chunk ? n - first : token_chunk;
    __syncthreads();  // the buffers may still be read
    ask_records<CHUNKS, KDA>(head_records<KDA>(records, block, part.head), buffers, first, count, part.value0, K, V);
    prepare_records<CHUNKS, WHOLE, KDA>(records, gate, buffers, block, part.head, first, count, K, lane);
    const float* token = buffers.base;
#pragma unroll 1
    for (int t = 0; t < count; ++t, token += buffers.step) replay_step<CHUNKS, ROWS, KDA>(tile, token, row, lane);
  }
}

}  // namespace recoverssm::cuda
