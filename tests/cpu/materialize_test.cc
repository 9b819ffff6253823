// materialize of layers without a state, short convolutions. Layers with one: tests/property/lazy_test.cc.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "recoverssm/commit.hpp"
#include "support/call.h"
#include "support/convert.h"
#include "support/layout.h"
#include "support/property.h"

namespace {

using namespace support;
using recoverssm::Layer;
using recoverssm::LineKind;
using recoverssm::MaterializeParams;

constexpr int kBlocks = 9;

struct Line {
  Tensor line, pending;
  LineKind kind = LineKind::rolled;
  int taps = 0, capacity = 0;
  std::vector<std::uint64_t> before;  // [kBlocks, columns, channels]
  std::vector<int> waiting;

  int columns() const { return static_cast<int>(line.view.shape[1]); }
  int channels() const { return static_cast<int>(line.view.shape[2]); }
  std::uint64_t bits(int block, int column, int channel) const {
    return raw_bits(line.dtype(), element(line, {block, column, channel}));
  }
  std::uint64_t was(int block, int column, int channel) const {
    return before[static_cast<std::size_t>((block * columns() + column) * channels() + channel)];
  }
};

Line random_line(Pick& pick) {
  Line made;
  made.kind = pick.one_of({LineKind::rolled, LineKind::anchored});
  made.taps = pick.between(2, 8);
  made.capacity = pick.between(1, 5);
  const int columns = made.taps - 1 + made.capacity - (made.kind == LineKind::rolled ? 1 : 0);
  const DType T = pick.one_of({DType::f32, DType::bf16, DType::f16});
  made.line = strided_or_interleaved(pick, kBlocks, {{T, {columns, pick.between(1, 9)}, 0}})[0];
  for_each(made.line, [&](const Index& i) {
    set_raw_bits(T, pick.bits(), element(made.line, i));
    made.before.push_back(raw_bits(T, element(made.line, i)));
  });
  for (int b = 0; b < kBlocks; ++b) made.waiting.push_back(pick.between(0, made.capacity));
  made.pending = strided_i32(pick, made.waiting);
  return made;
}

TEST(Materialize, MovesTheHistoryOfLayersWithoutAState) {
  property(100, [](Pick& pick) {
    const int null_id = pick.one_of({0, -1, 1}), rows = pick.between(1, 4);
    std::vector<Line> lines;
    for (int l = pick.between(1, 3); l > 0; --l) lines.push_back(random_line(pick));
    int least = lines[0].capacity;
    for (const Line& each : lines) least = std::min(least, each.capacity);
    std::vector<int> blocks = pick.distinct(rows, null_id + 1, kBlocks - 1), accepted;
    for (int i = 0; i < rows; ++i) accepted.push_back(pick.between(-1, least));
    if (rows > 1) blocks.back() = pick.one_of({null_id, null_id - 1});

    std::vector<Layer> layers;
    for (const Line& each : lines) {
      Layer layer;
      layer.line = each.line;
      layer.line_kind = each.kind;
      layer.conv_taps = each.taps;
      layer.pending = each.pending;
      layers.push_back(layer);
    }
    const Tensor block_ids = strided_i32(pick, blocks), counts = strided_i32(pick, accepted);
    must_run(MaterializeParams{.blocks = block_ids, .num_accepted = counts, .layers = layers, .null_block_id = null_id},
             random_how(pick));

    for (const Line& each : lines) {
      for (int b = 0; b < kBlocks; ++b) {
        const auto listed = std::find(blocks.begin(), blocks.end(), b);
        const bool live = listed != blocks.end() && b > null_id;
        const int kept = live ? std::clamp(accepted[static_cast<std::size_t>(listed - blocks.begin())], 0,
                                           each.waiting[static_cast<std::size_t>(b)])
                              : 0;
        require(each.pending.get(b) == (live ? 0 : each.waiting[static_cast<std::size_t>(b)]),
                "pending of block " + std::to_string(b));
        for (int p = 0; p < each.columns(); ++p) {
          // The window is in an anchored line behind the history; what remains behind the moved history means nothing and is not touched.
          const bool history = each.kind == LineKind::anchored && p < each.taps - 1;
          for (int c = 0; c < each.channels(); ++c) {
            require(each.bits(b, p, c) == each.was(b, history ? p + kept : p, c),
                    "block " + std::to_string(b) + ", column " + std::to_string(p));
          }
        }
      }
    }
  });
}

}  // namespace
