// short_conv: section 7 of the contract, written out again here.
#include "recoverssm/short_conv.hpp"

#include <algorithm>
#include <cmath>

#include "cpu/conv_case.h"
#include "recoverssm/info.hpp"

namespace {

using namespace conv_case;
using recoverssm::ShortConvParams;
using support::property;
using support::require;
using support::same_bits;
using support::slice;

struct ShortConv {
  LineKind kind = LineKind::plain;
  int dilation = 1;
  RowSet rows;
  support::RowTensors tensors;
  Tensor x, weight, residual, outer, line;

  DType T() const { return x.dtype(); }
  int C() const { return static_cast<int>(weight.view.shape[0]); }
  int Kc() const { return static_cast<int>(weight.view.shape[1]); }
  int history() const { return (Kc() - 1) * dilation; }
  int history_at(int i) const {
    if (!rows.counted) return 0;
    return kind == LineKind::anchored ? std::max(rows.count(i), 0) : std::max(rows.count(i) - 1, 0);
  }
  void run(const How& how = {}) const {
    support::must_run(ShortConvParams{.x = x,
                                      .weight = weight,
                                      .dilation = dilation,
                                      .residual = residual,
                                      .outer_residual = outer,
                                      .line = line,
                                      .line_kind = kind,
                                      .rows = support::rows_of(rows, tensors)},
                      how);
  }
};

ShortConv with_own_outputs(const ShortConv& conv) {
  ShortConv copy = conv;
  copy.residual = clone(conv.residual);
  copy.line = clone(conv.line);
  return copy;
}

ShortConv random_short_conv(Pick& pick) {
  ShortConv conv;
  conv.kind = pick.one_of({LineKind::plain, LineKind::rolled, LineKind::anchored});
  const bool window = conv.kind != LineKind::plain;
  const DType T = pick.one_of({DType::f32, DType::bf16, DType::f16});
  const int Kc = pick.between(2, 5), C = pick.chance(15) ? pick.between(kConvTile - 1, 2 * kConvTile + 1) : pick.between(1, 9);
  conv.dilation = pick.between(1, 4);
  support::RowOptions rows;
  rows.capacity = window ? pick.between(1, 5) : 0;
  rows.max_length = 20;
  rows.initial = !window;
  rows.accepted = window && pick.chance(60);
  conv.rows = support::random_rows(pick, rows);
  conv.tensors = support::row_tensors(pick, conv.rows);

  const int columns = (Kc - 1) * conv.dilation + rows.capacity + pick.between(0, 2);
  conv.line = support::strided(pick, T, {conv.rows.pool_blocks, columns, C}, 0);
  const std::vector<Tensor> tokens =
      support::strided_or_interleaved(pick, conv.rows.global_rows, {{T, {C}, 1}, {T, {C}, 1}, {T, {C}, 1}});
  conv.x = tokens[0];
  conv.residual = tokens[1];
  conv.weight = support::strided(pick, pick.one_of({T, DType::f32}), {C, Kc}, 0);
  for (const Tensor& tensor : {conv.x, conv.residual, conv.weight, conv.line}) fill_normal(pick, tensor);
  if (pick.chance(50)) {
    conv.outer = tokens[2];
    fill_normal(pick, conv.outer);
  }
  pick.log(conv.rows.text() + " Kc " + std::to_string(Kc) + " dilation " + std::to_string(conv.dilation) + " C " +
           std::to_string(C) + " cols " + std::to_string(columns) + " " + recoverssm::name_of(T) +
           (conv.outer.present() ? " outer" : ""));
  return conv;
}

// history ++ inputs of one channel of a live row, as bits.
std::vector<std::uint64_t> entries(const ShortConv& conv, int i, int c) {
  std::vector<std::uint64_t> bits;
  for (int h = 0; h < conv.history(); ++h) {
    bits.push_back(
        conv.rows.from_state(i) ? support::raw_bits(conv.T(), conv.line.at(conv.rows.block(i), conv.history_at(i) + h, c)) : 0);
  }
  for (int t = 0; t < conv.rows.length(i); ++t) {
    bits.push_back(support::raw_bits(conv.T(), conv.x.at(conv.rows.global(conv.rows.first(i) + t), c)));
  }
  return bits;
}

// The sum, rounded to T: exact.
double rounded_sum(const ShortConv& conv, const std::vector<std::uint64_t>& bits, int t, int c) {
  float sum = 0.0F;
  for (int k = 0; k < conv.Kc(); ++k) {
    const volatile float product = static_cast<float>(value_of(conv.T(), bits[static_cast<std::size_t>(t + conv.dilation * k)])) *
                                   static_cast<float>(conv.weight.get(c, k));
    sum = sum + product;
  }
  return support::round_to(conv.T(), sum);
}

Tensor expected_line(const ShortConv& conv) {
  const Tensor want = clone(conv.line);
  for (int i = 0; i < conv.rows.rows(); ++i) {
    if (!conv.rows.live(i)) continue;
    for (int c = 0; c < conv.C(); ++c) {
      const std::vector<std::uint64_t> bits = entries(conv, i, c);
      // plain: the last `history` entries; rolled: all but the oldest; anchored: all.
      const std::size_t dropped = conv.kind == LineKind::plain    ? static_cast<std::size_t>(conv.rows.length(i))
                                  : conv.kind == LineKind::rolled ? 1
                                                                  : 0;
      for (std::size_t e = dropped; e < bits.size(); ++e) {
        support::set_raw_bits(conv.T(), bits[e], want.at(conv.rows.block(i), static_cast<int>(e - dropped), c));
      }
    }
  }
  return want;
}

TEST(ShortConv, DoesWhatTheContractSays) {
  property(400, [](Pick& pick) {
    const ShortConv conv = random_short_conv(pick);
    const ShortConv before = with_own_outputs(conv);
    const Tensor line = expected_line(conv);
    support::Untouched untouched({{"residual", conv.residual}, {"x", conv.x}, {"outer", conv.outer}});
    for (int t = conv.rows.offsets.front(); t < conv.rows.offsets.back(); ++t) {
      untouched.except(slice(conv.residual, 0, conv.rows.global(t)));
    }
    conv.run();
    require(untouched.check());
    require(same_memory(conv.line, line), "line");

    for (int i = 0; i < conv.rows.rows(); ++i) {
      for (int t = 0; t < conv.rows.length(i); ++t) {
        const int row = conv.rows.global(conv.rows.first(i) + t);
        if (conv.rows.null(i)) require(support::all_zero_bits(slice(conv.residual, 0, row)), "null row " + std::to_string(i));
        for (int c = 0; conv.rows.live(i) && c < conv.C(); ++c) {
          const double sum = rounded_sum(before, entries(before, i, c), t, c);
          double want = sum / (1.0 + std::exp(-sum));
          // exp, 1 + exp and the quotient: a few fp32 ulp. Then every rounding to T of a number at most one binade off.
          double tolerance = 4 * support::ulp(DType::f32, want) + 0.51 * support::ulp(conv.T(), want);
          for (const Tensor& addend : {before.residual, before.outer}) {
            if (!conv.outer.present()) break;
            want += addend.get(row, c);
            tolerance += 1.02 * support::ulp(conv.T(), want);
          }
          require(std::fabs(conv.residual.get(row, c) - want) <= tolerance,
                  "row " + std::to_string(i) + " token " + std::to_string(t) + " channel " + std::to_string(c));
        }
      }
    }
  });
}

// Where silu is the identity (sums above 18) the output is exact too, so the rounding of the sum shows in the bits.
TEST(ShortConv, RoundsTheSumToT) {
  property(200, [](Pick& pick) {
    const ShortConv conv = random_short_conv(pick);
    for (const Tensor& tensor : {conv.x, conv.line}) {
      support::for_each(tensor, [&](const support::Index& i) { tensor.set_at(pick.uniform(20, 60), i); });
    }
    support::for_each(conv.weight, [&](const support::Index& i) { conv.weight.set_at(pick.uniform(0.95, 1.2), i); });
    for (const Tensor& tensor : {conv.residual, conv.outer}) {
      if (tensor.present()) support::for_each(tensor, [&](const support::Index& i) { tensor.set_at(pick.uniform(-90, 90), i); });
    }
    const ShortConv before = with_own_outputs(conv);
    conv.run();
    for (int i = 0; i < conv.rows.rows(); ++i) {
      for (int t = 0; conv.rows.live(i) && t < conv.rows.length(i); ++t) {
        const int row = conv.rows.global(conv.rows.first(i) + t);
        for (int c = 0; c < conv.C(); ++c) {
          double want = rounded_sum(before, entries(before, i, c), t, c);
          if (want < 18.0) continue;  // no history
          if (conv.outer.present()) {
            want = support::round_to(conv.T(), static_cast<float>(before.residual.get(row, c)) + static_cast<float>(want));
            want = support::round_to(conv.T(), static_cast<float>(before.outer.get(row, c)) + static_cast<float>(want));
          }
          require(conv.residual.get(row, c) == want, "row " + std::to_string(i) + " token " + std::to_string(t));
        }
      }
    }
  });
}

// y is what a call without outer residual stores, so everything behind it is exact: y was rounded to T, and so is residual + y.
TEST(ShortConv, ResidualsAddTheRoundedY) {
  property(200, [](Pick& pick) {
    ShortConv conv = random_short_conv(pick);
    if (!conv.outer.present()) {
      conv.outer = clone(conv.x);
      fill_normal(pick, conv.outer);
    }
    const ShortConv before = with_own_outputs(conv);
    ShortConv without = with_own_outputs(conv);
    without.outer = {};
    without.run();
    conv.run();
    for (int i = 0; i < conv.rows.rows(); ++i) {
      for (int t = 0; conv.rows.live(i) && t < conv.rows.length(i); ++t) {
        const int row = conv.rows.global(conv.rows.first(i) + t);
        for (int c = 0; c < conv.C(); ++c) {
          const auto residual = static_cast<float>(before.residual.get(row, c)), outer = static_cast<float>(conv.outer.get(row, c));
          const double r = support::round_to(conv.T(), residual + static_cast<float>(without.residual.get(row, c)));
          const double want = support::round_to(conv.T(), outer + static_cast<float>(r));
          require(conv.residual.get(row, c) == want, "row " + std::to_string(i) + " token " + std::to_string(t));
        }
      }
    }
  });
}

TEST(ShortConv, StridesTargetsAndThreadsDoNotMatter) {
  property(100, [](Pick& pick) {
    const ShortConv conv = random_short_conv(pick);
    const ShortConv start = with_own_outputs(conv);
    conv.run({.threads = 1, .target = recoverssm::Target::portable});
    for (const recoverssm::Target target : recoverssm::available_targets()) {
      ShortConv other = start;
      other.line = support::another_layout(pick, start.line, 0);
      other.residual = support::another_layout(pick, start.residual, 1);
      other.outer = support::another_layout(pick, start.outer, 1);
      other.x = support::another_layout(pick, start.x, 1);
      other.weight = support::another_layout(pick, start.weight, 0);
      other.tensors = support::row_tensors(pick, start.rows);
      other.run({.threads = 4, .target = target});
      require(same_bits(other.line, conv.line), "line");
      require(same_bits(other.residual, conv.residual), "residual");
    }
  });
}

TEST(ShortConv, LinesMoveBitsAndRowsAreIndependent) {
  property(100, [](Pick& pick) {
    const ShortConv conv = random_short_conv(pick);
    for (const Tensor& tensor : {conv.x, conv.line}) fill_bits(pick, tensor);
    const ShortConv start = with_own_outputs(conv);
    const Tensor line = expected_line(conv);
    conv.run();
    require(same_memory(conv.line, line), "line");
    for (int i = 0; i < conv.rows.rows(); ++i) {
      ShortConv alone = with_own_outputs(start);
      alone.rows = support::only_row(conv.rows, i);
      alone.tensors = support::row_tensors(pick, alone.rows);
      alone.run();
      for (int t = conv.rows.first(i); t < conv.rows.first(i) + conv.rows.length(i); ++t) {
        const int row = conv.rows.global(t);
        require(same_bits(slice(alone.residual, 0, row), slice(conv.residual, 0, row), /*nan_is_nan=*/true),
                "row " + std::to_string(i));
      }
    }
  });
}

// One request on block 1 of a line of its own.
class Stream {
 public:
  Stream(const ShortConv& model, LineKind kind, const Tensor& line) : model_(model) {
    model_.kind = kind;
    model_.line = clone(line);
  }
  // Inputs first..first+n-1 and their residuals; returns the new residuals.
  Tensor step(int S, int first, int n, const std::vector<int>& accepted) {
    ShortConv conv = model_;
    conv.rows = {};
    conv.rows.add(n, 1);
    conv.rows.capacity = S;
    conv.rows.counted = !accepted.empty();
    conv.rows.accepted = accepted;
    conv.rows.tokens = conv.rows.global_rows = n;
    Pick pick(1);
    conv.tensors = support::row_tensors(pick, conv.rows);
    conv.x.view = slice(model_.x, 0, first, first + n);
    conv.outer.view = slice(model_.outer, 0, first, first + n);
    conv.residual = clone(model_.residual);
    conv.residual.view = slice(conv.residual, 0, first, first + n);
    conv.run();
    return conv.residual;
  }
  TensorView history(int at) const { return slice(slice(model_.line, 0, 1), 1, at, at + model_.history()); }

