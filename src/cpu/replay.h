// What commit and materialize share: replaying a block's records into its state, and moving a conv line's history, for one row of one
// layer. Everything a task reads of the source is read before it stores, so source, boundary and final may be the same block.
#pragma once

#include <algorithm>

#include "cpu/conv_tile.h"
#include "cpu/delta_head.h"
#include "cpu/line.h"

namespace recoverssm::cpu {

// One row's replay: records 0..len-1 of `source`; the state after boundary_len of them goes to `boundary`, the last to `final`.
struct Replay {
  std::int64_t source = 0;
  std::int64_t final = 0;
  std::int64_t boundary = 0;
  std::int64_t len = 0;           // 0: nothing to do
  std::int64_t boundary_len = 0;  // 0: no boundary
};

// K and V of a layer's state, and the strides of its scratch.
inline RuleShape shape_of(const Layer& layer) {
  RuleShape s;
  s.HV = static_cast<int>(layer.state.shape[1]);
  s.V = static_cast<int>(layer.state.shape[2]);
  s.K = static_cast<int>(layer.state.shape[3]);
  s.k_stride = padded_k(s.K);
  s.v_stride = (s.V + kStateRows - 1) / kStateRows * kStateRows;
  return s;
}

// Tasks of one row of a layer: its heads, then the tiles of its line.
inline std::int64_t head_tasks(const Layer& layer) { return layer.state.present() ? layer.state.shape[1] : 0; }
inline std::int64_t line_tasks(const Layer& layer) { return layer.line.present() ? tiles_of(layer.line.shape[2]) : 0; }
inline std::int64_t row_tasks(const Layer& layer) { return head_tasks(layer) + line_tasks(layer); }

// Scratch of one worker: a head's records and two rows, or two histories of one tile of channels.
struct ReplayScratch {
  HeadScratch head;
  float* h = nullptr;
  std::byte* final_taps = nullptr;
  std::byte* boundary_taps = nullptr;
};

inline ReplayScratch carve_replay(Carver& carver, const Layer& layer) {
  ReplayScratch scratch;
  if (layer.state.present()) {
    const RuleShape shape = shape_of(layer);
    scratch.head = carve_head(carver, shape, layer.gate, record_capacity(layer.gate, layer.records), /*replay=*/true);
    scratch.h = carver.take<float>(2 * shape.k_stride);
  }
  if (layer.line.present()) {
    const std::int64_t bytes = (layer.conv_taps - 1) * std::int64_t{kConvTile} * size_of(layer.line.dtype);
    scratch.final_taps = carver.take<std::byte>(bytes);
    scratch.boundary_taps = carver.take<std::byte>(bytes);
  }
  return scratch;
}

// Bytes a worker needs for any of the layers.
inline std::size_t replay_scratch_bytes(std::span<const Layer> layers) {
  std::size_t bytes = 0;
  for (const Layer& layer : layers) {
    Carver carver(nullptr);
    carve_replay(carver, layer);
    bytes = std::max(bytes, carver.used());
  }
  return bytes;
}

inline void replay_head(const Kernels& kernels, const Layer& layer, const Replay& replay, std::int64_t head,
                        const ReplayScratch& scratch) {
  const RuleShape shape = shape_of(layer);
  const HeadTokens records = prepare_records(kernels, gate_rule_of(layer), layer.records, shape, replay.source, head,
                                             static_cast<int>(replay.len), scratch.head);
  for (int first = 0; first < shape.V; first += kStateRows) {
    const bool bounded = replay.boundary_len > 0;
    const bool last_tile = head + 1 == shape.HV && first + kStateRows >= shape.V;
    kernels.replay({.tokens = records,
                    .len = static_cast<int>(replay.len),
                    .boundary_len = static_cast<int>(replay.boundary_len),
                    .rows = std::min(kStateRows, shape.V - first),
                    .from = tile_of(layer.state, replay.source, head, first),
                    .boundary = bounded ? tile_of(layer.state, replay.boundary, head, first) : StateTile{},
                    .to = tile_of(layer.state, replay.final, head, first),
                    .h = scratch.h,
                    .token_stride = shape.v_stride,
                    .correction = scratch.head.correction + first,
                    .next = last_tile ? nullptr : at(layer.state, replay.source, head, first + kStateRows)});
  }
}

inline void replay_line(const Layer& layer, const Replay& replay, std::int64_t tile_index, const ReplayScratch& scratch) {
  const ConvTile tile(tile_index, layer.line.shape[2]);
  const std::int64_t size = size_of(layer.line.dtype);
  const std::int64_t history = layer.conv_taps - 1;
  const LineTile source(layer.line, replay.source, tile.first, tile.channels);
  const auto load = [&](std::int64_t kept, std::byte* taps) {
    for (std::int64_t p = 0; p < history; ++p) {
      const Run from = source.position(committed_history_start(layer.line_kind, kept) + p);
      copy_elements(from.data, from.stride, taps + p * kConvTile * size, size, tile.channels, size);
    }
  };
  const auto store = [&](std::int64_t block, std::byte* taps) {
    const LineTile target(layer.line, block, tile.first, tile.channels);
    for (std::int64_t p = 0; p < history; ++p) target.store(p, {taps + p * kConvTile * size, size});
  };
  load(replay.len, scratch.final_taps);
  if (replay.boundary_len > 0) {
    load(replay.boundary_len, scratch.boundary_taps);
    store(replay.boundary, scratch.boundary_taps);
  }
  store(replay.final, scratch.final_taps);
}

// Task `task` of a row: one head, or one tile of the line.
inline void replay_task(const Execution& e, const Layer& layer, const Replay& replay, std::int64_t task, std::size_t worker_bytes,
                        int worker) {
  Carver carver(e.scratch + worker_bytes * static_cast<std::size_t>(worker));
  const ReplayScratch scratch = carve_replay(carver, layer);
  if (task < head_tasks(layer)) {
    replay_head(e.kernels, layer, replay, task, scratch);
  } else {
    replay_line(layer, replay, task - head_tasks(layer), scratch);
  }
}

inline void count_replay(const Layer& layer, const Replay& replay, bool with_line, Counters& counters) {
  const std::int64_t targets = replay.boundary_len > 0 ? 2 : 1;
  if (layer.state.present()) {
    counters.state_read += state_bytes(layer.state);
    counters.state_written += targets * state_bytes(layer.state);
    counters.record_read += replay.len * record_bytes(layer.gate, layer.records);
  }
  if (with_line && layer.line.present()) {
    const std::int64_t history = (layer.conv_taps - 1) * layer.line.shape[2] * size_of(layer.line.dtype);
    counters.line_read += targets * history;
    counters.line_written += targets * history;
  }
}

}  // namespace recoverssm::cpu
