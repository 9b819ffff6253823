// What a launch may be handed: workspaces that do not fit are refused before anything is read or written, a call without rows needs none.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "recoverssm/recoverssm.hpp"
#include "support/tensor.h"

namespace {

using namespace recoverssm;
using support::dense;
using support::dense_i32;
using support::Tensor;

// One plain row of two tokens on block 1.
struct Call {
  Tensor qk = dense(DType::f32, {2, 1, 8}), v = dense(DType::f32, {2, 1, 4}), gate = dense(DType::f32, {2, 1});
  Tensor head = dense(DType::f32, {1}), state = dense(DType::f32, {2, 1, 4, 8}), out = dense(DType::f32, {2, 1, 4});
  Tensor offsets = dense_i32({0, 2}), ids = dense_i32({1});
  GatedDeltaRuleParams params;

  Call() {
    for (const Tensor& t : {qk, v, gate, head, state, out}) t.fill(0.25);
    params.inputs = {.q = qk, .k = qk, .v = v, .a = gate, .b = gate, .A_log = head, .dt_bias = head};
    params.state = state;
    params.out = out;
    params.rows = {.query_start_loc = offsets, .state_indices = ids};
  }
};

void refused(const Call& call, const Launch& launch, const char* word) {
  const support::Untouched untouched({{"state", call.state}, {"out", call.out}});
  const Status status = run(call.params, launch);
  EXPECT_EQ(status.kind, ErrorKind::invalid_argument);
  EXPECT_NE(status.message.find("gated_delta_rule: "), std::string::npos) << status.message;
  EXPECT_NE(status.message.find(word), std::string::npos) << status.message;
  EXPECT_TRUE(untouched.check());
}

TEST(Launch, WorkspacesThatDoNotFitAreRefused) {
  const Call call;
  const std::size_t bytes = workspace_size(call.params, {});
  ASSERT_GT(bytes, 0u);
  std::vector<std::byte> memory(bytes + 2 * kWorkspaceAlignment);
  auto* aligned = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory.data()) + kWorkspaceAlignment - 1) /
                                               kWorkspaceAlignment * kWorkspaceAlignment);
  refused(call, {}, "workspace: null");
  refused(call, {.workspace = {nullptr, bytes}}, "workspace: null");
  refused(call, {.workspace = {aligned, bytes - 1}}, "workspace: ");
  refused(call, {.workspace = {aligned + 4, bytes}}, "workspace: an address 4 past a multiple of 64");
  Launch no_workers{.workspace = {aligned, bytes}};
  no_workers.parallel = {[](void*, std::int64_t, ParallelFor::Body, void*) {}, nullptr, 0};
  refused(call, no_workers, "parallel: workers 0");
  EXPECT_TRUE(run(call.params, {.workspace = {aligned, bytes}}).ok());
}

TEST(Launch, NoRowsNeedNoWorkspace) {
  Call call;
  const Tensor no_offsets = dense_i32({0}), no_ids = dense_i32({});
  call.params.rows.query_start_loc = no_offsets;
  call.params.rows.state_indices = no_ids;
  EXPECT_EQ(workspace_size(call.params, {}), 0u);
  EXPECT_TRUE(run(call.params, {}).ok());
}

// The intermediates of gdn_attention are sized from token_index, whose length is free: a product past 64 bits must not come out small.
TEST(Launch, SizesDoNotWrapAround) {
  const Tensor qkvz = dense(DType::f32, {1, 24}), ba = dense(DType::f32, {1, 2}), weight = dense(DType::f32, {20, 2});
  const Tensor head = dense(DType::f32, {1}), line = dense(DType::f32, {2, 1, 20}), state = dense(DType::f32, {2, 1, 4, 8});
  const Tensor out = dense(DType::f32, {1, 1, 4}), z = dense(DType::f32, {1, 1, 4});
  const Tensor offsets = dense_i32({0, 1}), ids = dense_i32({1}), token = dense_i32({0});
  GdnAttentionParams p;
  p.qkvz = qkvz, p.ba = ba, p.layout = Layout::flat;
  p.num_k_heads = p.num_v_heads = 1, p.head_k_dim = 8, p.head_v_dim = 4;
  p.weight = weight, p.A_log = head, p.dt_bias = head, p.line = line, p.state = state, p.out = out, p.z = z;
  p.plain = AttentionPlainPart{.rows = {.query_start_loc = offsets, .state_indices = ids, .token_index = token}};
  const std::size_t sane = workspace_size(p, {});
  ASSERT_GT(sane, 0u);
  for (const int bits : {40, 56, 57, 58, 60, 62}) {
    p.plain->rows.token_index = TensorView(token.view.data, DType::i32, {std::int64_t{1} << bits}, {0});
    const std::size_t bytes = workspace_size(p, {});
    EXPECT_TRUE(bytes == 0 || bytes > sane) << bits << ": " << bytes;  // 0: refused by validate
  }
}

}  // namespace
