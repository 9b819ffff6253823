// causal_conv1d and causal_conv1d_window on SYCL: one launch each.
#include "sycl/module/conv.h"

#include "sycl/module/operations.h"

namespace recoverssm::sycl_backend {
namespace {

using device::view_of;

constexpr std::int64_t kConvItems = 128;  // of a work-group

const Kernel& conv_kernel(::sycl::queue& queue, bool packed) { return kernel_of(queue, conv_program(packed), "conv"); }

template <class Params>
device::ConvArgs conv_args(const Params& p, std::int64_t capacity, Operation op, const Launch& launch) {
  device::ConvArgs args;
  args.rows = device::rows_args(p.rows, capacity, INT64_MAX, min64(p.x.shape[0], p.out.shape[0]), p.line.shape[0], op, launch);
  args.line = device::line_args(p.line, p.line_kind, p.weight.shape[1] - 1);
  args.x = view_of(p.x);
  args.out = view_of(p.out);
  args.weight = view_of(p.weight);
  args.bias = view_of(p.bias);
  args.channels = p.x.shape[1];
  args.taps = static_cast<std::int32_t>(p.weight.shape[1]);
  args.silu = p.activation == Activation::silu;
  args.window = capacity > 0;
  return args;
}

}  // namespace

void prepare_conv(::sycl::queue& queue, bool packed) { conv_kernel(queue, packed); }

void launch_conv(::sycl::queue& queue, const device::ConvArgs& args, bool packed) {
  if (args.rows.rows == 0 || args.channels == 0) return;
  launch_kernel(queue, conv_kernel(queue, packed), range_of(1, args.rows.rows, ceil_div(args.channels, kConvItems), kConvItems),
                args);
}

std::size_t workspace_bytes(const CausalConv1dParams&, ::sycl::queue&) { return 0; }
std::size_t workspace_bytes(const CausalConv1dWindowParams&, ::sycl::queue&) { return 0; }

void prepare(const CausalConv1dParams&, ::sycl::queue& queue) { prepare_conv(queue, false); }
void prepare(const CausalConv1dWindowParams&, ::sycl::queue& queue) { prepare_conv(queue, false); }

void launch(const CausalConv1dParams& p, const Launch& launch, ::sycl::queue& queue) {
  launch_conv(queue, conv_args(p, 0, Operation::causal_conv1d, launch), false);
}
void launch(const CausalConv1dWindowParams& p, const Launch& launch, ::sycl::queue& queue) {
  launch_conv(queue, conv_args(p, p.rows.window_capacity, Operation::causal_conv1d_window, launch), false);
}

}  // namespace recoverssm::sycl_backend
