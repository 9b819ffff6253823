// short_conv: dilated depthwise convolution with residuals. Source: docs/operations.md#short_conv
#pragma once

#include "recoverssm/rows.hpp"

namespace recoverssm {

// History N = (Kc-1)*dilation. Token j of a row reads positions j + dilation*k of history ++ inputs, k = 0..Kc-1.
struct ShortConvParams {
  TensorView x{};       // [n, C] T, read at global rows; channel stride 1
  TensorView weight{};  // [C, Kc] T or f32, Kc >= 2, any strides
  std::int32_t dilation = 1;
  TensorView residual{};        // [m, C] T, written at global rows; channel stride 1
  TensorView outer_residual{};  // optional [m, C] T, read at global rows
  TensorView line{};            // [blocks, cols, C] T, any strides; cols >= N (plain), N + S-1 (rolled), N + S (anchored)
  LineKind line_kind = LineKind::plain;
  Rows rows{};  // plain: no num_accepted; rolled, anchored: no has_initial_state
};

Status validate(const ShortConvParams& params);
Support query_support(const ShortConvParams& params, Backend backend = Backend::cpu);
std::size_t workspace_size(const ShortConvParams& params, const Launch& launch);
Status run(const ShortConvParams& params, const Launch& launch) noexcept;

}  // namespace recoverssm
