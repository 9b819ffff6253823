// causal_conv1d and causal_conv1d_window on the CPU. A task is one row of one tile of channels; a worker that takes the next row of
// the same tile finds its weights ready.
//
// Order within a task, which also makes out == x right: the history is widened into scratch, then the line is updated from the raw
// inputs, and only then does the first output overwrite an input. The kernel reads a token's channels before it stores them.
#include <algorithm>
#include <type_traits>

#include "contract/rules.h"
#include "cpu/conv_tile.h"
#include "cpu/line.h"
#include "cpu/ops.h"
#include "cpu/view.h"

namespace recoverssm::cpu {
namespace {

// One worker's scratch.
struct Scratch {
  TileWeights weights;
  float* window;       // [W-1+kConvBlock][kConvTile]
  float* sums;         // [kConvTile]
  std::byte* raw;      // [kConvTile]
  std::byte* inputs;   // [kConvBlock][kConvTile]: tokens whose channels are not contiguous
  std::byte* outputs;  // the same

  Scratch(Carver& carver, int taps)
      : weights(carver, taps),
        window(carver.take<float>((taps - 1 + kConvBlock) * std::int64_t{kConvTile})),
        sums(carver.take<float>(kConvTile)),
        raw(carver.take<std::byte>(kConvTile * kMaxElementSize)),
        inputs(carver.take<std::byte>(kConvBlock * kConvTile * kMaxElementSize)),
        outputs(carver.take<std::byte>(kConvBlock * kConvTile * kMaxElementSize)) {}
};

template <class Params>
constexpr bool is_window = std::is_same_v<Params, CausalConv1dWindowParams>;

template <class Params>
std::size_t scratch_bytes(const Params& p, int workers) {
  return for_workers(per_worker_bytes<Scratch>(taps_of(p.weight)), workers);
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
  const LineTile line(p.line, row.block, tile.first, tile.channels);
  for (int h = 0; h < W - 1; ++h) {
    float* entry = s.window + std::ptrdiff_t{h} * kConvTile;
    if (row.has_history) {
      tile.widen(e.kernels, p.line.dtype, line.position(row.history_start + h), s.raw, entry);
    } else {
      std::fill_n(entry, tile.channels, 0.0F);
    }
  }
  update_line(p, line, row, tile);

  ConvTokens tokens;
  tokens.channels = tile.channels;
  tokens.taps = W;
  tokens.dtype = p.x.dtype;
  tokens.out_dtype = p.out.dtype;
  tokens.window = s.window;
  tokens.sums = s.sums;
  tokens.weight = s.weights.taps;
  tokens.bias = p.bias.present() ? s.weights.bias : nullptr;
  tokens.silu = p.activation == Activation::silu;
  const auto token_of = [&](const TensorView& view, std::int64_t t) {
    return tile.token(view, global_row(p.rows.token_index, row.first + t));
  };
  for (std::int64_t first = 0; first < row.length; first += kConvBlock) {
    tokens.count = static_cast<int>(std::min<std::int64_t>(kConvBlock, row.length - first));
    tokens.known = static_cast<int>(std::min<std::int64_t>(kConvBlock + kConvAhead, row.length - first));
    for (int t = 0; t < tokens.known; ++t) {
      const Run in = token_of(p.x, first + t), out = token_of(p.out, first + t);
      const std::ptrdiff_t copy = std::ptrdiff_t{t} * kConvTile * kMaxElementSize;
      tokens.inputs[t] = t < tokens.count ? tile.contiguous(p.x.dtype, in, s.inputs + copy) : in.data;
      tokens.outputs[t] = t < tokens.count && out.stride != size_of(p.out.dtype) ? s.outputs + copy : out.data;
    }
    e.kernels.conv(tokens);
    for (int t = 0; t < tokens.count; ++t) tile.scatter(p.out.dtype, tokens.outputs[t], token_of(p.out, first + t));
  }
}

template <class Params>
void run(const Params& p, const Execution& e) {
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
