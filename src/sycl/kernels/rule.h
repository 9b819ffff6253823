// gated_delta_rule: plain rows of any length; records that wait have been folded by a launch before (fold.h). A sub-group keeps four state rows in registers from the first token to the last.
#pragma once

#include "sycl/kernels/delta.h"

namespace recoverssm::sycl_backend {

struct PlainArgs {
  RuleArgs rule;
  RowsArgs rows;
  View state, out, pending;
  std::int64_t record_capacity = 0;
  DeltaCut cut;
};

template <class D>
RSSM_HOST_DEVICE void plain_body(const ::sycl::nd_item<3>& item, const PlainArgs& args, float* local) {
  const Task<D> task(item, args.cut, local);
  const LanesOf<D>& lanes = task.lanes;
  const int K = args.rule.K, V = args.rule.V;
  const int head = static_cast<int>(task.number / args.cut.tiles), tile_index = static_cast<int>(task.number % args.cut.tiles);
  if (head >= args.rule.HV) return;
  const int value0 = tile_index * args.cut.task_rows, last = V - value0 < args.cut.task_rows ? V : value0 + args.cut.task_rows;

  bool from_block = false;
  int waiting = 0;
  DeviceRow row = plain_row(args.rows, args.pending, args.record_capacity, task.row, from_block, waiting);
  drop_bad_tokens<D>(lanes, task.stage, args.rows, row);
  if (lanes.lane == 0) report(args.rows.reporter, row.found, task.row);
  if (row.kind == DeviceRowKind::skip) return;
  if (row.kind == DeviceRowKind::null) return zero_out(lanes, args.out, args.rows, row, head, value0, last);

  if (task.number == 0) set_pending(lanes, args.pending, row.block, 0);
  std::byte* const state = at(args.state, row.block, head);
  const DType dtype = args.state.dtype;
  const std::int64_t chunk = args.cut.token_chunk;
  const bool stays = row.length <= chunk;  // what is prepared for the first rows serves the others
  Tile<D> tile;
  for (int value = value0; value < last; value += kRows) {
    if (from_block) {
      load_tile<D>(lanes, tile, task.stage, state, dtype, value, V, K);
    } else {
      clear_tile(tile);
    }
    for (std::int64_t first = 0; first < row.length; first += chunk) {
      const int count = static_cast<int>(min64(row.length - first, chunk));
      if (value == value0 || !stays) {
        lanes.barrier();  // local memory may still be read
        prepare_tokens<D>(lanes, args.rule, task.tokens, row.begin + first, count, head);
      }
      run_tokens<D>(lanes, tile, args.rule, args.rows, args.out, View{}, task.tokens, 0, head, value, row.begin + first, 0, count,
                    [](int) RSSM_INLINE {});
    }
    store_tile<D>(lanes, tile, task.stage, state, dtype, value, V, K);
  }
}

}  // namespace recoverssm::sycl_backend
