// Numbers: extreme decays, large outputs, the norm's eps, beta, parameters, subnormals, NaN that stays in its row.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "reports/scene.h"
#include "support/convert.h"

namespace {

using namespace reports;

float as_float(std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
std::uint32_t bits_of(double value) {
  const auto narrow = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &narrow, sizeof bits);
  return bits;
}

// ---- B44: extreme decays ------------------------------------------------------------------------------------------------------------

// Verify and commit of all tokens; outputs and state finite and near a float64 scan; recorded decays within 0..1.
void decays_hold(Model& m, const RuleTokens& tokens, double tolerance) {
  const RuleShape& shape = m.shape;
  const int n = tokens.count;
  const RulePool pool = m.pool(2, n), start = m.copy(pool), plain_pool = m.copy(pool);
  const Tensor out = m.out(n), plain_out = m.out(n);
  m.verify(one_row(n, n), tokens, pool, out);
  m.commit(1, n, pool);
  m.plain(one_row(n, 0), tokens, plain_pool, plain_out);
  require(same_bits(out, plain_out), "verify and plain");
  require(same_bits(slice(pool.state, 0, 1), slice(plain_pool.state, 0, 1)), "commit and plain");
  for (int j = 0; j < shape.HV; ++j) {
    reference::Matrix state = matrix_of(start.state, 1, j);
    for (int t = 0; t < n; ++t) {
      const reference::Step step = reference::advance(head_of(shape, m.weights, j), token_of(shape, tokens, t, j), state);
      if (!shape.kda()) {
        const double d = pool.packed.get(1, j, t, shape.V + shape.K);
        require(d >= 0 && d <= 1, "a decay above 1 or below 0: " + std::to_string(d));
      }
      for (int v = 0; v < shape.V; ++v) {
        const double got = out.get(t, j, v);
        require(std::isfinite(got), "output");
        require(near(got, step.out[static_cast<std::size_t>(v)], shape.out, {tolerance, tolerance}),
                "output of token " + std::to_string(t));
      }
    }
    for (int v = 0; v < shape.V; ++v) {
      for (int k = 0; k < shape.K; ++k)
        require(near(pool.state.get(1, j, v, k), state.at(v, k), shape.state, {tolerance, tolerance}), "state");
    }
  }
}

// The raw gate input whose log decay is g under A = exp(A_log) and no bias: softplus(y) = -g / A.
double raw_gate(double g, double A) {
  const double sp = -g / A;
  return sp > 20 ? sp : std::log(std::expm1(sp));
}

TEST(Reports, B44_steep_and_tiny_decays) {
  for (const double steep : {-166.0, -2661.0}) {
    Model m(44, {.gate = Gate::kda, .H = 1, .HV = 1, .K = 128, .V = 8});
    m.weights.A_log.fill(5.3033);
    m.weights.dt_bias.fill(0);
    const RuleTokens tokens = m.tokens(16);
    const double A = std::exp(m.weights.A_log.get(0));
    for (int t = 0; t < 16; ++t) {
      for (int k = 0; k < 128; ++k) {
        const double g = k == 0 ? (steep < -1000 && t != 7 ? -0.01 : steep) : k == 1 ? -6.5e-12 : -0.01;
        tokens.a.set(raw_gate(g, A), t, 0, k);
      }
    }
    decays_hold(m, tokens, 1e-3);
  }
  // Any gate: 1 + exp(x) is rounded to fp32 before its log, an error of 2^-24 that exp(A_log), here at most 400, magnifies in each of
  // up to 16 tokens: 4e-4.
  property(60, [](Pick& pick) {
    Model m(pick.bits(), {.gate = pick.one_of({Gate::gdn, Gate::kda}), .H = 1, .HV = 2, .K = pick.between(1, 40), .V = 3});
    if (m.shape.kda() && pick.chance(30)) m.shape.lower_bound = static_cast<float>(-pick.uniform(0.1, 90));
    const RuleTokens tokens = m.tokens(16);
    for (int j = 0; j < 2; ++j) m.weights.A_log.set(pick.uniform(-20, 6), j);
    m.weights.dt_bias.fill(pick.uniform(-8, 8));
    for_each(tokens.a, [&](const Index& i) {
      const double sizes[] = {0, 1, 20, 1e3, 1e5};
      tokens.a.set_at(pick.uniform(-1, 1) * sizes[pick.bits() % 5], i);
    });
    decays_hold(m, tokens, 1e-3);
  });
}

// A channel whose decay underflows holds what its tokens wrote and nothing of before; where they write nothing it is exactly 0.
TEST(Reports, B44_dead_channels_are_exactly_dead) {
  for (const Gate gate : {Gate::gdn, Gate::kda}) {
    for (int seed = 0; seed < 12; ++seed) {
      Model m(static_cast<std::uint64_t>(seed), {.gate = gate, .H = 1, .HV = 1, .K = 9, .V = 4});
      m.weights.A_log.fill(5.3033);
      m.weights.dt_bias.fill(0);
      const int n = 1 + seed % 4;
      const RuleTokens tokens = m.tokens(n);
      tokens.a.fill(0.8 + 20.0 * seed);  // 201 * 1.17 > 104 already
      for (int t = 0; t < n; ++t) tokens.k.set(0, t, 0, 3);
      const RulePool pool = m.pool(2, n), zero = m.copy(pool);
      zero.state.fill(0);
      for (const RulePool* p : {&pool, &zero}) {
        m.verify(one_row(n, n), tokens, *p, m.out(n));
        m.commit(1, n, *p);
      }
      for (int v = 0; v < 4; ++v) {
        for (int k = 0; k < 9; ++k) EXPECT_EQ(pool.state.get(1, 0, v, k), zero.state.get(1, 0, v, k));  // -0 is 0
        EXPECT_EQ(pool.state.get(1, 0, v, 3), 0);
      }
    }
  }
}

// ---- B47: outputs above 65504 -------------------------------------------------------------------------------------------------------

// out in fp32 holds what fp16 cannot; out in T is that value rounded once to nearest even (65520 and up: inf, as the contract's
// arithmetic says), and the state stays what it was.
TEST(Reports, B47_large_outputs) {
  for (const Gate gate : {Gate::gdn, Gate::kda}) {
    for (const double entry :
         {2e5, 1.0, 15000.0, 16375.0, 16376.0, 16379.9, 16380.0, 16400.0, 17000.0, -2e5, 1e6, 1e9, 1e20, 3e37, -3e37}) {
      const RuleShape wide = {
          .gate = gate, .H = 1, .HV = 1, .K = 4, .V = 3, .T = DType::f16, .out = DType::f32, .l2norm = false, .scale = 1.0F};
      RuleShape narrow = wide;
      narrow.out = DType::f16;
      Model m(47, wide), in_half(47, narrow);
      const RuleTokens tokens = m.tokens(2);
      tokens.q.fill(1);
      tokens.k.fill(0);
      tokens.a.fill(-30);  // no decay to speak of
      const RulePool pool = m.pool(2, 2);
      pool.state.fill(entry);
      const Tensor out = m.out(2), half = in_half.out(2), plain = m.out(2);
      m.verify(one_row(2, 2), tokens, pool, out);
      in_half.verify(one_row(2, 2), tokens, pool, half);
      m.commit(1, 2, pool);
      m.plain(one_row(2, 0), tokens, m.copy(pool), plain);
      for (int t = 0; t < 2; ++t) {
        for (int v = 0; v < 3; ++v) {
          EXPECT_NEAR(out.get(t, 0, v) / (4 * entry), 1, 1e-4);
          EXPECT_TRUE(std::isfinite(plain.get(t, 0, v)));
          EXPECT_EQ(half.get(t, 0, v), round_to(DType::f16, out.get(t, 0, v))) << entry;
        }
      }
      for (int k = 0; k < 4; ++k) EXPECT_NEAR(pool.state.get(1, 0, 0, k) / entry, 1, 1e-4);
    }
  }
}

// ---- B48: the norm's eps, and NaN in one row ----------------------------------------------------------------------------------------

// The eps is added to the sum of squares, not to their mean: 128 lanes of 1e-4 give 0.06623 (the mean form 0.00879), zero stays zero.
TEST(Reports, B48_the_epsilon_of_the_norm) {
  for (const Gate gate : {Gate::gdn, Gate::kda}) {
    for (const int K : {1, 4, 32, 100, 128, 256}) {
      const std::vector<double> sizes = {1e-4, 0, 1e-10, 1e-6, 1e-5, 1e-3, 3e-3, 1e-2, 0.1, 1, 30, 1e3};
      const int n = static_cast<int>(sizes.size());
      Model m(48, {.gate = gate, .H = 1, .HV = 1, .K = K, .V = 2});
      const RuleTokens tokens = m.tokens(n);
      tokens.v.fill(1);
      tokens.a.fill(-40);  // d = 1
      tokens.b.fill(60);   // beta = 1
      for (int t = 0; t < n; ++t) {
        for (int k = 0; k < K; ++k) tokens.k.set(sizes[static_cast<std::size_t>(t)], t, 0, k);
      }
      for (int t = 0; t < n; ++t) {  // into a zero state one token writes v k^ = k^
        const RulePool pool = m.pool(2, 1);
        pool.state.fill(0);
        m.verify(one_row(1, 1), m.some(tokens, t, t + 1), pool, m.out(1));
        m.commit(1, 1, pool);
        const double z = tokens.k.get(t, 0, 0), want = z / std::sqrt(K * z * z + 1e-6);
        for (int k = 0; k < K; ++k) EXPECT_NEAR(pool.state.get(1, 0, 1, k), want, 1e-6 * want) << "K " << K << " k " << z;
        EXPECT_TRUE(K != 128 || t != 0 || std::fabs(pool.state.get(1, 0, 0, 0) - 0.06623) < 5e-6);
        EXPECT_TRUE(t != 1 || pool.state.get(1, 0, 0, 0) == 0);
      }
    }
  }
}

// NaN or Inf in one element of one row's inputs, or in its block: every other row has the bits of a call where that row is clean.
TEST(Reports, B48_nan_stays_in_its_row) {
  const auto confined = [](Pick& pick, Op op, const RowSet& rows, int bad, double value) {
    const Scene clean = random_scene(pick, op, rows);
    Scene dirty = another_scene(pick, clean);
    const int token = rows.first(bad) + pick.between(0, rows.length(bad) - 1);
    std::vector<Tensor*> places = {&dirty.x};
    if (is_rule(op))
      places = {&dirty.tokens.q, &dirty.tokens.k, &dirty.tokens.v, &dirty.tokens.a, &dirty.tokens.b, &dirty.pool.state};
    Tensor& place = *places[static_cast<std::size_t>(pick.between(0, static_cast<int>(places.size()) - 1))];
    Index at{};
    const bool in_pool = &place == &dirty.pool.state;
    at[0] = in_pool ? rows.block(bad) : is_rule(op) ? token : rows.global(token);
    for (std::size_t d = 1; d < static_cast<std::size_t>(place.view.dims); ++d)
      at[d] = pick.between(0, static_cast<int>(place.view.shape[d]) - 1);
    run_scene(pick, clean, rows);
    const double old = place.get_at(at);
    place.set_at(value, at);
    run_scene(pick, dirty, rows);
    for (int i = 0; i < rows.rows(); ++i) {
      if (i != bad && rows.live(i))
        same_row(clean, rows, i, dirty, rows, i, std::string(name_of(op)) + " row " + std::to_string(i));
    }
    if (!in_pool) place.set_at(old, at);
  };
  for (const Op op : kOps) {
    Pick pick(48);
    const RowSet rows =
        is_window(op) ? scene_rows(op, {3, 1, 2}, {3, 1, 4}) : scene_rows(op, {3, 1, 2}, {3, 1, 5});  // qsl [0,3,4,9]
    confined(pick, op, rows, 1, std::nan(""));
  }
  property(40, [&](Pick& pick) {
    const double values[] = {std::nan(""), HUGE_VAL, -HUGE_VAL};
    for (const Op op : kOps) {
      const RowSet rows = random_scene_rows(pick, op, {.min_rows = 2, .max_rows = 5, .nulls = false, .empties = false});
      confined(pick, op, rows, pick.between(0, rows.rows() - 1), values[pick.between(0, 2)]);
    }
  });
}

// The same in a commit: records of one row full of NaN.
TEST(Reports, B48_nan_stays_in_its_row_in_commit) {
  for (const Gate gate : {Gate::gdn, Gate::kda}) {
    for (int bad = 1; bad <= 3; ++bad) {
      RuleShape shape = kSmall;
      shape.gate = gate;
      Model m(48, shape);
      const RulePool pool = m.pool(4, 4);
      m.verify(rows_on({1, 2, 3}, {3, 1, 4}, 4), m.tokens(8), pool, m.out(8));
      const RulePool dirty = m.copy(pool);
      for (const TensorView& part : dirty.record_slices(bad, 0, 4)) {
        Tensor t = dirty.state;
        t.view = part;
        t.fill(std::nan(""));
      }
      PlanArrays plan;
      plan.add(1, 3);
      plan.add(2, 1);
      plan.add(3, 2);
      m.commit(plan, pool);
      m.commit(plan, dirty);
      for (int b = 0; b < 4; ++b)
        EXPECT_EQ(static_cast<bool>(same_bits(slice(pool.state, 0, b), slice(dirty.state, 0, b))), b != bad) << b;
    }
  }
}

// ---- B49, B54: beta -----------------------------------------------------------------------------------------------------------------

// Corrections of one-element heads with v = 1 and k = 0: the correction is beta itself. All values of b in one row.
std::vector<double> betas(Gate gate, const std::vector<std::uint32_t>& inputs, recoverssm::Target target) {
  const int n = static_cast<int>(inputs.size());
  Model m(49, {.gate = gate, .H = 1, .HV = 1, .K = 1, .V = 1, .T = DType::bf16});
  const Tensor q = dense(DType::bf16, {n, 1, 1}), b = dense(DType::bf16, {n, 1}), a = dense(DType::bf16, {n, 1, 1});
  const Tensor k = dense(DType::bf16, {n, 1, 1}), v = dense(DType::bf16, {n, 1, 1});
  q.fill(1);
  k.fill(0);
  v.fill(1);
  a.fill(0);
  for (int t = 0; t < n; ++t) set_raw_bits(DType::bf16, inputs[static_cast<std::size_t>(t)], b.at(t, 0));
  RuleTokens tokens{n, q, k, v, a, b};
  if (gate == Gate::gdn) {
    tokens.a = dense(DType::bf16, {n, 1});
    tokens.a.fill(0);
  }
  const RulePool pool = m.pool(2, n);
  pool.state.fill(0);
  const RowTensors index = row_tensors(m.pick, one_row(n, n));
  must_run(
      recoverssm::GatedDeltaRuleVerifyParams{
          inputs_of(m.shape, m.weights, tokens), pool.state, m.out(n), pool.records(), rows_of(one_row(n, n), index), {}},
      {.target = target});
  std::vector<double> result;
  for (int t = 0; t < n; ++t) result.push_back((gate == Gate::kda ? pool.corrections : pool.packed).get(1, 0, t, 0));
  return result;
}

std::vector<std::uint32_t> all_finite_bf16() {
  std::vector<std::uint32_t> inputs;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7f80) != 0x7f80) inputs.push_back(bits);
  }
  return inputs;
}

