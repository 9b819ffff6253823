// The small second launch of a lazy commit: pending counts, which every head of a row reads, are cleared once all have read them. One work item
// a row and layer.
#pragma once

#include "device/layers.h"
#include "sycl/kernels/entry.h"

namespace recoverssm::sycl_backend {

using namespace device;

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

#define RSSM_PENDING_KERNELS(KERNEL) \
  KERNEL(clear_replayed, recoverssm::device::ReplayArgs, recoverssm::sycl_backend::clear_replayed_body)
#if defined(RSSM_AT_RUN_TIME)
RSSM_PENDING_KERNELS(RSSM_KERNEL)
#endif