 private:
  ShortConv model_;
};

// Chunked prefill equals whole, and windows of partly kept drafts equal their kept tokens one by one, on both kinds of line.
TEST(ShortConv, ChunksAndWindowsEqualTokenByToken) {
  property(150, [](Pick& pick) {
    const int S = pick.between(1, 5), tokens = pick.between(1, 30), C = pick.between(1, 3);
    const DType T = pick.one_of({DType::f32, DType::bf16, DType::f16});
    ShortConv model;
    model.dilation = pick.between(1, 4);
    model.weight = support::dense(T, {C, pick.between(2, 4)});
    model.x = support::dense(T, {tokens + S, C});
    model.residual = support::dense(T, {tokens + S, C});
    model.outer = support::dense(T, {tokens + S, C});
    const Tensor line = support::strided(pick, T, {2, model.history() + S, C}, 0);
    for (const Tensor& tensor : {model.weight, model.x, model.residual, model.outer, line}) fill_normal(pick, tensor);

    Stream whole(model, LineKind::plain, line), chunks(model, LineKind::plain, line);
    Stream rolled(model, LineKind::rolled, line), anchored(model, LineKind::anchored, line);
    const Tensor want = whole.step(0, 0, tokens, {});
    for (int at = 0; at < tokens;) {
      const int n = pick.between(1, tokens - at);
      require(same_bits(chunks.step(0, at, n, {}), slice(want, 0, at, at + n)), "chunk at " + std::to_string(at));
      at += n;
    }
    require(same_bits(chunks.history(0), whole.history(0)), "line of chunks");

    int rolled_count = 1, anchored_count = 0;
    for (int at = 0; at < tokens;) {
      const int n = pick.between(1, S), kept = std::min(pick.between(1, n), tokens - at);
      const Tensor a = rolled.step(S, at, n, {rolled_count}), b = anchored.step(S, at, n, {anchored_count});
      require(same_bits(a, b), "rolled and anchored");
      require(same_bits(slice(a, 0, 0, kept), slice(want, 0, at, at + kept)), "window at " + std::to_string(at));
      rolled_count = anchored_count = kept;
      at += kept;
    }
    require(same_bits(rolled.history(rolled_count - 1), whole.history(0)), "rolled line");
    require(same_bits(anchored.history(anchored_count), whole.history(0)), "anchored line");
  });
}

TEST(ShortConv, CountsLiveRows) {
  RECOVERSSM_CPU_ONLY("counters, which only the CPU keeps");
  for (const bool outer : {false, true}) {
    ShortConv conv;
    conv.dilation = 3;
    conv.rows.add(2, 1);
    conv.rows.add(2, 0);
    conv.rows.initial = {0, 1};
    conv.rows.tokens = conv.rows.global_rows = 4;
    Pick pick(1);
    conv.tensors = support::row_tensors(pick, conv.rows);
    conv.x = support::dense(DType::bf16, {4, 10});
    conv.residual = support::dense(DType::bf16, {4, 10});
    if (outer) conv.outer = support::dense(DType::bf16, {4, 10});
    conv.weight = support::dense(DType::f32, {10, 3});
    conv.line = support::dense(DType::bf16, {2, 6, 10});
    recoverssm::Counters counters;
    conv.run({.counters = &counters});
    EXPECT_EQ(counters.rows, 1);
    EXPECT_EQ(counters.tokens, 2);
    EXPECT_EQ(counters.activation_read, (outer ? 3 : 1) * 2 * 20);
    EXPECT_EQ(counters.activation_written, 2 * 20);
    EXPECT_EQ(counters.line_read, 0);  // it starts from zeros
    EXPECT_EQ(counters.line_written, 6 * 20);
  }
}

}  // namespace
