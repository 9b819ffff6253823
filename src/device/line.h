// Conv lines in kernels: one channel of one block's line, and the updates a row makes to it. Whoever runs this owns the channel, so that
// nothing here needs anybody else. A line moves bits, nothing looks at a value. The same rules as src/cpu/line.h.
#pragma once

#include <cstdint>

#include "contract/rules.h"
#include "device/raw.h"
#include "device/rows.h"

namespace recoverssm::device {

// Bits: an unsigned integer of the element's size.
template <class Bits>
class LineChannel {
 public:
  RSSM_HOST_DEVICE LineChannel(const View& line, std::int64_t block, std::int64_t channel)
      : base_(at(line, block, 0, channel)), position_(line.stride[1]) {}

  RSSM_HOST_DEVICE Bits load(std::int64_t p) const { return *reinterpret_cast<const Bits*>(base_ + p * position_); }
  RSSM_HOST_DEVICE void store(std::int64_t p, Bits bits) const { *reinterpret_cast<Bits*>(base_ + p * position_) = bits; }

 private:
  std::byte* base_;
  std::int64_t position_;  // bytes
};

// What the rows of a convolution say of their lines.
struct LineArgs {
  View view;  // [blocks, columns, C]
  std::int64_t columns = 0;
  std::int64_t history = 0;  // W-1, or (Kc-1)*dilation
  LineKind kind{};
};

inline LineArgs line_args(const TensorView& line, LineKind kind, std::int64_t history) {
  return {view_of(line), line.shape[1], history, kind};
}

struct LineRow {
  DeviceRow row;
  bool has_history = true;         // false: zeros, by selection
  std::int64_t history_start = 0;  // line position of the oldest history entry
};

// Row i, whose block and tokens have been looked at, ready to run. A count that names a history past the line, or above S, makes a null
// row; the count of a row without initial state is not read.
RSSM_HOST_DEVICE LineRow line_row(const RowsArgs& rows, const LineArgs& line, std::int64_t i, const DeviceRow& row) {
  LineRow r;
  r.row = row;
  if (row.kind != DeviceRowKind::live) return r;
  r.has_history = starts_from_block(rows, i);
  if (!r.has_history) return r;
  const std::int64_t count = rows.num_accepted.present ? i32_at(rows.num_accepted, i) : compacted_count(line.kind);
  r.history_start = history_start(line.kind, count);
  const bool above_capacity = rows.num_accepted.present && rows.capacity > 0 && count > rows.capacity;
  if (above_capacity || r.history_start + line.history > line.columns) make_null(r.row, ErrorKind::out_of_range);
  return r;
}

// The two updates shift towards position 0 in rising order, so no entry is overwritten before it has been moved. input(t) gives the bits of the
// row's token t.

// Plain row: positions 0..history-1 become the last `history` entries of history ++ inputs; later positions stay.
template <class Bits, class Input>
RSSM_HOST_DEVICE void update_plain_line(const LineChannel<Bits>& line, const LineRow& r, std::int64_t history, Input&& input) {
  for (std::int64_t j = 0; j < history; ++j) {
    const std::int64_t entry = r.row.length + j;
    Bits bits = 0;
    if (entry >= history) {
      bits = input(entry - history);
    } else if (r.has_history) {
      bits = line.load(r.history_start + entry);
    }
    line.store(j, bits);
  }
}

// Window: the newest history entries to the front (all of an anchored line, all but the oldest of a rolled one), the inputs behind them;
// later positions stay.
template <class Bits, class Input>
RSSM_HOST_DEVICE void update_window_line(const LineChannel<Bits>& line, const LineRow& r, const LineArgs& args, Input&& input) {
  const std::int64_t kept = window_input_start(args.kind, args.history + 1);
  const std::int64_t shift = r.history_start + (args.history - kept);
  if (shift > 0) {
    for (std::int64_t j = 0; j < kept; ++j) line.store(j, line.load(shift + j));
  }
  for (std::int64_t t = 0; t < r.row.length; ++t) line.store(kept + t, input(t));
}

}  // namespace recoverssm::device
