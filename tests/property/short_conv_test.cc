// short_conv against the sum over one explicit sequence, rounded where the contract rounds; lines bit for bit.
#include "recoverssm/short_conv.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "support/conv.h"
#include "support/convert.h"

namespace {

using namespace support;
using recoverssm::LineKind;
using reference::Line;

TEST(ShortConv, MatchesTheReference) {
  property(400, [](Pick& pick) {
    const LineKind kind = pick.one_of({LineKind::plain, LineKind::rolled, LineKind::anchored});
    const bool window = kind != LineKind::plain;
    const int C = pick.chance(30) ? pick.one_of({31, 64, 513, 1100}) : pick.between(1, 30);
    const int taps = pick.between(2, 6);
    const int dilation = pick.between(1, 4);
    const int history = (taps - 1) * dilation;
    RowOptions options;
    options.capacity = window ? pick.between(1, 6) : 0;
    options.max_length = 9;
    options.initial = !window;
    options.accepted = window && pick.chance(60);
    const RowSet rows = random_rows(pick, options);
    const int S = rows.capacity;
    const int columns = history + (kind == LineKind::rolled ? S - 1 : kind == LineKind::anchored ? S : 0) + pick.between(0, 2);
    const DType T = pick.one_of({DType::f32, DType::bf16, DType::f16});
    const auto filled = [&](DType dtype, const Shape& shape, int contiguous) {
      const Tensor t = strided(pick, dtype, shape, contiguous);
      for_each(t, [&](const Index& i) { t.set_at(pick.normal(), i); });
      return t;
    };
    const Tensor x = filled(T, {rows.global_rows, C}, 1);
    const Tensor weight = filled(pick.one_of({DType::f32, T}), {C, taps}, 0);
    const Tensor residual = filled(T, {rows.global_rows, C}, 1);
    const Tensor outer = pick.chance(50) ? filled(T, {rows.global_rows, C}, 1) : Tensor{};
    const Tensor line = filled(T, {rows.pool_blocks, columns, C}, 0);
    const RowTensors index = row_tensors(pick, rows);
    pick.log(rows.text() + " C " + std::to_string(C) + " taps " + std::to_string(taps) + " dilation " + std::to_string(dilation) +
             " T " + name_of(T));
    const Tensor old_line = another_layout(pick, line, 0);
    const Tensor old_residual = another_layout(pick, residual, 1);
    Untouched untouched({{"x", x}, {"weight", weight}, {"residual", residual}, {"outer", outer}, {"line", line}});
    for (int i = 0; i < rows.rows(); ++i) {
      for (int t = 0; t < rows.length(i); ++t) untouched.except(slice(residual, 0, rows.global(rows.first(i) + t)));
      if (rows.live(i)) untouched.except(slice(line, 0, rows.block(i)));
    }

    must_run(recoverssm::ShortConvParams{x, weight, dilation, residual, outer, line, kind, rows_of(rows, index)}, random_how(pick));

    require(untouched.check());
    const auto reference_kind = kind == LineKind::anchored ? reference::Kind::anchored : reference::Kind::rolled;
    const int compacted = kind == LineKind::anchored ? 0 : 1;
    const auto store = [&](double value) { return round_to(T, value); };
    for (int i = 0; i < rows.rows(); ++i) {
      for (int t = 0; t < rows.length(i) && rows.null(i); ++t) {
        require(all_zero_bits(slice(residual, 0, rows.global(rows.first(i) + t))), "a null row's residual");
      }
      if (!rows.live(i)) continue;
      for (int ch = 0; ch < C; ++ch) {
        const Line before = line_bits(old_line, rows.block(i), ch);
        const int count = rows.counted ? rows.count(i) : compacted;
        Line start =
            window ? reference::history_of(before, history, reference_kind, count) : Line(before.begin(), before.begin() + history);
        if (!rows.from_state(i)) start.assign(static_cast<std::size_t>(history), 0);
        Line inputs;
        for (int t = 0; t < rows.length(i); ++t) inputs.push_back(raw_bits(T, x.at(rows.global(rows.first(i) + t), ch)));
        const Line after = window ? reference::line_after_window(before, history, reference_kind, count, inputs)
                                  : reference::line_after_plain(before, start, inputs);
        require(line_bits(line, rows.block(i), ch) == after, "line of row " + std::to_string(i) + " channel " + std::to_string(ch));
        Line sequence = start;
        sequence.insert(sequence.end(), inputs.begin(), inputs.end());
        reference::Vector w;
        for (int k = 0; k < taps; ++k) w.push_back(weight.get(ch, k));
        const reference::Vector y = reference::short_convolve(values_of(sequence, T), w, dilation, store);
        for (int t = 0; t < rows.length(i); ++t) {
          const int row = rows.global(rows.first(i) + t);
          double expected = y[static_cast<std::size_t>(t)];
          double allowed = 3e-6 + 2 * ulp(T, expected);  // the sum may round to T the other way, silu once more
          if (outer.present()) {
            const double inner = store(old_residual.get(row, ch) + expected);
            allowed += ulp(T, inner);
            expected = store(outer.get(row, ch) + inner);
            allowed += ulp(T, expected);
          }
          require(std::fabs(residual.get(row, ch) - expected) <= allowed,
                  "residual of row " + std::to_string(i) + " token " + std::to_string(t) + " channel " + std::to_string(ch) + ": " +
                      std::to_string(residual.get(row, ch)) + ", expected " + std::to_string(expected));
        }
      }
    }
  });
}

}  // namespace
