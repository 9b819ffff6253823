// One value head of one row: start state, chunks of tokens, final state. The plain rule and verify differ in what they do with a token's
// results (emit) and whether the final state is stored.
#pragma once

#include <algorithm>
#include <cstring>

#include "contract/rules.h"
#include "cpu/head_tokens.h"
#include "cpu/view.h"

namespace recoverssm::cpu {

// Scratch of one worker.
struct HeadWork {
  HeadScratch tokens;  // kTokenChunk tokens
  HeadScratch fold;    // as many as may wait in a block; carved only for calls with pending
  float* h = nullptr;  // [v_stride][k_stride]
};

inline HeadWork carve_head_work(Carver& carver, const RuleShape& shape, Gate gate, std::int64_t fold_capacity) {
  HeadWork work;
  work.tokens = carve_head(carver, shape, gate, kTokenChunk, /*replay=*/false);
  if (fold_capacity > 0) work.fold = carve_head(carver, shape, gate, fold_capacity, /*replay=*/true);
  work.h = carver.take<float>(static_cast<std::int64_t>(shape.v_stride) * shape.k_stride);
  return work;
}

// Bytes for `workers` workers, and the share of one of them: the same carving, measured or done.
inline std::size_t head_work_size(const RuleShape& shape, Gate gate, std::int64_t fold_capacity, int workers) {
  Carver carver(nullptr);
  carve_head_work(carver, shape, gate, fold_capacity);
  return for_workers(carver.used(), workers);
}

inline HeadWork head_work_of(const Execution& e, const RuleShape& shape, Gate gate, std::int64_t fold_capacity, int worker) {
  const std::size_t share = head_work_size(shape, gate, fold_capacity, 1);
  Carver carver(e.scratch + static_cast<std::size_t>(worker) * share);
  return carve_head_work(carver, shape, gate, fold_capacity);
}

// Before the first head of a call: scratch starts with any contents.
inline void forget_keys(const Execution& e, const RuleShape& shape, Gate gate, std::int64_t fold_capacity) {
  for (int worker = 0; worker < workers_of(e); ++worker) {
    *head_work_of(e, shape, gate, fold_capacity, worker).tokens.keys_of = kNoKeys;
  }
}

// Folds a block's waiting records into its state as it is stored, so that what follows starts from the rounded state.
// `h` is the tile's own, not yet in use: other tiles of the head may carry their states in theirs.
inline void fold_rows(const Kernels& kernels, const RuleShape& shape, const HeadTokens& waiting, const HeadScratch& scratch,
                      const StateTile& tile, int first, int rows, float* h) {
  kernels.replay({.tokens = waiting,
                  .len = waiting.count,
                  .boundary_len = 0,
                  .rows = rows,
                  .from = tile,
                  .boundary = {},
                  .to = tile,
                  .h = h,
                  .token_stride = shape.v_stride,
                  .correction = scratch.correction + first,
                  .next = nullptr});
}

struct HeadRow {
  std::int64_t block = 0;
  std::int64_t head = 0;
  std::int64_t first_token = 0;  // local
  std::int64_t length = 0;
  bool from_zero = false;
  bool store_final = false;
  HeadTokens waiting;  // count 0: nothing to fold
};

// emit(tokens, index, t): results of token t of the row are in work.tokens at index.
template <class Emit>
void run_head(const Kernels& kernels, const RuleInputs& inputs, const RuleShape& shape, const TensorView& state,
              const HeadWork& work, const HeadRow& row, Emit&& emit) {
  const bool one_chunk = row.length <= kTokenChunk;
  for (std::int64_t begin = 0; begin < row.length; begin += kTokenChunk) {
    const int count = static_cast<int>(std::min<std::int64_t>(kTokenChunk, row.length - begin));
    const bool last_chunk = begin + count == row.length;
    const HeadTokens tokens = prepare_inputs(kernels, inputs, shape, row.head, row.first_token + begin, count, work.tokens);
    for (int first = 0; first < shape.V; first += kStateRows) {
      const int rows = std::min(kStateRows, shape.V - first);
      const StateTile tile = tile_of(state, row.block, row.head, first);
      // A row of one chunk needs no state between chunks, so that all its tiles share one that stays in the first-level cache.
      float* h = work.h + (one_chunk ? 0 : static_cast<std::int64_t>(first) * shape.k_stride);
      const bool from_state = begin == 0 && !row.from_zero;
      if (begin == 0 && row.from_zero) std::memset(h, 0, sizeof(float) * static_cast<std::size_t>(kStateRows * shape.k_stride));
      if (begin == 0 && row.waiting.count > 0) fold_rows(kernels, shape, row.waiting, work.fold, tile, first, rows, h);
      // What comes after the next tile, in this head or at the front of the next one, which the same worker mostly takes: a tile takes
      // about as long to compute as memory takes to bring one.
      const bool last_tiles = row.head + 1 == shape.HV && first + kStateRows >= shape.V;
      kernels.delta({.tokens = tokens,
                     .rows = rows,
                     .from = from_state ? tile : StateTile{},
                     .to = last_chunk && row.store_final ? tile : StateTile{},
                     .keep = !last_chunk,
                     .h = h,
                     .token_stride = shape.v_stride,
                     .v = work.tokens.v + first,
                     .correction = work.tokens.correction + first,
                     .out = work.tokens.out + first,
                     .next = from_state && !last_tiles ? at(state, row.block, row.head, first + 2 * kStateRows) : nullptr});
    }
    for (int index = 0; index < count; ++index) emit(tokens, index, begin + index);
  }
}

// Stores token results: out row at the token's global row, rounded to out's dtype.
inline void store_out(const Kernels& kernels, const TensorView& out, const Rows& rows, std::int64_t token, std::int64_t head,
                      const float* values) {
  kernels.narrow(out.dtype, values, at(out, global_row(rows.token_index, token), head), out.shape[2]);
}

// A null row's outputs of one head.
inline void zero_out(const TensorView& out, const Rows& rows, std::int64_t begin, std::int64_t end, std::int64_t head) {
  const auto bytes = static_cast<std::size_t>(out.shape[2] * size_of(out.dtype));
  for (std::int64_t t = begin; t < end; ++t) std::memset(at(out, global_row(rows.token_index, t), head), 0, bytes);
}

// Offsets of row i.
inline std::int64_t row_begin(const Rows& rows, std::int64_t i) { return i32_at(rows.query_start_loc, i); }
inline std::int64_t row_end(const Rows& rows, std::int64_t i) { return i32_at(rows.query_start_loc, i + 1); }

// Traffic of a delta rule row: inputs and outputs of its tokens.
inline void count_tokens(Counters& counters, const RuleInputs& inputs, const TensorView& out, std::int64_t tokens) {
  const std::int64_t H = inputs.q.shape[1], K = inputs.q.shape[2], HV = inputs.v.shape[1], V = inputs.v.shape[2];
  const std::int64_t gate = inputs.gate == Gate::kda ? HV * K : HV;
  counters.rows += 1;
  counters.tokens += tokens;
  counters.activation_read += tokens * (2 * H * K + HV * V + gate + HV) * size_of(inputs.q.dtype);
  counters.activation_written += tokens * HV * V * size_of(out.dtype);
}

// Bytes of one token's record, all heads.
inline std::int64_t record_bytes(Gate gate, const Records& records) {
  if (gate == Gate::gdn) return records.packed.shape[1] * records.packed.shape[3] * size_of(records.packed.dtype);
  return records.corrections.shape[1] * records.corrections.shape[3] * size_of(records.corrections.dtype) +
         records.key_gate.shape[1] * records.key_gate.shape[3] * size_of(records.key_gate.dtype);
}

}  // namespace recoverssm::cpu
