// Conv lines: which column a window's history is read from, what compaction moves, line and state in step, dtypes, widths.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "cpu/conv_case.h"
#include "reports/calls.h"
#include "support/conv.h"

namespace {

using namespace reports;
using conv_case::clone;
using conv_case::same_memory;

// ---- B01: nothing kept -----------------------------------------------------------------------------------------------------------

// A window behind a count of `accepted`, then its commit of `kept` tokens. Block 0 and all gaps of the line's memory are NaN: a read in
// front of a line poisons an output.
void window_and_commit(Pick& pick, const ConvShape& shape, const std::vector<int>& accepted, const std::vector<int>& kept) {
  const int N = static_cast<int>(accepted.size()), S = shape.S;
  std::vector<int> blocks, lengths(accepted.size(), S);
  for (int i = 0; i < N; ++i) blocks.push_back(N - i);
  RowSet rows = rows_on(blocks, lengths, S);
  rows.counted = true;
  rows.accepted = accepted;
  const ConvWeights weights = random_conv_weights(pick, shape);
  ConvData data = random_conv_data(pick, shape, rows);
  Tensor null_block = data.line;
  null_block.view = slice(data.line, 0, 0);
  null_block.fill(std::nan(""));
  const ConvData start = another_conv_data(pick, shape, data);
  data = run_conv(pick, shape, weights, rows, data, random_how(pick));
  const ConvData verified = another_conv_data(pick, shape, data);

  RuleShape rule = kSmall;
  rule.gate = pick.one_of({Gate::gdn, Gate::kda});
  Model m(pick.bits(), rule);
  const RulePool pool = m.pool(N + 1, S);
  m.verify(rows_on(blocks, lengths, S), m.tokens(N * S), pool, m.out(N * S));
  const RulePool verified_pool = m.copy(pool);
  PlanArrays plan;
  for (int i = 0; i < N; ++i) plan.add(blocks[static_cast<std::size_t>(i)], kept[static_cast<std::size_t>(i)]);
  const PlanTensors tensors = plan_tensors(pick, plan);
  recoverssm::Layer layer = layer_of(m.shape, m.weights, pool);
  layer.line = data.line;
  layer.line_kind = shape.kind;
  layer.conv_taps = shape.W;
  const std::array groups = {tensors.group()};
  const std::array layers = {layer};
  must_run(recoverssm::CommitParams{groups, layers, S, 0}, random_how(pick));

  const Tensor& out = shape.in_place ? data.x : data.out;
  for (int i = 0; i < N; ++i) {
    const int block = rows.block(i), count = kept[static_cast<std::size_t>(i)];
    const std::string where = "row " + std::to_string(i);
    for (int ch = 0; ch < shape.C; ++ch) {
      const reference::Line before = line_bits(start.line, block, ch);
      const reference::Line history =
          reference::history_of(before, shape.W - 1, shape.reference_kind(), accepted[static_cast<std::size_t>(i)]);
      reference::Line inputs;
      for (int t = 0; t < S; ++t) inputs.push_back(raw_bits(shape.T, start.x.at(i * S + t, ch)));
      reference::Line sequence = history;
      sequence.insert(sequence.end(), inputs.begin(), inputs.end());
      reference::Vector taps;
      for (int w = 0; w < shape.W; ++w) taps.push_back(weights.weight.get(ch, w));
      const double bias = shape.has_bias ? weights.bias.get(ch) : 0;
      const reference::Vector values = values_of(sequence, shape.T), want = reference::convolve(values, taps, bias, shape.silu),
                              size = reference::convolve_magnitude(values, taps, bias);
      for (int t = 0; t < S; ++t) {
        // W + 1 fp32 roundings of sums no larger than `size`; silu's slope is at most 1.1 and its own error a few ulp.
        const double room = 16 * 0x1p-24 * (1 + size[static_cast<std::size_t>(t)]);
        require(near(out.get(i * S + t, ch), want[static_cast<std::size_t>(t)], shape.T, {room, 0}), where + " output");
      }
      reference::Line after =
          reference::line_after_window(before, shape.W - 1, shape.reference_kind(), accepted[static_cast<std::size_t>(i)], inputs);
      if (count > 0) {
        const reference::Line moved = reference::committed_history(after, shape.W - 1, shape.reference_kind(), count);
        std::copy(moved.begin(), moved.end(), after.begin());
      }
      require(line_bits(data.line, block, ch) == after, where + " line");
    }
    if (count > 0) continue;
    require(same_bits(slice(data.line, 0, block), slice(verified.line, 0, block)), where + ": line of a dead row");
    require(same_bits(slice(pool.state, 0, block), slice(verified_pool.state, 0, block)), where + ": state of a dead row");
    if (shape.kind == LineKind::anchored && accepted[static_cast<std::size_t>(i)] <= 0) {  // restored exactly
      require(
          same_bits(slice(slice(data.line, 0, block), 1, 0, shape.W - 1), slice(slice(start.line, 0, block), 1, 0, shape.W - 1)),
          where + ": history of an anchored line");
    }
  }
}

TEST(Reports, B01_nothing_kept_reads_column_zero) {
  Pick pick(1);
  for (const LineKind kind : {LineKind::rolled, LineKind::anchored}) {
    ConvShape shape;
    shape.C = 8;
    shape.S = 3;
    shape.kind = kind;
    shape.columns = kind == LineKind::rolled ? 5 : 6;
    window_and_commit(pick, shape, {0, 2}, {0, 2});
  }
  property(60, [](Pick& p) {
    const ConvShape shape = random_conv_shape(p, p.between(1, 6));
    p.log(shape.text());
    std::vector<int> accepted, kept;
    for (int i = p.between(1, 3); i > 0; --i) {
      accepted.push_back(p.chance(60) ? p.between(-3, 0) : p.between(1, shape.S));
      kept.push_back(p.chance(60) ? 0 : p.between(1, shape.S));
    }
    window_and_commit(p, shape, accepted, kept);
  });
}

// Snapshots: the start state of counts 0, 1 and below is column 0's.
TEST(Reports, B01_snapshots_clamp_the_start_column) {
  for (const Gate gate : {Gate::gdn, Gate::kda}) {
    for (int S = 1; S <= 5; ++S) {
      for (int count = -3; count <= 0; ++count) {
        RuleShape shape = kSmall;
        shape.gate = gate;
        Model m(static_cast<std::uint64_t>(10 * S - count), shape);
        std::vector<int> columns;
        for (int t = 0; t < S; ++t) columns.push_back(2 + t);
        const RuleTokens tokens = m.tokens(S);
        const RulePool a = m.pool(2 + S, 0), b = m.copy(a);
        const Tensor out_a = m.out(S), out_b = m.out(S);
        m.snapshots(snapshot_rows({columns}, {S}, {count}), tokens, a, out_a);
        m.snapshots(snapshot_rows({columns}, {S}, {1}), tokens, b, out_b);
        EXPECT_TRUE(same_bits(out_a, out_b));
        EXPECT_TRUE(same_bits(a.state, b.state));
      }
    }
  }
}

// ---- B06: line and state describe the same tokens -----------------------------------------------------------------------------------

// Steps of windows on two requests; `kept(step, row)` tokens stay. Beside them the same tokens one by one.
void line_and_state_in_step(Pick& pick, const RuleShape& rule, const ConvShape& conv,
                            const std::vector<std::array<int, 2>>& steps) {
  Model m(pick.bits(), rule);
  const RulePool pool = m.pool(3, conv.S), one_by_one = m.copy(pool);
  const ConvWeights weights = random_conv_weights(pick, conv);
  const RowSet rows = rows_on({1, 2}, {conv.S, conv.S}, conv.S);
  ConvData data = random_conv_data(pick, conv, rows);
  ConvShape plain = conv;
  plain.S = 0;
  const Tensor plain_line = another_layout(pick, data.line, 0);
  for (const std::array<int, 2>& kept : steps) {
    const RuleTokens tokens = m.tokens(2 * conv.S);
    const Tensor x = random_conv_data(pick, conv, rows).x;
    copy_bits(x, data.x);
    const Tensor before_line = another_layout(pick, data.line, 0);
    const RulePool before = m.copy(pool);
    data = run_conv(pick, conv, weights, rows, data, random_how(pick));
    m.verify(rows, tokens, pool, m.out(2 * conv.S));
    PlanArrays plan;
    for (int i = 0; i < 2; ++i) plan.add(i + 1, kept[static_cast<std::size_t>(i)]);
    const PlanTensors arrays = plan_tensors(pick, plan);
    recoverssm::Layer layer = layer_of(m.shape, m.weights, pool);
    layer.line = data.line;
    layer.line_kind = conv.kind;
    layer.conv_taps = conv.W;
    const std::array groups = {arrays.group()};
    const std::array layers = {layer};
    must_run(recoverssm::CommitParams{groups, layers, conv.S, 0}, random_how(pick));
    for (int i = 0; i < 2; ++i) {
      const int n = kept[static_cast<std::size_t>(i)];
      const auto history = [&](const Tensor& line) { return slice(slice(line, 0, i + 1), 1, 0, conv.W - 1); };
      if (n == 0) {
        require(same_bits(slice(pool.state, 0, i + 1), slice(before.state, 0, i + 1)), "state after nothing kept");
        if (conv.kind == LineKind::anchored)
          require(same_bits(history(data.line), history(before_line)), "line after nothing kept");
      }
      for (int t = 0; t < n; ++t) {
        m.plain(rows_on({i + 1}, {1}, 0), m.some(tokens, conv.S * i + t, conv.S * i + t + 1), one_by_one, m.out(1));
        ConvData token;
        token.line = plain_line;
        token.x = dense(conv.T, {1, conv.C});
        token.out = conv.in_place ? token.x : dense(conv.T, {1, conv.C});
        copy_bits(slice(x, 0, conv.S * i + t), token.x);
        require(try_conv(pick, plain, weights, rows_on({i + 1}, {1}, 0), token, {}).ok(), "plain convolution");
      }
      if (n == 0 && conv.kind == LineKind::rolled) continue;  // a dead request: its line may not be used again
      require(same_bits(history(data.line), history(plain_line)), "line of row " + std::to_string(i));
    }
    require(same_bits(pool.state, one_by_one.state), "state");
  }
}

TEST(Reports, B06_line_and_state_keep_the_same_tokens) {
  Pick pick(6);
  for (const LineKind kind : {LineKind::anchored, LineKind::rolled}) {
    ConvShape conv;
    conv.C = 6;
    conv.S = 4;
    conv.kind = kind;
    conv.columns = 7;
    line_and_state_in_step(pick, kSmall, conv, {{1, 3}, {kind == LineKind::rolled ? 2 : 0, 4}});
  }
  property(40, [](Pick& p) {
    ConvShape conv = random_conv_shape(p, p.between(1, 5));
    conv.C = p.between(1, 9);
    RuleShape rule = kSmall;
    rule.gate = p.one_of({Gate::gdn, Gate::kda});
    rule.K = p.between(4, 24);
    rule.T = p.one_of({DType::f32, DType::bf16});
    rule.out = DType::f32;
    std::vector<std::array<int, 2>> steps;
    const int least = conv.kind == LineKind::rolled ? 1 : 0;  // nothing kept on a rolled line ends the request
    for (int n = p.between(1, 4); n > 0; --n) steps.push_back({p.between(least, conv.S), p.between(least, conv.S)});
    if (p.chance(40)) steps.push_back({0, conv.S});
    line_and_state_in_step(p, rule, conv, steps);
  });
}

// ---- B26: compaction in place -------------------------------------------------------------------------------------------------------

Tensor line_of(DType T, int blocks, int columns, int C, bool channels_outside) {
  Tensor line = dense(T, channels_outside ? Shape{blocks, C, columns} : Shape{blocks, columns, C});
  if (channels_outside) {
    std::swap(line.view.shape[1], line.view.shape[2]);
    std::swap(line.view.stride[1], line.view.stride[2]);
  }
  return line;
}

// Positions of block 1 hold their number. After a commit of `kept` tokens in place the first W-1 hold kept-1+o and up.
void compact(const Tensor& line, const Tensor& want, LineKind kind, int W, int S, int kept, int threads, bool by_materialize) {
  const Tensor pending = dense_i32({0, S});
  recoverssm::Layer layer;
  layer.line = line;
  layer.line_kind = kind;
  layer.conv_taps = W;
  const std::array layers = {layer};
  const Tensor block = dense_i32({1}), count = dense_i32({kept}), zero = dense_i32({0});
  if (by_materialize) {
    std::array lazy = {layer};
    lazy[0].pending = pending;
    must_run(recoverssm::MaterializeParams{block, count, lazy, 0}, {.threads = threads});
  } else {
    const std::array groups = {recoverssm::CommitGroup{block, count, block, zero, zero}};
    must_run(recoverssm::CommitParams{groups, layers, S, 0}, {.threads = threads});
  }
  ASSERT_TRUE(line.memory->all() == want.memory->all()) << same_memory(line, want).message() << " kept " << kept << " W " << W;
}

TEST(Reports, B26_shift_inside_one_block) {
  constexpr int kW = 4, kS = 4, kCols = 6, kC = 8192, kRepeats = 1000;
  for (const bool channels_outside : {false, true}) {
    const Tensor start = line_of(DType::bf16, 2, kCols, kC, channels_outside);
    for_each(start, [&](const Index& i) { start.set_at(static_cast<double>(i[1]), i); });
    const Tensor line = clone(start);
    for (const int kept : {2, 3, 4}) {
      const Tensor want = clone(start);
      for (int p = 0; p < kW - 1; ++p) {
        Tensor part = want;
        part.view = slice(slice(want, 0, 1), 1, p);
        part.fill(kept - 1 + p);  // 3 kept: 2,3,4, column 3 stays
      }
      for (int repeat = 0; repeat < kRepeats; ++repeat) {
        std::memcpy(line.memory->all().data(), start.memory->all().data(), start.memory->all().size());
        compact(line, want, LineKind::rolled, kW, kS, kept, repeat % 5 == 0 ? 2 : 1, false);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Reports, B26_every_width_layout_and_dtype) {
  for (const bool channels_outside : {false, true}) {
    for (const LineKind kind : {LineKind::rolled, LineKind::anchored}) {
      for (const DType T : {DType::f32, DType::bf16, DType::f16}) {
        for (int W = 2; W <= 8; ++W) {
          const int S = 5, columns = W - 1 + S, first = kind == LineKind::anchored ? 1 : 0;
          const Tensor start = line_of(T, 2, columns, 33, channels_outside);
          for_each(start, [&](const Index& i) { start.set_at(static_cast<double>(i[1]), i); });
          for (int kept = 1; kept <= S; ++kept) {
            const Tensor want = clone(start);
            for (int p = 0; p < W - 1; ++p) {
              Tensor part = want;
              part.view = slice(slice(want, 0, 1), 1, p);
              part.fill(kept - 1 + first + p);
            }
            for (const bool by_materialize : {false, true}) {
              if (by_materialize && kind == LineKind::rolled) continue;  // left alone by materialize
              compact(clone(start), want, kind, W, S, kept, 1, by_materialize);
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

// The same shift inside a convolution: a history at accepted-1 moves to the front while the inputs come in behind it.
TEST(Reports, B26_shift_inside_a_convolution) {
  constexpr int kCols = 6, kC = 8192;
  const Tensor x = dense(DType::bf16, {1, kC});
  x.fill(100.0);
  Pick pick(26);
  for (const bool window : {false, true}) {
    for (const bool channels_outside : {false, true}) {
      ConvShape shape;
      shape.C = kC;
      shape.S = window ? 4 : 0;
      shape.T = DType::bf16;
      ConvWeights weights{dense(DType::f32, {kC, 4}), {}};
      weights.weight.fill(0);
      for (int c = 0; c < kC; ++c) weights.weight.set(1, c, 0);  // an output shows the oldest entry that was read
      const Tensor start = line_of(DType::bf16, 2, kCols, kC, channels_outside);
      for_each(start, [&](const Index& i) { start.set_at(static_cast<double>(i[1]), i); });
      for (const int accepted : {2, 3, 4}) {
        RowSet rows = one_row(1, shape.S);
        rows.counted = true;
        rows.accepted = {accepted};
        const Tensor want = clone(start);
        for (int p = 0; p < 3; ++p) {
          Tensor part = want;
          part.view = slice(slice(want, 0, 1), 1, p);
          part.fill(p < 2 ? accepted + p : 100);
        }
        for (int repeat = 0; repeat < 40; ++repeat) {
          ConvData data{x, dense(DType::bf16, {1, kC}), clone(start)};
          ASSERT_TRUE(try_conv(pick, shape, weights, rows, data, {.threads = repeat % 2 == 0 ? 1 : 4}).ok());
          ASSERT_TRUE(data.line.memory->all() == want.memory->all()) << same_memory(data.line, want).message();
          for (int c = 0; c < kC; ++c) ASSERT_EQ(data.out.get(0, c), accepted - 1);
        }
      }
    }
  }
}

// ---- B42: which dtypes go together --------------------------------------------------------------------------------------------------

constexpr DType kFloats[] = {DType::f32, DType::bf16, DType::f16};

// A line has x's dtype and keeps it; weight and bias are T or f32; anything else is refused before anything is written.
TEST(Reports, B42_convolution_dtypes) {
  Pick pick(42);
  for (const bool window : {false, true}) {
    for (const DType T : kFloats) {
      for (const DType line : kFloats) {
        for (const DType weight : kFloats) {
          for (const DType out : kFloats) {
            ConvShape shape;
            shape.C = 5;
            shape.S = window ? 2 : 0;
            shape.T = T;
            shape.weight = weight;
            shape.columns = 5;
            const RowSet rows = one_row(2, shape.S);
            ConvData data = random_conv_data(pick, shape, rows);
            data.line = dense(line, {2, 5, 5});
            data.line.fill(1);
            data.out = dense(out, {2, 5});
            const ConvWeights weights = random_conv_weights(pick, shape);
            const bool fits = line == T && out == T && (weight == T || weight == DType::f32);
            const Untouched untouched({{"line", data.line}, {"out", data.out}});
            const recoverssm::Status status = try_conv(pick, shape, weights, rows, data, {});
            EXPECT_EQ(status.ok(), fits) << status.message;
            if (fits) {
              double want = 0, size = 0;
              for (int w = 0; w < 4; ++w) {
                const double entry = w < 3 ? 1.0 : data.x.get(0, 0);
                want += entry * weights.weight.get(0, w);
                size += std::fabs(entry * weights.weight.get(0, w));
              }
              EXPECT_TRUE(near(data.out.get(0, 0), want, T, {8 * 0x1p-24 * size, 0}));
            } else {
              EXPECT_EQ(status.kind, ErrorKind::invalid_argument);
              EXPECT_TRUE(untouched.check());
            }
          }
        }
      }
    }
  }
}

TEST(Reports, B42_gate_dtypes) {
  for (const Gate gate : {Gate::gdn, Gate::kda}) {
    for (const DType T : kFloats) {
      for (const DType A_log : kFloats) {
        for (const DType dt_bias : kFloats) {
          for (const DType out : kFloats) {
            RuleShape shape = kSmall;
            shape.gate = gate;
            shape.T = T;
            shape.A_log = A_log;
            shape.dt_bias = dt_bias;
            shape.out = out;
            const auto free = [&](DType d) { return d == T || d == DType::f32; };
            Model m(42, shape);
            if (free(A_log) && free(dt_bias) && free(out)) {
              matches_reference(m, rows_on({1}, {2}, 0), name_of(T));
              continue;
            }
            const RulePool pool = m.pool(2, 0);
            const Tensor o = m.out(2);
            const Untouched untouched({{"state", pool.state}, {"out", o}});
            EXPECT_EQ(m.try_plain(one_row(2, 0), m.tokens(2), pool, o).kind, ErrorKind::invalid_argument);
            EXPECT_TRUE(untouched.check());
          }
        }
      }
    }
  }
}

// ---- B43: lines longer than the history ---------------------------------------------------------------------------------------------

// The history stands at positions 0..W-2, however long the line is; later positions are neither read nor moved.
TEST(Reports, B43_history_stands_in_front) {
  for (int W = 2; W <= 8; ++W) {
    for (const int columns : {W - 1, W, W + 2, 12, 19}) {
      ConvShape shape;
      shape.C = 1;
      shape.W = W;
      const ConvWeights weights{dense(DType::f32, {1, W}), {}};
      weights.weight.fill(0);
      weights.weight.set(1, 0, 0);
      ConvData data{dense(DType::f32, {1, 1}), dense(DType::f32, {1, 1}), dense(DType::f32, {2, columns, 1})};
      for (int p = 0; p < columns; ++p) data.line.set(p, 1, p, 0);
      data.x.set(50, 0, 0);
      Pick pick(43);
      ASSERT_TRUE(try_conv(pick, shape, weights, one_row(1, 0), data, {}).ok());
      EXPECT_EQ(data.out.get(0, 0), 0) << W;
      for (int p = 0; p < columns; ++p) {
        EXPECT_EQ(data.line.get(1, p, 0), p < W - 2 ? p + 1 : p == W - 2 ? 50 : p) << W << " position " << p;
      }
    }
  }
}

// W outside 2..8, and lines too short for the history, are refused by name.
TEST(Reports, B43_widths_outside_the_range) {
  const auto attempt = [](int W, int columns, int S) {
    ConvShape shape;
    shape.C = 2;
    shape.S = S;
    Pick pick(43);
    const ConvWeights weights{dense(DType::f32, {2, W}), {}};
    weights.weight.fill(0);
    const ConvData data{dense(DType::f32, {1, 2}), dense(DType::f32, {1, 2}), dense(DType::f32, {2, columns, 2})};
    const Untouched untouched({{"line", data.line}, {"out", data.out}});
    const recoverssm::Status status = try_conv(pick, shape, weights, one_row(1, S), data, {});
    EXPECT_TRUE(status.ok() || untouched.check());
    return status;
  };
  for (const int S : {0, 3}) {
    for (const int W : {0, 1, 9, 10, 16, 64}) {
      const recoverssm::Status status = attempt(W, 80, S);
      EXPECT_EQ(status.kind, ErrorKind::invalid_argument) << W;
      EXPECT_NE(status.message.find("2..8"), std::string::npos) << status.message;
    }
    for (int W = 2; W <= 8; ++W) {
      const int needed = W - 1 + (S > 0 ? S - 1 : 0);
      EXPECT_TRUE(attempt(W, needed, S).ok()) << W;
      EXPECT_EQ(attempt(W, needed - 1, S).kind, ErrorKind::invalid_argument) << W;
    }
  }
}

// ---- B61, in a convolution ----------------------------------------------------------------------------------------------------------

// A row without initial state starts from zeros by selection: what the block's last owner left, NaN included, does not leak.
TEST(Reports, B61_a_reused_line_starts_from_zeros) {
  property(40, [](Pick& pick) {
    ConvShape shape = random_conv_shape(pick, 0);
    const ConvWeights weights = random_conv_weights(pick, shape);
    RowSet rows = rows_on({1, 2}, {pick.between(1, 6), pick.between(1, 6)}, 0);
    rows.initial = {0, 1};
    const ConvData reused = random_conv_data(pick, shape, rows), fresh = another_conv_data(pick, shape, reused);
    const auto fill = [&](const ConvData& data, double value) {
      Tensor part = data.line;
      part.view = slice(slice(data.line, 0, 1), 1, 0, shape.W - 1);
      part.fill(value);
    };
    fill(reused, pick.one_of({std::nan(""), 1e3, HUGE_VAL}));
    fill(fresh, 0);
    const ConvData a = run_conv(pick, shape, weights, rows, reused, random_how(pick));
    rows.initial = {1, 1};
    const ConvData b = run_conv(pick, shape, weights, rows, fresh, random_how(pick));
    require(same_bits(shape.in_place ? a.x : a.out, shape.in_place ? b.x : b.out), "out");
    require(same_bits(a.line, b.line), "line");
  });
}

}  // namespace
