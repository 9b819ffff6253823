// split_projections moves bits: every element of the outputs is one element of the packed rows, found here by the layout's
// definition.
#include "recoverssm/projections.hpp"

#include "support/call.h"
#include "support/convert.h"
#include "support/layout.h"
#include "support/property.h"

namespace {

using namespace support;
using recoverssm::Layout;
using recoverssm::SplitProjectionsParams;

struct Split {
  int H = 1, HV = 1, K = 1, V = 1, tokens = 0;
  Layout layout = Layout::interleaved;
  std::vector<int> token_index;  // empty: identity
  Tensor qkvz, ba, mixed_qkv, z, b, a, index;

  int r() const { return HV / H; }
  int global(int t) const { return token_index.empty() ? t : token_index[static_cast<std::size_t>(t)]; }
  SplitProjectionsParams params() const {
    return {.qkvz = qkvz,
            .ba = ba,
            .layout = layout,
            .num_k_heads = H,
            .num_v_heads = HV,
            .head_k_dim = K,
            .head_v_dim = V,
            .mixed_qkv = mixed_qkv,
            .z = z,
            .b = b,
            .a = a,
            .token_index = index};
  }

  // Columns of a packed row.
  int q_at(int head, int i) const { return layout == Layout::flat ? head * K + i : group(head) + i; }
  int k_at(int head, int i) const { return layout == Layout::flat ? H * K + head * K + i : group(head) + K + i; }
  int v_at(int head, int i) const {
    return layout == Layout::flat ? 2 * H * K + head * V + i : group(head / r()) + 2 * K + head % r() * V + i;
  }
  int z_at(int head, int i) const {
    return layout == Layout::flat ? 2 * H * K + HV * V + head * V + i : group(head / r()) + 2 * K + (r() + head % r()) * V + i;
  }
  int b_at(int head) const { return layout == Layout::flat ? head : head / r() * 2 * r() + head % r(); }
  int a_at(int head) const { return layout == Layout::flat ? HV + head : head / r() * 2 * r() + r() + head % r(); }

 private:
  int group(int head) const { return head * (2 * K + 2 * r() * V); }
};

Split random_split(Pick& pick) {
  Split s;
  s.H = pick.between(1, 3);
  s.HV = s.H * pick.between(1, 4);
  s.K = pick.between(1, 9);
  s.V = pick.between(1, 9);
  s.layout = pick.one_of({Layout::interleaved, Layout::flat});
  const DType T = pick.one_of({DType::bf16, DType::f16, DType::f32});
  const int rows = pick.between(0, 20), C = 2 * s.H * s.K + s.HV * s.V;
  s.tokens = rows;
  if (pick.chance(50)) {
    s.tokens = pick.between(0, rows);
    s.token_index = pick.permutation(rows);
    s.token_index.resize(static_cast<std::size_t>(s.tokens));
    s.index = strided_i32(pick, s.token_index);
    if (s.tokens == 0) s.index = dense(DType::i32, {0});
  }
  const int capacity = s.tokens + pick.between(0, 2);  // local outputs may be longer
  const std::vector<Tensor> packed = strided_or_interleaved(pick, rows, {{T, {C + s.HV * s.V}, 1}, {T, {2 * s.HV}, 1}});
  s.qkvz = packed[0];
  s.ba = packed[1];
  const std::vector<Tensor> local = strided_or_interleaved(pick, capacity, {{T, {C}, 1}, {T, {s.HV}, 1}, {T, {s.HV}, 1}});
  s.mixed_qkv = local[0];
  s.b = local[1];
  s.a = local[2];
  s.z = strided(pick, T, {rows, s.HV, s.V}, pick.chance(50) ? 2 : 1);
  for (const Tensor& tensor : {s.qkvz, s.ba}) {
    for_each(tensor, [&](const Index& i) { set_raw_bits(T, pick.bits(), element(tensor, i)); });
  }
  return s;
}

TEST(SplitProjections, EveryElementComesFromItsPlace) {
  property(300, [](Pick& pick) {
    const Split s = random_split(pick);
    Untouched untouched({{"mixed_qkv", s.mixed_qkv}, {"z", s.z}, {"b", s.b}, {"a", s.a}, {"qkvz", s.qkvz}, {"ba", s.ba}});
    untouched.except(slice(s.mixed_qkv, 0, 0, s.tokens));
    untouched.except(slice(s.b, 0, 0, s.tokens));
    untouched.except(slice(s.a, 0, 0, s.tokens));
    for (int t = 0; t < s.tokens; ++t) untouched.except(slice(s.z, 0, s.global(t)));
    must_run(s.params(), random_how(pick));
    require(untouched.check());

    const DType T = s.qkvz.dtype();
    const auto same = [&](const std::byte* got, const std::byte* want, const char* what, int t) {
      require(raw_bits(T, got) == raw_bits(T, want), std::string(what) + " of token " + std::to_string(t));
    };
    for (int t = 0; t < s.tokens; ++t) {
      const int row = s.global(t);
      for (int h = 0; h < s.H; ++h) {
        for (int i = 0; i < s.K; ++i) {
          same(s.mixed_qkv.at(t, h * s.K + i), s.qkvz.at(row, s.q_at(h, i)), "q", t);
          same(s.mixed_qkv.at(t, (s.H + h) * s.K + i), s.qkvz.at(row, s.k_at(h, i)), "k", t);
        }
      }
      for (int h = 0; h < s.HV; ++h) {
        for (int i = 0; i < s.V; ++i) {
          same(s.mixed_qkv.at(t, 2 * s.H * s.K + h * s.V + i), s.qkvz.at(row, s.v_at(h, i)), "v", t);
          same(s.z.at(row, h, i), s.qkvz.at(row, s.z_at(h, i)), "z", t);
        }
        same(s.b.at(t, h), s.ba.at(row, s.b_at(h)), "b", t);
        same(s.a.at(t, h), s.ba.at(row, s.a_at(h)), "a", t);
      }
    }
  });
}

TEST(SplitProjections, CountsTokens) {
  RECOVERSSM_CPU_ONLY("counters, which only the CPU keeps");
  Pick pick(1);
  Split s;
  s.H = 2, s.HV = 4, s.K = 3, s.V = 5;
  s.qkvz = dense(DType::bf16, {7, 52});
  s.ba = dense(DType::bf16, {7, 8});
  s.mixed_qkv = dense(DType::bf16, {7, 32});
  s.z = dense(DType::bf16, {7, 4, 5});
  s.b = dense(DType::bf16, {7, 4});
  s.a = dense(DType::bf16, {7, 4});
  s.index = dense_i32({4, 0, 6});
  recoverssm::Counters counters;
  must_run(s.params(), {.counters = &counters});
  EXPECT_EQ(counters.tokens, 3);
  EXPECT_EQ(counters.activation_read, 3 * 60 * 2);
  EXPECT_EQ(counters.activation_written, 3 * 60 * 2);
  EXPECT_EQ(counters.total(), 2 * 3 * 60 * 2);
}

}  // namespace
