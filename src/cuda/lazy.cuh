// Rows that may find waiting records in their block (lazy form), and rows of snapshots: what the delta rules and gdn_attention must agree on.
#pragma once

#include "cuda/rows.cuh"

namespace recoverssm::cuda {

// Takes a live row's waiting records. `capacity`: S of the records. Returns how many to fold first.
__device__ __forceinline__ int take_waiting(const RowsArgs& rows, const View& pending, std::int64_t capacity, std::int64_t i,
                                            DeviceRow& row) {
  const std::int32_t accepted = i32_at(rows.num_accepted, i), waiting = i32_at(pending, row.block);
  if (waiting_in_range(accepted, waiting, capacity)) return static_cast<int>(lazy_fold_count(accepted, waiting));
  make_null(row, ErrorKind::out_of_range);
  return 0;
}

// Row i of a window op with records, and its waiting records.
__device__ __forceinline__ DeviceRow verify_row(const RowsArgs& rows, const View& pending, std::int64_t i, int& waiting) {
  waiting = 0;
  DeviceRow row = row_of(rows, i);
  if (row.kind == DeviceRowKind::live && pending.present) waiting = take_waiting(rows, pending, rows.capacity, i, row);
  return row;
}

// Plain row i, whether it starts from its block, and its waiting records; the count of a row that starts from zero is not read.
__device__ __forceinline__ DeviceRow plain_row(const RowsArgs& rows, const View& pending, std::int64_t record_capacity,
                                               std::int64_t i, bool& from_block, int& waiting) {
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
__device__ __forceinline__ DeviceRow snapshots_row(const RowsArgs& rows, std::int64_t i) {
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

}  // namespace recoverssm::cuda
