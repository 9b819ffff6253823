// gated_delta_rule_snapshots: windows that leave a state per token. A sub-group has read its four rows of the start state before it stores
// them to a column, so that a start block may be one of the row's columns.
#pragma once

#include "sycl/kernels/delta.h"

namespace recoverssm::sycl_backend {

struct SnapshotsArgs {
  RuleArgs rule;
  RowsArgs rows;
  View state, out;
  DeltaCut cut;
};

template <class D>
RSSM_HOST_DEVICE void snapshots_body(const ::sycl::nd_item<3>& item, const SnapshotsArgs& args, float* local) {
  const Task<D> task(item, args.cut, local);
  const LanesOf<D>& lanes = task.lanes;
  const int K = args.rule.K, V = args.rule.V;
  const int head = static_cast<int>(task.number / args.cut.tiles), tile_index = static_cast<int>(task.number % args.cut.tiles);
  if (head >= args.rule.HV) return;
  const int value0 = tile_index * args.cut.task_rows, last = V - value0 < args.cut.task_rows ? V : value0 + args.cut.task_rows;

  DeviceRow row = snapshots_row(args.rows, task.row);
  drop_bad_tokens<D>(lanes, task.stage, args.rows, row);
  if (lanes.lane == 0) report(args.rows.reporter, row.found, task.row);
  if (row.kind == DeviceRowKind::skip) return;
  if (row.kind == DeviceRowKind::null) return zero_out(lanes, args.out, args.rows, row, head, value0, last);

  const DType dtype = args.state.dtype;
  const int length = static_cast<int>(row.length), chunk = args.cut.token_chunk;
  const bool one_chunk = length <= chunk;
  Tile<D> tile;
  for (int value = value0; value < last; value += kRows) {
    load_tile<D>(lanes, tile, task.stage, at(args.state, row.block, head), dtype, value, V, K);
    for (int first = 0; first < length; first += chunk) {
      const int count = length - first < chunk ? length - first : chunk;
      if (value == value0 || !one_chunk) {
        lanes.barrier();  // local memory may still be read
        prepare_tokens<D>(lanes, args.rule, task.tokens, row.begin + first, count, head);
      }
      run_tokens<D>(lanes, tile, args.rule, args.rows, args.out, View{}, task.tokens, 0, head, value, row.begin + first, 0, count,
                    [&](int t) RSSM_INLINE {
                      // The carried state stays fp32 for the whole window: a snapshot rounds a copy.
                      const std::int32_t target = i32_at(args.rows.state_indices, task.row, first + t);
                      if (is_null(target, args.rows.null_block_id)) return;
                      store_tile<D>(lanes, tile, task.stage, at(args.state, target, head), dtype, value, V, K);
                    });
    }
  }
}

}  // namespace recoverssm::sycl_backend
