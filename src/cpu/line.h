// A tile of channels of one block's conv line, and the updates a row makes to it. A line moves bits: nothing here widens, rounds or
// looks at a value, so a NaN payload survives. Every position is a row of channels with any strides, so both memory orders
// ([blocks, cols, C] and [blocks, C, cols]) and interleaved pools are the same code.
#pragma once

#include <cstdint>
#include <cstring>

#include "contract/rules.h"
#include "cpu/view.h"
#include "recoverssm/rows.hpp"

namespace recoverssm::cpu {

// Copies n elements of `size` bytes (2 or 4) between two runs; strides in bytes. The runs are disjoint.
inline void copy_elements(const std::byte* from, std::int64_t from_stride, std::byte* to, std::int64_t to_stride, std::int64_t n,
                          std::int64_t size) {
  if (n <= 0) return;
  if (from_stride == size && to_stride == size) {
    std::memcpy(to, from, static_cast<std::size_t>(n * size));
  } else if (size == 2) {
    for (std::int64_t i = 0; i < n; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, 2);
  } else {
    for (std::int64_t i = 0; i < n; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, 4);
  }
}

// All bits zero: +0 in every dtype.
inline void clear_elements(std::byte* to, std::int64_t stride, std::int64_t n, std::int64_t size) {
  if (n <= 0) return;
  if (stride == size) {
    std::memset(to, 0, static_cast<std::size_t>(n * size));
  } else {
    for (std::int64_t i = 0; i < n; ++i) std::memset(to + i * stride, 0, static_cast<std::size_t>(size));
  }
}

// A run of elements with a stride in bytes: one position of a line, or one token of a tensor.
struct Run {
  std::byte* data;
  std::int64_t stride;
};

class LineTile {
 public:
  // Channels first_channel .. first_channel + channels - 1 of `line` [blocks, cols, C] in one block.
  LineTile(const TensorView& line, std::int64_t block, std::int64_t first_channel, std::int64_t channels)
      : base_(at(line, block, 0, first_channel)),
        size_(size_of(line.dtype)),
        position_stride_(line.stride[1] * size_),
        channel_stride_(line.stride[2] * size_),
        channels_(channels) {}

  Run position(std::int64_t p) const { return {base_ + p * position_stride_, channel_stride_}; }

  void store(std::int64_t p, Run from) const {
    const Run to = position(p);
    copy_elements(from.data, from.stride, to.data, to.stride, channels_, size_);
  }
  void move(std::int64_t from, std::int64_t to) const {
    if (from != to) store(to, position(from));
  }
  void clear(std::int64_t p) const { clear_elements(position(p).data, channel_stride_, channels_, size_); }

 private:
  std::byte* base_;
  std::int64_t size_, position_stride_, channel_stride_, channels_;
};

// One row of a convolution, as far as its line is concerned.
struct ConvRow {
  std::int64_t first = 0;   // first local token
  std::int64_t length = 0;  // 0: nothing else was read
  std::int32_t block = 0;
  bool null = false;               // outputs become 0; nothing below was read
  bool has_history = true;         // false: zeros, by selection
  std::int64_t history_start = 0;  // line position of the oldest history entry
};

inline ConvRow conv_row(const Rows& rows, LineKind kind, std::int64_t i) {
  ConvRow row;
  row.first = i32_at(rows.query_start_loc, i);
  row.length = i32_at(rows.query_start_loc, i + 1) - row.first;
  if (row.length <= 0) return row;
  row.block = i32_at(rows.state_indices, i);
  row.null = is_null(row.block, rows.null_block_id);
  if (row.null) return row;
  row.has_history = !rows.has_initial_state.present() || bool_at(rows.has_initial_state, i);
  if (!row.has_history) return row;  // its count is not read
  row.history_start = history_start(kind, rows.num_accepted.present() ? i32_at(rows.num_accepted, i) : compacted_count(kind));
  return row;
}

// The two updates below shift towards position 0 in rising order, so no entry is overwritten before it has been moved. `history` is
// the number of history positions (W-1), input(t) the Run of the row's token t.

// Plain row: positions 0..history-1 become the last `history` entries of history ++ inputs; later positions stay.
template <class Input>
void update_plain_line(const LineTile& line, const ConvRow& row, std::int64_t history, Input&& input) {
  for (std::int64_t j = 0; j < history; ++j) {
    const std::int64_t entry = row.length + j;
    if (entry >= history) {
      line.store(j, input(entry - history));
    } else if (row.has_history) {
      line.move(row.history_start + entry, j);
    } else {
      line.clear(j);
    }
  }
}

// History entries a window keeps in front of its inputs: all of them (anchored), or all but the oldest (rolled).
inline std::int64_t kept_history(LineKind kind, std::int64_t history) { return window_input_start(kind, history + 1); }

// Window: the newest kept_history entries to the front, the inputs behind them; later positions stay.
template <class Input>
void update_window_line(const LineTile& line, LineKind kind, const ConvRow& row, std::int64_t history, Input&& input) {
  const std::int64_t kept = kept_history(kind, history);
  for (std::int64_t j = 0; j < kept; ++j) line.move(row.history_start + (history - kept) + j, j);
  for (std::int64_t t = 0; t < row.length; ++t) line.store(kept + t, input(t));
}

// Positions the updates above write.
inline std::int64_t plain_positions_written(std::int64_t history) { return history; }
inline std::int64_t window_positions_written(LineKind kind, const ConvRow& row, std::int64_t history) {
  const std::int64_t kept = kept_history(kind, history);
  const bool shifts = row.history_start + history - kept > 0;
  return (shifts ? kept : 0) + row.length;
}

}  // namespace recoverssm::cpu
