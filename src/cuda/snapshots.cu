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
  const std::int64_t i = blockIdx.z;
  const int K = args.rule.K, V = args.rule.V, token_chunk = args.cut.token_chunk;
  const int pass_rows = static_cast<int>(blockDim.x) / kLanesPerRow * ROWS;
  const int block_rows = pass_rows * args.cut.passes;
  const HeadPart part = part_of_block(args.rule, block_rows);
  const Lane lane = lane_of_thread();
  after_previous();

  DeviceRow row = snapshots_row(args.rows, i);
  drop_bad_tokens(args.rows, row);
  report_row(args.rows, row, i);
  if (row.kind == DeviceRowKind::skip) return;
  if (row.kind == DeviceRowKind::null) return zero_out(args.out, args.rows, row, part, block_rows, V);

  const Tokens tokens = tokens_in<CHUNKS, KDA>(reinterpret_cast<float*>(shared), block_rows);
  const int group_row = (lane.warp * kGroupsPerWarp + lane.group) * ROWS;
  const int length = static_cast<int>(row.length);
  const bool one_chunk = length <= token_chunk;
  const State* const state = reinterpret_cast<const State*>(at(args.state, row.block, part.head));
  const auto store = [&](int first, int count, int row0, int rows) {
    store_results<CHUNKS, KDA, Form::any>(tokens, results_of(args.out, View{}, row, part), args.rows, args.out, View{}, row, part,
                                          first, count, row0, rows, V);
  };
  const auto ask = [&](int first, int count) {
    return ask_tokens<CHUNKS, WHOLE, KDA, kSpread<ROWS>, Form::any>(
        args.rule, token_source<kSpread<ROWS>, Form::any>(args.rule, part, lane), tokens, row.begin + first, count, part, lane);
  };
  AskedGates gates = ask(0, length < token_chunk ? length : token_chunk);
  for (int pass = 0; pass < args.cut.passes; ++pass) {
    const int block_row = pass * pass_rows + group_row;
    Tile<CHUNKS, ROWS> tile;
    load_tile<CHUNKS, ROWS, WHOLE>(tile, state, part.value0 + block_row, V, K, lane.in_row);
    for (int first = 0; first < length; first += token_chunk) {
      const int count = length - first < token_chunk ? length - first : token_chunk;
      if (pass == 0 || !one_chunk) {
        if (first > 0 || pass > 0) __syncthreads();  // the buffers may still be read
        if (first > 0 || pass > 0) gates = ask(first, count);
        prepare_tokens<CHUNKS, WHOLE, KDA, kSpread<ROWS>, Form::any>(args.rule, tokens, gates, row.begin + first, count, part,
                                                                     lane);
      }
      float* token = tokens.base;
#pragma unroll 1
      for (int t = 0; t < count; ++t, token += tokens.step) {
        step<CHUNKS, ROWS, WHOLE, KDA>(tile, token, block_row, block_rows, K, lane);
        // The carried state stays fp32 for the whole window: a snapshot rounds a copy.
        const std::int32_t target = i32_at(args.rows.state_indices, i, first + t);
        if (is_null(target, args.rows.null_block_id)) continue;
        store_tile<CHUNKS, ROWS, WHOLE>(tile, reinterpret_cast<State*>(at(args.state, target, part.head)), part.value0 + block_row,
                                        V, K, lane.in_row);
      }
      if (one_chunk) continue;
      __syncthreads();
      store(first, count, pass * pass_rows, pass_rows);
    }
  }
  if (one_chunk) {
    __syncthreads();
    store(0, length, 0, block_rows);
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
  const dim3 grid = parts_grid(args.cut, args.rule, args.rows);
  Launcher launcher(launch);
  dispatch_delta(tile, p.state.dtype, p.inputs.gate,
                 [&]<class State, int CHUNKS, int ROWS, bool WHOLE, bool KDA>(DeltaKernel<State, CHUNKS, ROWS, WHOLE, KDA>) {
                   launcher.put(snapshots_kernel<State, CHUNKS, ROWS, WHOLE, KDA>, grid, 32 * args.cut.warps,
                                shared_bytes(tile, args.cut, p.inputs.gate), args);
                 });
  return launcher.status("gated_delta_rule_snapshots");
}

}  // namespace recoverssm::cuda
