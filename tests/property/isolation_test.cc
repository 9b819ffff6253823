// What a row must not feel: NaN and infinity in other rows, what a block held before a fresh start, the caller's floating-point mode.
#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <limits>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "support/call.h"
#include "support/conv.h"
#include "support/rule.h"

namespace {

using namespace support;

constexpr double kBad[] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity()};

void poison(Pick& pick, const Tensor& tensor, const TensorView& part) {
  for_each(part, [&](const Index& i) {
    if (pick.bits() % 3 == 0) Tensor{tensor.memory, part}.set_at(kBad[pick.bits() % 3], i);
  });
}

struct RuleResult {
  RulePool pool;
  Tensor out;
};

RuleResult run_rule(Pick& pick, bool window, const RuleShape& shape, const RuleWeights& weights, const RuleTokens& tokens,
                    const RowSet& rows, const RulePool& start) {
  RuleResult r{another_pool(pick, start), random_out(pick, shape, rows.global_rows)};
  r.out.fill(0);
  const RowTensors index = row_tensors(pick, rows);
  const recoverssm::RuleInputs inputs = inputs_of(shape, weights, tokens);
  if (window) {
    must_run(recoverssm::GatedDeltaRuleVerifyParams{inputs, r.pool.state, r.out, r.pool.records(), rows_of(rows, index), {}},
             random_how(pick));
  } else {
    must_run(recoverssm::GatedDeltaRuleParams{inputs, r.pool.state, r.out, rows_of(rows, index), {}, {}}, random_how(pick));
  }
  return r;
}

TEST(Isolation, NanAndInfinityStayInTheirRow) {
  property(150, [](Pick& pick) {
    const bool window = pick.chance(50);
    const RuleShape shape = random_rule_shape(pick);
    const RuleWeights weights = random_weights(pick, shape);
    RowOptions options;
    options.min_rows = 1;
    options.capacity = window ? pick.between(1, 5) : 0;
    const RowSet rows = random_rows(pick, options);
    const RuleTokens tokens = random_tokens(pick, shape, rows.tokens);
    const RulePool pool = random_pool(pick, shape, rows.pool_blocks, options.capacity);
    pick.log(shape.text());
    pick.log(rows.text());
    const RuleResult clean = run_rule(pick, window, shape, weights, tokens, rows, pool);

    const int sick = pick.between(0, rows.rows() - 1);
    std::vector<int> all(static_cast<std::size_t>(rows.tokens));
    for (int t = 0; t < rows.tokens; ++t) all[static_cast<std::size_t>(t)] = t;
    const RuleTokens bad = gather(pick, shape, tokens, all, 0, rows.tokens);
    const RulePool bad_pool = another_pool(pick, pool);
    if (rows.live(sick)) poison(pick, bad_pool.state, slice(bad_pool.state, 0, rows.block(sick)));
    for (const Tensor* part : {&bad.q, &bad.k, &bad.v, &bad.a, &bad.b}) {
      poison(pick, *part, slice(*part, 0, rows.first(sick), rows.first(sick) + rows.length(sick)));
      for (int t = 0; t < rows.tokens; ++t) {  // tokens of no row
        if (t < rows.offsets.front() || t >= rows.offsets.back()) poison(pick, *part, slice(*part, 0, t));
      }
    }
    for (int b = 0; b <= rows.null_id; ++b) poison(pick, bad_pool.state, slice(bad_pool.state, 0, b));  // null blocks
    const RuleResult dirty = run_rule(pick, window, shape, weights, bad, rows, bad_pool);
    for (int i = 0; i < rows.rows(); ++i) {
      if (i == sick && !rows.null(i)) continue;
      for (int t = 0; t < rows.length(i); ++t) {
        const int row = rows.global(rows.first(i) + t);
        require(same_bits(slice(clean.out, 0, row), slice(dirty.out, 0, row)), "outputs of row " + std::to_string(i));
      }
      if (!rows.live(i)) continue;
      require(same_bits(slice(clean.pool.state, 0, rows.block(i)), slice(dirty.pool.state, 0, rows.block(i))), "state");
      const auto a = clean.pool.record_slices(rows.block(i), 0, rows.length(i));
      const auto b = dirty.pool.record_slices(rows.block(i), 0, rows.length(i));
      for (std::size_t p = 0; p < a.size(); ++p) require(same_bits(a[p], b[p]), "records");
    }
  });
}

