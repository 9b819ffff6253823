// short_conv on SYCL: one launch.
#include <algorithm>

#include "device/short_conv_args.h"
#include "sycl/module/operations.h"

namespace recoverssm::sycl_backend {
namespace {

using device::view_of;

constexpr std::int64_t kShortConvItems = 128;  // of a work-group

}  // namespace

std::size_t workspace_bytes(const ShortConvParams&, ::sycl::queue&) { return 0; }
void prepare(const ShortConvParams&, ::sycl::queue& queue) { kernel_of(queue, kShortConvProgram, "short_conv"); }

void launch(const ShortConvParams& p, const Launch& launch, ::sycl::queue& queue) {
  const std::int64_t capacity = p.line_kind == LineKind::plain ? 0 : p.rows.window_capacity;
  std::int64_t global_rows = min64(p.x.shape[0], p.residual.shape[0]);
  if (p.outer_residual.present()) global_rows = min64(global_rows, p.outer_residual.shape[0]);
  device::ShortConvArgs args;
  args.rows = device::rows_args(p.rows, capacity, INT64_MAX, global_rows, p.line.shape[0], Operation::short_conv, launch);
  args.line = device::line_args(p.line, p.line_kind, (p.weight.shape[1] - 1) * p.dilation);
  args.x = view_of(p.x);
  args.weight = view_of(p.weight);
  args.residual = view_of(p.residual);
  args.outer_residual = view_of(p.outer_residual);
  args.channels = p.x.shape[1];
  args.taps = p.weight.shape[1];
  args.dilation = p.dilation;
  if (args.rows.rows == 0 || args.channels == 0) return;
  launch_kernel(queue, kernel_of(queue, kShortConvProgram, "short_conv"),
                range_of(1, args.rows.rows, ceil_div(args.channels, kShortConvItems), kShortConvItems), args);
}

}  // namespace recoverssm::sycl_backend
