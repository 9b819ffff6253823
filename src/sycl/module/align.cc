// align_move and align_advance on SYCL. As many layers as fit travel in the kernel's parameters; a call with more takes more launches.
#include "sycl/kernels/align.h"

#include <algorithm>

#include "contract/layers.h"
#include "sycl/module/operations.h"

namespace recoverssm::sycl_backend {
namespace {

using device::column_of;

constexpr std::int64_t kAdvanceItems = 64;

device::MoveLayer move_layer(const Layer& layer, int index) {
  device::MoveLayer args;
  args.index = index;
  args.blocks = layer_blocks(layer);
  if (layer.state.present()) {
    args.state = static_cast<std::byte*>(layer.state.data);
    args.state_block = layer.state.stride[0] * size_of(layer.state.dtype);
    args.state_bytes = state_bytes(layer.state);
  }
  if (layer.line.present()) {
    args.line = static_cast<std::byte*>(layer.line.data);
    std::copy_n(layer.line.stride.begin(), 3, args.line_stride);
    args.line_size = static_cast<std::int32_t>(size_of(layer.line.dtype));
    args.channels = static_cast<std::int32_t>(layer.line.shape[2]);
    args.history = layer.conv_taps - 1;
  }
  if (layer.pending.present()) {
    args.pending = static_cast<std::int32_t*>(layer.pending.data);
    args.pending_stride = layer.pending.stride[0];
  }
  return args;
}

void launch_move(::sycl::queue& queue, const device::MoveArgs& args, std::int64_t layers, std::int64_t rows) {
  std::int64_t shares = 1;
  for (std::int64_t l = 0; l < layers; ++l) shares = max64(shares, state_shares(args.layers[l]) + line_shares(args.layers[l]));
  launch_kernel(queue, kernel_of(queue, kAlignProgram, "move"), range_of(layers, rows, shares, kMoveItems), args);
}

}  // namespace

std::size_t workspace_bytes(const AlignMoveParams&, ::sycl::queue&) { return 0; }
std::size_t workspace_bytes(const AlignAdvanceParams&, ::sycl::queue&) { return 0; }

void prepare(const AlignMoveParams&, ::sycl::queue& queue) { kernel_of(queue, kAlignProgram, "move"); }
void prepare(const AlignAdvanceParams&, ::sycl::queue& queue) { kernel_of(queue, kAlignProgram, "advance"); }

void launch(const AlignMoveParams& p, const Launch& launch, ::sycl::queue& queue) {
  device::MoveArgs args;
  args.from = column_of(p.from);
  args.to = column_of(p.to);
  args.null_block_id = p.null_block_id;
  args.reporter = {launch.flag, Operation::align_move};
  for (std::size_t first = 0; first < p.layers.size(); first += device::kMoveLayers) {
    const std::size_t count = std::min<std::size_t>(device::kMoveLayers, p.layers.size() - first);
    for (std::size_t l = 0; l < count; ++l) args.layers[l] = move_layer(p.layers[first + l], static_cast<int>(first + l));
    launch_move(queue, args, static_cast<std::int64_t>(count), p.from.shape[0]);
  }
}

void launch(const AlignAdvanceParams& p, const Launch& launch, ::sycl::queue& queue) {
  device::AdvanceArgs args;
  args.commit_len = column_of(p.commit_len);
  args.state_indices = column_of(p.state_indices);
  if (p.request_index.present()) args.request_index = column_of(p.request_index);
  args.num_computed = column_of(p.num_computed);
  args.running_column = column_of(p.running_column);
  args.num_accepted = column_of(p.num_accepted);
  args.rows = p.state_indices.shape[0];
  args.requests = p.num_computed.shape[0];
  args.block_size = p.block_size;
  args.null_block_id = p.null_block_id;
  args.reporter = {launch.flag, Operation::align_advance};
  launch_kernel(queue, kernel_of(queue, kAlignProgram, "advance"),
                range_of(1, 1, ceil_div(args.rows, kAdvanceItems), kAdvanceItems), args);
}

}  // namespace recoverssm::sycl_backend
