// gdn_attention's look at its rows, in kernels: convolution and delta rule must agree on which of them are null and on what the line is read at.
#pragma once

#include <cstdint>

#include "device/packed.h"
#include "device/rows.h"

namespace recoverssm::device {

enum class PartKind : std::uint8_t { plain, snapshots, verify };

struct PartArgs {
  RowsArgs rows;
  View qkvz, ba, z, b, a, pending;
  PackedSizes sizes;
  PartKind kind{};
  LineKind line_kind{};
  std::int64_t record_capacity = 0;
  std::int64_t history = 0, columns = 0;  // of the line
  std::int32_t* ids = nullptr;            // [N] blocks for the convolution and, but for snapshots, the rule; null where the row is
  std::int32_t* counts = nullptr;         // [N] num_accepted as the line uses it
};

// What a row's line is read at.
struct LineUse {
  std::int32_t block = 0;
  std::int32_t count = 0;
};

RSSM_HOST_DEVICE DeviceRow look_at_row(const PartArgs& args, std::int64_t i, LineUse& use) {
  use = {args.rows.null_block_id, static_cast<std::int32_t>(compacted_count(args.line_kind))};
  const bool counted = args.rows.num_accepted.present;
  if (args.kind == PartKind::snapshots) {
    const DeviceRow row = snapshots_row(args.rows, i);
    // Its line is the block of column 0.
    if (row.kind == DeviceRowKind::live) use = {i32_at(args.rows.state_indices, i, 0), i32_at(args.rows.num_accepted, i)};
    return row;
  }
  bool from_block = true;
  int waiting = 0;
  DeviceRow row = args.kind == PartKind::verify ? verify_row(args.rows, args.pending, i, waiting)
                                                : plain_row(args.rows, args.pending, args.record_capacity, i, from_block, waiting);
  if (row.kind != DeviceRowKind::live) return row;
  if (counted && from_block) {
    // An anchored line in the lazy form moves by as many positions as records are folded.
    const bool folded = args.pending.present && args.line_kind == LineKind::anchored;
    use.count = folded ? waiting : i32_at(args.rows.num_accepted, i);
    if (args.kind == PartKind::plain && history_start(args.line_kind, use.count) + args.history > args.columns) {
      make_null(row, ErrorKind::out_of_range);
      return row;
    }
  }
  use.block = row.block;
  return row;
}

}  // namespace recoverssm::device
