// What a trace's windows moved: counted from what ran, by formulas written out here.
#include "trace/traffic.h"

#include <gtest/gtest.h>

#include <vector>

namespace recoverssm::trace {
namespace {

constexpr std::int64_t H = 1, HV = 2, K = 4, V = 3, S = 4, kBlocks = 5;
constexpr std::int64_t kState = HV * V * K * 4;

struct Case {
  std::vector<std::int32_t> offsets, blocks, accepted, pending = std::vector<std::int32_t>(kBlocks, 0);
  std::vector<float> states[2] = {std::vector<float>(kBlocks * kState / 4), std::vector<float>(kBlocks* kState / 4)};

  BoundCall verify(int layer, bool lazy) {
    GatedDeltaRuleVerifyParams p;
    const auto rows = static_cast<std::int64_t>(blocks.size());
    p.inputs.q = TensorView(nullptr, DType::bf16, {0, H, K});
    p.state = TensorView(states[layer].data(), DType::f32, {kBlocks, HV, V, K});
    p.rows.query_start_loc = TensorView(offsets.data(), DType::i32, {rows + 1});
    p.rows.state_indices = TensorView(blocks.data(), DType::i32, {rows});
    p.rows.window_capacity = S;
    if (lazy) {
      p.rows.num_accepted = TensorView(accepted.data(), DType::i32, {rows});
      p.pending = TensorView(pending.data(), DType::i32, {kBlocks});
    }
    BoundCall call;
    call.params = p;
    return call;
  }

  BoundCall commit(std::vector<std::int32_t>& final_blocks) {
    const auto rows = static_cast<std::int64_t>(blocks.size());
    BoundCall call;
    CommitGroup group;
    group.state_indices = TensorView(blocks.data(), DType::i32, {rows});
    group.commit_len = TensorView(accepted.data(), DType::i32, {rows});
    group.final_indices = TensorView(final_blocks.data(), DType::i32, {rows});
    call.groups = {group};
    for (auto& state : states) {
      Layer layer;
      layer.state = TensorView(state.data(), DType::f32, {kBlocks, HV, V, K});
      call.layers.push_back(layer);
    }
    CommitParams p;
    p.groups = call.groups;
    p.layers = call.layers;
    call.params = p;
    return call;
  }
};

Counters counted(std::int64_t state, std::int64_t record, std::int64_t line) {
  Counters c;
  c.state_read = state;
  c.record_written = record;
  c.line_read = line;
  c.activation_read = 1'000'000;
  return c;
}

TEST(Traffic, WindowsAreCountedOnTheFirstLayerAndBytesOnAll) {
  Case c;
  c.offsets = {0, 3, 3, 5, 9};
  c.blocks = {1, 2, 0, 3};  // the second is empty, the third null
  c.accepted = {2, 0, 0, 4};
  TrafficMeter meter;
  meter.add(c.verify(0, false), counted(100, 10, 7));
  meter.add(c.verify(1, false), counted(100, 10, 7));
  std::vector<std::int32_t> final_blocks = {1, 0, 0, 0};  // the last row is dead: its final block is null
  meter.add(c.commit(final_blocks), counted(30, 20, 5));
  const Traffic& t = meter.traffic();
  EXPECT_EQ(t.layers, 2);
  EXPECT_EQ(t.steps, 1);
  EXPECT_EQ(t.windows, 2);
  EXPECT_EQ(t.tokens, 3 + 4);
  EXPECT_EQ(t.accepted, 2);
  EXPECT_EQ(t.snapshots, 2 * ((1 + 3) + (1 + 4)) * kState);  // two layers
  EXPECT_EQ(t.moved, 2 * 110 + 55);                          // the conv lines' part in commit only
  EXPECT_EQ(t.counters.activation_read, 3'000'000);
  ASSERT_TRUE(t.memory);
  EXPECT_EQ(t.memory->records, 2 * (kState + HV * S * (V + K + 1) * 4));  // no line was seen
  EXPECT_EQ(t.memory->snapshots, 2 * S * kState);
}

TEST(Traffic, LazyWindowsAcceptWhatTheyFold) {
  Case c;
  c.offsets = {0, 4, 8};
  c.blocks = {1, 2};
  c.accepted = {3, 9};
  c.pending[1] = 2;  // fewer wait than were accepted
  c.pending[2] = 4;
  TrafficMeter meter;
  meter.add(c.verify(0, true), {});
  EXPECT_EQ(meter.traffic().accepted, 2 + 4);

  MaterializeParams p;
  p.blocks = TensorView(c.blocks.data(), DType::i32, {2});
  p.num_accepted = TensorView(c.accepted.data(), DType::i32, {2});
  BoundCall fold;
  Layer layer;
  layer.state = TensorView(c.states[0].data(), DType::f32, {kBlocks, HV, V, K});
  layer.pending = TensorView(c.pending.data(), DType::i32, {kBlocks});
  fold.layers = {layer};
  p.layers = fold.layers;
  fold.params = p;
  meter.add(fold, {});
  EXPECT_EQ(meter.traffic().accepted, 2 * (2 + 4));
}

TEST(Traffic, NothingWithoutWindows) {
  Case c;
  c.offsets = {0, 0, 2};
  c.blocks = {1, 0};
  std::vector<std::int32_t> final_blocks = {1, 1};
  c.accepted = {1, 1};
  TrafficMeter meter;
  meter.add(c.commit(final_blocks), counted(30, 20, 5));  // of layers nobody verified
  meter.add(c.verify(0, false), counted(0, 0, 0));
  EXPECT_EQ(meter.traffic().windows, 0);
  EXPECT_EQ(meter.traffic().steps, 0);
  EXPECT_EQ(meter.traffic().moved, 0);
  EXPECT_EQ(meter.traffic().snapshots, 0);
  EXPECT_FALSE(meter.traffic().memory);
}

}  // namespace
}  // namespace recoverssm::trace