TEST(Reports, B49_beta_is_never_rounded) {
  const std::vector<std::uint32_t> inputs = all_finite_bf16();
  for (const Gate gate : {Gate::gdn, Gate::kda}) {
    const std::vector<double> two = betas(gate, {0x3f00, 0xbf00}, recoverssm::Target::best);  // 0.5, -0.5
    EXPECT_NEAR(two[0], 0.62245935, 1e-7);
    EXPECT_NEAR(two[1], 0.37754068, 1e-7);
    const std::vector<double> got = betas(gate, inputs, recoverssm::Target::best);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const double want = 1 / (1 + std::exp(-static_cast<double>(as_float(inputs[i] << 16))));
      // exp within an ulp, 1 + exp and the quotient rounded once each: 3 * 2^-24 and a bit. Past exp's range (88.7) beta is 0.
      ASSERT_NEAR(got[i], want, 2.5e-7 * want + 1e-38) << std::hex << inputs[i];
    }
  }
}

TEST(Reports, B49_long_answers_do_not_drift) {
  for (const Gate gate : {Gate::gdn, Gate::kda}) {
    for (const DType state : {DType::bf16, DType::f32}) {
      Model m(50, {.gate = gate, .H = 1, .HV = 1, .K = 16, .V = 4, .T = DType::bf16, .state = state, .out = DType::bf16});
      const RulePool updates = m.pool(2, 1), windows = m.copy(updates);
      for (int step = 0; step < 2048; ++step) {
        const RuleTokens token = m.tokens(1);
        const Tensor a = m.out(1), b = m.out(1);
        m.plain(one_row(1, 0), token, updates, a);
        m.verify(one_row(1, 1), token, windows, b);
        m.commit(1, 1, windows);
        ASSERT_TRUE(same_bits(a, b)) << "step " << step;
      }
      EXPECT_TRUE(same_bits(slice(updates.state, 0, 1), slice(windows.state, 0, 1)));
    }
  }
}

