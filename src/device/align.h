// align_move and align_advance in kernels, but for the copying: which rows move, and what a row's bookkeeping becomes.
#pragma once

#include <cstdint>

#include "contract/plan_rules.h"
#include "device/rows.h"

namespace recoverssm::device {

// One layer of align_move, packed: several travel in a kernel's parameters.
struct MoveLayer {
  std::byte* state = nullptr;
  std::int64_t state_block = 0, state_bytes = 0;  // bytes from block to block, and of a block
  std::byte* line = nullptr;
  std::int64_t line_stride[3] = {};  // elements
  std::int32_t* pending = nullptr;
  std::int64_t pending_stride = 0;
  std::int64_t blocks = 0;  // the smallest pool's
  std::int32_t channels = 0, history = 0, line_size = 0, index = 0;
};

constexpr int kMoveLayers = 16;

struct MoveArgs {
  MoveLayer layers[kMoveLayers];
  Column from, to;
  std::int32_t null_block_id = 0;
  Reporter reporter;
};

struct Move {
  std::int32_t from = 0, to = 0;
  bool moves = false;
  ErrorKind found = ErrorKind::ok;
};

RSSM_HOST_DEVICE Move move_row(const MoveArgs& args, const MoveLayer& layer, std::int64_t i) {
  Move move = {value_at(args.from, i), value_at(args.to, i)};
  if (is_null(move.from, args.null_block_id) || is_null(move.to, args.null_block_id)) return move;
  const auto in_pool = [&](std::int32_t block) { return block >= 0 && block < layer.blocks; };
  if (!in_pool(move.from) || !in_pool(move.to)) {
    move.found = ErrorKind::out_of_range;
  } else if (move.from != move.to) {
    const std::int32_t waiting = layer.pending == nullptr ? 0 : layer.pending[move.from * layer.pending_stride];
    if (waiting != 0) move.found = waiting > 0 ? ErrorKind::bad_state : ErrorKind::out_of_range;
    move.moves = waiting == 0;
  }
  return move;
}

struct AdvanceArgs {
  Column commit_len, state_indices, request_index, num_computed, running_column, num_accepted;
  std::int64_t rows = 0, requests = 0, block_size = 0;
  std::int32_t null_block_id = 0;
  Reporter reporter;
};

// Row i; what to report.
RSSM_HOST_DEVICE ErrorKind advance_row(const AdvanceArgs& args, std::int64_t i) {
  const std::int32_t commit_len = value_at(args.commit_len, i);
  if (commit_len == 0 || is_null(value_at(args.state_indices, i), args.null_block_id)) return ErrorKind::ok;  // dead: keeps both
  const std::int64_t request = args.request_index.data == nullptr ? i : value_at(args.request_index, i);
  if (commit_len < 0 || request < 0 || request >= args.requests) return ErrorKind::out_of_range;
  const std::int64_t num_computed = value_at(args.num_computed, request);
  const std::int64_t column = state_column(num_computed + commit_len, args.block_size);
  if (num_computed < 0 || column > INT32_MAX) return ErrorKind::out_of_range;
  value_at(args.running_column, request) = static_cast<std::int32_t>(column);
  value_at(args.num_accepted, request) = 1;
  return ErrorKind::ok;
}

}  // namespace recoverssm::device
