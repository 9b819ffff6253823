// The reference holds together: its two forms of the rule agree, and the tests' own conversions round to nearest even.
#include <gtest/gtest.h>

#include <cmath>

#include "support/convert.h"
#include "support/rule.h"

namespace {

using namespace support;

TEST(Reference, DenseAndRankOneFormsAgree) {
  property(60, [](Pick& pick) {
    const RuleShape shape = random_rule_shape(pick);
    const RuleWeights weights = random_weights(pick, shape);
    const RuleTokens tokens = random_tokens(pick, shape, 4);
    const RulePool pool = random_pool(pick, shape, 1, 0);
    const reference::Head head = head_of(shape, weights, 0);
    reference::Matrix dense_form = matrix_of(pool.state, 0, 0);
    reference::Matrix rank_one = dense_form;
    for (int t = 0; t < 4; ++t) {
      const reference::Token token = token_of(shape, tokens, t, 0);
      const reference::Step a = reference::advance(head, token, dense_form);
      const reference::Step b = reference::advance_rank_one(head, token, rank_one);
      for (std::size_t v = 0; v < a.out.size(); ++v) require(std::fabs(a.out[v] - b.out[v]) < 1e-11, "outputs agree");
    }
    for (std::size_t i = 0; i < dense_form.data.size(); ++i)
      require(std::fabs(dense_form.data[i] - rank_one.data[i]) < 1e-11, "states agree");
  });
}

// Every 16-bit pattern decodes and encodes to itself; midpoints between neighbours go to the even one.
TEST(Reference, ConversionsRoundToNearestEven) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (std::uint32_t bits = 0; bits < 0x7FFF; ++bits) {
      const auto low = static_cast<std::uint16_t>(bits);
      const double value = decode(dtype, &low);
      if (!std::isfinite(value)) continue;
      std::uint16_t back = 0;
      encode(dtype, value, &back);
      ASSERT_EQ(back, low);
      const auto high = static_cast<std::uint16_t>(bits + 1);
      const double next = decode(dtype, &high);
      if (!std::isfinite(next)) continue;
      encode(dtype, -(value + next) / 2, &back);
      ASSERT_EQ(back, ((bits % 2 == 0) ? low : high) | 0x8000U);
      encode(dtype, value + (next - value) * 0.50001, &back);
      ASSERT_EQ(back, high);
    }
  }
}

}  // namespace
