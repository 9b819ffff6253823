// causal_conv1d and causal_conv1d_window on the CPU. A task is one row of one tile of channels; a worker that takes the next row of
// the same tile finds its weights ready.
//
// Order within a task, which also makes out == x right: the history is widened into scratch, then the line is updated from the raw
// inputs, and only then does the first output overwrite an input. Each token's inputs are in scratch before its outputs are stored.
#include <algorithm>
#include <type_traits>

#include "contract/rules.h"
#include "cpu/conv_tile.h"
#include "cpu/line.h"
#include "cpu/ops.h"
#include "cpu/view.h"

namespace recoverssm::cpu {
namespace {

constexpr int kMaxTaps = 8;

// One worker's scratch.
struct Scratch {
  TileWeights weights;
  float* ring;  // [W][kConvTile]: the last W tokens, widened
  float* out;   // [kConvTile]
  std::byte* raw;

  Scratch(Carver& carver, int taps)
      : weights(carver, taps),
        ring(carver.take<float>(taps * kConvTile)),
        out(carver.take<float>(kConvTile)),
        raw(carver.take<std::byte>(kConvTile * kMaxElementSize)) {}
};

template <class Params>
constexpr bool is_window = std::is_same_v<Params, CausalConv1dWindowParams>;

template <class Params>
std::size_t scratch_bytes(const Params& p, int workers) {
  return per_worker_bytes<Scratch>(taps_of(p.weight)) * static_cast<std::size_t>(workers);
}

template <class Params>
void update_line(const Params& p, const LineTile& line, const ConvRow& row, const ConvTile& tile) {
  const std::int64_t history = taps_of(p.weight) - 1;
  const auto input = [&](std::int64_t t) { return tile.token(p.x, global_row(p.rows.token_index, row.first + t)); };
  if constexpr (is_window<Params>) {
    update_window_line(line, p.line_kind, row, history, input);
  } else {
    update_plain_line(line, row, history, input);
  }
}

template <class Params>
void convolve(const Params& p, const Execution& e, const ConvRow& row, const ConvTile& tile, Scratch& s) {
  const int W = taps_of(p.weight);
  const auto slot = [&](std::int64_t entry) { return s.ring + entry % W * kConvTile; };  // entry of history ++ inputs

  const LineTile line(p.line, row.block, tile.first, tile.channels);
  for (int h = 0; h < W - 1; ++h) {
    if (row.has_history) {
      tile.widen(e.kernels, p.line.dtype, line.position(row.history_start + h), s.raw, slot(h));
    } else {
      std::fill_n(slot(h), tile.channels, 0.0F);
    }
  }
  update_line(p, line, row, tile);

  ConvToken token;
  token.channels = tile.channels;
  token.taps = W;
  token.weight = s.weights.taps;
  token.bias = p.bias.present() ? s.weights.bias : nullptr;
  token.silu = p.activation == Activation::silu;
  token.out = s.out;
  for (std::int64_t t = 0; t < row.length; ++t) {
    const std::int64_t global = global_row(p.rows.token_index, row.first + t);
    tile.widen(e.kernels, p.x.dtype, tile.token(p.x, global), s.raw, slot(W - 1 + t));
    for (int w = 0; w < W; ++w) token.inputs[w] = slot(t + w);
    e.kernels.conv(token);
    tile.narrow(e.kernels, p.out.dtype, s.out, s.raw, tile.token(p.out, global));
  }
}

template <class Params>
void run(const Params& p, const Execution& e) {
  static_assert(std::extent_v<decltype(ConvToken::inputs)> == kMaxTaps);
  const int W = taps_of(p.weight);
  const std::int64_t C = p.x.shape[1], rows = p.rows.state_indices.shape[0];
  const std::size_t stride = per_worker_bytes<Scratch>(W);
  for (int worker = 0; worker < workers_of(e); ++worker) worker_scratch<Scratch>(e, stride, worker, W).weights.forget();

  parallel_for(e, tiles_of(C) * rows, [&](std::int64_t task, int worker) {
    const ConvRow row = conv_row(p.rows, p.line_kind, task % rows);
    if (row.length <= 0) return;
    const ConvTile tile(task / rows, C);
    if (row.null) {
      clear_outputs(p.out, p.rows.token_index, row, tile);
      return;
    }
    Scratch s = worker_scratch<Scratch>(e, stride, worker, W);
    s.weights.load(e.kernels, p.weight, p.bias, tile, s.raw);
    convolve(p, e, row, tile, s);
  });

  if (e.counters != nullptr) {
    count_conv_rows(p.rows, p.line, p.line_kind, is_window<Params>, W - 1, /*inputs=*/1, *e.counters);
  }
}

}  // namespace

std::size_t scratch_size(const CausalConv1dParams& p, int workers) { return scratch_bytes(p, workers); }
std::size_t scratch_size(const CausalConv1dWindowParams& p, int workers) { return scratch_bytes(p, workers); }

void execute(const CausalConv1dParams& p, const Execution& e) { run(p, e); }
void execute(const CausalConv1dWindowParams& p, const Execution& e) { run(p, e); }

}  // namespace recoverssm::cpu
