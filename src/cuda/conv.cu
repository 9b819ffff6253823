// causal_conv1d and causal_conv1d_window on CUDA.

#include "cuda/conv.cuh"
#include "cuda/ops.h"

namespace recoverssm::cuda {
namespace {

template <class Params>
RowsArgs conv_rows(const Params& p, std::int64_t capacity, Operation op, const Launch& launch) {
  return rows_args(p.rows, capacity, INT64_MAX, min64(p.x.shape[0], p.out.shape[0]), p.line.shape[0], op, launch);
}

template <class Params>
ConvArgs<OwnColumns> conv_args(const Params& p, const RowsArgs& rows) {
  ConvArgs<OwnColumns> args;
  args.rows = rows;
  args.line = line_args(p.line, p.line_kind, p.weight.shape[1] - 1);
  args.x = view_of(p.x);
  args.out = view_of(p.out);
  args.weight = view_of(p.weight);
  args.bias = view_of(p.bias);
  args.channels = p.x.shape[1];
  args.taps = static_cast<int>(p.weight.shape[1]);
  args.silu = p.activation == Activation::silu;
  args.weight_rows = weight_rows_fit(p.weight);
  return args;
}

Segments cut_of(const RowsArgs& rows) { return cut_rows(rows.tokens, rows.rows, kConvSegment); }

}  // namespace

std::size_t scratch_size(const CausalConv1dParams& p) {
  const RowsArgs rows = conv_rows(p, 0, Operation::causal_conv1d, {});
  return halo_bytes(cut_of(rows), p.weight.shape[1], p.x.shape[1], p.x.dtype);
}

std::size_t scratch_size(const CausalConv1dWindowParams&) { return 0; }

Status execute(const CausalConv1dParams& p, const Launch& launch) {
  ConvArgs<OwnColumns> args = conv_args(p, conv_rows(p, 0, Operation::causal_conv1d, launch));
  args.cut = cut_of(args.rows);
  args.halos = static_cast<std::byte*>(launch.workspace.data);
  Launcher launcher(launch);
  launch_conv<false>(args, conv_lanes_fit(p.x, p.out), launcher);
  return launcher.status("causal_conv1d");
}

Status execute(const CausalConv1dWindowParams& p, const Launch& launch) {
  const RowsArgs rows = conv_rows(p, p.rows.window_capacity, Operation::causal_conv1d_window, launch);
  Launcher launcher(launch);
  launch_conv<true>(conv_args(p, rows), conv_lanes_fit(p.x, p.out), launcher);
  return launcher.status("causal_conv1d_window");
}

}  // namespace recoverssm::cuda
