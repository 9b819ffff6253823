// commit and materialize: all layers of a table in one launch. A task is some value rows of a head, or a piece of the line, of one row of one
// layer.
#pragma once

#include "device/layers.h"
#include "sycl/kernels/fold.h"

namespace recoverssm::sycl_backend {

constexpr int kLineChannels = 1024;  // of one task

struct ReplayLaunch {
  ReplayArgs replay;
  DeltaCut cut;  // tiles is a layer's own matter
};

RSSM_HOST_DEVICE int head_tiles(const LayerArgs& layer, const DeltaCut& cut) {
  return layer.state == nullptr ? 0 : (layer.V + cut.task_rows - 1) / cut.task_rows;
}
RSSM_HOST_DEVICE std::int64_t tasks_of(const LayerArgs& layer, const DeltaCut& cut) {
  const int lines = layer.line == nullptr ? 0 : (layer.channels + kLineChannels - 1) / kLineChannels;
  return static_cast<std::int64_t>(layer.HV) * head_tiles(layer, cut) + lines;
}

template <class D>
RSSM_HOST_DEVICE void replay_body(const ::sycl::nd_item<3>& item, const ReplayLaunch& args, float* local) {
  const Task<D> task(item, args.cut, local);
  const LanesOf<D>& lanes = task.lanes;
  const LayerArgs& layer = args.replay.layers[task.layer];
  if (task.number >= tasks_of(layer, args.cut)) return;
  const Replay replay = replay_row(args.replay, layer, task.row);
  if (lanes.lane == 0) report(args.replay.reporter, replay.found, task.row, layer.index);
  if (replay.len == 0) return;

  const int tiles = head_tiles(layer, args.cut);
  const std::int64_t heads = static_cast<std::int64_t>(layer.HV) * tiles;
  if (task.number >= heads) {
    // A rolled line is materialize's no matter: the next convolution reads its history at num_accepted.
    if (args.replay.of == ReplayOf::materialize && layer.line_kind != LineKind::anchored) return;
    const int first = static_cast<int>(task.number - heads) * kLineChannels;
    const int end = layer.channels - first < kLineChannels ? layer.channels : first + kLineChannels;
    for (int c = first + lanes.lane; c < end; c += D::kSub) replay_channel(layer, replay, c);
    return;
  }

  const int K = layer.K, V = layer.V;
  const int head = static_cast<int>(task.number / tiles), value0 = static_cast<int>(task.number % tiles) * args.cut.task_rows;
  const int last = V - value0 < args.cut.task_rows ? V : value0 + args.cut.task_rows;
  const auto state_of = [&](std::int32_t block) RSSM_INLINE {
    return layer.state + block * layer.state_block + static_cast<std::int64_t>(head) * V * K * float_size(layer.state_dtype);
  };
  const RecordArgs records = records_of(layer);
  const GateArgs gate = gate_of(layer);
  const DType dtype = layer.state_dtype;
  Tile<D> tile;
  bool prepared = false;
  for (int value = value0; value < last; value += kRows) {
    load_tile<D>(lanes, tile, task.stage, state_of(replay.source), dtype, value, V, K);
    prepared = fold_records<D>(lanes, tile, records, gate, task.tokens, args.cut.token_chunk, replay.source, head, replay.len,
                               value, K, V, prepared, [&](int t) RSSM_INLINE {
                                 if (t + 1 == replay.boundary_len)
                                   store_tile<D>(lanes, tile, task.stage, state_of(replay.boundary), dtype, value, V, K);
                               });
    store_tile<D>(lanes, tile, task.stage, state_of(replay.final), dtype, value, V, K);
  }
}

}  // namespace recoverssm::sycl_backend
