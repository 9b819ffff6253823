// causal_conv1d and causal_conv1d_window: lines bit for bit against one explicit sequence of tokens, outputs against the float64 sum.
#include "support/conv.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/convert.h"

namespace {

using namespace support;
using recoverssm::LineKind;
using reference::Line;

struct ExpectedRow {
  std::vector<Line> lines;                 // per channel, after the row
  std::vector<reference::Vector> outputs;  // per channel
  std::vector<reference::Vector> magnitudes;
};

ExpectedRow expected_row(const ConvShape& shape, const ConvWeights& weights, const RowSet& rows, const ConvData& data, int i) {
  ExpectedRow row;
  const int history = shape.W - 1;
  for (int ch = 0; ch < shape.C; ++ch) {
    const Line line = line_bits(data.line, rows.block(i), ch);
    const int compacted = shape.kind == LineKind::anchored ? 0 : 1;
    Line start = reference::history_of(line, history, shape.reference_kind(),
                                       rows.counted && rows.from_state(i) ? rows.count(i) : compacted);
    if (!rows.from_state(i)) start.assign(static_cast<std::size_t>(history), 0);
    Line inputs;
    for (int t = 0; t < rows.length(i); ++t) inputs.push_back(raw_bits(shape.T, data.x.at(rows.global(rows.first(i) + t), ch)));
    Line sequence = start;
    sequence.insert(sequence.end(), inputs.begin(), inputs.end());
    row.lines.push_back(shape.S > 0 ? reference::line_after_window(line, history, shape.reference_kind(),
                                                                   rows.counted ? rows.count(i) : compacted, inputs)
                                    : reference::line_after_plain(line, start, inputs));
    reference::Vector taps;
    for (int w = 0; w < shape.W; ++w) taps.push_back(weights.weight.get(ch, w));
    const double bias = shape.has_bias ? weights.bias.get(ch) : 0.0;
    row.outputs.push_back(reference::convolve(values_of(sequence, shape.T), taps, bias, shape.silu));
    row.magnitudes.push_back(reference::convolve_magnitude(values_of(sequence, shape.T), taps, bias));
  }
  return row;
}

void check_against_reference(Pick& pick, int capacity) {
  const ConvShape shape = random_conv_shape(pick, capacity);
  RowOptions options;
  options.capacity = capacity;
  options.max_length = 12;
  options.initial = capacity == 0;
  options.accepted = pick.chance(60);
  RowSet rows = random_rows(pick, options);
  if (capacity == 0) {  // a plain row's count may reach as far as the line does
    const int farthest = shape.columns - (shape.W - 1) + (shape.kind == LineKind::rolled ? 1 : 0);
    for (int i = 0; i < rows.rows() && rows.counted; ++i) {
      int& count = rows.accepted[static_cast<std::size_t>(i)];
      if (rows.live(i)) count = rows.from_state(i) ? pick.between(-1, farthest) : 9999;
    }
  }
  const ConvWeights weights = random_conv_weights(pick, shape);
  const ConvData data = random_conv_data(pick, shape, rows);
  pick.log(shape.text());
  pick.log(rows.text());
  std::vector<ExpectedRow> expected(static_cast<std::size_t>(rows.rows()));
  Untouched untouched({{"x", data.x}, {"out", data.out}, {"line", data.line}, {"weight", weights.weight}, {"bias", weights.bias}});
  for (int i = 0; i < rows.rows(); ++i) {
    for (int t = 0; t < rows.length(i); ++t) untouched.except(slice(data.out, 0, rows.global(rows.first(i) + t)));
    if (!rows.live(i)) continue;
    untouched.except(slice(data.line, 0, rows.block(i)));
    expected[static_cast<std::size_t>(i)] = expected_row(shape, weights, rows, data, i);
  }

  const recoverssm::Status status = try_conv(pick, shape, weights, rows, data, random_how(pick));
  require(status.ok(), status.message);

  require(untouched.check());
  for (int i = 0; i < rows.rows(); ++i) {
    for (int t = 0; t < rows.length(i) && rows.null(i); ++t) {
      require(all_zero_bits(slice(data.out, 0, rows.global(rows.first(i) + t))), "output of a null row");
    }
    if (!rows.live(i)) continue;
    const ExpectedRow& row = expected[static_cast<std::size_t>(i)];
    for (int ch = 0; ch < shape.C; ++ch) {
      const auto u = static_cast<std::size_t>(ch);
      const Line got = line_bits(data.line, rows.block(i), ch);
      require(got == row.lines[u], "line of row " + std::to_string(i) + " channel " + std::to_string(ch));
      for (int t = 0; t < rows.length(i); ++t) {
        // W fused steps of one rounding each, silu adds a few: 1e-6 of the absolute products.
        const auto at = static_cast<std::size_t>(t);
        const double allowed = 1e-6 * row.magnitudes[u][at] + 1e-7 + 0.5 * ulp(shape.T, row.outputs[u][at]);
        const double value = data.out.get(rows.global(rows.first(i) + t), ch);
        require(std::fabs(value - row.outputs[u][at]) <= allowed,
                "out of row " + std::to_string(i) + " token " + std::to_string(t) + " channel " + std::to_string(ch) + ": " +
                    std::to_string(value) + " expected " + std::to_string(row.outputs[u][at]));
      }
    }
  }
}

TEST(Conv, PlainRowsMatchTheReference) {
  property(150, [](Pick& pick) { check_against_reference(pick, 0); });
}

TEST(Conv, WindowsMatchTheReference) {
  property(150, [](Pick& pick) { check_against_reference(pick, pick.between(1, 8)); });
}

// Windows, one after the other with counts handed over, read the same sequence of tokens as one long plain row over the kept tokens.
TEST(Conv, KeptTokensOfWindowsAreOneSequence) {
  property(80, [](Pick& pick) {
    const int S = pick.between(1, 5);
    ConvShape shape = random_conv_shape(pick, S);
    shape.in_place = false;
    const ConvWeights weights = random_conv_weights(pick, shape);
    const int steps = pick.between(1, 4);
    RowSet rows;
    rows.capacity = S;
    rows.pool_blocks = 2;
    rows.tokens = rows.global_rows = steps * S;
    rows.add(0, 1);
    ConvData data = random_conv_data(pick, shape, rows);
    const ConvData start = data;
    std::vector<int> kept_tokens, kept_rows;
    int kept = shape.kind == LineKind::anchored ? 0 : 1;  // a compacted line
    for (int step = 0; step < steps; ++step) {
      const int length = pick.between(1, S);
      rows.offsets = {step * S, step * S + length};
      rows.counted = true;
      rows.accepted = {kept};
      data = run_conv(pick, shape, weights, rows, data, random_how(pick));
      kept = pick.between(1, length);
      for (int t = 0; t < kept; ++t) kept_tokens.push_back(step * S + t);
    }
    pick.log(shape.text());

    ConvShape plain_shape = shape;
    plain_shape.S = 0;
    RowSet plain;
    plain.pool_blocks = 2;
    plain.add(static_cast<int>(kept_tokens.size()), 1);
    plain.tokens = static_cast<int>(kept_tokens.size());
    plain.global_rows = rows.global_rows;
    plain.token_index = kept_tokens;
    const ConvData whole = run_conv(pick, plain_shape, weights, plain, start, random_how(pick));
    for (const int t : kept_tokens) require(same_bits(slice(whole.out, 0, t), slice(data.out, 0, t)), "output of a kept token");
    // ... and a plain row of one token compacts the line by itself when it is handed the last count.
    RowSet next;
    next.pool_blocks = 2;
    next.tokens = next.global_rows = rows.global_rows;
    next.add(1, 1);
    RowSet counted = next;
    counted.counted = true;
    counted.accepted = {kept};
    const ConvData a = run_conv(pick, plain_shape, weights, next, whole, random_how(pick));
    const ConvData b = run_conv(pick, plain_shape, weights, counted, data, random_how(pick));
    require(same_bits(slice(a.out, 0, 0), slice(b.out, 0, 0)), "next token");
    require(same_bits(slice(slice(a.line, 0, 1), 1, 0, shape.W - 1), slice(slice(b.line, 0, 1), 1, 0, shape.W - 1)), "history");
  });
}

// An anchored line can be repeated; a rolled one that kept nothing starts from what its line says (the request must be dead).
TEST(Conv, AnchoredWindowsCanBeRepeatedAndDropped) {
  property(50, [](Pick& pick) {
    const int S = pick.between(1, 5);
    ConvShape shape = random_conv_shape(pick, S);
    shape.kind = LineKind::anchored;
    shape.columns = shape.W - 1 + S;
    shape.in_place = false;
    const ConvWeights weights = random_conv_weights(pick, shape);
    RowOptions options;
    options.capacity = S;
    const RowSet rows = random_rows(pick, options);
    const ConvData start = random_conv_data(pick, shape, rows);
    const ConvData once = run_conv(pick, shape, weights, rows, start, random_how(pick));
    const ConvData twice = run_conv(pick, shape, weights, rows, once, random_how(pick));
    require(same_bits(once.out, twice.out), "outputs");
    require(same_bits(once.line, twice.line), "lines");
    require(same_bits(slice(start.line, 1, 0, shape.W - 1), slice(twice.line, 1, 0, shape.W - 1)), "history in front");
  });
}

// A long prefill equals the same prefill in pieces, in place or not, for any number of threads (which chunk it).
TEST(Conv, LongPrefillInPieces) {
  Pick pick(5);
  ConvShape shape;
  shape.C = 70;
  shape.W = 5;
  shape.T = DType::bf16;
  shape.silu = true;
  shape.columns = 4;
  const ConvWeights weights = random_conv_weights(pick, shape);
  RowSet rows;
  rows.pool_blocks = 2;
  rows.tokens = rows.global_rows = 3000;
  rows.add(3000, 1);
  const ConvData start = random_conv_data(pick, shape, rows);
  const ConvData whole = run_conv(pick, shape, weights, rows, start, {});
  for (const bool in_place : {false, true}) {
    for (const int threads : {1, 2, 4}) {
      shape.in_place = in_place;
      ConvData pieces = start;
      RowSet piece = rows;
      for (int t = 0; t < 3000;) {
        const int n = pick.between(1, std::min(900, 3000 - t));
        piece.offsets = {t, t + n};
        pieces = run_conv(pick, shape, weights, piece, pieces, {threads});
        t += n;
      }
      EXPECT_TRUE(same_bits(whole.out, pieces.out)) << "in place " << in_place << ", " << threads << " threads";
      EXPECT_TRUE(same_bits(whole.line, pieces.line));
      const ConvData at_once = run_conv(pick, shape, weights, rows, start, {threads});
      EXPECT_TRUE(same_bits(whole.out, at_once.out)) << "at once, in place " << in_place << ", " << threads << " threads";
    }
  }
}

}  // namespace
