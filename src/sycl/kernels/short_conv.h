// short_conv: dilated depthwise convolution with residuals. A work item is one channel of one row. No output aliases an input, so outputs come
// first and the line last.
#pragma once

#include "arithmetic/gates.h"
#include "device/short_conv_args.h"
#include "sycl/kernels/work_group.h"

namespace recoverssm::sycl_backend {

// One channel of one live row.
template <class T>
struct ShortConvChannel {
  using Raw = device::RawBits<T>;

  const device::ShortConvArgs& args;
  const device::LineRow& r;
  std::int64_t channel;
  device::LineChannel<Raw> line;

  std::byte* token(const device::View& view, std::int64_t t) const {
    return device::at(view, device::global_row(args.rows, r.row.begin + t), 0);
  }
  Raw input(std::int64_t t) const { return reinterpret_cast<const Raw*>(token(args.x, t))[channel]; }

  // Entry of history ++ inputs.
  Raw entry(std::int64_t e) const {
    if (e >= args.line.history) return input(e - args.line.history);
    return r.has_history ? line.load(r.history_start + e) : Raw{0};
  }

  static float rounded(float x) { return T::widen(T::narrow(x)); }

  // Product and sum round separately.
  void output(std::int64_t t) const {
    float y = 0.0f;
    for (std::int64_t k = 0; k < args.taps; ++k) {
      const float weight = device::load_float(device::at(args.weight, channel, k), args.weight.dtype);
      const float product = device::widen_raw<T>(entry(t + args.dilation * k)) * weight;
      y = y + product;
    }
    y = arithmetic::silu(rounded(y));
    std::byte* const residual = token(args.residual, t);
    if (args.outer_residual.present) {
      const float inner = device::load_as<T>(residual, channel), outer = device::load_as<T>(token(args.outer_residual, t), channel);
      y = outer + rounded(inner + rounded(y));
    }
    device::store_as<T>(residual, channel, y);
  }

  void run() const {
    for (std::int64_t t = 0; t < r.row.length; ++t) output(t);
    const auto inputs = [&](std::int64_t t) { return input(t); };
    if (args.line.kind == LineKind::plain) {
      device::update_plain_line(line, r, args.line.history, inputs);
    } else {
      device::update_window_line(line, r, args.line, inputs);
    }
  }
};

template <class T>
void short_conv_row(const device::ShortConvArgs& args, const device::LineRow& r, std::int64_t channel) {
  const ShortConvChannel<T> work = {args, r, channel, {args.line.view, r.row.block, channel}};
  if (r.row.kind == DeviceRowKind::live) return work.run();
  for (std::int64_t t = 0; t < r.row.length; ++t) device::store_as<T>(work.token(args.residual, t), channel, 0.0f);
}

// Range: rows, channels.
inline void short_conv_body(const ::sycl::nd_item<3>& item, const device::ShortConvArgs& args) {
  const auto i = static_cast<std::int64_t>(item.get_group(1));
  const auto channel = static_cast<std::int64_t>(item.get_global_id(2));
  DeviceRow row = device::row_of(args.rows, i);
  drop_bad_tokens(item, args.rows, row);
  const device::LineRow r = device::line_row(args.rows, args.line, i, row);
  report_row(item, args.rows, r.row, i);
  if (channel >= args.channels || r.row.kind == DeviceRowKind::skip) return;
  device::with_element(args.x.dtype, [&](auto type) { short_conv_row<decltype(type)>(args, r, channel); });
}

}  // namespace recoverssm::sycl_backend

#define RSSM_SHORT_CONV_KERNELS(KERNEL) \
  KERNEL(short_conv, recoverssm::device::ShortConvArgs, recoverssm::sycl_backend::short_conv_body)
#if defined(RSSM_AT_RUN_TIME)
RSSM_SHORT_CONV_KERNELS(RSSM_KERNEL)
#endif
