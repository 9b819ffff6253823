// The causal convolutions on the device, for causal_conv1d, causal_conv1d_window and gdn_attention, whose x is its packed projections: a
// `Columns` says where in a row of x a channel lies.
//
// A thread owns kLanes channels of a row, or of a segment of a long plain row, and walks its tokens with the taps in registers. It reads all
// history and every input before it writes where they were, so out may be x and lines shift in place. Of rows of more than one segment, a
// launch before it (save_halos_kernel) saves the inputs in front of each segment and the history in front of the first one, and updates
// the line; only then may segments overwrite x in any order.
#pragma once

#include <cstdint>

#include "arithmetic/gates.h"
#include "cuda/launch.h"
#include "cuda/segments.cuh"

namespace recoverssm::cuda {

constexpr int kMaxTaps = 8;
constexpr int kCommonTaps = 4;
constexpr int conv_blocks(int taps) {
  return taps == kCommonTaps ? 4 : 3;
}  // of a multiprocessor: room for registers without spills
constexpr int kConvAhead = 4;  // tokens a thread loads before it computes the first of them

// x has one column a channel.
struct OwnColumns {
  __device__ __forceinline__ std::int64_t operator()(std::int64_t channel) const { return channel; }
};

template <class Columns>
struct ConvArgs {
  RowsArgs rows;
  LineArgs line;
  View x;       // global rows, column columns(channel); lanes: neighbouring channels are neighbouring columns
  View out;     // global rows, or local ones
  View weight;  // [C, W]
  View bias;
  Columns columns;
  std::int64_t channels = 0;
  int taps = 0;
  bool silu = false;
  bool local_out = false;
  bool weight_rows = false;  // a channel's kCommonTaps weights can be loaded as one value
  Segments cut;
  std::byte* halos = nullptr;  // [cut.extra][2][W-1][C]: inputs before the segment; history, for segment 1's item
};

enum class Halo : int { inputs = 0, history = 1 };

template <int kSize, class Columns>
__device__ __forceinline__ std::byte* halo_at(const ConvArgs<Columns>& args, std::int64_t e, Halo halo, std::int64_t h,
                                              std::int64_t channel) {
  return args.halos + (((e * 2 + static_cast<int>(halo)) * args.line.history + h) * args.channels + channel) * kSize;
}

template <class Columns>
__device__ __forceinline__ const std::byte* input_at(const ConvArgs<Columns>& args, const DeviceRow& row, std::int64_t t,
                                                     std::int64_t column) {
  return at(args.x, global_row(args.rows, row.begin + t), column);
}

template <class Columns>
__device__ __forceinline__ std::byte* output_at(const ConvArgs<Columns>& args, const DeviceRow& row, std::int64_t t,
                                                std::int64_t channel) {
  const std::int64_t local = row.begin + t;
  return at(args.out, args.local_out ? local : global_row(args.rows, local), channel);
}

// A channel's parameters. Taps are held at the end of kTaps places: place p is tap p - (kTaps - W), and places before it are unused.
template <int kTaps, int kLanes>
struct ConvWeights {
  float tap[kTaps][kLanes];
  float bias[kLanes];
};

// First place in use. W is known where kTaps is kCommonTaps.
template <int kTaps, class Columns>
__device__ __forceinline__ int first_place(const ConvArgs<Columns>& args) {
  return kTaps == kCommonTaps ? 0 : kTaps - args.taps;
}

template <int kTaps, int kLanes, class Columns>
__device__ __forceinline__ ConvWeights<kTaps, kLanes> load_weights(const ConvArgs<Columns>& args, std::int64_t channel) {
  ConvWeights<kTaps, kLanes> w;
  const int unused = first_place<kTaps>(args);
#pragma unroll
  for (int i = 0; i < kLanes; ++i) {
    w.bias[i] = args.bias.present ? load_float(at(args.bias, channel + i), args.bias.dtype) : 0.0f;
    if (kTaps == kCommonTaps && args.weight_rows) {
      const std::byte* p = at(args.weight, channel + i, 0);
      float4 row;
      if (args.weight.dtype == DType::f32) {
        row = load4(reinterpret_cast<const float*>(p));
      } else if (args.weight.dtype == DType::bf16) {
        row = load4(reinterpret_cast<const __nv_bfloat16*>(p));
      } else {
        row = load4(reinterpret_cast<const __half*>(p));
      }
      w.tap[0][i] = row.x;
      w.tap[1][i] = row.y;
      w.tap[2][i] = row.z;
      w.tap[3][i] = row.w;
    } else {
#pragma unroll
      for (int p = 0; p < kTaps; ++p) {
        w.tap[p][i] = p >= unused ? load_float(at(args.weight, channel + i, p - unused), args.weight.dtype) : 0.0f;
      }
    }
  }
  return w;
}

// acc = bias or +0, then one fma a tap, oldest first; an unused place takes no part.
template <class T, int kTaps, int kLanes>
__device__ __forceinline__ LaneBits<sizeof(T), kLanes> conv_token(const ConvWeights<kTaps, kLanes>& w,
                                                                  const LaneBits<sizeof(T), kLanes> (&taps)[kTaps], int unused,
                                                                  bool silu) {
  float acc[kLanes];
#pragma unroll
  for (int i = 0; i < kLanes; ++i) acc[i] = w.bias[i];
#pragma unroll
  for (int p = 0; p < kTaps; ++p) {
    if (p < unused) continue;
    float x[kLanes];
    unpack<T, kLanes>(taps[p], x);
#pragma unroll
    for (int i = 0; i < kLanes; ++i) acc[i] = arithmetic::fused_multiply_add(x[i], w.tap[p][i], acc[i]);
  }
#pragma unroll
  for (int i = 0; i < kLanes; ++i) {
    if (silu) acc[i] = arithmetic::silu(acc[i]);
  }
  return pack<T>(acc);
}

// The oldest of the taps goes, the last place is free.
template <int kTaps, class Bits>
__device__ __forceinline__ void forget_oldest(Bits (&taps)[kTaps]) {
#pragma unroll
  for (int p = 0; p + 1 < kTaps; ++p) taps[p] = taps[p + 1];
}

// The history in front of a segment, in places unused .. kTaps-2; zeros where there is none.
template <bool kWindow, int kSize, int kTaps, int kLanes, class Columns>
__device__ __forceinline__ void load_history(const ConvArgs<Columns>& args, const RowSegment& s,
                                             const LineLanes<kSize, kLanes>& line, std::int64_t channel,
                                             LaneBits<kSize, kLanes> (&taps)[kTaps]) {
  const LineRow& r = s.line_row;
  const int unused = first_place<kTaps>(args);
  const bool from_line = kWindow || is_whole(s);
  const bool zeros = s.first == 0 && !r.has_history;
  std::int64_t slot = 0;
  if (!from_line) slot = item_of_second(r.row.begin, args.cut.segment) + max64(s.number - 1, 0);
#pragma unroll
  for (int p = 0; p < kTaps - 1; ++p) {
    taps[p] = {};
    if (p < unused || zeros) continue;
    if (from_line) {
      taps[p] = line.load(r.history_start + p - unused);
    } else {
      const Halo halo = s.number == 0 ? Halo::history : Halo::inputs;
      taps[p] = load_bits<LaneBits<kSize, kLanes>>(halo_at<kSize>(args, slot, halo, p - unused, channel));
    }
  }
}

// One segment of one live row, for the thread's channels.
template <class T, int kTaps, int kLanes, bool kWindow, class Columns>
__device__ __forceinline__ void convolve(const ConvArgs<Columns>& args, const ConvWeights<kTaps, kLanes>& w, const RowSegment& s,
                                         std::int64_t channel, std::int64_t column) {
  constexpr int kSize = sizeof(T);
  using Bits = LaneBits<kSize, kLanes>;
  const LineRow& r = s.line_row;
  const int unused = first_place<kTaps>(args);
  const LineLanes<kSize, kLanes> line(args.line.view, r.row.block, channel, args.line.together);

  Bits taps[kTaps];  // places as in ConvWeights; the last one is a token's own input
  load_history<kWindow>(args, s, line, channel, taps);

  [[maybe_unused]] std::int64_t first_input = 0;  // line position of a window's first input
  if constexpr (kWindow) {
    first_input = window_input_start(args.line.kind, args.line.history + 1);
    const int dropped = static_cast<int>(args.line.history - first_input);  // the oldest of a rolled line
    if (r.history_start + dropped > 0) {
#pragma unroll
      for (int p = 0; p < kTaps - 1; ++p) {
        if (p >= unused + dropped) line.store(p - unused - dropped, taps[p]);
      }
    }
  }

  for (std::int64_t t = s.first; t < s.end; t += kConvAhead) {
    Bits in[kConvAhead];
#pragma unroll
    for (int a = 0; a < kConvAhead; ++a) {
      if (t + a < s.end) in[a] = load_bits<Bits>(input_at(args, r.row, t + a, column));
    }
#pragma unroll
    for (int a = 0; a < kConvAhead; ++a) {
      if (t + a >= s.end) break;
      taps[kTaps - 1] = in[a];
      if constexpr (kWindow) line.store(first_input + t + a, in[a]);
      store_bits(output_at(args, r.row, t + a, channel), conv_token<T, kTaps, kLanes>(w, taps, unused, args.silu));
      forget_oldest(taps);
    }
  }
  if constexpr (!kWindow) {
    if (!is_whole(s)) return;
#pragma unroll
    for (int p = 0; p < kTaps - 1; ++p) {
      if (p >= unused) line.store(p - unused, taps[p]);
    }
  }
}

template <class T, int kTaps, int kLanes, bool kWindow, class Columns>
__device__ __forceinline__ void run_segment(const ConvArgs<Columns>& args, const ConvWeights<kTaps, kLanes>& w, const RowSegment& s,
                                            std::int64_t channel, std::int64_t column) {
  if (s.line_row.row.kind != DeviceRowKind::null) return convolve<T, kTaps, kLanes, kWindow>(args, w, s, channel, column);
  for (std::int64_t t = s.first; t < s.end; ++t) {
    store_bits(output_at(args, s.line_row.row, t, channel), LaneBits<sizeof(T), kLanes>{});
  }
}

// A rule behind a convolution has many times its blocks: few of these are one row, or two.
constexpr unsigned kFewConvBlocks = 32;

template <class T, int kTaps, int kLanes, bool kWindow, class Columns>
__global__ void __launch_bounds__(kConvThreads, conv_blocks(kTaps)) conv_kernel(const __grid_constant__ ConvArgs<Columns> args) {
  let_next_start(gridDim.x * gridDim.y <= kFewConvBlocks);
  after_previous();
  const std::int64_t channel = (std::int64_t{blockIdx.x} * kConvThreads + threadIdx.x) * kLanes;
  const bool active = channel < args.channels;
  const std::int64_t column = active ? args.columns(channel) : 0;
  ConvWeights<kTaps, kLanes> w;
  if (active) w = load_weights<kTaps, kLanes>(args, channel);
  // All threads of a block take an item together, with channels or without.
  if constexpr (kWindow) {  // never more items than blocks
    const RowSegment s = segment_of_item(args.rows, args.line, Segments{}, blockIdx.y);
    if (active && s.first < s.end) run_segment<T, kTaps, kLanes, kWindow>(args, w, s, channel, column);
  } else {
    for (std::int64_t item = blockIdx.y; item < args.rows.rows + args.cut.extra; item += gridDim.y) {
      const RowSegment s = segment_of_item(args.rows, args.line, args.cut, item);
      if (active && s.first < s.end) run_segment<T, kTaps, kLanes, kWindow>(args, w, s, channel, column);
    }
  }
}

// The taps in front of the segments that extra items stand for, before conv_kernel overwrites them, and the lines of their rows.
template <int kSize, int kLanes, class Columns>
__global__ void __launch_bounds__(kConvThreads, conv_blocks(kCommonTaps))
    save_halos_kernel(const __grid_constant__ ConvArgs<Columns> args) {
  after_previous();
  using Bits = LaneBits<kSize, kLanes>;
  const std::int64_t channel = (std::int64_t{blockIdx.x} * kConvThreads + threadIdx.x) * kLanes;
  const bool active = channel < args.channels;
  const std::int64_t column = active ? args.columns(channel) : 0;
  const int history = static_cast<int>(args.line.history);
  for (std::int64_t e = blockIdx.y; e < args.cut.extra; e += gridDim.y) {
    const RowSegment s = segment_of_item(args.rows, args.line, args.cut, args.rows.rows + e);
    const LineRow& r = s.line_row;
    if (!active || s.first == s.end || r.row.kind != DeviceRowKind::live) continue;
    // By segment, not by e: which is the same where no token is in two rows.
    const std::int64_t second = item_of_second(r.row.begin, args.cut.segment), slot = second + s.number - 1;
    for (int h = 0; h < history; ++h) {
      const Bits bits = load_bits<Bits>(input_at(args, r.row, s.first - history + h, column));
      store_bits(halo_at<kSize>(args, slot, Halo::inputs, h, channel), bits);
    }
    if (s.number != 1) continue;
    const LineLanes<kSize, kLanes> line(args.line.view, r.row.block, channel, args.line.together);
    if (r.has_history) {
      for (int h = 0; h < history; ++h) {
        store_bits(halo_at<kSize>(args, second, Halo::history, h, channel), line.load(r.history_start + h));
      }
    }
    for (int h = 0; h < history; ++h) line.store(h, load_bits<Bits>(input_at(args, r.row, r.row.length - history + h, column)));
  }
}

// Bytes of halos.
inline std::size_t halo_bytes(const Segments& cut, std::int64_t taps, std::int64_t channels, DType dtype) {
  Carver carver(nullptr);
  carver.take<std::byte>(cut.extra * 2 * (taps - 1) * channels * size_of(dtype));
  return carver.used();
}

// Whether kConvLanes channels fit into one value in x and out. Columns of a channel's neighbours are the caller's concern.
inline bool conv_lanes_fit(const TensorView& x, const TensorView& out) {
  const std::int64_t size = size_of(x.dtype);
  return lanes_fit(x.data, size, x.stride[1], {x.stride[0]}, kConvLanes) &&
         lanes_fit(out.data, size, out.stride[1], {out.stride[0]}, kConvLanes);
}

inline bool weight_rows_fit(const TensorView& weight) {
  return lanes_fit(weight.data, size_of(weight.dtype), weight.stride[1], {weight.stride[0]}, kCommonTaps);
}

// Puts a call on the stream: one launch, two where rows are cut. `fits`: kConvLanes channels may be one value. Windows are never cut.
template <bool kWindow, class Columns>
void launch_conv(const ConvArgs<Columns>& args, bool fits, Launcher& launcher) {
  const std::int64_t items = args.rows.rows + args.cut.extra;
  if (items == 0 || args.channels == 0) return;
  const auto grid = [&](std::int64_t tiles, std::int64_t n) {
    return dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(min64(n, kMaxGridY)));
  };
  with_lanes(wide_conv(fits, args.channels, items), [&](auto lanes) {
    constexpr int kLanes = decltype(lanes)::value;
    const std::int64_t tiles = conv_tiles(args.channels, kLanes);
    if (args.cut.extra > 0) {
      const dim3 blocks = grid(tiles, args.cut.extra);
      if (size_of(args.x.dtype) == 4) {
        launcher.put(save_halos_kernel<4, kLanes, Columns>, blocks, kConvThreads, 0, args);
      } else {
        launcher.put(save_halos_kernel<2, kLanes, Columns>, blocks, kConvThreads, 0, args);
      }
    }
    with_activation(args.x.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if (args.taps == kCommonTaps) {
        launcher.put(conv_kernel<T, kCommonTaps, kLanes, kWindow, Columns>, grid(tiles, items), kConvThreads, 0, args);
      } else {
        launcher.put(conv_kernel<T, kMaxTaps, kLanes, kWindow, Columns>, grid(tiles, items), kConvThreads, 0, args);
      }
    });
  });
}

}  // namespace recoverssm::cuda
