// The rows of a call in kernels: reads index data in the contract's order. Scalar code for any device; who runs it, and how a finding gets to
// the caller's flag, is the backend's matter.
#pragma once

#include <cstdint>

#include "contract/row_rules.h"
#include "device/view.h"
#include "recoverssm/rows.hpp"

namespace recoverssm::device {

// Where findings go, and what they say of the call.
struct Reporter {
  DeviceFlag* flag = nullptr;
  Operation op{};
};

struct RowsArgs {
  View query_start_loc, state_indices, has_initial_state, num_accepted, token_index;
  std::int64_t rows = 0;
  std::int64_t capacity = 0;     // S of windows; 0: plain rows
  std::int64_t tokens = 0;       // local tokens that offsets may reach
  std::int64_t global_rows = 0;  // rows that token_index may name
  std::int64_t blocks = 0;
  std::int32_t null_block_id = 0;
  Reporter reporter;
};

// local_tokens: what the locally addressed tensors have room for; INT64_MAX where there are none.
inline RowsArgs rows_args(const Rows& rows, std::int64_t capacity, std::int64_t local_tokens, std::int64_t global_rows,
                          std::int64_t blocks, Operation op, const Launch& launch) {
  RowsArgs args;
  args.query_start_loc = view_of(rows.query_start_loc);
  args.state_indices = view_of(rows.state_indices);
  args.has_initial_state = view_of(rows.has_initial_state);
  args.num_accepted = view_of(rows.num_accepted);
  args.token_index = view_of(rows.token_index);
  args.rows = rows.state_indices.shape[0];
  args.capacity = capacity;
  args.tokens = rows.token_index.present() ? min64(local_tokens, rows.token_index.shape[0]) : min64(local_tokens, global_rows);
  args.global_rows = global_rows;
  args.blocks = blocks;
  args.null_block_id = rows.null_block_id;
  args.reporter = {launch.flag, op};
  return args;
}

RSSM_HOST_DEVICE std::int64_t global_row(const RowsArgs& args, std::int64_t token) {
  return args.token_index.present ? i32_at(args.token_index, token) : token;
}

RSSM_HOST_DEVICE bool names_a_row(const RowsArgs& args, std::int64_t token) {
  const std::int32_t global = i32_at(args.token_index, token);
  return global >= 0 && global < args.global_rows;
}

RSSM_HOST_DEVICE bool starts_from_block(const RowsArgs& args, std::int64_t i) {
  return !args.has_initial_state.present || bool_at(args.has_initial_state, i);
}

RSSM_HOST_DEVICE DeviceRow offsets_of(const RowsArgs& args, std::int64_t i) {
  return row_of_offsets(i32_at(args.query_start_loc, i), i32_at(args.query_start_loc, i + 1), args.tokens);
}

// Row i of an op with one block a row. Not yet looked at: token_index, and what the op itself wants of a live row.
RSSM_HOST_DEVICE DeviceRow row_of(const RowsArgs& args, std::int64_t i) {
  DeviceRow row = offsets_of(args, i);
  if (row.kind != DeviceRowKind::skip)
    give_block(row, i32_at(args.state_indices, i), args.null_block_id, args.capacity, args.blocks);
  return row;
}

// A row with a token_index entry that names no row writes nothing.
RSSM_HOST_DEVICE void drop_row(DeviceRow& row) {
  row.kind = DeviceRowKind::skip;
  row.length = 0;
  row.found = ErrorKind::out_of_range;
}

// Takes a live row's waiting records. `capacity`: S of the records. Returns how many to fold first.
RSSM_HOST_DEVICE int take_waiting(const RowsArgs& rows, const View& pending, std::int64_t capacity, std::int64_t i,
                                  DeviceRow& row) {
  const std::int32_t accepted = i32_at(rows.num_accepted, i), waiting = i32_at(pending, row.block);
  if (waiting_in_range(accepted, waiting, capacity)) return static_cast<int>(lazy_fold_count(accepted, waiting));
  make_null(row, ErrorKind::out_of_range);
  return 0;
}

// Row i of a window op with records, and its waiting records.
RSSM_HOST_DEVICE DeviceRow verify_row(const RowsArgs& rows, const View& pending, std::int64_t i, int& waiting) {
  waiting = 0;
  DeviceRow row = row_of(rows, i);
  if (row.kind == DeviceRowKind::live && pending.present) waiting = take_waiting(rows, pending, rows.capacity, i, row);
  return row;
}

// Plain row i, whether it starts from its block, and its waiting records; the count of a row that starts from zero is not read.
RSSM_HOST_DEVICE DeviceRow plain_row(const RowsArgs& rows, const View& pending, std::int64_t record_capacity, std::int64_t i,
                                     bool& from_block, int& waiting) {
  waiting = 0;
  from_block = false;
  DeviceRow row = row_of(rows, i);
  if (row.kind != DeviceRowKind::live) return row;
  from_block = starts_from_block(rows, i);
  if (from_block && pending.present) waiting = take_waiting(rows, pending, record_capacity, i, row);
  return row;
}

// Row i of snapshots, its block being the start state's. Nothing but the offsets of an empty row is read, of a row with a null start no
// column.
RSSM_HOST_DEVICE DeviceRow snapshots_row(const RowsArgs& rows, std::int64_t i) {
  DeviceRow row = offsets_of(rows, i);
  if (row.kind == DeviceRowKind::skip) return row;
  const std::int64_t count = i32_at(rows.num_accepted, i);
  if (row.length > rows.capacity || count > rows.capacity) {
    make_null(row, ErrorKind::out_of_range);
    return row;
  }
  give_block(row, i32_at(rows.state_indices, i, snapshot_start_column(count)), rows.null_block_id, rows.capacity, rows.blocks);
  if (row.kind != DeviceRowKind::live) return row;
  for (std::int64_t t = 0; t < row.length; ++t) {
    const std::int32_t block = i32_at(rows.state_indices, i, t);
    if (!is_null(block, rows.null_block_id) && (block < 0 || block >= rows.blocks)) make_null(row, ErrorKind::out_of_range);
  }
  return row;
}

}  // namespace recoverssm::device
