// Conv lines on the device: neighbouring channels of one block's line, and the updates a row makes to them. A thread owns its channels, so
// that nothing here needs another thread. A line moves bits, nothing looks at a value. The same rules as src/cpu/line.h.
#pragma once

#include <cstdint>

#include "contract/rules.h"
#include "cuda/lanes.cuh"
#include "cuda/rows.cuh"
#include "cuda/select.h"

namespace recoverssm::cuda {

// kLanes channels of one block. `together`: a position's channels are neighbours, aligned to their size as one value.
template <int kSize, int kLanes>
class LineLanes {
 public:
  using Bits = LaneBits<kSize, kLanes>;

  __device__ __forceinline__ LineLanes(const View& line, std::int64_t block, std::int64_t channel, bool together)
      : base_(at(line, block, 0, channel)),
        position_(line.stride[1] * kSize),
        channel_(line.stride[2] * kSize),
        together_(together) {}

  __device__ __forceinline__ Bits load(std::int64_t p) const {
    const std::byte* from = base_ + p * position_;
    if constexpr (kLanes == 1) {
      return load_bits<Bits>(from);
    } else {
      if (together_) return load_bits<Bits>(from);
      Element elements[kLanes];
#pragma unroll
      for (int i = 0; i < kLanes; ++i) elements[i] = load_bits<Element>(from + i * channel_);
      Bits bits;
      memcpy(&bits, elements, sizeof bits);
      return bits;
    }
  }

  __device__ __forceinline__ void store(std::int64_t p, Bits bits) const {
    std::byte* to = base_ + p * position_;
    if constexpr (kLanes == 1) {
      store_bits(to, bits);
    } else {
      if (together_) return store_bits(to, bits);
      Element elements[kLanes];
      memcpy(elements, &bits, sizeof bits);
#pragma unroll
      for (int i = 0; i < kLanes; ++i) store_bits(to + i * channel_, elements[i]);
    }
  }

 private:
  using Element = ElementBits<kSize>;
  std::byte* base_;
  std::int64_t position_, channel_;  // bytes
  bool together_;
};

// What the rows of a convolution say of their lines.
struct LineArgs {
  View view;  // [blocks, columns, C]
  std::int64_t columns = 0;
  std::int64_t history = 0;  // W-1, or (Kc-1)*dilation
  LineKind kind{};
  bool together = false;  // LineLanes
};

inline LineArgs line_args(const TensorView& line, LineKind kind, std::int64_t history) {
  LineArgs args;
  args.view = view_of(line);
  args.columns = line.shape[1];
  args.history = history;
  args.kind = kind;
  args.together = lanes_fit(line.data, size_of(line.dtype), line.stride[2], {line.stride[0], line.stride[1]}, kConvLanes);
  return args;
}

struct LineRow {
  DeviceRow row;
  bool has_history = true;         // false: zeros, by selection
  std::int64_t history_start = 0;  // line position of the oldest history entry
};

// Row i, ready to run. Called by all threads of a block with one i. A count that names a history past the line, or above S, makes a null
// row; the count of a row without initial state is not read.
__device__ __forceinline__ LineRow line_row(const RowsArgs& rows, const LineArgs& line, std::int64_t i) {
  LineRow r;
  r.row = row_of(rows, i);
  drop_bad_tokens(rows, r.row);
  if (r.row.kind != DeviceRowKind::live) return r;
  r.has_history = starts_from_block(rows, i);
  if (!r.has_history) return r;
  const std::int64_t count = rows.num_accepted.present ? i32_at(rows.num_accepted, i) : compacted_count(line.kind);
  r.history_start = history_start(line.kind, count);
  const bool above_capacity = rows.num_accepted.present && rows.capacity > 0 && count > rows.capacity;
  if (above_capacity || r.history_start + line.history > line.columns) make_null(r.row, ErrorKind::out_of_range);
  return r;
}

constexpr int kLineBatch = 4;  // loads in flight; all of a batch are read before one is written, which no shift to the front minds

// entry(j) to position j for j = 0..n-1, in rising order. entry(j) reads positions >= j of the line, if any.
template <int kSize, int kLanes, class Entry>
__device__ __forceinline__ void store_rising(const LineLanes<kSize, kLanes>& line, std::int64_t first, std::int64_t n,
                                             Entry&& entry) {
  for (std::int64_t j = 0; j < n; j += kLineBatch) {
    LaneBits<kSize, kLanes> batch[kLineBatch];
#pragma unroll
    for (int b = 0; b < kLineBatch; ++b) {
      if (j + b < n) batch[b] = entry(j + b);
    }
#pragma unroll
    for (int b = 0; b < kLineBatch; ++b) {
      if (j + b < n) line.store(first + j + b, batch[b]);
    }
  }
}

// Plain row: positions 0..history-1 become the last `history` entries of history ++ inputs; later positions stay. input(t) gives the bits
// of the row's token t.
template <int kSize, int kLanes, class Input>
__device__ __forceinline__ void update_plain_line(const LineLanes<kSize, kLanes>& line, const LineRow& r, std::int64_t history,
                                                  Input&& input) {
  store_rising(line, 0, history, [&](std::int64_t j) -> LaneBits<kSize, kLanes> {
    const std::int64_t entry = r.row.length + j;
    if (entry >= history) return input(entry - history);
    if (r.has_history) return line.load(r.history_start + entry);
    return LaneBits<kSize, kLanes>{};
  });
}

// Window: the newest history entries to the front (all of an anchored line, all but the oldest of a rolled one), the inputs behind them;
// later positions stay.
template <int kSize, int kLanes, class Input>
__device__ __forceinline__ void update_window_line(const LineLanes<kSize, kLanes>& line, const LineRow& r, const LineArgs& args,
                                                   Input&& input) {
  const std::int64_t kept = window_input_start(args.kind, args.history + 1);
  const std::int64_t shift = r.history_start + (args.history - kept);
  if (shift > 0) store_rising(line, 0, kept, [&](std::int64_t j) { return line.load(shift + j); });
  store_rising(line, kept, r.row.length, input);
}

}  // namespace recoverssm::cuda
