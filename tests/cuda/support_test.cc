// What the CUDA backend says of sizes it cannot launch. The answers need no device.
#include <gtest/gtest.h>

#include "recoverssm/recoverssm.hpp"

namespace {

using namespace recoverssm;

// A grid's first dimension has a block for each few of HV * V value rows.
TEST(CudaSupport, ValueRowsThatAGridHolds) {
  GdnAttentionParams attention;
  attention.head_k_dim = 128;
  attention.num_v_heads = 1 << 15;
  attention.head_v_dim = 1 << 16;
  const Support attention_said = query_support(attention, Backend::cuda);
  EXPECT_FALSE(attention_said.supported);
  EXPECT_EQ(attention_said.reason, "gdn_attention: num_v_heads: HV * V = 2147483648, expected at most 2147483647 on CUDA");
  attention.head_v_dim = (1 << 16) - 1;
  EXPECT_TRUE(query_support(attention, Backend::cuda).supported);

  GatedDeltaRuleVerifyParams verify;
  verify.inputs.q = verify.inputs.k = TensorView(nullptr, DType::bf16, {0, 1, 128});
  verify.inputs.v = TensorView(nullptr, DType::bf16, {0, 1 << 15, 1 << 16});
  const Support verify_said = query_support(verify, Backend::cuda);
  EXPECT_EQ(verify_said.reason, "gated_delta_rule_verify: v: HV * V = 2147483648, expected at most 2147483647 on CUDA");
}

// Its second dimension has the value heads.
TEST(CudaSupport, ValueHeadsThatAGridHolds) {
  GdnAttentionParams attention;
  attention.head_k_dim = attention.head_v_dim = 128;
  attention.num_v_heads = 65535;
  EXPECT_TRUE(query_support(attention, Backend::cuda).supported);
  attention.num_v_heads = 65536;
  EXPECT_EQ(query_support(attention, Backend::cuda).reason,
            "gdn_attention: num_v_heads: HV = 65536, expected at most 65535 on CUDA");

  GatedDeltaRuleParams rule;
  rule.inputs.q = rule.inputs.k = TensorView(nullptr, DType::bf16, {0, 1, 128});
  rule.inputs.v = TensorView(nullptr, DType::bf16, {0, 65536, 128});
  EXPECT_EQ(query_support(rule, Backend::cuda).reason, "gated_delta_rule: v: HV = 65536, expected at most 65535 on CUDA");
}

// A block of the lazy verify has a head's value rows in shared memory: said before anything is launched, gdn_attention's plain part too.
TEST(CudaSupport, ValueRowsThatTheLazyFormHolds) {
  GatedDeltaRuleVerifyParams verify;
  verify.inputs.q = verify.inputs.k = TensorView(nullptr, DType::bf16, {0, 1, 128});
  verify.inputs.v = TensorView(nullptr, DType::bf16, {0, 1, 5633});
  EXPECT_TRUE(query_support(verify, Backend::cuda).supported);
  std::int32_t pending = 0;
  verify.pending = TensorView(&pending, DType::i32, {1});
  EXPECT_EQ(query_support(verify, Backend::cuda).reason,
            "gated_delta_rule_verify: v: V with pending = 5633, expected at most 5632 on CUDA");
  verify.inputs.v = TensorView(nullptr, DType::bf16, {0, 1, 5632});
  EXPECT_TRUE(query_support(verify, Backend::cuda).supported);

  GdnAttentionParams attention;
  attention.head_k_dim = 128;
  attention.num_v_heads = 1;
  attention.head_v_dim = 5633;
  attention.windows.emplace();
  EXPECT_TRUE(query_support(attention, Backend::cuda).supported);
  attention.windows->pending = verify.pending;
  EXPECT_EQ(query_support(attention, Backend::cuda).reason,
            "gdn_attention: head_v_dim: V with pending = 5633, expected at most 5632 on CUDA");
}

}  // namespace
