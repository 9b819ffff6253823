// short_conv on CUDA: dilated depthwise convolution with residuals. No output aliases an input, so tokens are independent of one another;
// only the line has to wait. A thread owns kLanes channels of a row, or of a segment of a long plain row; of rows of one segment it updates
// the line behind its outputs, of longer ones a second launch does, since every segment may read the history.

#include "arithmetic/gates.h"
#include "cuda/launch.h"
#include "cuda/ops.h"
#include "cuda/segments.cuh"

namespace recoverssm::cuda {
namespace {

constexpr int kHeldTaps = 4;  // weights a thread keeps in registers; of more taps it reads the others again for every token

struct ShortConvArgs {
  RowsArgs rows;
  LineArgs line;
  View x, weight, residual, outer_residual;
  std::int64_t channels = 0;
  std::int64_t taps = 0, dilation = 0;
  Segments cut;
};

__device__ __forceinline__ std::int64_t first_channel(int lanes) {
  return (std::int64_t{blockIdx.x} * kConvThreads + threadIdx.x) * lanes;
}

template <int kLanes>
__device__ __forceinline__ void load_weight(const ShortConvArgs& args, std::int64_t channel, std::int64_t k, float (&w)[kLanes]) {
#pragma unroll
  for (int i = 0; i < kLanes; ++i) w[i] = load_float(at(args.weight, channel + i, k), args.weight.dtype);
}

template <class T, int kLanes>
__device__ __forceinline__ void load_token(const View& view, std::int64_t global, std::int64_t channel, float (&to)[kLanes]) {
  unpack<T, kLanes>(load_bits<LaneBits<sizeof(T), kLanes>>(at(view, global, channel)), to);
}

// One live row's channels of one thread.
template <class T, int kLanes>
struct ShortConvRow {
  static constexpr int kSize = sizeof(T);
  using Bits = LaneBits<kSize, kLanes>;

  const ShortConvArgs& args;
  const LineRow& r;
  std::int64_t channel;
  LineLanes<kSize, kLanes> line;

  __device__ __forceinline__ Bits input(std::int64_t t) const {
    return load_bits<Bits>(at(args.x, global_row(args.rows, r.row.begin + t), channel));
  }

  // Entry of history ++ inputs.
  __device__ __forceinline__ Bits entry(std::int64_t e) const {
    if (e >= args.line.history) return input(e - args.line.history);
    return r.has_history ? line.load(r.history_start + e) : Bits{};
  }

  // Product and sum round separately.
  __device__ __forceinline__ void add_tap(std::int64_t e, const float (&w)[kLanes], float (&sum)[kLanes]) const {
    float x[kLanes];
    unpack<T, kLanes>(entry(e), x);
#pragma unroll
    for (int i = 0; i < kLanes; ++i) sum[i] = __fadd_rn(sum[i], __fmul_rn(x[i], w[i]));
  }

  __device__ __forceinline__ void output(std::int64_t t, const float (&held)[kHeldTaps][kLanes]) const {
    float y[kLanes] = {};
#pragma unroll
    for (int k = 0; k < kHeldTaps; ++k) {
      if (k < args.taps) add_tap(t + args.dilation * k, held[k], y);
    }
    for (std::int64_t k = kHeldTaps; k < args.taps; ++k) {
      float w[kLanes];
      load_weight(args, channel, k, w);
      add_tap(t + args.dilation * k, w, y);
    }
#pragma unroll
    for (int i = 0; i < kLanes; ++i) y[i] = arithmetic::silu(widen(narrow<T>(y[i])));
    const std::int64_t global = global_row(args.rows, r.row.begin + t);
    if (args.outer_residual.present) {
      float inner[kLanes], outer[kLanes];
      load_token<T, kLanes>(args.residual, global, channel, inner);
      load_token<T, kLanes>(args.outer_residual, global, channel, outer);
#pragma unroll
      for (int i = 0; i < kLanes; ++i) {
        const float rounded = widen(narrow<T>(__fadd_rn(inner[i], widen(narrow<T>(y[i])))));
        y[i] = __fadd_rn(outer[i], rounded);
      }
    }
    store_bits(at(args.residual, global, channel), pack<T>(y));
  }

  __device__ __forceinline__ void outputs(std::int64_t first, std::int64_t end, const float (&held)[kHeldTaps][kLanes]) const {
    for (std::int64_t t = first; t < end; ++t) output(t, held);
  }

