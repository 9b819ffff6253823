// causal_conv1d and causal_conv1d_window: depthwise causal convolution over a block's history and a row's inputs.
// Source: docs/operations.md#causal_conv1d, #causal_conv1d_window
#pragma once

#include "recoverssm/rows.hpp"

namespace recoverssm {

// Plain rows: prefill (any length) or decode (one token). Afterwards the history stands at line positions 0..W-2.
struct CausalConv1dParams {
  TensorView x{};       // [n, C] T, read at global rows; channel stride 1
  TensorView weight{};  // [C, W] T or f32, W = 2..8, any strides
  TensorView bias{};    // optional [C] T or f32
  Activation activation = Activation::none;
  TensorView out{};   // [n, C] T, written at global rows; exactly x (same data and strides) or disjoint from it; channel stride 1
  TensorView line{};  // [blocks, cols, C] T, any strides, cols >= W-1
  LineKind line_kind = LineKind::rolled;  // rolled or anchored; matters where rows.num_accepted is given
  Rows rows{};  // has_initial_state: false = history of zeros. num_accepted: the last window was never compacted; history is read
                // at max(n-1, 0) of a rolled line, max(n, 0) of an anchored one
};

// Windows of 0..S tokens. rolled: cols >= W-1 + S-1, history read at max(num_accepted-1, 0) (absent: ones), old position r+1+j
// moves to j < W-2, the inputs follow from W-2 on. anchored: cols >= W-1 + S, history read at max(num_accepted, 0) (absent: zeros)
// and moved to 0..W-2, the inputs follow from W-1 on.
struct CausalConv1dWindowParams {
  TensorView x{};       // [n, C] T, read at global rows; channel stride 1
  TensorView weight{};  // [C, W] T or f32, W = 2..8, any strides
  TensorView bias{};    // optional [C] T or f32
  Activation activation = Activation::none;
  TensorView out{};   // [n, C] T, as in causal_conv1d
  TensorView line{};  // [blocks, cols, C] T, any strides
  LineKind line_kind = LineKind::rolled;
  Rows rows{};
};

Status validate(const CausalConv1dParams& params);
Support query_support(const CausalConv1dParams& params, Backend backend = Backend::cpu);
std::size_t workspace_size(const CausalConv1dParams& params, const Launch& launch);
Status run(const CausalConv1dParams& params, const Launch& launch) noexcept;

Status validate(const CausalConv1dWindowParams& params);
Support query_support(const CausalConv1dWindowParams& params, Backend backend = Backend::cpu);
std::size_t workspace_size(const CausalConv1dWindowParams& params, const Launch& launch);
Status run(const CausalConv1dWindowParams& params, const Launch& launch) noexcept;

}  // namespace recoverssm
