// align_move and align_advance on CUDA: what happens to blocks and counts around a step of a prefix-caching engine.

#include "contract/plan_rules.h"
#include "cuda/launch.h"
#include "cuda/layers.cuh"
#include "cuda/ops.h"

namespace recoverssm::cuda {
namespace {

struct MoveTable {
  LayerArgs layers[kLayersPerLaunch];
  Column from, to;
  std::int64_t rows = 0;
  std::int32_t null_block_id = 0;
  Reporter reporter;
};
static_assert(sizeof(MoveTable) <= 32764, "a kernel's parameters");

struct Move {
  std::int32_t from = 0, to = 0;
  bool moves = false;
  ErrorKind found = ErrorKind::ok;
};

__device__ Move move_row(const MoveTable& table, const LayerArgs& layer, std::int64_t i) {
  Move move = {value_at(table.from, i), value_at(table.to, i)};
  if (is_null(move.from, table.null_block_id) || is_null(move.to, table.null_block_id)) return move;
  const auto in_pool = [&](std::int32_t block) { return block >= 0 && block < layer.blocks; };
  if (!in_pool(move.from) || !in_pool(move.to)) {
    move.found = ErrorKind::out_of_range;
  } else if (move.from != move.to) {
    const std::int32_t waiting = layer.pending == nullptr ? 0 : layer.pending[move.from * layer.pending_stride];
    if (waiting != 0) move.found = waiting > 0 ? ErrorKind::bad_state : ErrorKind::out_of_range;
    move.moves = waiting == 0;
  }
  return move;
}

constexpr int kMoveThreads = 256;
constexpr int kMoveBytes = 64 * 1024;  // of a state, by one block

// Copies the block's share of `bytes` bytes; 16 at a time where both ends allow it.
__device__ void copy_share(std::byte* to, const std::byte* from, std::int64_t bytes, std::int64_t share) {
  const std::int64_t begin = share * kMoveBytes, end = min64(begin + kMoveBytes, bytes);
  if ((reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from) | static_cast<std::uintptr_t>(bytes)) % 16 ==
      0) {
    for (std::int64_t b = begin + 16 * threadIdx.x; b < end; b += 16 * kMoveThreads) {
      *reinterpret_cast<uint4*>(to + b) = *reinterpret_cast<const uint4*>(from + b);
    }
  } else {  // every dtype has a multiple of two bytes
    for (std::int64_t b = begin + 2 * threadIdx.x; b < end; b += 2 * kMoveThreads) {
      *reinterpret_cast<std::uint16_t*>(to + b) = *reinterpret_cast<const std::uint16_t*>(from + b);
    }
  }
}

__host__ __device__ inline std::int64_t bytes_of_state(const LayerArgs& layer) {
  return layer.state == nullptr ? 0 : static_cast<std::int64_t>(layer.HV) * layer.V * layer.K * size_of(layer.state_dtype);
}
__host__ __device__ inline std::int64_t state_shares(const LayerArgs& layer) {
  return (bytes_of_state(layer) + kMoveBytes - 1) / kMoveBytes;
}
__host__ __device__ inline std::int64_t line_shares(const LayerArgs& layer) {
  return layer.line == nullptr ? 0 : (layer.channels + kMoveThreads - 1) / kMoveThreads;
}

// Grid: x shares of a block's bytes, y rows, z layers. No row's destination is another row's source or destination.
__global__ void move_kernel(const __grid_constant__ MoveTable table) {
  after_previous();
  const LayerArgs& layer = table.layers[blockIdx.z];
  const std::int64_t i = blockIdx.y, states = state_shares(layer), share = blockIdx.x;
  const Move move = move_row(table, layer, i);
  if (threadIdx.x == 0) report(table.reporter, move.found, i, layer.index);
  if (!move.moves) return;
  // Nobody else of this launch reads the destination's count: the row owns the block.
  if (share == 0 && threadIdx.x == 0 && layer.pending != nullptr) layer.pending[move.to * layer.pending_stride] = 0;
  if (share < states) {
    const std::int64_t block_bytes = layer.state_block * size_of(layer.state_dtype);
    copy_share(layer.state + move.to * block_bytes, layer.state + move.from * block_bytes, bytes_of_state(layer), share);
    return;
  }
  const std::int64_t channel = (share - states) * kMoveThreads + threadIdx.x;
  if (share - states >= line_shares(layer) || channel >= layer.channels) return;
  const int size = static_cast<int>(size_of(layer.line_dtype));
  for (int p = 0; p < layer.history; ++p) {
    copy_element(line_at(layer, move.to, p, channel), line_at(layer, move.from, p, channel), size);
  }
}

struct AdvanceArgs {
  Column commit_len, state_indices, request_index, num_computed, running_column, num_accepted;
  std::int64_t rows = 0, requests = 0, block_size = 0;
  std::int32_t null_block_id = 0;
  Reporter reporter;
};

__global__ void advance_kernel(const __grid_constant__ AdvanceArgs args) {
  after_previous();
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= args.rows) return;
  const std::int32_t commit_len = value_at(args.commit_len, i);
  if (commit_len == 0 || is_null(value_at(args.state_indices, i), args.null_block_id)) return;  // dead: keeps both
  const std::int64_t request = args.request_index.data == nullptr ? i : value_at(args.request_index, i);
  if (commit_len < 0 || request < 0 || request >= args.requests) return report(args.reporter, ErrorKind::out_of_range, i);
  const std::int64_t num_computed = value_at(args.num_computed, request);
  const std::int64_t column = state_column(num_computed + commit_len, args.block_size);
  if (num_computed < 0 || column > INT32_MAX) return report(args.reporter, ErrorKind::out_of_range, i);
  value_at(args.running_column, request) = static_cast<std::int32_t>(column);
  value_at(args.num_accepted, request) = 1;
}

void flush(const MoveTable& table, int count, Launcher& launcher) {
  if (count == 0) return;
  std::int64_t shares = 1;
  for (int l = 0; l < count; ++l) shares = max64(shares, state_shares(table.layers[l]) + line_shares(table.layers[l]));
  const dim3 grid(static_cast<unsigned>(shares), static_cast<unsigned>(table.rows), static_cast<unsigned>(count));
  launcher.put(move_kernel, grid, kMoveThreads, 0, table);
}

}  // namespace

std::size_t scratch_size(const AlignMoveParams&) { return 0; }
std::size_t scratch_size(const AlignAdvanceParams&) { return 0; }

Status execute(const AlignMoveParams& p, const Launch& launch) {
  MoveTable table;
  table.from = column_of(p.from);
  table.to = column_of(p.to);
  table.rows = p.from.shape[0];
  table.null_block_id = p.null_block_id;
  table.reporter = {launch.flag, Operation::align_move};
  Launcher launcher(launch);
  int count = 0;
  for (std::size_t l = 0; l < p.layers.size(); ++l) {
    if (count == kLayersPerLaunch) {
      flush(table, count, launcher);
      count = 0;
    }
    table.layers[count++] = layer_args(p.layers[l], static_cast<int>(l));
  }
  flush(table, count, launcher);
  return launcher.status("align_move");
}

Status execute(const AlignAdvanceParams& p, const Launch& launch) {
  AdvanceArgs args;
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
  Launcher launcher(launch);
  launcher.put(advance_kernel, static_cast<unsigned>(ceil_div(args.rows, 128)), 128, 0, args);
  return launcher.status("align_advance");
}

}  // namespace recoverssm::cuda
