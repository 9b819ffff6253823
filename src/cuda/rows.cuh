// The rows of a call on the device: reads index data in the contract's order, raises the caller's flag.
#pragma once

#include <cstdint>

#include "contract/row_rules.h"
#include "cuda/dependent.cuh"
#include "cuda/view.cuh"
#include "recoverssm/rows.hpp"

namespace recoverssm::cuda {

// Where findings go, and what they say of the call.
struct Reporter {
  DeviceFlag* flag = nullptr;
  Operation op{};
};

// First writer wins. Any number of threads may report one finding.
__device__ inline void report(const Reporter& reporter, ErrorKind code, std::int64_t row, std::int64_t layer = 0) {
  if (reporter.flag == nullptr || code == ErrorKind::ok) return;
  if (atomicCAS(&reporter.flag->code, 0, static_cast<int>(code)) != 0) return;
  reporter.flag->op = static_cast<std::int32_t>(reporter.op);
  reporter.flag->layer = static_cast<std::int32_t>(layer);
  reporter.flag->row = static_cast<std::int32_t>(row);
}

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

__device__ __forceinline__ std::int64_t global_row(const RowsArgs& args, std::int64_t token) {
  return args.token_index.present ? i32_at(args.token_index, token) : token;
}

__device__ __forceinline__ bool starts_from_block(const RowsArgs& args, std::int64_t i) {
  return !args.has_initial_state.present || bool_at(args.has_initial_state, i);
}

__device__ __forceinline__ DeviceRow offsets_of(const RowsArgs& args, std::int64_t i) {
  return row_of_offsets(i32_at(args.query_start_loc, i), i32_at(args.query_start_loc, i + 1), args.tokens);
}

// Where row i's index data is, and what it is held against: there before a kernel may read anything, so that nothing but the reading comes after.
struct RowSource {
  const std::int32_t *begin, *end, *block;
  std::int64_t tokens, capacity, blocks;
  std::int32_t null_block_id;
};

__device__ __forceinline__ RowSource row_source(const RowsArgs& args, std::int64_t i) {
  const auto* const offsets = reinterpret_cast<const std::int32_t*>(args.query_start_loc.data);
  return {offsets + offset_of(args.query_start_loc, i),
          offsets + offset_of(args.query_start_loc, i + 1),
          reinterpret_cast<const std::int32_t*>(args.state_indices.data) + offset_of(args.state_indices, i),
          args.tokens,
          args.capacity,
          args.blocks,
          args.null_block_id};
}

__device__ __forceinline__ void settle(RowSource& source) {
  settle(source.begin);
  settle(source.end);
  settle(source.block);
  settle(source.tokens, source.capacity, source.blocks);
  asm volatile("" : "+r"(source.null_block_id));
}

// A row of an op with one block a row. Every thread of a block of threads calls it with one i, and gets the same answer; the first one
// reports. Not yet looked at: token_index (see drop_bad_tokens) and what the op itself wants of a live row.
__device__ __forceinline__ DeviceRow row_of(const RowSource& source) {
  const std::int32_t begin = *source.begin, end = *source.end;
  const std::int32_t block = *source.block;  // read beside the offsets, not after them; used only of a row with tokens
  DeviceRow row = row_of_offsets(begin, end, source.tokens);
  if (row.kind != DeviceRowKind::skip) give_block(row, block, source.null_block_id, source.capacity, source.blocks);
  return row;
}
__device__ __forceinline__ DeviceRow row_of(const RowsArgs& args, std::int64_t i) { return row_of(row_source(args, i)); }

// Called by all threads of a block: a row with a token_index entry that names no row writes nothing.
__device__ inline void drop_bad_tokens(const RowsArgs& args, DeviceRow& row) {
  if (!args.token_index.present || row.kind == DeviceRowKind::skip) return;
  int bad = 0;
  for (std::int64_t t = threadIdx.x; t < row.length; t += blockDim.x) {
    const std::int32_t global = i32_at(args.token_index, row.begin + t);
    bad |= global < 0 || global >= args.global_rows;
  }
  if (!__syncthreads_or(bad)) return;
  row.kind = DeviceRowKind::skip;
  row.length = 0;
  row.found = ErrorKind::out_of_range;
}

__device__ __forceinline__ void report_row(const RowsArgs& args, const DeviceRow& row, std::int64_t i) {
  if (threadIdx.x == 0) report(args.reporter, row.found, i);
}

}  // namespace recoverssm::cuda
