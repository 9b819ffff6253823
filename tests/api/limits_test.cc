// Sizes at the edge of what numbers hold: a launch that cannot have the memory it needs is refused, never run with less.
#include <gtest/gtest.h>

#include <cstdint>
#include <new>

#include "cpu/execution.h"
#include "recoverssm/recoverssm.hpp"
#include "support/tensor.h"

namespace {

using namespace recoverssm;
using support::dense;
using support::dense_i32;
using support::Tensor;

// Records that repeat one place in memory any number of times: read-only views may do so, and what a worker sets aside for them has no
// bound but this.
TensorView repeated_records(const Tensor& records, std::int64_t capacity) {
  TensorView view = records;
  view.shape[2] = capacity;
  view.stride[2] = 0;
  return view;
}

Layer layer_with(const Tensor& state, const TensorView& packed, const Tensor& pending) {
  Layer layer;
  layer.state = state;
  layer.records.packed = packed;
  layer.pending = pending;
  return layer;
}

TEST(Limits, WorkersTimesScratchDoesNotWrap) {
  const Tensor state = dense(DType::f32, {2, 1, 4, 8}), records = dense(DType::f32, {2, 1, 1, 13});
  const Tensor pending = dense_i32({0, 1}), blocks = dense_i32({1}), accepted = dense_i32({1});
  const ParallelFor nobody = {[](void*, std::int64_t, ParallelFor::Body, void*) { FAIL() << "this launch must be refused"; },
                              nullptr, 1};
  alignas(kWorkspaceAlignment) static std::byte memory[1 << 16];
  for (const int workers : {1, 1 << 10, 1 << 20, INT32_MAX}) {
    for (const int bits : {30, 40, 42, 50, 60}) {
      const Layer layer = layer_with(state, repeated_records(records, std::int64_t{1} << bits), pending);
      MaterializeParams params;
      params.blocks = blocks;
      params.num_accepted = accepted;
      params.layers = {&layer, 1};
      Launch launch;
      launch.parallel = nobody;
      launch.parallel.workers = workers;
      launch.workspace = {memory, sizeof memory};
      if (!validate(params).ok()) continue;  // sizes no view may have
      EXPECT_GE(workspace_size(params, launch), std::size_t{1} << bits) << workers << " " << bits;
      EXPECT_EQ(run(params, launch).kind, ErrorKind::invalid_argument) << workers << " " << bits;
    }
  }
}

TEST(Limits, ScratchOfAllWorkersSaturates) {
  EXPECT_EQ(cpu::for_workers(64, 3), 192U);
  EXPECT_EQ(cpu::for_workers(0, INT32_MAX), 0U);
  EXPECT_EQ(cpu::for_workers(cpu::kTooLarge, 1), cpu::kTooLarge);
  EXPECT_EQ(cpu::for_workers(cpu::kTooLarge, 256), cpu::kTooLarge);  // 2^64
  EXPECT_EQ(cpu::for_workers(cpu::kTooLarge, 257), cpu::kTooLarge);
  EXPECT_EQ(cpu::for_workers(SIZE_MAX, 2), cpu::kTooLarge);
}

TEST(Limits, SizesThatKernelsCannotCountAreUnsupported) {
  const Tensor some = dense(DType::f32, {1});
  const auto view = [&](std::int64_t heads, std::int64_t size) { return TensorView(some.view.data, DType::f32, {1, heads, size}); };
  constexpr std::int64_t kPastInt = (std::int64_t{1} << 32) + 16;
  GatedDeltaRuleParams rule;
  rule.inputs.q = view(1, 8);
  rule.inputs.v = view(1, 16);
  EXPECT_TRUE(query_support(rule).supported);
  for (const std::int64_t size : {std::int64_t{INT32_MAX}, kPastInt}) {
    rule.inputs.v = view(1, size);
    EXPECT_FALSE(query_support(rule).supported);
    EXPECT_NE(query_support(rule).reason.find("v: V = "), std::string::npos) << query_support(rule).reason;
    rule.inputs.v = view(size, 16);
    EXPECT_FALSE(query_support(rule).supported);
  }
  Layer layer;
  layer.state = TensorView(some.view.data, DType::f32, {1, 1, kPastInt, 8});
  CommitParams commit;
  commit.layers = {&layer, 1};
  EXPECT_FALSE(query_support(commit).supported);
  GdnAttentionParams attention;
  attention.head_k_dim = 8;
  attention.head_v_dim = INT32_MAX;
  EXPECT_FALSE(query_support(attention).supported);
}

TEST(Limits, AContextDoesNotPretendToHaveAllMemory) {
  Context context;
  EXPECT_THROW((void)context.launch(SIZE_MAX), std::bad_alloc);
  EXPECT_THROW((void)context.launch(std::size_t{PTRDIFF_MAX} + 1), std::bad_alloc);
  EXPECT_GE(context.launch(100).workspace.bytes, 100U);
}

}  // namespace
