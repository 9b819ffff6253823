// Replay of a row of records into a tile: what commit does, and the first half of the lazy form.
#pragma once

#include "sycl/kernels/delta.h"

namespace recoverssm::sycl_backend {

// Records 0..n-1 of a head in `block` into value rows value..value+3. `prepared`: keys and decays of all n are in local memory already.
// after(t): once the tile holds the state after record t. Returns whether all n are there now.
template <class D, class After>
RSSM_HOST_DEVICE bool fold_records(const LanesOf<D>& lanes, Tile<D>& tile, const RecordArgs& records, const GateArgs& gate,
                                   float* tokens, int token_chunk, std::int64_t block, int head, int n, int value, int K, int V,
                                   bool prepared, After&& after) {
  const View& corrections = D::kKda ? records.corrections : records.packed;
  for (int first = 0; first < n; first += token_chunk) {
    const int count = n - first < token_chunk ? n - first : token_chunk;
    if (!prepared) {
      lanes.barrier();  // local memory may still be read
      prepare_records<D>(lanes, records, gate, tokens, block, head, first, count, K, V);
    }
    for (int t = 0; t < count; ++t) {
      const float* const record = reinterpret_cast<const float*>(at(corrections, block, head, first + t));
      replay_record<D>(lanes, tile, tokens + t * D::kTokenFloats, record, value, V);
      after(first + t);
    }
  }
  return n <= token_chunk;
}

// The lazy form's first launch: the kept records that wait in a row's block go into its state, rounded as a commit would. The second launch, the
// operation itself, finds the state as it then is. Two kernels, since the CPU's compiler keeps what one of them decides for a sub-group as a
// whole, and for both in one it does so lane by lane.
struct FoldArgs {
  RowsArgs rows;
  View state, pending;
  RecordArgs records;
  GateArgs gate;
  std::int64_t record_capacity = 0;
  std::int32_t HV = 0, K = 0, V = 0;
  DeltaCut cut;
};

template <class D>
RSSM_HOST_DEVICE void fold_body(const ::sycl::nd_item<3>& item, const FoldArgs& args, float* local) {
  const Task<D> task(item, args.cut, local);
  const LanesOf<D>& lanes = task.lanes;
  const int head = static_cast<int>(task.number / args.cut.tiles), tile_index = static_cast<int>(task.number % args.cut.tiles);
  if (head >= args.HV) return;
  const int value0 = tile_index * args.cut.task_rows;
  const int last = args.V - value0 < args.cut.task_rows ? args.V : value0 + args.cut.task_rows;

  bool from_block = false;
  int waiting = 0;
  DeviceRow row = plain_row(args.rows, args.pending, args.record_capacity, task.row, from_block, waiting);
  drop_bad_tokens<D>(lanes, task.stage, args.rows, row);
  if (row.kind != DeviceRowKind::live || waiting == 0) return;

  std::byte* const state = at(args.state, row.block, head);
  Tile<D> tile;
  bool prepared = false;
  for (int value = value0; value < last; value += kRows) {
    load_tile<D>(lanes, tile, task.stage, state, args.state.dtype, value, args.V, args.K);
    prepared = fold_records<D>(lanes, tile, args.records, args.gate, task.tokens, args.cut.token_chunk, row.block, head, waiting,
                               value, args.K, args.V, prepared, [](int) RSSM_INLINE {});
    store_tile<D>(lanes, tile, task.stage, state, args.state.dtype, value, args.V, args.K);
  }
}

}  // namespace recoverssm::sycl_backend
