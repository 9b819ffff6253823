// The causal convolutions. A work item is one channel of one row, and walks its tokens with the taps in registers. It reads all history and
// every input before it writes where they were, so out may be x and lines shift in place.
#pragma once

#include "arithmetic/gates.h"
#include "device/conv_args.h"
#include "sycl/kernels/work_group.h"

namespace recoverssm::sycl_backend {

constexpr int kMaxTaps = 8;
constexpr int kCommonTaps = 4;

// One channel of one live row. Taps are held at the end of TAPS places: place p is tap p - (TAPS - W), and places before it are unused.
template <class T, int TAPS, bool PACKED>
void convolve_channel(const device::ConvArgs& args, const device::LineRow& r, std::int64_t channel) {
  using Raw = device::RawBits<T>;
  const int unused = TAPS == kCommonTaps ? 0 : TAPS - args.taps;
  const device::LineChannel<Raw> line(args.line.view, r.row.block, channel);
  float weight[TAPS], value[TAPS];
  Raw raw[TAPS];
  const float bias = args.bias.present ? device::load_float(device::at(args.bias, channel), args.bias.dtype) : 0.0f;
  for (int p = 0; p < TAPS; ++p) {
    weight[p] = p >= unused ? device::load_float(device::at(args.weight, channel, p - unused), args.weight.dtype) : 0.0f;
    raw[p] = 0;
    if (p >= unused && p < TAPS - 1 && r.has_history) raw[p] = line.load(r.history_start + p - unused);
    value[p] = device::widen_raw<T>(raw[p]);
  }

  std::int64_t first_input = 0;  // line position of a window's first input
  if (args.window) {
    first_input = window_input_start(args.line.kind, args.line.history + 1);
    const int dropped = static_cast<int>(args.line.history - first_input);  // the oldest of a rolled line
    if (r.history_start + dropped > 0) {
      for (int p = 0; p < TAPS - 1; ++p) {
        if (p >= unused + dropped) line.store(p - unused - dropped, raw[p]);
      }
    }
  }

  const std::int64_t column = PACKED ? device::qkv_column(args.sizes, channel) : channel;
  for (std::int64_t t = 0; t < r.row.length; ++t) {
    const std::int64_t local = r.row.begin + t, global = device::global_row(args.rows, local);
    raw[TAPS - 1] = reinterpret_cast<const Raw*>(device::at(args.x, global, 0))[column];
    value[TAPS - 1] = device::widen_raw<T>(raw[TAPS - 1]);
    if (args.window) line.store(first_input + t, raw[TAPS - 1]);
    float sum = bias;
    for (int p = 0; p < TAPS; ++p) {
      if (p >= unused) sum = arithmetic::fused_multiply_add(value[p], weight[p], sum);
    }
    if (args.silu) sum = arithmetic::silu(sum);
    device::store_as<T>(device::at(args.out, PACKED ? local : global, 0), channel, sum);
    for (int p = 0; p + 1 < TAPS; ++p) {
      raw[p] = raw[p + 1];
      value[p] = value[p + 1];
    }
  }
  if (args.window) return;
  for (int p = 0; p < TAPS - 1; ++p) {
    if (p >= unused) line.store(p - unused, raw[p]);
  }
}

template <class T, bool PACKED>
void convolve_row(const device::ConvArgs& args, const device::LineRow& r, std::int64_t channel) {
  if (r.row.kind == DeviceRowKind::null) {
    for (std::int64_t t = 0; t < r.row.length; ++t) {
      const std::int64_t local = r.row.begin + t, row = PACKED ? local : device::global_row(args.rows, local);
      device::store_as<T>(device::at(args.out, row, 0), channel, 0.0f);
    }
  } else if (args.taps == kCommonTaps) {
    convolve_channel<T, kCommonTaps, PACKED>(args, r, channel);
  } else {
    convolve_channel<T, kMaxTaps, PACKED>(args, r, channel);
  }
}

// Range: rows, channels.
template <bool PACKED>
void conv_body(const ::sycl::nd_item<3>& item, const device::ConvArgs& args) {
  const auto i = static_cast<std::int64_t>(item.get_group(1));
  const auto channel = static_cast<std::int64_t>(item.get_global_id(2));
  DeviceRow row = device::row_of(args.rows, i);
  drop_bad_tokens(item, args.rows, row);
  const device::LineRow r = device::line_row(args.rows, args.line, i, row);
  report_row(item, args.rows, r.row, i);
  if (channel >= args.channels || r.row.kind == DeviceRowKind::skip) return;
  device::with_element(args.x.dtype, [&](auto type) { convolve_row<decltype(type), PACKED>(args, r, channel); });
}

}  // namespace recoverssm::sycl_backend

#define RSSM_CONV_KERNELS(KERNEL, PACKED) KERNEL(conv, recoverssm::device::ConvArgs, recoverssm::sycl_backend::conv_body<PACKED>)
#if defined(RSSM_AT_RUN_TIME)
RSSM_CONV_KERNELS(RSSM_KERNEL, RSSM_PACKED != 0)
#endif