// ---- B52: parameters ----------------------------------------------------------------------------------------------------------------

// fp32 parameters are used unrounded, 16-bit ones widened: the decays differ by what the rounding of the parameter makes.
TEST(Reports, B52_parameters_are_used_unrounded) {
  Pick values(52);
  for (int i = 0; i < 30; ++i) {
    const double A_log = i == 0 ? 5.3033 : values.uniform(-4, 5.5), dt_bias = i == 0 ? -6.907755 : values.uniform(-6, 2);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      Model m(52, {.H = 1, .HV = 1, .K = 4, .V = 1, .T = DType::bf16, .A_log = dtype, .dt_bias = dtype});
      m.weights.A_log.set(A_log, 0);
      m.weights.dt_bias.set(dt_bias, 0);
      const RuleTokens tokens = m.tokens(1);
      tokens.a.fill(1.0);
      const RulePool pool = m.pool(2, 1);
      m.verify(one_row(1, 1), tokens, pool, m.out(1));
      const double A = round_to(dtype, A_log), bias = round_to(dtype, dt_bias);
      if (dtype == DType::bf16 && i == 0) {
        EXPECT_EQ(A, 5.3125);  // exp: 202.86 in place of 201.0
      }
      const double want = std::exp(-std::exp(A) * std::log1p(std::exp(1.0 + bias)));
      // 1 + exp(x) is rounded once, which exp(A_log), at most 245, magnifies: 245 * 2^-24 = 1.5e-5 of an exponent whose decay
      // falls as fast. The two dtypes are 5e-3 apart.
      EXPECT_NEAR(pool.packed.get(1, 0, 0, 1 + 4), want, 1e-5) << name_of(dtype) << " A_log " << A_log << " dt_bias " << dt_bias;
    }
  }
}

