// Shape rules that the convolutions, short_conv and gdn_attention share.
#pragma once

#include "contract/check.h"
#include "recoverssm/rows.hpp"

namespace recoverssm {

constexpr std::int64_t kMinConvTaps = 2, kMaxConvTaps = 8;

void check_activation(Check& check, Activation activation);

// weight [C, W] with W in 2..8 and bias [C], each T or f32.
void check_taps(Check& check, const TensorView& weight, const TensorView& bias, DType T, std::int64_t C);

// A kind that a causal convolution's line may have.
void check_line_kind(Check& check, const Name& name, LineKind kind);

// line [blocks, cols, C], cols >= columns.size.
void check_line(Check& check, const Name& name, const TensorView& line, DTypes dtypes, const Dim& blocks, const Dim& columns,
                const Dim& C);

// The columns a line needs: for its history alone, or for windows of up to `capacity` tokens. `history` is W-1 or (Kc-1)*dilation.
Dim history_columns(std::int64_t history);
Dim window_columns(LineKind kind, std::int64_t history, std::int64_t capacity);

}  // namespace recoverssm
