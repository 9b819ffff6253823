// align_move and align_advance: what happens to blocks and counts around a step of a prefix-caching engine.
#include <cstring>

#include "contract/plan_rules.h"
#include "contract/rules.h"
#include "cpu/line.h"
#include "cpu/ops.h"
#include "cpu/view.h"

namespace recoverssm::cpu {
namespace {

bool moves(std::int32_t from, std::int32_t to, std::int32_t null_block_id) {
  return from != to && !is_null(from, null_block_id) && !is_null(to, null_block_id);
}

std::int64_t moved_state_bytes(const Layer& layer) { return layer.state.present() ? state_bytes(layer.state) : 0; }

std::int64_t history_bytes(const Layer& layer) {
  return layer.line.present() ? (layer.conv_taps - 1) * layer.line.shape[2] * size_of(layer.line.dtype) : 0;
}

// Records stay behind: a source with records that wait is refused, so the checkpoint is all there is.
void move_block(const Layer& layer, std::int32_t from, std::int32_t to) {
  if (layer.state.present()) {
    // A state's elements are contiguous within its block.
    std::memcpy(at(layer.state, to), at(layer.state, from), static_cast<std::size_t>(state_bytes(layer.state)));
  }
  if (layer.line.present()) {
    const std::int64_t C = layer.line.shape[2];
    const LineTile source(layer.line, from, 0, C), destination(layer.line, to, 0, C);
    for (std::int64_t p = 0; p < layer.conv_taps - 1; ++p) destination.store(p, source.position(p));
  }
  if (layer.pending.present()) store_i32(layer.pending, 0, to);
}

}  // namespace

std::size_t scratch_size(const AlignMoveParams&, int) { return 0; }
std::size_t scratch_size(const AlignAdvanceParams&, int) { return 0; }

void execute(const AlignMoveParams& p, const Execution& e) {
  const std::int64_t rows = p.from.shape[0];
  // No row's destination is another row's source or destination, so rows and layers go in any order.
  parallel_for(e, rows * static_cast<std::int64_t>(p.layers.size()), [&](std::int64_t task, int) {
    const Layer& layer = p.layers[static_cast<std::size_t>(task / rows)];
    const std::int32_t from = i32_at(p.from, task % rows), to = i32_at(p.to, task % rows);
    if (moves(from, to, p.null_block_id)) move_block(layer, from, to);
  });

  if (e.counters == nullptr) return;
  for (std::int64_t i = 0; i < rows; ++i) {
    if (!moves(i32_at(p.from, i), i32_at(p.to, i), p.null_block_id)) continue;
    e.counters->rows += 1;
    for (const Layer& layer : p.layers) {
      e.counters->state_read += moved_state_bytes(layer);
      e.counters->state_written += moved_state_bytes(layer);
      e.counters->line_read += history_bytes(layer);
      e.counters->line_written += history_bytes(layer);
    }
  }
}

void execute(const AlignAdvanceParams& p, const Execution& e) {
  for (std::int64_t i = 0; i < p.commit_len.shape[0]; ++i) {
    const std::int32_t commit_len = i32_at(p.commit_len, i);
    if (commit_len <= 0 || is_null(i32_at(p.state_indices, i), p.null_block_id)) continue;  // dead: keeps both
    const std::int64_t request = p.request_index.present() ? i32_at(p.request_index, i) : i;
    const std::int64_t after = std::int64_t{i32_at(p.num_computed, request)} + commit_len;
    store_i32(p.running_column, static_cast<std::int32_t>(state_column(after, p.block_size)), request);
    store_i32(p.num_accepted, 1, request);
    if (e.counters != nullptr) {
      e.counters->rows += 1;
      e.counters->tokens += commit_len;
    }
  }
}

}  // namespace recoverssm::cpu