// ---- B54: subnormals, signed zero ---------------------------------------------------------------------------------------------------

// Every target gives the same beta, to the bit, for every finite bf16 input; no flush, no NaN.
TEST(Reports, B54_sigmoid_of_every_bf16) {
  const std::vector<std::uint32_t> inputs = all_finite_bf16();
  const std::vector<double> first = betas(Gate::gdn, inputs, recoverssm::Target::portable);
  for (const recoverssm::Target target : recoverssm::available_targets()) {
    const std::vector<double> got = betas(Gate::gdn, inputs, target);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      ASSERT_FALSE(std::isnan(got[i]));
      ASSERT_EQ(bits_of(got[i]), bits_of(first[i])) << name_of(target) << " " << std::hex << inputs[i];
    }
  }
}

// Subnormal and signed-zero state entries under a decay near 1/2, with k = 0 and v = 0: the new entry is round(h * d) + 0, bit for bit,
// in every op, on every target, for every state dtype.
TEST(Reports, B54_subnormals_are_kept) {
  const std::vector<double> entries = {1e-39,         1e-45,   -0.0,     0.0,      -1e-39, -1e-45, 3e-45,   1.17549435e-38,
                                       1.1754942e-38, 2e-38,   -2.5e-38, 5e-41,    6e-8,   6.1e-5, 6.09e-5, -5.96e-8,
                                       1.2e-7,        9.2e-41, 1.8e-40,  -9.2e-41, 1e-40,  7e-46,  4e-6,    1.0};
  for (const DType state : {DType::f32, DType::bf16, DType::f16}) {
    for (const recoverssm::Target target : recoverssm::available_targets()) {
      const int K = static_cast<int>(entries.size());
      Model m(54, {.H = 1, .HV = 1, .K = K, .V = 1, .state = state});
      m.weights.A_log.fill(0);
      m.weights.dt_bias.fill(0);
      const RuleTokens tokens = m.tokens(1);
      tokens.k.fill(0);
      tokens.v.fill(0);
      tokens.a.fill(0);  // softplus(0) = log 2: d is 1/2 or next to it
      const RulePool pool = m.pool(2, 1);
      for (int k = 0; k < K; ++k) pool.state.set(entries[static_cast<std::size_t>(k)], 1, 0, 0, k);
      const RulePool before = m.copy(pool), plain = m.copy(pool), snapshot = m.copy(pool);
      const RowTensors index = row_tensors(m.pick, one_row(1, 1)), plain_index = row_tensors(m.pick, one_row(1, 0));
      const recoverssm::RuleInputs inputs = inputs_of(m.shape, m.weights, tokens);
      must_run(
          recoverssm::GatedDeltaRuleVerifyParams{inputs, pool.state, m.out(1), pool.records(), rows_of(one_row(1, 1), index), {}},
          {.target = target});
      const double d = pool.packed.get(1, 0, 0, 1 + K);
      EXPECT_NEAR(d, 0.5, 1e-7);
      PlanArrays plan;
      plan.add(1, 1);
      const PlanTensors arrays = plan_tensors(m.pick, plan);
      const std::array groups = {arrays.group()};
      const std::array layers = {layer_of(m.shape, m.weights, pool)};
      must_run(recoverssm::CommitParams{groups, layers, 1, 0}, {.target = target});
      must_run(recoverssm::GatedDeltaRuleParams{inputs, plain.state, m.out(1), rows_of(one_row(1, 0), plain_index), {}, {}},
               {.target = target});
      m.snapshots(snapshot_rows({{1}}, {1}, {1}), tokens, snapshot, m.out(1));
      for (int k = 0; k < K; ++k) {
        const double h = before.state.get(1, 0, 0, k);
        // The product of two floats is exact in double; a store in a 16-bit state rounds once more.
        const auto decayed = static_cast<float>(h * d);
        const double want = round_to(state, std::fmaf(0.0F, 0.0F, decayed));
        for (const RulePool* p : {&pool, &plain, &snapshot}) {
          EXPECT_EQ(bits_of(p->state.get(1, 0, 0, k)), bits_of(want)) << name_of(state) << " " << name_of(target) << " entry " << h;
        }
      }
      EXPECT_TRUE(state != DType::f32 || pool.state.get(1, 0, 0, 0) != 0) << "1e-39 was flushed";
    }
  }
}

