// Faults that other systems had, second half: the arithmetic and the shapes of the delta rules. See reports_test.cc.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "support/call.h"
#include "support/conv.h"
#include "support/convert.h"
#include "support/plan.h"
#include "support/rule.h"

namespace {

using namespace support;
using recoverssm::ErrorKind;

struct OneRow {
  RowSet rows;
  explicit OneRow(int length, int capacity) {
    rows.capacity = capacity;
    rows.add(length, 1);
    rows.tokens = rows.global_rows = length;
  }
};

void run_verify(Pick& pick, const RuleShape& shape, const RuleWeights& weights, const RuleTokens& tokens, const RowSet& rows,
                const RulePool& pool, const Tensor& out) {
  const RowTensors index = row_tensors(pick, rows);
  must_run(
      recoverssm::GatedDeltaRuleVerifyParams{
          inputs_of(shape, weights, tokens), pool.state, out, pool.records(), rows_of(rows, index), {}},
      random_how(pick));
}

void run_plain(Pick& pick, const RuleShape& shape, const RuleWeights& weights, const RuleTokens& tokens, const RowSet& rows,
               const RulePool& pool, const Tensor& out) {
  const RowTensors index = row_tensors(pick, rows);
  must_run(recoverssm::GatedDeltaRuleParams{inputs_of(shape, weights, tokens), pool.state, out, rows_of(rows, index), {}, {}},
           random_how(pick));
}

void run_commit(Pick& pick, const RuleShape& shape, const RuleWeights& weights, const RulePool& pool, int block, int c) {
  PlanArrays plan;
  plan.add(block, c);
  const PlanTensors tensors = plan_tensors(pick, plan);
  const std::array groups = {tensors.group()};
  const std::array layers = {layer_of(shape, weights, pool)};
  must_run(recoverssm::CommitParams{groups, layers, pool.capacity, 0}, random_how(pick));
}

// All outputs and the final state of a plain call against the reference.
void matches_reference(Pick& pick, const RuleShape& shape, const RowSet& rows, const std::string& what) {
  const RuleWeights weights = random_weights(pick, shape);
  const RuleTokens tokens = random_tokens(pick, shape, rows.tokens);
  const RulePool pool = random_pool(pick, shape, rows.rows() + 1, 0);
  const RulePool before = another_pool(pick, pool);
  const Tensor out = random_out(pick, shape, rows.global_rows);
  Untouched untouched({{"out", out}, {"state", pool.state}, {"a", tokens.a}});
  untouched.except(slice(out, 0, rows.offsets.front(), rows.offsets.back()));
  for (int i = 0; i < rows.rows(); ++i) untouched.except(slice(pool.state, 0, rows.block(i)));
  run_plain(pick, shape, weights, tokens, rows, pool, out);
  ASSERT_TRUE(untouched.check()) << what;
  for (int i = 0; i < rows.rows(); ++i) {
    for (int j = 0; j < shape.HV; ++j) {
      reference::Matrix state = matrix_of(before.state, rows.block(i), j);
      for (int t = rows.first(i); t < rows.first(i) + rows.length(i); ++t) {
        const reference::Step step = reference::advance_rank_one(head_of(shape, weights, j), token_of(shape, tokens, t, j), state);
        for (int v = 0; v < shape.V; ++v) {
          ASSERT_TRUE(near(out.get(t, j, v), step.out[static_cast<std::size_t>(v)], shape.out, kRuleTolerance))
              << what << " head " << j;
        }
      }
      for (int v = 0; v < shape.V; ++v) {
        for (int k = 0; k < shape.K; ++k)
          ASSERT_TRUE(near(pool.state.get(rows.block(i), j, v, k), state.at(v, k), shape.state, kRuleTolerance)) << what;
      }
    }
  }
}

// Work units that are no multiple of the heads write into the neighbour's memory: every batch size, head counts that divide nothing.
TEST(Reports, B37_HeadCountsAndBatchSizes) {
  for (const int HV : {24, 48}) {
    for (int batch = 1; batch <= 40; batch += batch < 8 ? 1 : 5) {
      Pick pick(static_cast<std::uint64_t>(HV + batch));
      RowSet rows;
      for (int i = 0; i < batch; ++i) rows.add(1, i + 1);
      rows.tokens = rows.global_rows = batch;
      matches_reference(pick, {.H = 8, .HV = HV, .K = 4, .V = 3, .T = DType::bf16, .out = DType::bf16}, rows,
                        "HV " + std::to_string(HV));
    }
  }
}

// State is [V, K] everywhere: another order is refused by its shape, and two ops hand the state to each other.
TEST(Reports, B38_OneStateLayout) {
  Pick pick(38);
  const RuleShape shape = {.H = 1, .HV = 2, .K = 64, .V = 128};
  const RuleWeights weights = random_weights(pick, shape);
  const RuleTokens tokens = random_tokens(pick, shape, 8);
  const Tensor out = random_out(pick, shape, 8), rest = random_out(pick, shape, 3);
  RulePool pool = random_pool(pick, shape, 2, 3);
  const RulePool whole = another_pool(pick, pool);
  run_plain(pick, shape, weights, tokens, OneRow(8, 0).rows, whole, out);
  RowSet first = OneRow(5, 0).rows;
  run_plain(pick, shape, weights, gather(pick, shape, tokens, {0, 1, 2, 3, 4}, 0, 5), first, pool, random_out(pick, shape, 5));
  run_verify(pick, shape, weights, gather(pick, shape, tokens, {5, 6, 7}, 0, 3), OneRow(3, 3).rows, pool, rest);
  run_commit(pick, shape, weights, pool, 1, 3);
  EXPECT_TRUE(same_bits(slice(out, 0, 5, 8), rest));
  EXPECT_TRUE(same_bits(whole.state, pool.state));
  const Tensor swapped = dense(DType::f32, {2, 2, 64, 128});  // [.., K, V]
  const RowTensors index = row_tensors(pick, OneRow(8, 0).rows);
  EXPECT_EQ(recoverssm::validate(recoverssm::GatedDeltaRuleParams{
                                     inputs_of(shape, weights, tokens), swapped, out, rows_of(OneRow(8, 0).rows, index), {}, {}})
                .kind,
            ErrorKind::invalid_argument);
}

// Steep and tiny decays: exponents never above 0, dead channels are exactly dead, everything finite and near a float64 scan.
TEST(Reports, B44_ExtremeDecays) {
  for (const double steep : {-166.0, -2661.0}) {
    Pick pick(44);
    const RuleShape shape = {.gate = Gate::kda, .H = 1, .HV = 1, .K = 128, .V = 8};
    const RuleWeights weights = random_weights(pick, shape);
    weights.A_log.fill(5.3033);
    weights.dt_bias.fill(0);
    const RuleTokens tokens = random_tokens(pick, shape, 16);
    const double A = std::exp(weights.A_log.get(0));
    const auto gate_for = [&](double g) {  // the raw input whose log decay is g: softplus(y) = -g / A
      const double sp = -g / A;
      return sp > 20 ? sp : std::log(std::expm1(sp));
    };
    for (int t = 0; t < 16; ++t) {
      for (int k = 0; k < 128; ++k)
        tokens.a.set(gate_for(k == 0 ? (steep < -1000 && t != 7 ? -0.01 : steep) : k == 1 ? -6.5e-12 : -0.01), t, 0, k);
    }
    const RulePool pool = random_pool(pick, shape, 2, 16);
    const RulePool start = another_pool(pick, pool);
    const Tensor out = random_out(pick, shape, 16);
    run_verify(pick, shape, weights, tokens, OneRow(16, 16).rows, pool, out);
    run_commit(pick, shape, weights, pool, 1, 16);
    reference::Matrix state = matrix_of(start.state, 1, 0);
    const reference::Head head = head_of(shape, weights, 0);
    for (int t = 0; t < 16; ++t) {
      const reference::Step step = reference::advance(head, token_of(shape, tokens, t, 0), state);
      for (double d : step.decay) ASSERT_LE(d, 1.0);
      for (int v = 0; v < 8; ++v) {
        ASSERT_TRUE(std::isfinite(out.get(t, 0, v)));
        EXPECT_NEAR(out.get(t, 0, v), step.out[static_cast<std::size_t>(v)], 1e-3);
      }
    }
    for (int v = 0; v < 8; ++v) {
      for (int k = 0; k < 128; ++k) EXPECT_NEAR(pool.state.get(1, 0, v, k), state.at(v, k), 1e-3);
    }
  }
  // A channel whose decay underflows holds exactly what the token wrote, nothing of before.
  Pick pick(45);
  const RuleShape shape = {.gate = Gate::kda, .H = 1, .HV = 1, .K = 4, .V = 2};
  const RuleWeights weights = random_weights(pick, shape);
  weights.A_log.fill(5.3033);
  weights.dt_bias.fill(0);
  const RuleTokens tokens = random_tokens(pick, shape, 1);
  tokens.a.fill(100.0);
  const RulePool pool = random_pool(pick, shape, 2, 0), zero = another_pool(pick, pool);
  zero.state.fill(0);
  run_plain(pick, shape, weights, tokens, OneRow(1, 0).rows, pool, random_out(pick, shape, 1));
  run_plain(pick, shape, weights, tokens, OneRow(1, 0).rows, zero, random_out(pick, shape, 1));
  EXPECT_TRUE(same_bits(slice(pool.state, 0, 1), slice(zero.state, 0, 1)));
}

// fp16 models with large states: outputs asked for in fp32 stay what they are above 65504.
TEST(Reports, B47_LargeOutputsStayFinite) {
  Pick pick(47);
  for (const Gate gate : {Gate::gdn, Gate::kda}) {
    const RuleShape shape = {
        .gate = gate, .H = 1, .HV = 1, .K = 4, .V = 3, .T = DType::f16, .out = DType::f32, .l2norm = false, .scale = 1.0F};
    const RuleWeights weights = random_weights(pick, shape);
    const RuleTokens tokens = random_tokens(pick, shape, 2);
    tokens.q.fill(1);
    tokens.k.fill(0);
    tokens.a.fill(-30);  // no decay to speak of
    const RulePool pool = random_pool(pick, shape, 2, 2);
    pool.state.fill(2e5);
    const Tensor out = random_out(pick, shape, 2);
    run_verify(pick, shape, weights, tokens, OneRow(2, 2).rows, pool, out);
    for (int v = 0; v < 3; ++v) EXPECT_NEAR(out.get(1, 0, v), 8e5, 100);
  }
}

// The eps of the norm is added to the sum of squares, not to their mean: 128 lanes of 1e-4 give 0.06623, and zero stays zero.
TEST(Reports, B48_TheEpsilonOfTheNorm) {
  Pick pick(48);
  const RuleShape shape = {.H = 1, .HV = 1, .K = 128, .V = 2};
  const RuleWeights weights = random_weights(pick, shape);
  const RuleTokens tokens = random_tokens(pick, shape, 2);
  for (int k = 0; k < 128; ++k) {
    tokens.k.set(1e-4, 0, 0, k);
    tokens.k.set(0, 1, 0, k);
  }
  const RulePool pool = random_pool(pick, shape, 2, 2);
  run_verify(pick, shape, weights, tokens, OneRow(2, 2).rows, pool, random_out(pick, shape, 2));
  for (int k = 0; k < 128; ++k) {
    EXPECT_NEAR(pool.packed.get(1, 0, 0, 2 + k), 0.06623, 5e-6);
    EXPECT_EQ(pool.packed.get(1, 0, 1, 2 + k), 0);
  }
}

// beta is never rounded to T: with a zero state and v = 1 the correction is beta itself.
TEST(Reports, B49_BetaStaysFp32) {
  Pick pick(49);
  for (const Gate gate : {Gate::gdn, Gate::kda}) {
    const RuleShape shape = {.gate = gate, .H = 1, .HV = 1, .K = 8, .V = 1, .T = DType::bf16};
    const RuleWeights weights = random_weights(pick, shape);
    const RuleTokens tokens = random_tokens(pick, shape, 2);
    tokens.v.fill(1);
    tokens.k.fill(0);
    tokens.b.set(0.5, 0, 0);
    tokens.b.set(-0.5, 1, 0);
    const RulePool pool = random_pool(pick, shape, 2, 2);
    pool.state.fill(0);
    run_verify(pick, shape, weights, tokens, OneRow(2, 2).rows, pool, random_out(pick, shape, 2));
    const Tensor& corrections = gate == Gate::kda ? pool.corrections : pool.packed;
    EXPECT_NEAR(corrections.get(1, 0, 0, 0), 0.62245935, 1e-7);
    EXPECT_NEAR(corrections.get(1, 0, 1, 0), 0.37754068, 1e-7);
  }
}

// A long answer by verify and commit of one token a step is the same answer by updates, bit for bit to the end.
TEST(Reports, B49_LongAnswersDoNotDrift) {
  for (const Gate gate : {Gate::gdn, Gate::kda}) {
    Pick pick(50);
    const RuleShape shape = {
        .gate = gate, .H = 1, .HV = 1, .K = 16, .V = 4, .T = DType::bf16, .state = DType::bf16, .out = DType::bf16};
    const RuleWeights weights = random_weights(pick, shape);
    const RulePool updates = random_pool(pick, shape, 2, 1), windows = another_pool(pick, updates);
    for (int step = 0; step < 2048; ++step) {
      const RuleTokens token = random_tokens(pick, shape, 1);
      const Tensor a = random_out(pick, shape, 1), b = random_out(pick, shape, 1);
      run_plain(pick, shape, weights, token, OneRow(1, 0).rows, updates, a);
      run_verify(pick, shape, weights, token, OneRow(1, 1).rows, windows, b);
      run_commit(pick, shape, weights, windows, 1, 1);
      ASSERT_TRUE(same_bits(a, b)) << "step " << step;
    }
    EXPECT_TRUE(same_bits(slice(updates.state, 0, 1), slice(windows.state, 0, 1)));
  }
}

// KDA recomputes key and gate at commit: the state after the replay is the one the op held, over many rounds and all of A_log's range.
TEST(Reports, B50_KdaReplayUsesTheSameFormula) {
  Pick pick(50);
  for (const bool bounded : {false, true}) {
    RuleShape shape = {.gate = Gate::kda, .H = 1, .HV = 2, .K = 24, .V = 6, .T = DType::bf16};
    if (bounded) shape.lower_bound = -5.0F;
    const RuleWeights weights = random_weights(pick, shape);
    const RulePool updates = random_pool(pick, shape, 2, 7), windows = another_pool(pick, updates);
    for (int round = 0; round < 100; ++round) {
      for (int j = 0; j < 2; ++j) weights.A_log.set(-8 + 13.3 * round / 99, j);
      const int kept = 1 + round % 7;
      const RuleTokens tokens = random_tokens(pick, shape, 7);
      run_verify(pick, shape, weights, tokens, OneRow(7, 7).rows, windows, random_out(pick, shape, 7));
      run_commit(pick, shape, weights, windows, 1, kept);
      run_plain(pick, shape, weights, tokens, OneRow(kept, 0).rows, updates, random_out(pick, shape, 7));
      ASSERT_TRUE(same_bits(updates.state, windows.state)) << "round " << round;
    }
  }
}

// fp32 parameters are used unrounded, 16-bit ones widened: the decays differ by what the rounding of the parameter makes.
TEST(Reports, B52_ParametersAreUsedUnrounded) {
  Pick pick(52);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const RuleShape shape = {.H = 1, .HV = 1, .K = 4, .V = 1, .T = DType::bf16, .A_log = dtype, .dt_bias = dtype};
    const RuleWeights weights = random_weights(pick, shape);
    weights.A_log.set(5.3033, 0);
    weights.dt_bias.set(-6.907755, 0);
    const RuleTokens tokens = random_tokens(pick, shape, 1);
    tokens.a.fill(1.0);
    const RulePool pool = random_pool(pick, shape, 2, 1);
    run_verify(pick, shape, weights, tokens, OneRow(1, 1).rows, pool, random_out(pick, shape, 1));
    const double A_log = dtype == DType::f32 ? static_cast<double>(5.3033F) : 5.3125;
    const double dt_bias = dtype == DType::f32 ? static_cast<double>(-6.907755F) : round_to(DType::bf16, -6.907755);
    const double expected = std::exp(-std::exp(A_log) * std::log1p(std::exp(1.0 + dt_bias)));
    // 1 + exp(x) is rounded once, which exp(A_log) = 201 magnifies: 201 * 2^-24 * decay = 7e-6. The two cases are 5e-3 apart.
    EXPECT_NEAR(pool.packed.get(1, 0, 0, 1 + 4), expected, 1e-5) << name_of(dtype);
  }
}

