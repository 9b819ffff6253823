// What causal_conv1d, causal_conv1d_window and short_conv share: a tile of channels, its widened weights, its traffic.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/execution.h"
#include "cpu/kernels.h"
#include "cpu/line.h"
#include "cpu/view.h"

namespace recoverssm::cpu {

constexpr std::int64_t kMaxElementSize = 4;  // bytes of the widest activation or parameter dtype

inline std::int64_t tiles_of(std::int64_t C) { return (C + kConvTile - 1) / kConvTile; }

// W of a weight [C, W].
inline int taps_of(const TensorView& weight) { return static_cast<int>(weight.shape[1]); }

// Tile number `index` of C channels. `raw` below is room for one tile of elements; it is used only where a run is strided.
struct ConvTile {
  std::int64_t first;
  int channels;

  ConvTile(std::int64_t index, std::int64_t C)
      : first(index * kConvTile), channels(static_cast<int>(std::min<std::int64_t>(kConvTile, C - first))) {}

  // This tile of row `row` of a [rows, C] tensor.
  Run token(const TensorView& view, std::int64_t row) const { return {at(view, row, first), view.stride[1] * size_of(view.dtype)}; }

  // The channels of a run side by side: the run itself, or a copy in `copy`.
  const std::byte* contiguous(DType dtype, Run from, std::byte* copy) const {
    const std::int64_t size = size_of(dtype);
    if (from.stride == size) return from.data;
    copy_elements(from.data, from.stride, copy, size, channels, size);
    return copy;
  }

  // The way back: nothing to do where `from` is the run itself.
  void scatter(DType dtype, const std::byte* from, Run to) const {
    const std::int64_t size = size_of(dtype);
    if (from != to.data) copy_elements(from, size, to.data, to.stride, channels, size);
  }

  void widen(const Kernels& kernels, DType dtype, Run from, std::byte* raw, float* to) const {
    kernels.widen(dtype, contiguous(dtype, from, raw), to, channels);
  }

  void narrow(const Kernels& kernels, DType dtype, const float* from, std::byte* raw, Run to) const {
    std::byte* narrowed = to.stride == size_of(dtype) ? to.data : raw;
    kernels.narrow(dtype, from, narrowed, channels);
    scatter(dtype, narrowed, to);
  }
};

// A tile's weights and bias in fp32, taps outermost. Kept from task to task of one worker, which mostly takes rows of the same
// tile.
class TileWeights {
 public:
  float* taps;  // [W][kConvTile]
  float* bias;  // [kConvTile], filled where there is a bias

  TileWeights(Carver& carver, std::int64_t W)
      : taps(carver.take<float>(W * kConvTile)), bias(carver.take<float>(kConvTile)), loaded_(carver.take<std::int64_t>(1)) {}

  // Before the first load of a call: scratch starts with any contents.
  void forget() { *loaded_ = -1; }

  void load(const Kernels& kernels, const TensorView& weight, const TensorView& bias_view, const ConvTile& tile, std::byte* raw) {
    if (*loaded_ == tile.first) return;
    *loaded_ = tile.first;
    const std::int64_t channel_stride = weight.stride[0] * size_of(weight.dtype);
    for (int w = 0; w < taps_of(weight); ++w) {
      tile.widen(kernels, weight.dtype, {at(weight, tile.first, w), channel_stride}, raw, taps + std::ptrdiff_t{w} * kConvTile);
    }
    if (bias_view.present()) {
      tile.widen(kernels, bias_view.dtype, {at(bias_view, tile.first), bias_view.stride[0] * size_of(bias_view.dtype)}, raw, bias);
    }
  }

 private:
  std::int64_t* loaded_;  // first channel of the tile in place
};

// A worker's piece of scratch: `Scratch` carves itself from a Carver, so its size and its use are one piece of code.
template <class Scratch, class... Args>
std::size_t per_worker_bytes(Args... args) {
  Carver measure(nullptr);
  const Scratch scratch(measure, args...);
  return measure.used();
}

template <class Scratch, class... Args>
Scratch worker_scratch(const Execution& e, std::size_t bytes, int worker, Args... args) {
  Carver carver(e.scratch + bytes * static_cast<std::size_t>(worker));
  return Scratch(carver, args...);
}

// A null row's outputs: zeros for its tokens.
inline void clear_outputs(const TensorView& out, const TensorView& token_index, const ConvRow& row, const ConvTile& tile) {
  for (std::int64_t t = 0; t < row.length; ++t) {
    const Run to = tile.token(out, global_row(token_index, row.first + t));
    clear_elements(to.data, to.stride, tile.channels, size_of(out.dtype));
  }
}

// Adds the traffic of all live rows: per token and channel `inputs` activations read and one written; history read, line positions
// written. Parameters are shared by all rows and not counted.
inline void count_conv_rows(const Rows& rows, const TensorView& line, LineKind kind, bool windows, std::int64_t history,
                            std::int64_t inputs, Counters& counters) {
  const std::int64_t position = line.shape[2] * size_of(line.dtype);  // bytes of one token's channels
  for (std::int64_t i = 0; i < rows.state_indices.shape[0]; ++i) {
    const ConvRow row = conv_row(rows, kind, i);
    if (row.length <= 0 || row.null) continue;
    counters.rows += 1;
    counters.tokens += row.length;
    counters.activation_read += row.length * inputs * position;
    counters.activation_written += row.length * position;
    counters.line_read += row.has_history ? history * position : 0;
    counters.line_written += (windows ? window_positions_written(kind, row, history) : plain_positions_written(history)) * position;
  }
}

}  // namespace recoverssm::cpu