// What is only moved keeps its bits: NaN payloads, subnormals and -0.0 in lines and in moved states.
TEST(Reports, B54_moves_keep_bits) {
  const std::vector<std::uint32_t> patterns = {0x7fc12345, 0xffc00001, 0x7f800001, 0x80000000,
                                               0x00000001, 0x807fffff, 0x7f800000, 0xff800000};
  for (const DType state : {DType::f32, DType::bf16, DType::f16}) {
    Model m(54, {.H = 1, .HV = 2, .K = 8, .V = 3, .T = state == DType::f32 ? DType::f32 : state, .state = state});
    const RulePool pool = m.pool(4, 1);
    const Tensor line = dense(state, {4, 5, 8});
    std::size_t n = 0;
    const auto put = [&](const Tensor& t) {
      for_each(t, [&](const Index& i) {
        const std::uint32_t bits = patterns[n++ % patterns.size()] + static_cast<std::uint32_t>(i[0]);
        set_raw_bits(t.dtype(), state == DType::f32 ? bits : bits >> 16 | (bits & 3), element(t, i));
      });
    };
    put(pool.state);
    put(line);
    const RulePool before = m.copy(pool);
    const Tensor line_before = another_layout(m.pick, line, 0);
    const Tensor from = dense_i32({1}), to = dense_i32({3});
    recoverssm::Layer layer = layer_of(m.shape, m.weights, pool);
    layer.line = line;
    layer.conv_taps = 4;
    const std::array layers = {layer};
    must_run(recoverssm::AlignMoveParams{from, to, layers, 0});
    EXPECT_TRUE(same_bits(slice(pool.state, 0, 3), slice(before.state, 0, 1)));
    EXPECT_TRUE(same_bits(slice(slice(line, 0, 3), 1, 0, 3), slice(slice(line_before, 0, 1), 1, 0, 3)));
    layer.state = {};
    layer.records = {};
    const std::array line_only = {layer};
    PlanArrays plan;
    plan.add(1, 3, 2, kNoBlock, 0);
    const PlanTensors arrays = plan_tensors(m.pick, plan);
    const std::array groups = {arrays.group()};
    must_run(recoverssm::CommitParams{groups, line_only, 3, 0});
    EXPECT_TRUE(same_bits(slice(slice(line, 0, 2), 1, 0, 3), slice(slice(line_before, 0, 1), 1, 2, 5)));
  }
}

}  // namespace
