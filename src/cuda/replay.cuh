// What commit and materialize share: replaying a block's records into its state, and moving a conv line's history, all layers of a launch
// in one grid. Everything a thread reads of the source it reads before it stores at the same place, so that source, boundary and final of
// one row may be the same block.
#pragma once

#include "cuda/layers.cuh"
#include "cuda/line.cuh"
#include "cuda/ops.h"
#include "cuda/records.cuh"
#include "cuda/replay_tile.cuh"

namespace recoverssm::cuda {

// One row's replay in one layer: records 0..len-1 of `source`; the state after boundary_len of them goes to `boundary`, the last to
// `final`.
struct Replay {
  std::int32_t source = 0, final = 0, boundary = 0;
  int len = 0;           // 0: no state and no line moves
  int boundary_len = 0;  // 0: no boundary
  bool live = false;     // pending is cleared where this says so
  ErrorKind found = ErrorKind::ok;
};

// Whose rows: commit's plan, or materialize's list.
enum class ReplayOf : std::uint8_t { commit, materialize };

struct PlanColumns {
  Column state_indices, commit_len, final_indices, boundary_indices, boundary_len;
  std::int32_t rows = 0;
};

struct ReplayTable {
  LayerArgs layers[kLayersPerLaunch];
  PlanColumns groups[kGroupsPerLaunch];  // materialize: [0], blocks in state_indices, num_accepted in commit_len
  Reporter reporter;
  std::int32_t null_block_id = 0;
  std::int32_t capacity = 0;  // commit's S
  ReplayOf of = ReplayOf::commit;
  std::int8_t token_chunk = 0;
  std::uint8_t layer_count = 0;
};
static_assert(sizeof(ReplayTable) <= 32764, "a kernel's parameters");

__device__ inline Replay commit_row(const ReplayTable& table, const LayerArgs& layer, const PlanColumns& plan, std::int64_t i) {
  Replay replay;
  // All loads at once: what a dead row has in the other columns is not looked at, but it is there.
  const std::int32_t len = value_at(plan.commit_len, i), source = value_at(plan.state_indices, i),
                     final = value_at(plan.final_indices, i), boundary = value_at(plan.boundary_indices, i),
                     written_len = value_at(plan.boundary_len, i);
  if (is_dead_commit(len, source, final, table.null_block_id)) return replay;
  const bool bounded = !is_null(boundary, table.null_block_id);
  const std::int32_t boundary_len = bounded ? written_len : 0;
  const auto in_pool = [&](std::int32_t block) { return block >= 0 && block < layer.blocks; };
  if (len < 0 || len > table.capacity || !in_pool(source) || !in_pool(final) ||
      (bounded && (!in_pool(boundary) || boundary_len < 1 || boundary_len > len))) {
    replay.found = ErrorKind::out_of_range;
    return replay;
  }
  replay = {source, final, boundary, len, boundary_len, true, ErrorKind::ok};
  if (layer.pending == nullptr) return replay;
  // No more than waits, and no boundary beyond that; where nothing waits nothing changes.
  const std::int32_t pending = layer.pending[source * layer.pending_stride];
  if (pending < 0 || pending > table.capacity) return {.found = ErrorKind::out_of_range};
  if (pending == 0) return {.found = final == source ? ErrorKind::ok : ErrorKind::bad_state};
  replay.len = len < pending ? len : pending;
  if (replay.boundary_len > replay.len) replay.boundary_len = 0;
  return replay;
}

__device__ inline Replay materialize_row(const ReplayTable& table, const LayerArgs& layer, const PlanColumns& list,
                                         std::int64_t i) {
  const std::int32_t block = value_at(list.state_indices, i);
  if (is_null(block, table.null_block_id)) return {};
  if (block < 0 || block >= layer.blocks) return {.found = ErrorKind::out_of_range};
  const std::int32_t accepted = value_at(list.commit_len, i), pending = layer.pending[block * layer.pending_stride];
  if (!waiting_in_range(accepted, pending, layer.capacity)) return {.found = ErrorKind::out_of_range};
  return {block, block, 0, static_cast<int>(lazy_fold_count(accepted, pending)), 0, true, ErrorKind::ok};
}

__device__ __forceinline__ Replay replay_row(const ReplayTable& table, const LayerArgs& layer, std::int64_t i) {
  const PlanColumns& plan = table.groups[layer.group];
  if (i >= plan.rows) return {};
  return table.of == ReplayOf::commit ? commit_row(table, layer, plan, i) : materialize_row(table, layer, plan, i);
}

// Positions start.. of `from` to the history of `to`, in rising positions: in place nothing is overwritten before it is read.
template <int kSize, int kLanes>
__device__ __forceinline__ void move_history(const LineLanes<kSize, kLanes>& from, std::int64_t start,
                                             const LineLanes<kSize, kLanes>& to, int history) {
  store_rising(to, 0, history, [&](std::int64_t p) { return from.load(start + p); });
}

// Final and boundary histories of a thread's channels. Both come from the source, so whichever of them lies in the source goes last; where
// both are one block the final one, which is stored after it, is what remains.
template <int kSize, int kLanes>
__device__ __forceinline__ void replay_channels(const LayerArgs& layer, const Replay& replay, int channel) {
  const View view = packed_view(layer.line, layer.line_stride, layer.line_dtype);
  const auto line_of = [&](std::int64_t block) { return LineLanes<kSize, kLanes>(view, block, channel, kLanes > 1); };
  const LineLanes<kSize, kLanes> source = line_of(replay.source);
  const std::int64_t final_start = committed_history_start(layer.line_kind, replay.len);
  const std::int64_t boundary_start = committed_history_start(layer.line_kind, replay.boundary_len);
  const bool bounded = replay.boundary_len > 0 && replay.boundary != replay.final;
  if (bounded && replay.boundary != replay.source) move_history(source, boundary_start, line_of(replay.boundary), layer.history);
  move_history(source, final_start, line_of(replay.final), layer.history);
  if (bounded && replay.boundary == replay.source) move_history(source, boundary_start, source, layer.history);
}

constexpr int kLineChannels = 8 * kReplayThreads;  // of one block

template <int kSize>
__device__ __forceinline__ void replay_line(const LayerArgs& layer, const Replay& replay, int first) {
  const int end = first + kLineChannels < layer.channels ? first + kLineChannels : layer.channels;
  if (layer.line_lanes) {
    for (int c = first + 4 * static_cast<int>(threadIdx.x); c < end; c += 4 * kReplayThreads) {
      replay_channels<kSize, 4>(layer, replay, c);
    }
    return;
  }
  for (int c = first + static_cast<int>(threadIdx.x); c < end; c += kReplayThreads) replay_channels<kSize, 1>(layer, replay, c);
}

__host__ __device__ inline int line_blocks(const LayerArgs& layer) {
  return layer.line == nullptr ? 0 : (layer.channels + kLineChannels - 1) / kLineChannels;
}
__host__ __device__ inline int head_blocks(const LayerArgs& layer, int value_rows) {
  return layer.state == nullptr ? 0 : layer.HV * ((layer.V + value_rows - 1) / value_rows);
}

// Grid: x the blocks of a row (value tiles of heads, then pieces of the line), y rows, z layers.
template <class State, int CHUNKS, bool WHOLE, bool KDA>
__global__ void __launch_bounds__(kReplayThreads, replay_blocks(WHOLE, CHUNKS, KDA))
    replay_kernel(const __grid_constant__ ReplayTable table) {
  after_previous();
  extern __shared__ float4 shared[];
  const LayerArgs& layer = table.layers[blockIdx.z];
  constexpr int kPasses = replay_passes(WHOLE, sizeof(State)), kPassRows = replay_pass_rows(WHOLE, CHUNKS, sizeof(State));
  constexpr int value_rows = kPasses * kPassRows;
  const int task = static_cast<int>(blockIdx.x);
  const int heads = head_blocks(layer, value_rows), lines = line_blocks(layer);
  if (task >= heads + lines) return;
  const std::int64_t i = blockIdx.y;
  const Replay replay = replay_row(table, layer, i);
  if (threadIdx.x == 0) report(table.reporter, replay.found, i, layer.index);
  if (replay.len == 0) return;

  if (task >= heads) {
    // A rolled line is materialize's no matter: the next convolution reads its history at num_accepted.
    if (table.of == ReplayOf::materialize && layer.line_kind != LineKind::anchored) return;
    const int first = (task - heads) * kLineChannels;
    if (size_of(layer.line_dtype) == 4) {
      replay_line<4>(layer, replay, first);
    } else {
      replay_line<2>(layer, replay, first);
    }
    return;
  }

  const int tiles = (layer.V + value_rows - 1) / value_rows;
  const int head = task / tiles, value0 = task % tiles * value_rows;
  const Lane lane = lane_of_thread();
  const Tokens buffers = tokens_in<CHUNKS, KDA>(reinterpret_cast<float*>(shared), value_rows);
  std::byte* const slots = reinterpret_cast<std::byte*>(buffers.base + table.token_chunk * buffers.step);
  const auto state_of = [&](std::int64_t block) {
    return reinterpret_cast<State*>(layer.state) + block * layer.state_block +
           (static_cast<std::int64_t>(head) * layer.V + value0) * layer.K;
  };
  State *const source = state_of(replay.source), *const final = state_of(replay.final), *const boundary = state_of(replay.boundary);
  const int V = layer.V - value0, K = layer.K;  // the block's rows and those behind them
  const RecordArgs records = records_of(layer);
  const HeadRecords rows = head_records<KDA>(records, replay.source, head);
  const GateArgs gate = gate_of(layer);
  const bool one_chunk = replay.len <= table.token_chunk;
  constexpr int kFours = replay_fours(sizeof(State));
  ReplayTile<CHUNKS, WHOLE, kFours> tile;
#pragma unroll 1
  for (int pass = 0; pass < kPasses; ++pass) {
    const int row = pass * kPassRows + lane.warp * tile.kWarpRows;
#pragma unroll 1
    for (int first = 0; first < replay.len; first += table.token_chunk) {
      const int count = replay.len - first < table.token_chunk ? replay.len - first : table.token_chunk;
      const bool other_records = pass == 0 || !one_chunk;
      // Records are asked for before the state, so that they need not wait behind it.
      if (other_records) {
        if (first > 0 || pass > 0) __syncthreads();  // the buffers may still be read
        ask_records<CHUNKS, KDA>(rows, buffers, first, count, value0, K, layer.V);
      }
      if (first == 0) {
        if (kPasses == 1 || pass == 0) {
          load_rows(tile, source, row, V, K, lane);
        } else if constexpr (kPasses > 1) {
          take_ahead<CHUNKS, kFours, State>(tile, slots, row, V);
        }
        if constexpr (kPasses > 1) {
          if (pass + 1 < kPasses) fetch_ahead<CHUNKS, kFours>(slots, source, row + kPassRows, V);
        }
      }
      if (other_records) {
        if (kPasses > 1 && !(first == 0 && pass + 1 < kPasses))
          __pipeline_commit();  // so that one group is behind them in any case
        prepare_records<CHUNKS, WHOLE, KDA, kPasses == 1 ? 0 : 1>(records, gate, buffers, replay.source, head, first, count, K,
                                                                  lane);
      }
      const float* token = buffers.base;
#pragma unroll 1
      for (int t = 0; t < count; ++t, token += buffers.step) {
        replay_record<CHUNKS, WHOLE, KDA>(tile, token, row, lane);
        if (first + t + 1 == replay.boundary_len) {
          store_rows(tile, boundary, row, V, K, lane);
        }
      }
    }
    store_rows(tile, final, row, V, K, lane);
  }
}

// Launches the table's layers, all of one tile, state dtype and gate; then clears pending counts where there are any: every block of a
// row reads them. `rows`: of the longest group.
void launch_replay(ReplayTable& table, const DeltaTile& tile, DType state, Gate gate, std::int64_t rows, Launcher& launcher);

// The layers of groups first_group.. of a call, whose plans these are (at most kGroupsPerLaunch), by instantiation, in as few launches as
// that takes. materialize has one list for all layers.
void launch_layers(std::span<const Layer> layers, std::span<const PlanColumns> plans, int first_group, const ReplayTable& prototype,
                   Launcher& launcher);

}  // namespace recoverssm::cuda
