// commit on the CPU: one task is one head, or one tile of the conv line, of one row of one layer. A task loads what it needs of the source
// before it stores anything, which makes one pass safe in every alias class.

#include "cpu/ops.h"
#include "cpu/replay.h"

namespace recoverssm::cpu {
namespace {

struct PlannedRow {
  bool dead = true;
  Replay replay;
};

PlannedRow planned_row(const CommitGroup& group, std::int64_t i, std::int32_t null_block_id) {
  PlannedRow row;
  const std::int32_t len = i32_at(group.commit_len, i);
  const std::int32_t source = i32_at(group.state_indices, i);
  const std::int32_t final_block = i32_at(group.final_indices, i);
  if (is_dead_commit(len, source, final_block, null_block_id)) return row;
  const std::int32_t boundary = i32_at(group.boundary_indices, i);
  row.dead = false;
  row.replay.source = source;
  row.replay.final = final_block;
  row.replay.len = len;
  if (!is_null(boundary, null_block_id)) {
    row.replay.boundary = boundary;
    row.replay.boundary_len = i32_at(group.boundary_len, i);
  }
  return row;
}

// What this layer replays of a planned row: with pending, no more than waits, and no boundary beyond that.
Replay layer_replay(const Layer& layer, Replay replay) {
  if (!layer.pending.present()) return replay;
  replay.len = std::min<std::int64_t>(replay.len, i32_at(layer.pending, replay.source));
  if (replay.boundary_len > replay.len) replay.boundary_len = 0;
  return replay;
}

// Calls f(row) for every live row of a group.
template <class F>
void for_live_rows(const CommitGroup& group, std::int32_t null_block_id, F&& f) {
  for (std::int64_t i = 0; i < group.state_indices.shape[0]; ++i) {
    const PlannedRow row = planned_row(group, i, null_block_id);
    if (!row.dead) f(row.replay);
  }
}

// Only after every task of the layer has read the counts. In the lazy form no two live rows share a block.
void clear_pending(const Layer& layer, const CommitGroup& group, std::int32_t null_block_id) {
  for_live_rows(group, null_block_id, [&](const Replay& planned) {
    const Replay replay = layer_replay(layer, planned);
    if (replay.len == 0) return;  // nothing waited: nothing changes
    if (replay.boundary_len > 0) store_i32(layer.pending, 0, replay.boundary);
    store_i32(layer.pending, 0, replay.final);
    store_i32(layer.pending, 0, replay.source);
  });
}

}  // namespace

std::size_t scratch_size(const CommitParams& params, int workers) {
  return for_workers(replay_scratch_bytes(params.layers), workers);
}

void execute(const CommitParams& p, const Execution& e) {
  const std::size_t worker_bytes = replay_scratch_bytes(p.layers);
  for (const Layer& layer : p.layers) {
    const CommitGroup& group = p.groups[static_cast<std::size_t>(layer.group)];
    const std::int64_t rows = group.state_indices.shape[0];
    const std::int64_t tasks = row_tasks(layer);
    parallel_for(e, rows * tasks, [&](std::int64_t task, int worker) {
      const PlannedRow row = planned_row(group, task / tasks, p.null_block_id);
      if (row.dead) return;
      const Replay replay = layer_replay(layer, row.replay);
      if (replay.len > 0) replay_task(e, layer, replay, task % tasks, worker_bytes, worker);
    });
    if (e.counters != nullptr) {
      for_live_rows(group, p.null_block_id, [&](const Replay& planned) {
        const Replay replay = layer_replay(layer, planned);
        if (replay.len > 0) count_replay(layer, replay, /*with_line=*/true, *e.counters);
      });
    }
    if (layer.pending.present()) clear_pending(layer, group, p.null_block_id);
  }
  if (e.counters == nullptr) return;
  for (const CommitGroup& group : p.groups) {
    for_live_rows(group, p.null_block_id, [&](const Replay& planned) {
      e.counters->rows += 1;
      e.counters->tokens += planned.len;
    });
  }
}

}  // namespace recoverssm::cpu
