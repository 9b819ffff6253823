// materialize on the CPU: folds waiting records into their own block and clears the counts. A rolled line is left alone: its history is
// read at num_accepted by the next convolution.

#include "cpu/ops.h"
#include "cpu/replay.h"

namespace recoverssm::cpu {
namespace {

Replay block_replay(const MaterializeParams& p, const Layer& layer, std::int64_t i) {
  Replay replay;
  replay.source = replay.final = i32_at(p.blocks, i);
  replay.len = lazy_fold_count(i32_at(p.num_accepted, i), i32_at(layer.pending, replay.source));
  return replay;
}

bool moves_line(const Layer& layer) { return layer.line.present() && layer.line_kind == LineKind::anchored; }

std::int64_t tasks_of(const Layer& layer) { return head_tasks(layer) + (moves_line(layer) ? line_tasks(layer) : 0); }

}  // namespace

std::size_t scratch_size(const MaterializeParams& params, int workers) {
  return for_workers(replay_scratch_bytes(params.layers), workers);
}

void execute(const MaterializeParams& p, const Execution& e) {
  const std::size_t worker_bytes = replay_scratch_bytes(p.layers);
  const std::int64_t blocks = p.blocks.shape[0];
  for (const Layer& layer : p.layers) {
    const std::int64_t tasks = tasks_of(layer);
    parallel_for(e, blocks * tasks, [&](std::int64_t task, int worker) {
      if (is_null(i32_at(p.blocks, task / tasks), p.null_block_id)) return;
      const Replay replay = block_replay(p, layer, task / tasks);
      if (replay.len > 0) replay_task(e, layer, replay, task % tasks, worker_bytes, worker);
    });
    for (std::int64_t i = 0; i < blocks; ++i) {
      if (is_null(i32_at(p.blocks, i), p.null_block_id)) continue;
      const Replay replay = block_replay(p, layer, i);
      if (e.counters != nullptr && replay.len > 0) count_replay(layer, replay, moves_line(layer), *e.counters);
      // Only now: every task of the block has read the count.
      store_i32(layer.pending, 0, replay.source);
    }
  }
  if (e.counters == nullptr) return;
  for (std::int64_t i = 0; i < blocks; ++i) {
    if (!is_null(i32_at(p.blocks, i), p.null_block_id)) e.counters->rows += 1;
  }
}

}  // namespace recoverssm::cpu
