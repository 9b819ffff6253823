// gated_delta_rule_verify on CUDA: windows that leave records. One launch; the lazy form takes a second, tiny one that stores the pending
// counts, which every head of a row reads.

#include "cuda/delta_host.cuh"
#include "cuda/few.cuh"
#include "cuda/lazy.cuh"
#include "cuda/ops.h"
#include "cuda/records.cuh"
#include "cuda/verify.h"

namespace recoverssm::cuda {
namespace {

struct VerifyArgs {
  RuleArgs rule;
  RowsArgs rows;
  View state, out, pending;
  RecordArgs records;
  DeltaCut cut;
  std::int32_t* done = nullptr;  // [N] zeros: heads of a row that have read its pending count
};

template <class State, int CHUNKS, int ROWS, bool WHOLE, bool KDA, bool LAZY, Form F>
__global__ void __launch_bounds__(32 * kMaxWarps, window_blocks(CHUNKS, ROWS, LAZY))
    verify_kernel(const __grid_constant__ VerifyArgs args) {
  extern __shared__ float4 shared[];
  const std::int64_t i = blockIdx.z;
  const int K = args.rule.K, V = args.rule.V, token_chunk = args.cut.token_chunk;
  const int pass_rows = static_cast<int>(blockDim.x) / kLanesPerRow * ROWS;
  const int block_rows = pass_rows * args.cut.passes;
  const HeadPart part = part_of_block(args.rule, block_rows);
  const Lane lane = lane_of_thread();
  const int group_row = (lane.warp * kGroupsPerWarp + lane.group) * ROWS;
  constexpr bool kSpreads = kSpread<ROWS>;
  TokenSource source = token_source<kSpreads, F>(args.rule, part, lane);
  RowSource row_source = cuda::row_source(args.rows, i);
  State* head_state = reinterpret_cast<State*>(at(args.state, 0, part.head));
  let_next_start(kSpreads && !LAZY);
  if constexpr (kSpreads) {  // elsewhere registers are short, and launches long
    settle(source);
    settle(row_source);
    settle(head_state);
  }
  after_previous();

  int waiting = 0;
  DeviceRow row = LAZY ? verify_row(args.rows, args.pending, i, waiting) : row_of(row_source);
  if (F == Form::any) drop_bad_tokens(args.rows, row);
  report_row(args.rows, row, i);
  if (row.kind == DeviceRowKind::skip) return;
  if (row.kind == DeviceRowKind::null) return zero_out(args.out, args.rows, row, part, block_rows, V);

  const Tokens tokens = tokens_in<CHUNKS, KDA>(reinterpret_cast<float*>(shared), block_rows);
  State* const state = head_state + row.block * args.state.stride[0];
  const View& corrections = KDA ? args.records.corrections : args.records.packed;
  const int length = static_cast<int>(row.length);
  const bool one_chunk = length <= token_chunk;
  // The first time with what was there before; it need not stay until there is a second.
  const auto ask = [&](const TokenSource& from, int first, int count) {
    return ask_tokens<CHUNKS, WHOLE, KDA, kSpreads, F>(args.rule, from, tokens, row.begin + first, count, part, lane);
  };
  // Spread, where results go is worked out in the shadow of the loads, and keys leave with the results, by other threads; otherwise keys leave
  // while the state is on its way.
  Results results;
  const auto store_keys = [&](const Results& to, int first, int count) {
    write_keys<CHUNKS, KDA>(args.rule, args.records, to, tokens, row, part, first, count, args.cut.tiles);
  };
  const auto store = [&](int first, int count, int row0, int rows) {
    if (!kSpreads) results = results_of(args.out, corrections, row, part);
    store_results<CHUNKS, KDA, F>(tokens, results, args.rows, args.out, corrections, row, part, first, count, row0, rows, V);
  };
  Tile<CHUNKS, ROWS> tile;
  AskedGates gates{};
  if (!LAZY) gates = ask(source, 0, length < token_chunk ? length : token_chunk);

  // Lazy form: the state with the kept records in it goes back before the window's records replace them.
  if (LAZY && waiting > 0) {
    for (int pass = 0; pass < args.cut.passes; ++pass) {
      const int block_row = pass * pass_rows + group_row;
      load_tile<CHUNKS, ROWS, WHOLE>(tile, state, part.value0 + block_row, V, K, lane.in_row);
      fold_records<CHUNKS, ROWS, WHOLE, KDA>(tile, args.records, args.rule.gate, tokens, token_chunk, row.block, part, waiting,
                                             block_row, K, V, lane);
      store_tile<CHUNKS, ROWS, WHOLE>(tile, state, part.value0 + block_row, V, K, lane.in_row);
    }
  }
  if (LAZY) __syncthreads();

  for (int pass = 0; pass < args.cut.passes; ++pass) {
    const int block_row = pass * pass_rows + group_row;
    if (LAZY && waiting > 0 && args.cut.passes == 1) {
      round_tile<State>(tile);
    } else {
      load_tile<CHUNKS, ROWS, WHOLE>(tile, state, part.value0 + block_row, V, K, lane.in_row);
    }
    if (kSpreads && pass == 0) {
      results = results_of(args.out, corrections, row, part);
      settle(results.out);
      settle(results.corrections);
    }
    for (int first = 0; first < length; first += token_chunk) {
      const int count = length - first < token_chunk ? length - first : token_chunk;
      if (pass == 0 || !one_chunk) {
        if (first > 0 || pass > 0) __syncthreads();  // the buffers may still be read
        if (LAZY || first > 0 || pass > 0) gates = ask(token_source<kSpreads, F>(args.rule, part, lane), first, count);
        prepare_tokens<CHUNKS, WHOLE, KDA, kSpreads, F>(args.rule, tokens, gates, row.begin + first, count, part, lane);
      }
      if (!kSpreads && pass == 0) store_keys(results_of(args.out, corrections, row, part), first, count);
      // Two tokens a turn: at its end the state moves back to the registers it came in.
      float* token = tokens.base;
      int t = 0;
#pragma unroll 1
      for (; t + 2 <= count; t += 2, token += 2 * tokens.step) {
        step<CHUNKS, ROWS, WHOLE, KDA>(tile, token, block_row, block_rows, K, lane);
        step<CHUNKS, ROWS, WHOLE, KDA>(tile, token + tokens.step, block_row, block_rows, K, lane);
      }
      if (t < count) step<CHUNKS, ROWS, WHOLE, KDA>(tile, token, block_row, block_rows, K, lane);
      if (one_chunk) continue;
      __syncthreads();
      store(first, count, pass * pass_rows, pass_rows);
      if (kSpreads && pass == 0) store_keys(results, first, count);
    }
  }
  if (one_chunk) {
    __syncthreads();
    store(0, length, 0, block_rows);
    if (kSpreads) store_keys(results, 0, length);
  }

  // The last head of the row says how many records wait now: all of them have read how many did.
  if (!LAZY || args.done == nullptr) return;
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence();
  if (atomicAdd(&args.done[i], 1) + 1 == args.rule.HV) store_i32(args.pending, static_cast<std::int32_t>(length), row.block);
}

// After the verify kernel: how many records wait now.
__global__ void store_pending_kernel(const __grid_constant__ VerifyArgs args) {
  after_previous();
  const std::int64_t i = blockIdx.x;
  int waiting = 0;
  DeviceRow row = verify_row(args.rows, args.pending, i, waiting);
  drop_bad_tokens(args.rows, row);
  if (row.kind == DeviceRowKind::live && threadIdx.x == 0)
    store_i32(args.pending, static_cast<std::int32_t>(row.length), row.block);
}

void launch_few(const GatedDeltaRuleVerifyParams& p, const VerifyArgs& args, Launcher& launcher) {
  const DeltaTile tile = select_tile(args.rule.K, state_aligned(p.state), /*few=*/true);
  const FewCut cut = cut_few(few_rows(tile.chunks, tile.whole), args.rule.V, args.rule.HV, args.rows.rows);
  const FewArgs few{args.rule, args.rows, args.state, args.out, args.records, cut};
  const dim3 grid(static_cast<unsigned>(few_blocks(cut, args.rule.HV)), 1, static_cast<unsigned>(args.rows.rows));
  dispatch_delta(tile, p.state.dtype, p.inputs.gate,
                 [&]<class State, int CHUNKS, int ROWS, bool WHOLE, bool KDA>(DeltaKernel<State, CHUNKS, ROWS, WHOLE, KDA>) {
                   if constexpr (ROWS == 1) {  // what few heads select, whatever a lane group takes here
                     constexpr int kRows = few_rows(CHUNKS, WHOLE);
                     auto kernel = few_kernel<State, CHUNKS, kRows, WHOLE, KDA, true, Form::any>;
                     if constexpr (kFewBothForms<CHUNKS, WHOLE>) {
                       if (tokens_are_bf16(args.rule, args.rows, args.out)) {
                         kernel = few_kernel<State, CHUNKS, kRows, WHOLE, KDA, true, Form::bf16>;
                       }
                     }
                     launcher.put(kernel, grid, 32 * cut.warps, 0, few);
                   }
                 });
}

}  // namespace

std::size_t scratch_size(const GatedDeltaRuleVerifyParams&) { return 0; }

Status execute(const GatedDeltaRuleVerifyParams& p, const Launch& launch) { return execute_verify(p, launch, nullptr); }

Status execute_verify(const GatedDeltaRuleVerifyParams& p, const Launch& launch, std::int32_t* done) {
  VerifyArgs args;
  args.rule = rule_args(p.inputs);
  args.rows = rows_args(p.rows, p.rows.window_capacity, local_tokens_of(p.inputs), p.out.shape[0], p.state.shape[0],
                        Operation::gated_delta_rule_verify, launch);
  args.state = view_of(p.state);
  args.out = view_of(p.out);
  args.pending = view_of(p.pending);
  args.records = record_args(p.records);
  args.done = p.pending.present() ? done : nullptr;
  const std::int64_t heads = args.rows.rows * args.rule.HV;
  const bool lazy = p.pending.present();
  Launcher launcher(launch);
  if (!lazy && warps_alone(heads, args.rule.V, p.rows.window_capacity, p.inputs.gate == Gate::kda)) {
    launch_few(p, args, launcher);
    return launcher.status("gated_delta_rule_verify");
  }
  const DeltaTile tile = select_tile(args.rule.K, state_aligned(p.state), few_heads(heads));
  const DeltaTile run = lazy ? lazy_tile(tile) : tile;
  args.cut = cut_windows(run, args.rule.V, heads, p.rows.window_capacity, p.inputs.gate == Gate::kda, size_of(p.state.dtype),
                         /*together=*/lazy);
  const dim3 grid = parts_grid(args.cut, args.rule, args.rows);
  dispatch_delta(tile, p.state.dtype, p.inputs.gate,
                 [&]<class State, int CHUNKS, int ROWS, bool WHOLE, bool KDA>(DeltaKernel<State, CHUNKS, ROWS, WHOLE, KDA>) {
                   constexpr int kLazyRows = lazy_tile({CHUNKS, ROWS, WHOLE}).rows;
                   auto kernel = lazy ? verify_kernel<State, CHUNKS, kLazyRows, WHOLE, KDA, true, Form::any>
                                      : verify_kernel<State, CHUNKS, ROWS, WHOLE, KDA, false, Form::any>;
                   if constexpr (kBothForms<CHUNKS, WHOLE, KDA>) {
                     if (tokens_are_bf16(args.rule, args.rows, args.out)) {
                       kernel = lazy ? verify_kernel<State, CHUNKS, kLazyRows, WHOLE, KDA, true, Form::bf16>
                                     : verify_kernel<State, CHUNKS, ROWS, WHOLE, KDA, false, Form::bf16>;
                     }
                   }
                   launcher.put(kernel, grid, 32 * args.cut.warps, shared_bytes(run, args.cut, p.inputs.gate), args);
                 });
  if (lazy && done == nullptr) launcher.put(store_pending_kernel, grid.z, 32, 0, args);
  return launcher.status("gated_delta_rule_verify");
}

}  // namespace recoverssm::cuda
