// align_move and align_advance.
#include "recoverssm/align.hpp"

#include <climits>
#include <optional>

#include "support/call.h"
#include "support/convert.h"
#include "support/layout.h"
#include "support/property.h"

namespace {

using namespace support;
using recoverssm::AlignAdvanceParams;
using recoverssm::AlignMoveParams;
using recoverssm::Layer;
using recoverssm::LineKind;

struct LayerTensors {
  Tensor state, line, pending;
  int taps = 0;
};

// State and line in one page, or each for itself; either may be missing.
LayerTensors random_layer(Pick& pick, int blocks) {
  LayerTensors layer;
  layer.taps = pick.between(2, 8);
  const DType T = pick.one_of({DType::f32, DType::bf16, DType::f16}), S = pick.one_of({DType::f32, DType::bf16, DType::f16});
  const int columns = layer.taps - 1 + pick.between(0, 4);
  const std::vector<Tensor> page = strided_or_interleaved(
      pick, blocks, {{S, {pick.between(1, 3), pick.between(1, 5), pick.between(1, 5)}, 3}, {T, {columns, pick.between(1, 9)}, 0}});
  const int parts = pick.between(0, 2);
  if (parts != 1) layer.state = page[0];
  if (parts != 2) layer.line = page[1];
  for (const Tensor& tensor : {layer.state, layer.line}) {
    if (tensor.present()) for_each(tensor, [&](const Index& i) { set_raw_bits(tensor.dtype(), pick.bits(), element(tensor, i)); });
  }
  if (layer.state.present() && pick.chance(50)) {
    layer.pending = strided_i32(pick, std::vector<int>(static_cast<std::size_t>(blocks), 0));
    for (int b = 0; b < blocks; ++b) layer.pending.set(pick.between(0, 3), b);
  }
  return layer;
}

TEST(AlignMove, MovesStateAndHistoryAndNothingElse) {
  property(200, [](Pick& pick) {
    constexpr int kBlocks = 9;
    const int null_id = pick.one_of({0, -1, 1}), rows = pick.between(0, 3);
    std::vector<LayerTensors> tensors;
    for (int l = pick.between(1, 3); l > 0; --l) tensors.push_back(random_layer(pick, kBlocks));

    const std::vector<int> ids = pick.distinct(2 * rows, null_id + 1, kBlocks - 1);
    std::vector<int> from, to;
    std::vector<bool> moves;
    for (int i = 0; i < rows; ++i) {
      from.push_back(ids[static_cast<std::size_t>(2 * i)]);
      to.push_back(ids[static_cast<std::size_t>(2 * i + 1)]);
      moves.push_back(false);
      switch (pick.between(0, 4)) {
        case 0:
          to.back() = from.back();
          break;
        case 1:
          to.back() = null_id;
          break;
        case 2:
          from.back() = null_id - 1;
          break;
        default:
          moves.back() = true;
      }
    }
    std::vector<Layer> layers;
    std::vector<Untouched> untouched;
    for (const LayerTensors& t : tensors) {
      Layer layer;
      layer.line = t.line;
      layer.line_kind = pick.one_of({LineKind::rolled, LineKind::anchored});
      layer.conv_taps = t.taps;
      layer.state = t.state;
      layer.pending = t.pending;
      layers.push_back(layer);
      untouched.push_back(Untouched({{"state", t.state}, {"line", t.line}, {"pending", t.pending}}));
      for (int i = 0; i < rows; ++i) {
        const auto u = static_cast<std::size_t>(i);
        if (!moves[u]) continue;
        if (t.pending.present()) {
          t.pending.set(0, from[u]);  // more is bad_state
          untouched.back() = Untouched({{"state", t.state}, {"line", t.line}, {"pending", t.pending}});
        }
      }
      for (int i = 0; i < rows; ++i) {
        const auto u = static_cast<std::size_t>(i);
        if (!moves[u]) continue;
        if (t.state.present()) untouched.back().except(slice(t.state, 0, to[u]));
        if (t.line.present()) untouched.back().except(slice(slice(t.line, 0, to[u]), 1, 0, t.taps - 1));
        if (t.pending.present()) untouched.back().except(slice(t.pending, 0, to[u]));
      }
    }
    const Tensor from_ids = strided_i32(pick, from), to_ids = strided_i32(pick, to);
    recoverssm::Counters counters;
    How how = random_how(pick);
    how.counters = &counters;
    must_run(AlignMoveParams{.from = from_ids, .to = to_ids, .layers = layers, .null_block_id = null_id}, how);

    std::int64_t moved = 0, states = 0, lines = 0;
    for (std::size_t l = 0; l < tensors.size(); ++l) {
      const LayerTensors& t = tensors[l];
      require(untouched[l].check(), "layer " + std::to_string(l));
      for (std::size_t i = 0; i < from.size(); ++i) {
        if (!moves[i]) continue;
        if (l == 0) ++moved;
        if (t.state.present()) {
          require(same_bits(slice(t.state, 0, to[i]), slice(t.state, 0, from[i])), "state");
          states += slice(t.state, 0, 0).elements() * recoverssm::size_of(t.state.dtype());
        }
        if (t.line.present()) {
          const auto history = [&](int block) { return slice(slice(t.line, 0, block), 1, 0, t.taps - 1); };
          require(same_bits(history(to[i]), history(from[i])), "history");
          lines += history(0).elements() * recoverssm::size_of(t.line.dtype());
        }
        if (t.pending.present()) require(t.pending.get(to[i]) == 0, "pending of the destination");
      }
    }
    require(
        !counting() || (counters.rows == moved && counters.state_read == states && counters.state_written == states &&
                        counters.line_read == lines && counters.line_written == lines && counters.total() == 2 * (states + lines)),
        "counters");
  });
}

struct Advance {
  const char* what;
  int commit_len, source, num_computed, B;
  std::optional<int> want;  // the running column; none: the row is dead
};

TEST(AlignAdvance, Table) {
  const std::vector<Advance> cases = {
      {"inside a block", 2, 5, 3, 16, 0},
      {"ends on an edge: the block that holds the last token", 2, 5, 14, 16, 0},
      {"one past the edge", 3, 5, 14, 16, 1},
      {"starts on an edge", 1, 5, 16, 16, 1},
      {"blocks of one token", 1, 5, 7, 1, 7},
      {"dead: nothing committed", 0, 5, 3, 16, std::nullopt},
      {"dead: null block", 2, 0, 3, 16, std::nullopt},
      {"dead: num_computed is not read", 0, 5, -9, 16, std::nullopt},
      {"int64", 8, 5, INT_MAX - 3, 1 << 30, 2},
  };
  for (const Advance& c : cases) {
    for (const bool mapped : {false, true}) {
      // Request 1 stands behind row 0 when mapped; nobody else's entries may change.
      const int request = mapped ? 1 : 0;
      std::vector<int> computed = {-1, -1}, untouched = {40, 41};
      computed[static_cast<std::size_t>(request)] = c.num_computed;
      const Tensor commit_len = dense_i32({c.commit_len}), source = dense_i32({c.source}), index = dense_i32({1});
      const Tensor num_computed = dense_i32(computed), running = dense_i32(untouched), accepted = dense_i32({3, 4});
      AlignAdvanceParams p;
      p.commit_len = commit_len;
      p.state_indices = source;
      p.num_computed = num_computed;
      p.block_size = c.B;
      p.running_column = running;
      p.num_accepted = accepted;
      if (mapped) p.request_index = index;
      recoverssm::Counters counters;
      must_run(p, {.counters = &counters});
      if (counting()) {
        EXPECT_EQ(counters.rows, c.want ? 1 : 0) << c.what;
        EXPECT_EQ(counters.tokens, c.want ? c.commit_len : 0) << c.what;
      }
      for (int r = 0; r < 2; ++r) {
        const bool live = c.want && r == request;
        EXPECT_EQ(running.get(r), live ? *c.want : 40 + r) << c.what;
        EXPECT_EQ(accepted.get(r), live ? 1 : 3 + r) << c.what;
      }
    }
  }
}

}  // namespace
