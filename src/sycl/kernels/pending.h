// The small second launches of the lazy form: pending counts, which every head of a row reads, are stored once all have read them. One work
// item a row.
#pragma once

#include "sycl/kernels/replay.h"
#include "sycl/kernels/rule.h"
#include "sycl/kernels/verify.h"

namespace recoverssm::sycl_backend {

struct PendingArgs {
  RowsArgs rows;
  View pending;
  std::int64_t record_capacity = 0;
};

RSSM_HOST_DEVICE bool has_bad_token(const RowsArgs& rows, const DeviceRow& row) {
  if (!rows.token_index.present) return false;
  bool bad = false;
  for (std::int64_t t = 0; t < row.length; ++t) bad = bad || !names_a_row(rows, row.begin + t);
  return bad;
}

// After verify: how many records wait now.
RSSM_HOST_DEVICE void store_pending_body(const ::sycl::nd_item<3>& item, const PendingArgs& args) {
  const auto i = static_cast<std::int64_t>(item.get_global_id(2));
  if (i >= args.rows.rows) return;
  int waiting = 0;
  const DeviceRow row = verify_row(args.rows, args.pending, i, waiting);
  if (row.kind != DeviceRowKind::live || has_bad_token(args.rows, row)) return;
  store_i32(args.pending, static_cast<std::int32_t>(row.length), row.block);
}

// After a plain row: none.
RSSM_HOST_DEVICE void clear_pending_body(const ::sycl::nd_item<3>& item, const PendingArgs& args) {
  const auto i = static_cast<std::int64_t>(item.get_global_id(2));
  if (i >= args.rows.rows) return;
  bool from_block = false;
  int waiting = 0;
  const DeviceRow row = plain_row(args.rows, args.pending, args.record_capacity, i, from_block, waiting);
  if (row.kind != DeviceRowKind::live || has_bad_token(args.rows, row)) return;
  store_i32(args.pending, 0, row.block);
}

// After replay, of all layers.
RSSM_HOST_DEVICE void clear_replayed_body(const ::sycl::nd_item<3>& item, const ReplayArgs& args) {
  const auto i = static_cast<std::int64_t>(item.get_global_id(2));
  const LayerArgs& layer = args.layers[item.get_group(1)];
  if (i >= args.rows || layer.pending == nullptr) return;
  const Replay replay = replay_row(args, layer, i);
  if (!replay.live) return;
  if (replay.boundary_len > 0) layer.pending[replay.boundary * layer.pending_stride] = 0;
  layer.pending[replay.final * layer.pending_stride] = 0;
  layer.pending[replay.source * layer.pending_stride] = 0;
}

}  // namespace recoverssm::sycl_backend

#if defined(RSSM_AT_RUN_TIME)
RSSM_KERNEL(store_pending, recoverssm::sycl_backend::PendingArgs, recoverssm::sycl_backend::store_pending_body)
RSSM_KERNEL(clear_pending, recoverssm::sycl_backend::PendingArgs, recoverssm::sycl_backend::clear_pending_body)
RSSM_KERNEL(clear_replayed, recoverssm::device::ReplayArgs, recoverssm::sycl_backend::clear_replayed_body)
#endif
