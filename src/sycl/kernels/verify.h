// gated_delta_rule_verify: windows that leave records. In the lazy form the old ones have been folded by a launch before (fold.h).
#pragma once

#include "sycl/kernels/delta.h"

namespace recoverssm::sycl_backend {

struct VerifyArgs {
  RuleArgs rule;
  RowsArgs rows;
  View state, out, pending;
  RecordArgs records;
  DeltaCut cut;
};

template <class D>
RSSM_HOST_DEVICE void verify_body(const ::sycl::nd_item<3>& item, const VerifyArgs& args, float* local) {
  const Task<D> task(item, args.cut, local);
  const LanesOf<D>& lanes = task.lanes;
  const int K = args.rule.K, V = args.rule.V;
  const int head = static_cast<int>(task.number / args.cut.tiles), tile_index = static_cast<int>(task.number % args.cut.tiles);
  if (head >= args.rule.HV) return;
  const int value0 = tile_index * args.cut.task_rows, last = V - value0 < args.cut.task_rows ? V : value0 + args.cut.task_rows;

  int waiting = 0;
  DeviceRow row = verify_row(args.rows, args.pending, task.row, waiting);
  drop_bad_tokens<D>(lanes, task.stage, args.rows, row);
  if (lanes.lane == 0) report(args.rows.reporter, row.found, task.row);
  if (row.kind == DeviceRowKind::skip) return;
  if (row.kind == DeviceRowKind::null) return zero_out(lanes, args.out, args.rows, row, head, value0, last);

  if (task.number == 0) set_pending(lanes, args.pending, row.block, static_cast<std::int32_t>(row.length));
  const std::byte* const state = at(args.state, row.block, head);
  const DType dtype = args.state.dtype;
  Tile<D> tile;

  const View& corrections = D::kKda ? args.records.corrections : args.records.packed;
  const int length = static_cast<int>(row.length), chunk = args.cut.token_chunk;
  const bool one_chunk = length <= chunk;
  for (int value = value0; value < last; value += kRows) {
    load_tile<D>(lanes, tile, task.stage, state, dtype, value, V, K);
    for (int first = 0; first < length; first += chunk) {
      const int count = length - first < chunk ? length - first : chunk;
      if (value == value0 || !one_chunk) {
        lanes.barrier();  // local memory may still be read
        prepare_tokens<D>(lanes, args.rule, task.tokens, row.begin + first, count, head);
      }
      if (value == 0) {
        write_keys<D>(lanes, args.rule, args.records, task.tokens, row.block, head, row.begin + first, first, count);
      }
      run_tokens<D>(lanes, tile, args.rule, args.rows, args.out, corrections, task.tokens, row.block, head, value,
                    row.begin + first, first, count, [](int) RSSM_INLINE {});
    }
  }
}

}  // namespace recoverssm::sycl_backend
