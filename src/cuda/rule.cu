// gated_delta_rule on CUDA: plain rows. A block keeps value rows in registers from the first token to the last; where rows are short it
// goes over all of a head in several passes, or its warps work alone (few.cuh). With pending a second, tiny launch clears the counts, which
// every head of a row reads.

#include "cuda/delta_host.cuh"
#include "cuda/few.cuh"
#include "cuda/lazy.cuh"
#include "cuda/ops.h"
#include "cuda/records.cuh"

namespace recoverssm::cuda {
namespace {

struct PlainArgs {
  RuleArgs rule;
  RowsArgs rows;
  View state, out, pending;
  RecordArgs records;
  std::int64_t record_capacity;
  DeltaCut cut;
};

template <class State, int CHUNKS, int ROWS, bool WHOLE, bool KDA, Form F>
__global__ void __launch_bounds__(32 * kMaxWarps, 2) plain_kernel(const __grid_constant__ PlainArgs args) {
  extern __shared__ float4 shared[];
  const std::int64_t i = blockIdx.z;
  const int K = args.rule.K, V = args.rule.V, token_chunk = args.cut.token_chunk;
  const int pass_rows = static_cast<int>(blockDim.x) / kLanesPerRow * ROWS;
  const int block_rows = pass_rows * args.cut.passes;
  const HeadPart part = part_of_block(args.rule, block_rows);
  const Lane lane = lane_of_thread();
  const int group_row = (lane.warp * kGroupsPerWarp + lane.group) * ROWS;
  TokenSource source = token_source<kSpread<ROWS>, F>(args.rule, part, lane);
  if constexpr (kSpread<ROWS>) settle(source);
  let_next_start(kSpread<ROWS> && !args.pending.present);
  after_previous();

  bool from_block = false;
  int waiting = 0;
  DeviceRow row = plain_row(args.rows, args.pending, args.record_capacity, i, from_block, waiting);
  if (F == Form::any) drop_bad_tokens(args.rows, row);
  report_row(args.rows, row, i);
  if (row.kind == DeviceRowKind::skip) return;
  if (row.kind == DeviceRowKind::null) return zero_out(args.out, args.rows, row, part, block_rows, V);

  const Tokens tokens = tokens_in<CHUNKS, KDA>(reinterpret_cast<float*>(shared), block_rows);
  State* const state = reinterpret_cast<State*>(at(args.state, row.block, part.head));
  // Waiting records go through the tokens' buffers: nothing stays there from one pass to the next.
  const bool one_chunk = row.length <= token_chunk && waiting == 0;
  const auto ask = [&](const TokenSource& from, std::int64_t first, int count) {
    return ask_tokens<CHUNKS, WHOLE, KDA, kSpread<ROWS>, F>(args.rule, from, tokens, row.begin + first, count, part, lane);
  };
  const auto store = [&](int first, int count, int row0, int rows) {
    store_results<CHUNKS, KDA, F>(tokens, results_of(args.out, View{}, row, part), args.rows, args.out, View{}, row, part, first,
                                  count, row0, rows, V);
  };
  AskedGates gates{};
  if (waiting == 0) gates = ask(source, 0, static_cast<int>(min64(row.length, token_chunk)));
  for (int pass = 0; pass < args.cut.passes; ++pass) {
    const int block_row = pass * pass_rows + group_row;
    Tile<CHUNKS, ROWS> tile;
    if (!from_block) {
      clear_tile(tile);
    } else {
      load_tile<CHUNKS, ROWS, WHOLE>(tile, state, part.value0 + block_row, V, K, lane.in_row);
    }
    if (waiting > 0) {
      fold_records<CHUNKS, ROWS, WHOLE, KDA>(tile, args.records, args.rule.gate, tokens, token_chunk, row.block, part, waiting,
                                             block_row, K, V, lane);
      round_tile<State>(tile);
    }
    for (std::int64_t first = 0; first < row.length; first += token_chunk) {
      const int count = static_cast<int>(min64(row.length - first, token_chunk));
      if (pass == 0 || !one_chunk) {
        if (first > 0 || pass > 0 || waiting > 0) {
          __syncthreads();  // the buffers may still be read
          gates = ask(token_source<kSpread<ROWS>, F>(args.rule, part, lane), first, count);
        }
        prepare_tokens<CHUNKS, WHOLE, KDA, kSpread<ROWS>, F>(args.rule, tokens, gates, row.begin + first, count, part, lane);
        if (const std::int64_t left = row.length - first - count; left > 0) {
          prefetch_tokens<KDA>(args.rule, row.begin + first + count, static_cast<int>(min64(left, token_chunk)), part, block_rows);
        }
      }
      float* token = tokens.base;
#pragma unroll 1
      for (int t = 0; t < count; ++t, token += tokens.step) {
        step<CHUNKS, ROWS, WHOLE, KDA>(tile, token, block_row, block_rows, K, lane);
      }
      if (one_chunk) continue;
      __syncthreads();
      store(static_cast<int>(first), count, pass * pass_rows, pass_rows);
    }
    store_tile<CHUNKS, ROWS, WHOLE>(tile, state, part.value0 + block_row, V, K, lane.in_row);
  }
  if (!one_chunk) return;
  __syncthreads();
  store(0, static_cast<int>(row.length), 0, block_rows);
}

// After the kernel above: no records wait.
__global__ void clear_pending_kernel(const __grid_constant__ PlainArgs args) {
  after_previous();
  const std::int64_t i = blockIdx.x;
  bool from_block = false;
  int waiting = 0;
  DeviceRow row = plain_row(args.rows, args.pending, args.record_capacity, i, from_block, waiting);
  drop_bad_tokens(args.rows, row);
  if (row.kind == DeviceRowKind::live && threadIdx.x == 0) store_i32(args.pending, 0, row.block);
}

template <int ROWS, bool KDA>
void launch_decode(const PlainArgs& args, Launcher& launcher) {
  const FewCut cut = cut_decode(ROWS, args.rule.V, args.rule.HV, args.rows.rows);
  const FewArgs few{args.rule, args.rows, args.state, args.out, {}, cut};
  const dim3 grid(static_cast<unsigned>(few_blocks(cut, args.rule.HV)), 1, static_cast<unsigned>(args.rows.rows));
  launcher.put(few_kernel<float, 4, ROWS, true, KDA, false, Form::bf16>, grid, 32 * cut.warps, 0, few);
}

}  // namespace

std::size_t scratch_size(const GatedDeltaRuleParams&) { return 0; }

Status execute(const GatedDeltaRuleParams& p, const Launch& launch) {
  PlainArgs args;
  args.rule = rule_args(p.inputs);
  args.rows =
      rows_args(p.rows, 0, local_tokens_of(p.inputs), p.out.shape[0], p.state.shape[0], Operation::gated_delta_rule, launch);
  args.state = view_of(p.state);
  args.out = view_of(p.out);
  args.pending = view_of(p.pending);
  args.records = record_args(p.records);
  args.record_capacity = p.pending.present() ? record_capacity(p.inputs.gate, p.records) : 0;
  const std::int64_t heads = args.rows.rows * args.rule.HV;
  Launcher launcher(launch);
  if (!p.pending.present() && tokens_are_bf16(args.rule, args.rows, args.out) &&
      decodes_alone(args.rule.K, state_aligned(p.state), args.rule.V, size_of(p.state.dtype), args.rows.tokens, args.rows.rows)) {
    if (p.inputs.gate == Gate::gdn) {
      launch_decode<decode_rows(0, false), false>(args, launcher);  // whatever the heads
    } else if (decode_rows(heads, true) == 2) {
      launch_decode<2, true>(args, launcher);
    } else {
      launch_decode<4, true>(args, launcher);
    }
    return launcher.status("gated_delta_rule");
  }
  const DeltaTile tile = select_tile(args.rule.K, state_aligned(p.state), few_heads(heads));
  args.cut = cut_plain(tile, args.rule.V, heads, args.rows.rows, args.rows.tokens, p.inputs.gate == Gate::kda);
  const dim3 grid = parts_grid(args.cut, args.rule, args.rows);
  dispatch_delta(tile, p.state.dtype, p.inputs.gate,
                 [&]<class State, int CHUNKS, int ROWS, bool WHOLE, bool KDA>(DeltaKernel<State, CHUNKS, ROWS, WHOLE, KDA>) {
                   auto kernel = plain_kernel<State, CHUNKS, ROWS, WHOLE, KDA, Form::any>;
                   if constexpr (kBothForms<CHUNKS, WHOLE, KDA>) {
                     if (tokens_are_bf16(args.rule, args.rows, args.out)) {
                       kernel = plain_kernel<State, CHUNKS, ROWS, WHOLE, KDA, Form::bf16>;
                     }
                   }
                   launcher.put(kernel, grid, 32 * args.cut.warps, shared_bytes(tile, args.cut, p.inputs.gate), args);
                 });
  if (p.pending.present()) launcher.put(clear_pending_kernel, grid.z, 128, 0, args);
  return launcher.status("gated_delta_rule");
}

}  // namespace recoverssm::cuda