  __device__ __forceinline__ void update_line() const {
    const auto inputs = [&](std::int64_t t) { return input(t); };
    if (args.line.kind == LineKind::plain) {
      update_plain_line(line, r, args.line.history, inputs);
    } else {
      update_window_line(line, r, args.line, inputs);
    }
  }
};

template <class T, int kLanes>
__device__ __forceinline__ ShortConvRow<T, kLanes> row_lanes(const ShortConvArgs& args, const LineRow& r, std::int64_t channel) {
  return {args, r, channel, LineLanes<sizeof(T), kLanes>(args.line.view, r.row.block, channel, args.line.together)};
}

template <class T, int kLanes>
__global__ void __launch_bounds__(kConvThreads) short_conv_kernel(const __grid_constant__ ShortConvArgs args) {
  after_previous();
  const std::int64_t channel = first_channel(kLanes);
  const bool active = channel < args.channels;
  float held[kHeldTaps][kLanes] = {};
#pragma unroll
  for (int k = 0; k < kHeldTaps; ++k) {
    if (active && k < args.taps) load_weight(args, channel, k, held[k]);
  }
  for (std::int64_t item = blockIdx.y; item < args.rows.rows + args.cut.extra; item += gridDim.y) {
    const RowSegment s = segment_of_item(args.rows, args.line, args.cut, item);  // for all threads of the block
    if (!active || s.first == s.end) continue;
    const DeviceRow& row = s.line_row.row;
    if (row.kind == DeviceRowKind::null) {
      for (std::int64_t t = s.first; t < s.end; ++t) {
        store_bits(at(args.residual, global_row(args.rows, row.begin + t), channel), LaneBits<sizeof(T), kLanes>{});
      }
      continue;
    }
    const ShortConvRow<T, kLanes> lanes = row_lanes<T, kLanes>(args, s.line_row, channel);
    lanes.outputs(s.first, s.end, held);
    if (is_whole(s)) lanes.update_line();
  }
}

// Lines of the rows that have more than one segment: each once, by the item that stands for its second one.
template <class T, int kLanes>
__global__ void __launch_bounds__(kConvThreads) short_conv_lines_kernel(const __grid_constant__ ShortConvArgs args) {
  after_previous();
  const std::int64_t channel = first_channel(kLanes);
  for (std::int64_t e = blockIdx.y; e < args.cut.extra; e += gridDim.y) {
    const RowSegment s = segment_of_item(args.rows, args.line, args.cut, args.rows.rows + e);
    if (channel >= args.channels || s.number != 1 || s.first == s.end || s.line_row.row.kind != DeviceRowKind::live) continue;
    row_lanes<T, kLanes>(args, s.line_row, channel).update_line();
  }
}

bool short_conv_lanes_fit(const ShortConvParams& p) {
  const auto fits = [&](const TensorView& t) {
    return lanes_fit(t.data, size_of(t.dtype), t.stride[1], {t.stride[0]}, kConvLanes);
  };
  return fits(p.x) && fits(p.residual) && (!p.outer_residual.present() || fits(p.outer_residual));
}

void launch_short_conv(const ShortConvArgs& args, bool fits, Launcher& launcher) {
  const std::int64_t items = args.rows.rows + args.cut.extra;
  with_lanes(wide_conv(fits, args.channels, items), [&](auto lanes) {
    constexpr int kLanes = decltype(lanes)::value;
    const auto grid = [&](std::int64_t n) {
      return dim3(static_cast<unsigned>(conv_tiles(args.channels, kLanes)), static_cast<unsigned>(min64(n, kMaxGridY)));
    };
    with_activation(args.x.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      launcher.put(short_conv_kernel<T, kLanes>, grid(items), kConvThreads, 0, args);
      if (args.cut.extra > 0) launcher.put(short_conv_lines_kernel<T, kLanes>, grid(args.cut.extra), kConvThreads, 0, args);
    });
  });
}

}  // namespace

std::size_t scratch_size(const ShortConvParams&) { return 0; }

Status execute(const ShortConvParams& p, const Launch& launch) {
  const bool plain = p.line_kind == LineKind::plain;
  std::int64_t global_rows = min64(p.x.shape[0], p.residual.shape[0]);
  if (p.outer_residual.present()) global_rows = min64(global_rows, p.outer_residual.shape[0]);
  ShortConvArgs args;
  args.rows =
      rows_args(p.rows, plain ? 0 : p.rows.window_capacity, INT64_MAX, global_rows, p.line.shape[0], Operation::short_conv, launch);
  args.line = line_args(p.line, p.line_kind, (p.weight.shape[1] - 1) * p.dilation);
  args.x = view_of(p.x);
  args.weight = view_of(p.weight);
  args.residual = view_of(p.residual);
  args.outer_residual = view_of(p.outer_residual);
  args.channels = p.x.shape[1];
  args.taps = p.weight.shape[1];
  args.dilation = p.dilation;
  if (plain) args.cut = cut_rows(args.rows.tokens, args.rows.rows, kShortConvSegment);
  if (args.channels == 0 || args.rows.rows == 0) return {};
  Launcher launcher(launch);
  launch_short_conv(args, short_conv_lanes_fit(p), launcher);
  return launcher.status("short_conv");
}

}  // namespace recoverssm::cuda
