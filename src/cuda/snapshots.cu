// gated_delta_rule_snapshots on CUDA: windows that leave a state per token. Every thread reads its elements of the start state before it
// stores any of a snapshot, so that a start block may be one of the row's columns.

#include "cuda/delta_host.cuh"
#include "cuda/lazy.cuh"
#include "cuda/ops.h"
#include "cuda/tokens.cuh"

namespace recoverssm::cuda {
namespace {

struct SnapshotsArgs {
  RuleArgs rule;
  RowsArgs rows;
  View state, out;
  DeltaCut cut;
};

template <class State, int CHUNKS, int ROWS, bool WHOLE, bool KDA>
__global__ void __launch_bounds__(32 * kMaxWarps, 2) snapshots_kernel(const __grid_constant__ SnapshotsArgs args) {
  extern __shared__ float4 shared[];
  const int head = static_cast<int>(blockIdx.x) / args.cut.tiles, tile_index = static_cast<int>(blockIdx.x) % args.cut.tiles;
  const std::int64_t i = blockIdx.y;
  const int K = args.rule.K, V = args.rule.V, token_chunk = args.cut.token_chunk;
  const int pass_rows = static_cast<int>(blockDim.x) / kLanesPerRow * ROWS;
  const int block_rows = pass_rows * args.cut.passes;
  const int value0 = tile_index * block_rows;

  DeviceRow row = snapshots_row(args.rows, i);
  drop_bad_tokens(args.rows, row);
  report_row(args.rows, row, i);
  if (row.kind == DeviceRowKind::skip) return;
  if (row.kind == DeviceRowKind::null) return zero_out(args.out, args.rows, row, head, value0, block_rows, V);

  const Lane lane = lane_of_thread();
  const Tokens tokens = tokens_in<CHUNKS, KDA>(reinterpret_cast<float*>(shared), block_rows);
  const int group_row = (lane.warp * kGroupsPerWarp + lane.group) * ROWS;
  const int length = static_cast<int>(row.length);
  const bool one_chunk = length <= token_chunk;
  const State* const state = reinterpret_cast<const State*>(at(args.state, row.block, head));
  const auto ask = [&](int first, int count) {
    return ask_tokens<CHUNKS, WHOLE, KDA, Form::any>(args.rule, tokens, row.begin + first, count, head, value0, lane);
  };
  AskedGates gates = ask(0, length < token_chunk ? length : token_chunk);
  for (int pass = 0; pass < args.cut.passes; ++pass) {
    const int block_row = pass * pass_rows + group_row;
    Tile<CHUNKS, ROWS> tile;
    load_tile<CHUNKS, ROWS, WHOLE>(tile, state, value0 + block_row, V, K, lane.in_row);
    for (int first = 0; first < length; first += token_chunk) {
      const int count = length - first < token_chunk ? length - first : token_chunk;
      if (pass == 0 || !one_chunk) {
        if (first > 0 || pass > 0) __syncthreads();  // the buffers may still be read
        if (first > 0 || pass > 0) gates = ask(first, count);
        prepare_tokens<CHUNKS, WHOLE, KDA, Form::any>(args.rule, tokens, gates, row.begin + first, count, head, value0, lane);
      }
      float* token = tokens.base;
#pragma unroll 1
      for (int t = 0; t < count; ++t, token += tokens.step) {
        step<CHUNKS, ROWS, WHOLE, KDA>(tile, token, block_row, block_rows, K, lane);
        // The carried state stays fp32 for the whole window: a snapshot rounds a copy.
        const std::int32_t target = i32_at(args.rows.state_indices, i, first + t);
        if (is_null(target, args.rows.null_block_id)) continue;
        store_tile<CHUNKS, ROWS, WHOLE>(tile, reinterpret_cast<State*>(at(args.state, target, head)), value0 + block_row, V, K,
                                        lane.in_row);
      }
      if (one_chunk) continue;
      __syncthreads();
      store_results<CHUNKS, KDA, Form::any>(tokens, args.rows, args.out, View{}, 0, head, row.begin + first, 0, count, value0,
                                            pass * pass_rows, pass_rows, V);
    }
  }
  if (one_chunk) {
    __syncthreads();
    store_results<CHUNKS, KDA, Form::any>(tokens, args.rows, args.out, View{}, 0, head, row.begin, 0, length, value0, 0, block_rows,
                                          V);
  }
}

}  // namespace

std::size_t scratch_size(const GatedDeltaRuleSnapshotsParams&) { return 0; }

Status execute(const GatedDeltaRuleSnapshotsParams& p, const Launch& launch) {
  SnapshotsArgs args;
  const std::int64_t S = p.rows.state_indices.shape[1];
  args.rule = rule_args(p.inputs);
  args.rows = rows_args(p.rows, S, local_tokens_of(p.inputs), p.out.shape[0], p.state.shape[0],
                        Operation::gated_delta_rule_snapshots, launch);
  args.state = view_of(p.state);
  args.out = view_of(p.out);
  const std::int64_t heads = args.rows.rows * args.rule.HV;
  const DeltaTile tile = select_tile(args.rule.K, state_aligned(p.state), few_heads(heads));
  args.cut = cut_windows(tile, args.rule.V, heads, S, p.inputs.gate == Gate::kda, size_of(p.state.dtype), /*together=*/false);
  const dim3 grid(static_cast<unsigned>(args.rule.HV * args.cut.tiles), static_cast<unsigned>(args.rows.rows));
  Launcher launcher(launch);
  dispatch_delta(tile, p.state.dtype, p.inputs.gate,
                 [&]<class State, int CHUNKS, int ROWS, bool WHOLE, bool KDA>(DeltaKernel<State, CHUNKS, ROWS, WHOLE, KDA>) {
                   launcher.put(snapshots_kernel<State, CHUNKS, ROWS, WHOLE, KDA>, grid, 32 * args.cut.warps,
                                shared_bytes(tile, args.cut, p.inputs.gate), args);
                 });
  return launcher.status("gated_delta_rule_snapshots");
}

}  // namespace recoverssm::cuda
