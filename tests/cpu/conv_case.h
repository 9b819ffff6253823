// Random convolution calls, and what the contract says they do: sections 2, 3.1 and 3.2 written out element by element, apart from
// the library's code.
#pragma once

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "cpu/kernels.h"
#include "recoverssm/conv.hpp"
#include "support/call.h"
#include "support/convert.h"
#include "support/layout.h"
#include "support/property.h"
#include "support/rows.h"
#include "support/tensor.h"

namespace conv_case {

using recoverssm::Activation;
using recoverssm::CausalConv1dParams;
using recoverssm::CausalConv1dWindowParams;
using recoverssm::DType;
using recoverssm::LineKind;
using recoverssm::TensorView;
using recoverssm::cpu::kConvTile;
using support::How;
using support::Pick;
using support::RowSet;
using support::Tensor;

inline void fill_normal(Pick& pick, const Tensor& tensor) {
  support::for_each(tensor, [&](const support::Index& i) { tensor.set_at(pick.normal(), i); });
}

// Any bits: NaN payloads, infinities, subnormals.
inline void fill_bits(Pick& pick, const Tensor& tensor) {
  support::for_each(
      tensor, [&](const support::Index& i) { support::set_raw_bits(tensor.dtype(), pick.bits(), support::element(tensor, i)); });
}

// The same bits at the same place of other memory, gaps and guards included.
inline Tensor clone(const Tensor& tensor) {
  Tensor copy = tensor;
  copy.memory = std::make_shared<support::Memory>(*tensor.memory);
  copy.view.data = copy.memory->data() + (static_cast<std::byte*>(tensor.view.data) - tensor.memory->data());
  return copy;
}

inline ::testing::AssertionResult same_memory(const Tensor& a, const Tensor& b) {
  const ::testing::AssertionResult elements = support::same_bits(a, b);
  if (!elements) return elements;
  if (a.memory->all() == b.memory->all()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "memory between the elements differs";
}

struct Conv {
  bool window = false;
  LineKind kind = LineKind::rolled;
  Activation activation = Activation::none;
  RowSet rows;
  support::RowTensors tensors;
  Tensor x, weight, bias, out, line;

  int W() const { return static_cast<int>(weight.view.shape[1]); }
  int C() const { return static_cast<int>(weight.view.shape[0]); }
  DType T() const { return x.dtype(); }

  template <class Params>
  Params params() const {
    return {.x = x,
            .weight = weight,
            .bias = bias,
            .activation = activation,
            .out = out,
            .line = line,
            .line_kind = kind,
            .rows = support::rows_of(rows, tensors)};
  }
  void run(const How& how = {}) const {
    if (window) {
      support::must_run(params<CausalConv1dWindowParams>(), how);
    } else {
      support::must_run(params<CausalConv1dParams>(), how);
    }
  }
  // Line position of row i's oldest history entry.
  int history_at(int i) const {
    if (!rows.counted) return 0;
    return kind == LineKind::anchored ? std::max(rows.count(i), 0) : std::max(rows.count(i) - 1, 0);
  }
};

// Written tensors get memory of their own; everything else is shared.
inline Conv with_own_outputs(const Conv& conv) {
  Conv copy = conv;
  const bool in_place = conv.out.view.data == conv.x.view.data;
  copy.out = clone(conv.out);
  copy.line = clone(conv.line);
  if (in_place) copy.x = copy.out;
  return copy;
}

struct ConvOptions {
  bool window = false;
  bool in_place = true;      // sometimes
  bool random_bits = false;  // x and line
};

inline Conv random_conv(Pick& pick, const ConvOptions& options) {
  Conv conv;
  conv.window = options.window;
  conv.kind = pick.one_of({LineKind::rolled, LineKind::anchored});
  conv.activation = pick.one_of({Activation::none, Activation::silu});
  const DType T = pick.one_of({DType::f32, DType::bf16, DType::f16});
  const int W = pick.between(2, 8), C = pick.chance(20) ? pick.between(kConvTile - 1, 2 * kConvTile + 1) : pick.between(1, 9);
  const int S = options.window ? pick.between(1, 5) : 0;

  support::RowOptions rows;
  rows.capacity = S;
  rows.max_length = 10;
  rows.initial = !options.window;
  rows.accepted = pick.chance(60);
  conv.rows = support::random_rows(pick, rows);
  for (int i = 0; i < conv.rows.rows(); ++i) {  // a count that is not read may be anything
    if (rows.accepted && conv.rows.live(i) && !conv.rows.from_state(i)) conv.rows.accepted[static_cast<std::size_t>(i)] = 9999;
  }
  conv.tensors = support::row_tensors(pick, conv.rows);

  const int columns = W - 1 + (options.window ? S : rows.max_length) + pick.between(0, 2);
  conv.line = support::strided(pick, T, {conv.rows.pool_blocks, columns, C}, 0);
  const std::vector<Tensor> tokens = support::strided_or_interleaved(pick, conv.rows.global_rows, {{T, {C}, 1}, {T, {C}, 1}});
  conv.x = tokens[0];
  conv.out = options.in_place && pick.chance(40) ? conv.x : tokens[1];
  conv.weight = support::strided(pick, pick.one_of({T, DType::f32}), {C, W}, 0);
  if (pick.chance(60)) conv.bias = support::strided(pick, pick.one_of({T, DType::f32}), {C}, 0);
  for (const Tensor& tensor : {conv.x, conv.line}) options.random_bits ? fill_bits(pick, tensor) : fill_normal(pick, tensor);
  fill_normal(pick, conv.weight);
  if (conv.bias.present()) fill_normal(pick, conv.bias);

  pick.log(conv.rows.text() + " W " + std::to_string(W) + " C " + std::to_string(C) + " cols " + std::to_string(columns) + " " +
           recoverssm::name_of(T) + (conv.window ? " window" : " plain") +
           (conv.kind == LineKind::anchored ? " anchored" : " rolled") + (conv.activation == Activation::silu ? " silu" : ""));
  return conv;
}

// history ++ inputs of one channel of a live row, as bits.
inline std::vector<std::uint64_t> entries(const Conv& conv, int i, int c) {
  std::vector<std::uint64_t> bits;
  for (int h = 0; h < conv.W() - 1; ++h) {
    bits.push_back(
        conv.rows.from_state(i) ? support::raw_bits(conv.T(), conv.line.at(conv.rows.block(i), conv.history_at(i) + h, c)) : 0);
  }
  for (int t = 0; t < conv.rows.length(i); ++t) {
    bits.push_back(support::raw_bits(conv.T(), conv.x.at(conv.rows.global(conv.rows.first(i) + t), c)));
  }
  return bits;
}

inline double value_of(DType dtype, std::uint64_t bits) { return support::decode(dtype, &bits); }

// What the call must leave in out and line where no activation is applied: exact bits, everywhere. Reads `conv` before its run.
struct Expected {
  Tensor out, line;
};

inline Expected expected(const Conv& conv) {
  Expected want{clone(conv.out), clone(conv.line)};
  const int W = conv.W();
  for (int i = 0; i < conv.rows.rows(); ++i) {
    for (int c = 0; c < conv.C(); ++c) {
      const auto out_at = [&](int t) { return want.out.at(conv.rows.global(conv.rows.first(i) + t), c); };
      if (conv.rows.null(i)) {
        for (int t = 0; t < conv.rows.length(i); ++t) support::set_raw_bits(conv.T(), 0, out_at(t));
      }
      if (!conv.rows.live(i)) continue;

      const std::vector<std::uint64_t> bits = entries(conv, i, c);
      for (int t = 0; t < conv.rows.length(i); ++t) {
        float acc = conv.bias.present() ? static_cast<float>(conv.bias.get(c)) : 0.0F;
        for (int w = 0; w < W; ++w) {
          acc = std::fmaf(static_cast<float>(value_of(conv.T(), bits[static_cast<std::size_t>(t + w)])),
                          static_cast<float>(conv.weight.get(c, w)), acc);
        }
        support::encode(conv.T(), acc, out_at(t));
      }

      const auto put = [&](int position, std::size_t entry) {
        support::set_raw_bits(conv.T(), bits[entry], want.line.at(conv.rows.block(i), position, c));
      };
      const auto n = static_cast<std::size_t>(conv.rows.length(i)), history = static_cast<std::size_t>(W - 1);
      if (!conv.window) {
        for (std::size_t j = 0; j < history; ++j) put(static_cast<int>(j), n + j);
      } else {
        // rolled: everything but the oldest entry; anchored: everything.
        const std::size_t dropped = conv.kind == LineKind::rolled ? 1 : 0;
        for (std::size_t e = dropped; e < history + n; ++e) put(static_cast<int>(e - dropped), e);
      }
    }
  }
  return want;
}

// The output in float64, and how far from it fp32 with one rounding to T may be.
struct Reference {
  double value = 0, tolerance = 0;
};

inline Reference reference(const Conv& conv, const std::vector<std::uint64_t>& bits, int t, int c) {
  double sum = conv.bias.present() ? conv.bias.get(c) : 0.0, magnitude = std::fabs(sum);
  for (int w = 0; w < conv.W(); ++w) {
    const double term = value_of(conv.T(), bits[static_cast<std::size_t>(t + w)]) * conv.weight.get(c, w);
    sum += term;
    magnitude += std::fabs(term);
  }
  Reference r;
  r.value = conv.activation == Activation::silu ? sum / (1.0 + std::exp(-sum)) : sum;
  // W roundings of partial sums no larger than `magnitude`, through a silu whose slope is at most 1.1; exp, 1 + exp and the
  // quotient add a few fp32 ulp; then half an ulp of T, of a number at most one binade off.
  r.tolerance =
      1.1 * conv.W() * 0x1p-24 * magnitude + 4 * support::ulp(DType::f32, r.value) + 0.51 * support::ulp(conv.T(), r.value);
  return r;
}

}  // namespace conv_case
