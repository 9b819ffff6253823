// The bits of the delta rules on every target, against the contract's section 2 written out line by line in fp32: one element after the
// other, no tiles, no lanes. Only exp and log are the library's (their accuracy has its own tests); everything else is std::fma and
// single operations. A tolerance would hide what this test is for: another order, another rounding, a padded element that takes part.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "arithmetic/exp_log.h"
#include "support/call.h"
#include "support/convert.h"
#include "support/rule.h"

namespace {

using namespace support;
using recoverssm::Target;
using recoverssm::arithmetic::exp_f32;
using recoverssm::arithmetic::log_f32;

using Floats = std::vector<float>;

float canonical_dot(const Floats& x, const Floats& y) {
  float p[32] = {};
  for (std::size_t i = 0; i < x.size(); ++i) p[i % 32] = std::fma(x[i], y[i], p[i % 32]);
  for (int n = 32; n > 1; n /= 2) {
    for (int i = 0; i < n / 2; ++i) p[i] = p[2 * i] + p[2 * i + 1];
  }
  return p[0];
}

float softplus(const RuleShape& s, float x) {
  return s.softplus_beta * x <= s.softplus_threshold ? log_f32(1.0F + exp_f32(s.softplus_beta * x)) / s.softplus_beta : x;
}

Floats row_of(const Tensor& tensor, int i, int j, int n) {
  Floats values;
  for (int k = 0; k < n; ++k) values.push_back(static_cast<float>(tensor.get(i, j, k)));
  return values;
}

struct CanonicalToken {
  Floats k, q, v, decay;  // decay: K entries, all equal for gdn
  float beta = 0;
};

CanonicalToken canonical_token(const RuleShape& s, const RuleWeights& w, const RuleTokens& tokens, int t, int head) {
  CanonicalToken r;
  const int from = head / (s.HV / s.H);
  r.k = row_of(tokens.k, t, from, s.K);
  r.q = row_of(tokens.q, t, from, s.K);
  r.v = row_of(tokens.v, t, head, s.V);
  const float scale = s.scale ? *s.scale : static_cast<float>(1.0 / std::sqrt(static_cast<double>(s.K)));
  const float inv_k = 1.0F / std::sqrt(canonical_dot(r.k, r.k) + 1e-6F);
  const float inv_q = 1.0F / std::sqrt(canonical_dot(r.q, r.q) + 1e-6F);
  for (float& x : r.k) x = s.l2norm ? x * inv_k : x;
  for (float& x : r.q) x = !s.l2norm ? x * scale : s.kda() ? x * (inv_q * scale) : (x * inv_q) * scale;
  r.beta = 1.0F / (1.0F + exp_f32(-static_cast<float>(tokens.b.get(t, head))));
  const float rate = exp_f32(static_cast<float>(w.A_log.get(head)));
  for (int k = 0; k < s.K; ++k) {
    if (!s.kda()) {
      const float x = static_cast<float>(tokens.a.get(t, head)) + static_cast<float>(w.dt_bias.get(head));
      r.decay.push_back(exp_f32(-rate * softplus(s, x)));
      continue;
    }
    const float y = static_cast<float>(tokens.a.get(t, head, k)) + static_cast<float>(w.dt_bias.get(head, k));
    const float g = s.lower_bound ? *s.lower_bound / (1.0F + exp_f32(-rate * y)) : -rate * softplus(s, y);
    r.decay.push_back(exp_f32(g));
  }
  return r;
}

struct CanonicalStep {
  float c = 0, o = 0;
};

// One token on one state row.
CanonicalStep canonical_step(const CanonicalToken& t, int v, Floats& h) {
  for (std::size_t k = 0; k < h.size(); ++k) h[k] = h[k] * t.decay[k];
  CanonicalStep r;
  r.c = (t.v[static_cast<std::size_t>(v)] - canonical_dot(h, t.k)) * t.beta;
  r.o = std::fma(r.c, canonical_dot(t.k, t.q), canonical_dot(h, t.q));
  for (std::size_t k = 0; k < h.size(); ++k) h[k] = std::fma(r.c, t.k[k], h[k]);
  return r;
}

// Bits of an fp32 value against the element it was rounded into.
void expect_stored(const Tensor& tensor, const Index& index, float expected, const char* what) {
  const double got = tensor.get_at(index);
  const double want = round_to(tensor.dtype(), static_cast<double>(expected));
  const bool same = (std::isnan(got) && std::isnan(want)) || (got == want && std::signbit(got) == std::signbit(want));
  ASSERT_TRUE(same) << what << "[" << index[0] << "," << index[1] << "," << index[2] << "," << index[3] << "]: got "
                    << std::hexfloat << got << ", want " << want;
}

struct Session {
  RuleShape shape;
  RuleWeights weights;
  RuleTokens tokens;
  RulePool pool;
  Tensor out, offsets, ids;
  int length = 0;
};

constexpr int kBlock = 1;

Session random_session(Pick& pick, int capacity) {
  Session s;
  s.shape = random_rule_shape(pick);
  s.weights = random_weights(pick, s.shape);
  s.length = pick.between(1, capacity > 0 ? capacity : 20);  // 20: more than the tokens a CPU task prepares at once
  s.tokens = random_tokens(pick, s.shape, s.length);
  s.pool = random_pool(pick, s.shape, 2, capacity);
  s.out = random_out(pick, s.shape, s.length);
  s.offsets = dense_i32({0, s.length});
  s.ids = dense_i32({kBlock});
  pick.log(s.shape.text() + " length " + std::to_string(s.length));
  return s;
}

Floats start_row(const Session& s, int head, int v) {
  Floats h;
  for (int k = 0; k < s.shape.K; ++k) h.push_back(static_cast<float>(s.pool.state.get(kBlock, head, v, k)));
  return h;
}

void verify(const Session& s, int threads, Target target) {
  must_run(
      recoverssm::GatedDeltaRuleVerifyParams{
          .inputs = inputs_of(s.shape, s.weights, s.tokens),
          .state = s.pool.state,
          .out = s.out,
          .records = s.pool.records(),
          .rows = {.query_start_loc = s.offsets, .state_indices = s.ids, .window_capacity = s.pool.capacity}},
      {.threads = threads, .target = target});
}

void expect_canonical_verify(const Session& s) {
  for (int head = 0; head < s.shape.HV; ++head) {
    std::vector<CanonicalToken> tokens;
    for (int t = 0; t < s.length; ++t) tokens.push_back(canonical_token(s.shape, s.weights, s.tokens, t, head));
    for (int v = 0; v < s.shape.V; ++v) {
      Floats h = start_row(s, head, v);
      for (int t = 0; t < s.length; ++t) {
        const CanonicalStep step = canonical_step(tokens[static_cast<std::size_t>(t)], v, h);
        expect_stored(s.out, {t, head, v}, step.o, "out");
        expect_stored(s.shape.kda() ? s.pool.corrections : s.pool.packed, {kBlock, head, t, v}, step.c, "correction");
      }
    }
    if (s.shape.kda()) continue;  // its key and gate are copies
    for (int t = 0; t < s.length; ++t) {
      const CanonicalToken& token = tokens[static_cast<std::size_t>(t)];
      for (int k = 0; k < s.shape.K; ++k) {
        expect_stored(s.pool.packed, {kBlock, head, t, s.shape.V + k}, token.k[static_cast<std::size_t>(k)], "key");
      }
      expect_stored(s.pool.packed, {kBlock, head, t, s.shape.V + s.shape.K}, token.decay[0], "decay");
    }
  }
}

void check_verify(Pick& pick, Target target) {
  const Session s = random_session(pick, pick.between(1, 17));
  verify(s, pick.one_of({1, 2}), target);
  expect_canonical_verify(s);
}

void check_rule(Pick& pick, Target target) {
  const Session s = random_session(pick, 0);
  std::vector<std::vector<Floats>> rows(static_cast<std::size_t>(s.shape.HV));
  for (int head = 0; head < s.shape.HV; ++head) {
    for (int v = 0; v < s.shape.V; ++v) rows[static_cast<std::size_t>(head)].push_back(start_row(s, head, v));
  }
  must_run(recoverssm::GatedDeltaRuleParams{.inputs = inputs_of(s.shape, s.weights, s.tokens),
                                            .state = s.pool.state,
                                            .out = s.out,
                                            .rows = {.query_start_loc = s.offsets, .state_indices = s.ids}},
           {.threads = pick.one_of({1, 2}), .target = target});
  for (int head = 0; head < s.shape.HV; ++head) {
    std::vector<CanonicalToken> tokens;
    for (int t = 0; t < s.length; ++t) tokens.push_back(canonical_token(s.shape, s.weights, s.tokens, t, head));
    for (int v = 0; v < s.shape.V; ++v) {
      Floats& h = rows[static_cast<std::size_t>(head)][static_cast<std::size_t>(v)];
      for (int t = 0; t < s.length; ++t) {
        expect_stored(s.out, {t, head, v}, canonical_step(tokens[static_cast<std::size_t>(t)], v, h).o, "out");
      }
      for (int k = 0; k < s.shape.K; ++k) {
        expect_stored(s.pool.state, {kBlock, head, v, k}, h[static_cast<std::size_t>(k)], "state");
      }
    }
  }
}

// K = 40 leaves 24 lanes of the second block empty. Every leaf is -0 here (products too small for a float), and c of v = -0 tells -0 from
// +0: an added 0*0 in an empty lane would turn a leaf into +0.
void check_padding(Target target) {
  Pick pick(1);
  Session s;
  s.shape = {.K = 40, .V = 3, .l2norm = false};
  s.weights = random_weights(pick, s.shape);
  s.length = 2;
  s.tokens = random_tokens(pick, s.shape, s.length);
  s.tokens.k.fill(0.001);
  s.tokens.q.fill(0.001);
  s.tokens.v.fill(-0.0);
  s.pool = random_pool(pick, s.shape, 2, 2);
  s.pool.state.fill(-1e-45);
  s.out = random_out(pick, s.shape, s.length);
  s.offsets = dense_i32({0, s.length});
  s.ids = dense_i32({kBlock});
  verify(s, 1, target);
  expect_canonical_verify(s);
}

class Canonical : public ::testing::TestWithParam<Target> {};

TEST_P(Canonical, VerifyBits) {
  property(12, [](Pick& pick) { check_verify(pick, GetParam()); });
}

TEST_P(Canonical, PaddingTakesNoPart) { check_padding(GetParam()); }

TEST_P(Canonical, RuleBits) {
  property(8, [](Pick& pick) { check_rule(pick, GetParam()); });
}

INSTANTIATE_TEST_SUITE_P(Targets, Canonical, ::testing::ValuesIn(recoverssm::available_targets()),
                         [](const auto& target) { return recoverssm::name_of(target.param); });

}  // namespace