TEST(Isolation, ConvolutionNanStaysInItsRowAndChannel) {
  property(50, [](Pick& pick) {
    const ConvShape shape = random_conv_shape(pick, pick.chance(50) ? pick.between(1, 4) : 0);
    const ConvWeights weights = random_conv_weights(pick, shape);
    RowOptions options;
    options.min_rows = 1;
    options.capacity = shape.S;
    const RowSet rows = random_rows(pick, options);
    const ConvData data = random_conv_data(pick, shape, rows);
    if (!shape.in_place) data.out.fill(0);
    const ConvData clean = run_conv(pick, shape, weights, rows, data, random_how(pick));
    const int sick = pick.between(0, rows.rows() - 1);
    const int channel = pick.between(0, shape.C - 1);
    const ConvData bad = another_conv_data(pick, shape, data);
    for (int t = 0; t < rows.length(sick); ++t) bad.x.set(std::nan(""), rows.global(rows.first(sick) + t), channel);
    if (rows.live(sick)) {
      for (int p = 0; p < shape.columns; ++p) bad.line.set(kBad[pick.bits() % 3], rows.block(sick), p, channel);
    }
    const ConvData dirty = run_conv(pick, shape, weights, rows, bad, random_how(pick));
    for (int i = 0; i < rows.rows(); ++i) {
      for (int t = 0; t < rows.length(i); ++t) {
        for (int ch = 0; ch < shape.C; ++ch) {
          if (i == sick && !rows.null(i) && ch == channel) continue;
          const int row = rows.global(rows.first(i) + t);
          require(same_bits(slice(slice(clean.out, 0, row), 1, ch), slice(slice(dirty.out, 0, row), 1, ch)), "output");
        }
      }
    }
    for (int b = 0; b < rows.pool_blocks; ++b) {
      for (int ch = 0; ch < shape.C; ++ch) {
        if (rows.live(sick) && b == rows.block(sick) && ch == channel) continue;
        require(same_bits(slice(slice(clean.line, 0, b), 2, ch), slice(slice(dirty.line, 0, b), 2, ch)), "line");
      }
    }
  });
}

// has_initial_state false starts from zero by selection: what the block held does not matter, not even NaN, which 0 * NaN would keep.
TEST(Isolation, AFreshStartForgetsTheBlock) {
  property(50, [](Pick& pick) {
    const RuleShape shape = random_rule_shape(pick);
    const RuleWeights weights = random_weights(pick, shape);
    RowSet rows;
    rows.pool_blocks = 3;
    rows.add(pick.between(1, 5), 2);
    rows.add(pick.between(1, 5), 1);
    rows.initial = {0, 1};
    rows.tokens = rows.global_rows = rows.offsets.back();
    const RuleTokens tokens = random_tokens(pick, shape, rows.tokens);
    const RulePool zero = random_pool(pick, shape, 3, 0);
    for_each(slice(zero.state, 0, 2), [&](const Index& i) { zero.state.set(0, 2, i[1], i[2], i[3]); });
    const RulePool bad = another_pool(pick, zero);
    for_each(slice(bad.state, 0, 2), [&](const Index& i) { bad.state.set(kBad[pick.bits() % 3], 2, i[1], i[2], i[3]); });
    const RuleResult a = run_rule(pick, false, shape, weights, tokens, rows, zero);
    const RuleResult b = run_rule(pick, false, shape, weights, tokens, rows, bad);
    require(same_bits(a.out, b.out), "outputs");
    require(same_bits(a.pool.state, b.pool.state), "states");

    const ConvShape conv_shape = random_conv_shape(pick, 0);
    const ConvWeights conv_weights = random_conv_weights(pick, conv_shape);
    const ConvData data = random_conv_data(pick, conv_shape, rows);
    const ConvData nan_line = another_conv_data(pick, conv_shape, data);
    for (int p = 0; p < conv_shape.columns; ++p) {
      for (int ch = 0; ch < conv_shape.C; ++ch) {
        data.line.set(p < conv_shape.W - 1 ? 0.0 : 3.0, 2, p, ch);
        nan_line.line.set(p < conv_shape.W - 1 ? kBad[pick.bits() % 3] : 3.0, 2, p, ch);
      }
    }
    const ConvData c = run_conv(pick, conv_shape, conv_weights, rows, data, random_how(pick));
    const ConvData d = run_conv(pick, conv_shape, conv_weights, rows, nan_line, random_how(pick));
    require(same_bits(c.out, d.out), "conv outputs");
    require(same_bits(c.line, d.line), "conv lines");
  });
}

