// split_projections on CUDA: moves bits.
#include <algorithm>

#include "cuda/launch.h"
#include "cuda/moves.cuh"
#include "cuda/ops.h"
#include "cuda/rows.cuh"
#include "cuda/select.h"

namespace recoverssm::cuda {
namespace {

struct SplitArgs {
  View qkvz, ba, mixed_qkv, z, b, a, token_index;
  PackedSizes sizes;
  std::int64_t tokens = 0;
  std::int64_t global_rows = 0;
  std::int64_t wide_tiles = 0;  // blocks along x that move mixed_qkv and z; those behind them move b and a
  std::int64_t tokens_per_block = 0;
  Reporter reporter;
};

// -1: the token's entry names no row, it writes nothing.
__device__ __forceinline__ std::int64_t checked_row(const SplitArgs& args, std::int64_t token) {
  if (!args.token_index.present) return token;
  const std::int64_t row = i32_at(args.token_index, token);
  if (row >= 0 && row < args.global_rows) return row;
  if (threadIdx.x == 0) report(args.reporter, ErrorKind::out_of_range, token);
  return -1;
}

// Element `e` of a token's mixed_qkv and z: first the channels, then z's heads.
template <int kSize>
__device__ __forceinline__ Run wide_run(const SplitArgs& args, std::int64_t e) {
  const PackedSizes& s = args.sizes;
  const std::int64_t C = qkv_channels(s), from_row = args.qkvz.stride[0] * kSize;
  if (e < C) {
    return {at(args.qkvz, 0, qkv_column(s, e)), at(args.mixed_qkv, 0, e), from_row, args.mixed_qkv.stride[0] * kSize, false};
  }
  return z_run<kSize>(s, args.qkvz, args.z, e - C);
}

template <int kSize, int kLanes>
__global__ void __launch_bounds__(kSplitThreads) split_kernel(const __grid_constant__ SplitArgs args) {
  after_previous();
  const bool wide = blockIdx.x < args.wide_tiles;
  const std::int64_t tile = wide ? blockIdx.x : blockIdx.x - args.wide_tiles;
  const std::int64_t e = (tile * kSplitThreads + threadIdx.x) * (wide ? kLanes : 1);
  const std::int64_t elements = wide ? qkv_channels(args.sizes) + args.sizes.HV * args.sizes.V : 2 * args.sizes.HV;
  const bool active = e < elements;
  Run run{};
  if (active) run = wide ? wide_run<kSize>(args, e) : gate_run<kSize>(args.sizes, args.ba, args.b, args.a, e);
  const auto row_of = [&](std::int64_t token) { return checked_row(args, token); };
  const std::int64_t step = args.tokens_per_block * gridDim.y;
  for (std::int64_t begin = args.tokens_per_block * blockIdx.y; begin < args.tokens; begin += step) {
    const std::int64_t end = min64(args.tokens, begin + args.tokens_per_block);
    if (wide) {
      move_tokens<LaneBits<kSize, kLanes>>(run, active, begin, end, row_of);
    } else {
      move_tokens<ElementBits<kSize>>(run, active, begin, end, row_of);
    }
  }
}

PackedSizes sizes_of(const SplitProjectionsParams& p) {
  return {p.layout, p.num_k_heads, p.num_v_heads, p.head_k_dim, p.head_v_dim};
}

bool split_lanes_fit(const SplitProjectionsParams& p, int lanes) {
  const TensorView& qkv = p.mixed_qkv;
  return z_lanes_fit(sizes_of(p), p.qkvz, p.z, lanes) &&
         lanes_fit(qkv.data, size_of(qkv.dtype), qkv.stride[1], {qkv.stride[0]}, lanes);
}

template <int kSize, int kLanes>
void launch_split(SplitArgs args, Launcher& launcher) {
  const std::int64_t elements = qkv_channels(args.sizes) + args.sizes.HV * args.sizes.V;
  args.wide_tiles = blocks_for(elements, std::int64_t{kSplitThreads} * kLanes);
  const std::int64_t tiles = args.wide_tiles + blocks_for(2 * args.sizes.HV, kSplitThreads);
  args.tokens_per_block = split_tokens(tiles, args.tokens);
  const dim3 grid(static_cast<unsigned>(tiles),
                  static_cast<unsigned>(min64(blocks_for(args.tokens, args.tokens_per_block), kMaxGridY)));
  launcher.put(split_kernel<kSize, kLanes>, grid, kSplitThreads, 0, args);
}

template <int kSize>
void launch_widest(const SplitProjectionsParams& p, const SplitArgs& args, Launcher& launcher) {
  constexpr int kWidest = 16 / kSize;
  if (split_lanes_fit(p, kWidest)) return launch_split<kSize, kWidest>(args, launcher);
  launch_split<kSize, 1>(args, launcher);
}

}  // namespace

std::size_t scratch_size(const SplitProjectionsParams&) { return 0; }

Status execute(const SplitProjectionsParams& p, const Launch& launch) {
  SplitArgs args;
  args.qkvz = view_of(p.qkvz);
  args.ba = view_of(p.ba);
  args.mixed_qkv = view_of(p.mixed_qkv);
  args.z = view_of(p.z);
  args.b = view_of(p.b);
  args.a = view_of(p.a);
  args.token_index = view_of(p.token_index);
  args.sizes = sizes_of(p);
  args.tokens = p.token_index.present() ? p.token_index.shape[0] : p.qkvz.shape[0];
  args.global_rows = std::min({p.qkvz.shape[0], p.ba.shape[0], p.z.shape[0]});
  args.reporter = {launch.flag, Operation::split_projections};
  if (args.tokens == 0) return {};
  Launcher launcher(launch);
  if (size_of(p.qkvz.dtype) == 4) {
    launch_widest<4>(p, args, launcher);
  } else {
    launch_widest<2>(p, args, launcher);
  }
  return launcher.status("split_projections");
}

}  // namespace recoverssm::cuda
