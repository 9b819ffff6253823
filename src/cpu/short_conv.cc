// short_conv on the CPU: dilated depthwise convolution with residuals. A task is one row of one tile of channels, tile after tile,
// as in conv.cc. Outputs come first and the line last: no output may alias an input, so nothing has to be saved.
#include <algorithm>

#include "contract/rules.h"
#include "cpu/conv_tile.h"
#include "cpu/line.h"
#include "cpu/ops.h"
#include "cpu/view.h"

namespace recoverssm::cpu {
namespace {

// One worker's scratch. It holds the taps of one token only, not the history, which may be long: (Kc-1)*dilation positions.
struct Scratch {
  TileWeights weights;
  float* taps;           // [Kc][kConvTile]: a token's inputs, widened
  const float** inputs;  // [Kc]: the rows of taps
  float* y;              // [kConvTile]
  float* residual;       // [kConvTile]
  std::byte* raw;

  Scratch(Carver& carver, int Kc)
      : weights(carver, Kc),
        taps(carver.take<float>(std::int64_t{Kc} * kConvTile)),
        inputs(carver.take<const float*>(Kc)),
        y(carver.take<float>(kConvTile)),
        residual(carver.take<float>(kConvTile)),
        raw(carver.take<std::byte>(kConvTile * kMaxElementSize)) {}
};

std::int64_t history_of(const ShortConvParams& p) { return std::int64_t{taps_of(p.weight) - 1} * p.dilation; }

// One row of one tile.
class RowTile {
 public:
  RowTile(const ShortConvParams& p, const Execution& e, const ConvRow& row, const ConvTile& tile, Scratch& s)
      : p_(p), kernels_(e.kernels), row_(row), tile_(tile), s_(s), line_(p.line, row.block, tile.first, tile.channels) {}

  void outputs() {
    for (std::int64_t t = 0; t < row_.length; ++t) {
      dilated_sum(t);
      round_to_T(s_.y);
      kernels_.silu(s_.y, s_.y, tile_.channels);
      const std::int64_t global = global_row(p_.rows.token_index, row_.first + t);
      const Run residual = tile_.token(p_.residual, global);
      if (p_.outer_residual.present()) {
        round_to_T(s_.y);
        add_widened(residual);  // the residual is read and written here
        round_to_T(s_.y);
        add_widened(tile_.token(p_.outer_residual, global));
      }
      tile_.narrow(kernels_, p_.residual.dtype, s_.y, s_.raw, residual);
    }
  }

  void update_line() {
    const auto input = [&](std::int64_t t) { return token_input(t); };
    if (p_.line_kind == LineKind::plain) {
      update_plain_line(line_, row_, history_of(p_), input);
    } else {
      update_window_line(line_, p_.line_kind, row_, history_of(p_), input);
    }
  }

 private:
  Run token_input(std::int64_t t) const { return tile_.token(p_.x, global_row(p_.rows.token_index, row_.first + t)); }

  // y = sum over k of (history ++ inputs)[t + dilation*k] * weight[k].
  void dilated_sum(std::int64_t t) {
    const int Kc = taps_of(p_.weight);
    const std::int64_t history = history_of(p_);
    for (int k = 0; k < Kc; ++k) {
      const std::int64_t entry = t + std::int64_t{p_.dilation} * k;
      float* tap = s_.taps + std::ptrdiff_t{k} * kConvTile;
      s_.inputs[k] = tap;
      if (entry >= history) {
        widen(token_input(entry - history), tap);
      } else if (row_.has_history) {
        widen(line_.position(row_.history_start + entry), tap);
      } else {
        std::fill_n(tap, tile_.channels, 0.0F);
      }
    }
    kernels_.short_conv({.channels = tile_.channels, .taps = Kc, .inputs = s_.inputs, .weight = s_.weights.taps, .out = s_.y});
  }

  void widen(Run from, float* to) { tile_.widen(kernels_, p_.x.dtype, from, s_.raw, to); }

  void round_to_T(float* values) {
    kernels_.narrow(p_.x.dtype, values, s_.raw, tile_.channels);
    kernels_.widen(p_.x.dtype, s_.raw, values, tile_.channels);
  }

  void add_widened(Run addend) {
    widen(addend, s_.residual);
    for (int c = 0; c < tile_.channels; ++c) s_.y[c] = s_.residual[c] + s_.y[c];
  }

  const ShortConvParams& p_;
  const Kernels& kernels_;
  const ConvRow& row_;
  const ConvTile& tile_;
  Scratch& s_;
  LineTile line_;
};

}  // namespace

std::size_t scratch_size(const ShortConvParams& p, int workers) {
  return for_workers(per_worker_bytes<Scratch>(taps_of(p.weight)), workers);
}

void execute(const ShortConvParams& p, const Execution& e) {
  const int Kc = taps_of(p.weight);
  const std::int64_t C = p.x.shape[1], rows = p.rows.state_indices.shape[0];
  const std::size_t bytes = per_worker_bytes<Scratch>(Kc);
  for (int worker = 0; worker < workers_of(e); ++worker) worker_scratch<Scratch>(e, bytes, worker, Kc).weights.forget();

  parallel_for(e, tiles_of(C) * rows, [&](std::int64_t task, int worker) {
    const ConvRow row = conv_row(p.rows, p.line_kind, task % rows);
    if (row.length <= 0) return;
    const ConvTile tile(task / rows, C);
    if (row.null) {
      clear_outputs(p.residual, p.rows.token_index, row, tile);
      return;
    }
    Scratch s = worker_scratch<Scratch>(e, bytes, worker, Kc);
    s.weights.load(e.kernels, p.weight, TensorView(), tile, s.raw);
    RowTile work(p, e, row, tile, s);
    work.outputs();
    work.update_line();
  });

  if (e.counters != nullptr) {
    const std::int64_t inputs = p.outer_residual.present() ? 3 : 1;  // x, and with an outer residual both residuals
    count_conv_rows(p.rows, p.line, p.line_kind, p.line_kind != LineKind::plain, history_of(p), inputs, *e.counters);
  }
}

}  // namespace recoverssm::cpu