#if defined(__x86_64__)
// Flush-to-zero, denormals-are-zero and upward rounding set by the caller change nothing and are still set afterwards; so are the
// caller's threads'. Subnormal states and outputs make flushing visible.
TEST(Isolation, TheCallersFloatingPointModeDoesNotMatter) {
  RECOVERSSM_CPU_ONLY("the floating-point mode of the calling thread");
  property(80, [](Pick& pick) {
    const bool window = pick.chance(50);
    const RuleShape shape = random_rule_shape(pick);
    const RuleWeights weights = random_weights(pick, shape);
    RowOptions options;
    options.capacity = window ? pick.between(1, 4) : 0;
    const RowSet rows = random_rows(pick, options);
    const RuleTokens tokens = random_tokens(pick, shape, rows.tokens);
    const RulePool pool = random_pool(pick, shape, rows.pool_blocks, options.capacity);
    const double tiny = pick.one_of({1.0, 1e-38, 1e-40});
    for_each(pool.state, [&](const Index& i) { pool.state.set_at(pool.state.get_at(i) * tiny, i); });
    for_each(tokens.v, [&](const Index& i) { tokens.v.set_at(tokens.v.get_at(i) * tiny, i); });
    const RowTensors index = row_tensors(pick, rows);
    const recoverssm::RuleInputs inputs = inputs_of(shape, weights, tokens);
    const int threads = pick.one_of({1, 2});
    pick.log(shape.text());
    std::vector<RuleResult> runs;
    for (const unsigned mode :
         {0x1F80U, 0x1F80U | 0x8040U, 0x1F80U | 0x4000U, 0x1F80U | 0xE040U}) {  // default; FTZ+DAZ; up; all, to zero
      RuleResult r{another_pool(pick, pool), random_out(pick, shape, rows.global_rows)};
      r.out.fill(0);
      const recoverssm::GatedDeltaRuleVerifyParams verify{inputs, r.pool.state, r.out, r.pool.records(), rows_of(rows, index), {}};
      const recoverssm::GatedDeltaRuleParams plain{inputs, r.pool.state, r.out, rows_of(rows, index), {}, {}};
      GuardedLaunch guarded({threads, random_how(pick).target, nullptr});
      const recoverssm::Launch launch = guarded.sized(window ? recoverssm::workspace_size(verify, guarded.launch)
                                                             : recoverssm::workspace_size(plain, guarded.launch));
      const unsigned before = _mm_getcsr();
      _mm_setcsr(mode);
      const recoverssm::Status status = window ? recoverssm::run(verify, launch) : recoverssm::run(plain, launch);
      const unsigned after = _mm_getcsr();
      _mm_setcsr(before);
      require(status.ok(), status.message);
      require((after & ~0x3FU) == mode, "the caller's mode is restored");  // the low bits are sticky exception flags
      runs.push_back(r);
    }
    for (const RuleResult& r : runs) {
      require(same_bits(runs[0].out, r.out), "outputs");
      require(same_bits(runs[0].pool.state, r.pool.state), "states");
      const Tensor& records = shape.kda() ? r.pool.corrections : r.pool.packed;
      if (records.present()) require(same_bits(shape.kda() ? runs[0].pool.corrections : runs[0].pool.packed, records), "records");
    }
  });
}

TEST(Isolation, TheCallersModeDoesNotMatterToConvolutionsAndCommit) {
  RECOVERSSM_CPU_ONLY("the floating-point mode of the calling thread");
  property(80, [](Pick& pick) {
    ConvShape shape = random_conv_shape(pick, pick.chance(50) ? pick.between(1, 4) : 0);
    shape.in_place = false;
    const ConvWeights weights = random_conv_weights(pick, shape);
    RowOptions options;
    options.capacity = shape.S;
    const RowSet rows = random_rows(pick, options);
    const ConvData data = random_conv_data(pick, shape, rows);
    const double tiny = pick.one_of({1.0, 1e-38, 1e-40});
    for_each(data.x, [&](const Index& i) { data.x.set_at(data.x.get_at(i) * tiny, i); });
    data.out.fill(0);
    const ConvData expected = run_conv(pick, shape, weights, rows, data, {});
    const ConvData other = another_conv_data(pick, shape, data);
    const RowTensors index = row_tensors(pick, rows);
    const auto call = [&](auto params) {
      params.x = other.x;
      params.weight = weights.weight;
      params.bias = weights.bias;
      params.activation = shape.silu ? recoverssm::Activation::silu : recoverssm::Activation::none;
      params.out = other.out;
      params.line = other.line;
      params.line_kind = shape.kind;
      params.rows = rows_of(rows, index);
      GuardedLaunch guarded({pick.one_of({1, 2})});
      const recoverssm::Launch launch = guarded.sized(recoverssm::workspace_size(params, guarded.launch));
      const unsigned before = _mm_getcsr();
      const int rounding = std::fegetround();
      std::fesetround(FE_UPWARD);
      _mm_setcsr(_mm_getcsr() | 0x8040U);
      const recoverssm::Status status = recoverssm::run(params, launch);
      const bool kept = std::fegetround() == FE_UPWARD && (_mm_getcsr() & 0x8040U) == 0x8040U;
      std::fesetround(rounding);
      _mm_setcsr(before);
      require(status.ok(), status.message);
      require(kept, "the caller's mode is restored");
    };
    if (shape.S > 0) {
      call(recoverssm::CausalConv1dWindowParams{});
    } else {
      call(recoverssm::CausalConv1dParams{});
    }
    require(same_bits(expected.out, other.out), "outputs");
    require(same_bits(expected.line, other.line), "lines");
  });
}
#endif

}  // namespace
