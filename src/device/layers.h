// Layers of commit, materialize and align_move in kernels, as rows of a table, and what a row replays in one of them.
#pragma once

#include <cstdint>

#include "contract/row_rules.h"
#include "device/rows.h"
#include "device/rule.h"

namespace recoverssm::device {

// Addresses and strides, in bytes, of one layer.
struct LayerArgs {
  std::byte* state = nullptr;
  std::int64_t state_block = 0;
  std::byte* records = nullptr;  // gdn: packed; kda: corrections
  std::int64_t record_stride[3] = {};
  std::byte* key_gate = nullptr;
  std::int64_t key_gate_stride[3] = {};
  std::byte* line = nullptr;
  std::int64_t line_stride[3] = {};
  std::int32_t* pending = nullptr;
  std::int64_t pending_stride = 0;
  std::byte* A_log = nullptr;
  std::byte* dt_bias = nullptr;
  std::int64_t blocks = 0;  // the smallest pool's
  std::int64_t A_log_stride = 0, dt_bias_stride[2] = {};
  std::int32_t HV = 0, V = 0, K = 0, channels = 0, history = 0, index = 0, group = 0;
  std::int32_t capacity = 0;  // S of its records
  float lower_bound = 0, softplus_beta = 1, softplus_threshold = 20;
  DType state_dtype = DType::f32, line_dtype = DType::f32, key_gate_dtype = DType::f32, A_log_dtype = DType::f32,
        dt_bias_dtype = DType::f32;
  LineKind line_kind = LineKind::rolled;
  bool bounded = false, l2norm = true;
};

RSSM_HOST_DEVICE View packed_view(std::byte* data, const std::int64_t (&stride)[3], DType dtype) {
  View v;
  v.data = data;
  v.stride[0] = stride[0];
  v.stride[1] = stride[1];
  v.stride[2] = stride[2];
  v.stride[3] = float_size(dtype);
  v.dtype = dtype;
  v.present = data != nullptr;
  return v;
}

RSSM_HOST_DEVICE RecordArgs records_of(const LayerArgs& layer) {
  const View records = packed_view(layer.records, layer.record_stride, DType::f32);
  return {records, records, packed_view(layer.key_gate, layer.key_gate_stride, layer.key_gate_dtype)};
}

RSSM_HOST_DEVICE GateArgs gate_of(const LayerArgs& layer) {
  GateArgs gate;
  gate.A_log.data = layer.A_log;
  gate.A_log.stride[0] = layer.A_log_stride;
  gate.A_log.dtype = layer.A_log_dtype;
  gate.dt_bias.data = layer.dt_bias;
  gate.dt_bias.stride[0] = layer.dt_bias_stride[0];
  gate.dt_bias.stride[1] = layer.dt_bias_stride[1];
  gate.dt_bias.dtype = layer.dt_bias_dtype;
  gate.lower_bound = layer.lower_bound;
  gate.softplus_beta = layer.softplus_beta;
  gate.softplus_threshold = layer.softplus_threshold;
  gate.bounded = layer.bounded;
  gate.l2norm = layer.l2norm;
  return gate;
}

// One row's replay in one layer: records 0..len-1 of `source`; the state after boundary_len of them goes to `boundary`, the last to
// `final`.
struct Replay {
  std::int32_t source = 0, final = 0, boundary = 0;
  std::int32_t len = 0;           // 0: no state and no line moves
  std::int32_t boundary_len = 0;  // 0: no boundary
  bool live = false;              // pending is cleared where this says so
  ErrorKind found = ErrorKind::ok;
};

// Whose rows: commit's plan, or materialize's list.
enum class ReplayOf : std::uint8_t { commit, materialize };

struct PlanColumns {
  Column state_indices, commit_len, final_indices, boundary_indices, boundary_len;
  std::int64_t rows = 0;
};

struct ReplayArgs {
  const LayerArgs* layers = nullptr;
  const PlanColumns* groups = nullptr;  // materialize: [0], blocks in state_indices, num_accepted in commit_len
  std::int64_t rows = 0;                // of the longest group
  Reporter reporter;
  std::int32_t null_block_id = 0;
  std::int32_t capacity = 0;  // commit's S
  ReplayOf of = ReplayOf::commit;
};

RSSM_HOST_DEVICE Replay found_wrong(ErrorKind found) {
  Replay replay;
  replay.found = found;
  return replay;
}

RSSM_HOST_DEVICE Replay commit_row(const ReplayArgs& args, const LayerArgs& layer, const PlanColumns& plan, std::int64_t i) {
  // All loads at once: what a dead row has in the other columns is not looked at, but it is there.
  const std::int32_t len = value_at(plan.commit_len, i), source = value_at(plan.state_indices, i),
                     final = value_at(plan.final_indices, i), boundary = value_at(plan.boundary_indices, i),
                     written_len = value_at(plan.boundary_len, i);
  if (is_dead_commit(len, source, final, args.null_block_id)) return {};
  const bool bounded = !is_null(boundary, args.null_block_id);
  const std::int32_t boundary_len = bounded ? written_len : 0;
  const auto in_pool = [&](std::int32_t block) { return block >= 0 && block < layer.blocks; };
  if (len < 0 || len > args.capacity || !in_pool(source) || !in_pool(final) ||
      (bounded && (!in_pool(boundary) || boundary_len < 1 || boundary_len > len))) {
    return found_wrong(ErrorKind::out_of_range);
  }
  Replay replay = {source, final, boundary, len, boundary_len, true, ErrorKind::ok};
  if (layer.pending == nullptr) return replay;
  // No more than waits, and no boundary beyond that; where nothing waits nothing changes.
  const std::int32_t pending = layer.pending[source * layer.pending_stride];
  if (pending < 0 || pending > args.capacity) return found_wrong(ErrorKind::out_of_range);
  if (pending == 0) return found_wrong(final == source ? ErrorKind::ok : ErrorKind::bad_state);
  replay.len = len < pending ? len : pending;
  if (replay.boundary_len > replay.len) replay.boundary_len = 0;
  return replay;
}

RSSM_HOST_DEVICE Replay materialize_row(const ReplayArgs& args, const LayerArgs& layer, const PlanColumns& list, std::int64_t i) {
  const std::int32_t block = value_at(list.state_indices, i);
  if (is_null(block, args.null_block_id)) return {};
  if (block < 0 || block >= layer.blocks) return found_wrong(ErrorKind::out_of_range);
  const std::int32_t accepted = value_at(list.commit_len, i), pending = layer.pending[block * layer.pending_stride];
  if (!waiting_in_range(accepted, pending, layer.capacity)) return found_wrong(ErrorKind::out_of_range);
  return {block, block, 0, static_cast<std::int32_t>(lazy_fold_count(accepted, pending)), 0, true, ErrorKind::ok};
}

RSSM_HOST_DEVICE Replay replay_row(const ReplayArgs& args, const LayerArgs& layer, std::int64_t i) {
  const PlanColumns& plan = args.groups[layer.group];
  if (i >= plan.rows) return {};
  return args.of == ReplayOf::commit ? commit_row(args, layer, plan, i) : materialize_row(args, layer, plan, i);
}

// ---- lines: bits of one channel, moved by whoever owns it

RSSM_HOST_DEVICE std::byte* line_at(const LayerArgs& layer, std::int64_t block, std::int64_t channel) {
  return layer.line + block * layer.line_stride[0] + channel * layer.line_stride[2];
}

// Positions start.. of `from` to the history of `to`, in rising positions: in place nothing is overwritten before it is read.
RSSM_HOST_DEVICE void move_history(const LayerArgs& layer, std::int64_t channel, std::int32_t from, std::int64_t start,
                                   std::int32_t to) {
  const int size = float_size(layer.line_dtype);
  const std::int64_t position = layer.line_stride[1];
  const std::byte* source = line_at(layer, from, channel) + start * position;
  std::byte* target = line_at(layer, to, channel);
  for (int p = 0; p < layer.history; ++p) copy_element(target + p * position, source + p * position, size);
}

// Final and boundary histories of a channel. Both come from the source, so whichever of them lies in the source goes last; where both are
// one block the final one, which is stored after it, is what remains.
RSSM_HOST_DEVICE void replay_channel(const LayerArgs& layer, const Replay& replay, std::int64_t channel) {
  const std::int64_t final_start = committed_history_start(layer.line_kind, replay.len);
  const std::int64_t boundary_start = committed_history_start(layer.line_kind, replay.boundary_len);
  const bool bounded = replay.boundary_len > 0 && replay.boundary != replay.final;
  if (bounded && replay.boundary != replay.source) move_history(layer, channel, replay.source, boundary_start, replay.boundary);
  move_history(layer, channel, replay.source, final_start, replay.final);
  if (bounded && replay.boundary == replay.source) move_history(layer, channel, replay.source, boundary_start, replay.source);
}

}  // namespace recoverssm::device