// Head sizes and head counts that no kernel was cut for. What lies behind the gates (NaN in every test buffer) never matters.
TEST(Reports, B55_HeadSizesAndCounts) {
  for (const int K : {16, 48, 60, 64, 96, 100, 128, 160, 192, 256}) {
    for (const int V : {32, 64, 96, 128, 256}) {
      Pick pick(static_cast<std::uint64_t>(K * 1000 + V));
      matches_reference(pick, {.gate = V == 64 ? Gate::kda : Gate::gdn, .H = 1, .HV = 1, .K = K, .V = V}, OneRow(2, 0).rows,
                        "K " + std::to_string(K) + " V " + std::to_string(V));
    }
  }
  for (const int HV : {1, 5, 16, 24, 48, 64, 128}) {
    Pick pick(static_cast<std::uint64_t>(HV));
    matches_reference(pick, {.H = HV % 8 == 0 ? HV / 8 : HV, .HV = HV, .K = 16, .V = 8, .T = DType::bf16}, OneRow(2, 0).rows,
                      "HV " + std::to_string(HV));
  }
}

// Window sizes past what kernels were cut for: each equals a plain call over the same tokens, in every windowed op.
TEST(Reports, B57_WindowSizes) {
  for (const int S : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16}) {
    Pick pick(static_cast<std::uint64_t>(S));
    const RuleShape shape = {.H = 1, .HV = 2, .K = 20, .V = 5, .T = DType::bf16, .out = DType::bf16};
    const RuleWeights weights = random_weights(pick, shape);
    RowSet rows;
    rows.capacity = S;
    for (const int block : {2, 1}) rows.add(S, block);
    rows.tokens = rows.global_rows = 2 * S;
    const RuleTokens tokens = random_tokens(pick, shape, 2 * S);
    const RulePool pool = random_pool(pick, shape, 3 + 2 * S, S);
    const RulePool plain_pool = another_pool(pick, pool), snapshot_pool = another_pool(pick, pool);
    const Tensor expected = random_out(pick, shape, 2 * S), out = random_out(pick, shape, 2 * S);
    RowSet plain = rows;
    plain.capacity = 0;
    run_plain(pick, shape, weights, tokens, plain, plain_pool, expected);
    run_verify(pick, shape, weights, tokens, rows, pool, out);
    EXPECT_TRUE(same_bits(expected, out)) << "verify, S " << S;
    RowSet snapshots = rows;
    snapshots.snapshots = snapshots.counted = true;
    snapshots.accepted = {1, 1};
    for (int i = 0; i < 2; ++i) {
      std::vector<int> columns = {2 - i};
      for (int t = 1; t < S; ++t) columns.push_back(3 + i * S + t);
      snapshots.columns.push_back(columns);
    }
    const RowTensors index = row_tensors(pick, snapshots);
    must_run(recoverssm::GatedDeltaRuleSnapshotsParams{inputs_of(shape, weights, tokens), snapshot_pool.state, out,
                                                       rows_of(snapshots, index)});
    EXPECT_TRUE(same_bits(expected, out)) << "snapshots, S " << S;
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(same_bits(slice(plain_pool.state, 0, 2 - i),
                            slice(snapshot_pool.state, 0, snapshots.columns[static_cast<std::size_t>(i)].back())));
    }
    ConvShape conv;
    conv.C = 9;
    conv.S = S;
    conv.columns = conv.W - 1 + S - 1;
    ConvShape conv_plain = conv;
    conv_plain.S = 0;
    const ConvWeights conv_weights = random_conv_weights(pick, conv);
    RowSet conv_rows = rows;
    conv_rows.pool_blocks = 3;
    const ConvData data = random_conv_data(pick, conv, conv_rows);
    RowSet conv_plain_rows = conv_rows;
    conv_plain_rows.capacity = 0;
    const ConvData a = run_conv(pick, conv, conv_weights, conv_rows, data, random_how(pick));
    const ConvData b = run_conv(pick, conv_plain, conv_weights, conv_plain_rows, data, random_how(pick));
    EXPECT_TRUE(same_bits(a.out, b.out)) << "convolution, S " << S;
  }
}

}  // namespace
