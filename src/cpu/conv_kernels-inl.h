// The convolutions and silu for one SIMD target. Included once per target by kernels.cc, inside Highway's target namespace. Plain
// loops over channels: a channel's sum has a fixed order, channels are independent, so the compiler may run as many at once as the
// target has lanes without changing a bit.

#if defined(RECOVERSSM_CPU_CONV_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RECOVERSSM_CPU_CONV_KERNELS_INL_H_
#undef RECOVERSSM_CPU_CONV_KERNELS_INL_H_
#else
#define RECOVERSSM_CPU_CONV_KERNELS_INL_H_
#endif

#include <algorithm>

#include "arithmetic/gates.h"
#include "arithmetic/portable.h"
#include "cpu/convert-inl.h"
#include "cpu/kernels.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace recoverssm::cpu::HWY_NAMESPACE {

// x and to may be the same, but do not overlap otherwise.
inline void Silu(const float* x, float* to, int n) {
  for (int i = 0; i < n; ++i) to[i] = arithmetic::silu(x[i]);
}

// Asks for the rows of a token to come: at model sizes two tokens' rows lie a multiple of the page size apart, where no hardware
// prefetcher follows.
HWY_INLINE void PrefetchToken(const ConvTokens& tokens, int t) {
  if (t >= tokens.known) return;
  const std::int64_t in_bytes = tokens.channels * size_of(tokens.dtype);
  const std::int64_t out_bytes = tokens.channels * size_of(tokens.out_dtype);
  for (std::int64_t at = 0; at < in_bytes; at += 64) __builtin_prefetch(tokens.inputs[t] + at, 0);
  for (std::int64_t at = 0; at < out_bytes; at += 64) __builtin_prefetch(tokens.outputs[t] + at, 1);
}

// W is a compile-time number so that the sums stay in registers.
template <int W>
HWY_INLINE void ConvBlock(const ConvTokens& tokens) {
  static constexpr float kNoBias[kConvTile] = {};  // +0, the sum's start where there is no bias
  const float* HWY_RESTRICT bias = tokens.bias != nullptr ? tokens.bias : kNoBias;
  const float* HWY_RESTRICT weight = tokens.weight;
  float* HWY_RESTRICT sums = tokens.sums;
  for (int t = 0; t < tokens.count; ++t) {
    PrefetchToken(tokens, t + kConvAhead);
    const float* HWY_RESTRICT taps = tokens.window + t * kConvTile;
    Widen(tokens.dtype, tokens.inputs[t], tokens.window + (W - 1 + t) * kConvTile, tokens.channels);
    for (int c = 0; c < tokens.channels; ++c) {
      float sum = bias[c];
      for (int w = 0; w < W; ++w) sum = arithmetic::fused_multiply_add(taps[w * kConvTile + c], weight[w * kConvTile + c], sum);
      sums[c] = sum;
    }
    if (tokens.silu) Silu(sums, sums, tokens.channels);
    Narrow(tokens.out_dtype, sums, tokens.outputs[t], tokens.channels);
  }
  if (tokens.known == tokens.count) return;
  for (int h = 0; h < W - 1; ++h) {
    std::copy_n(tokens.window + (tokens.count + h) * kConvTile, tokens.channels, tokens.window + h * kConvTile);
  }
}

inline void Conv(const ConvTokens& tokens) {
  switch (tokens.taps) {
    case 2:
      return ConvBlock<2>(tokens);
    case 3:
      return ConvBlock<3>(tokens);
    case 4:
      return ConvBlock<4>(tokens);
    case 5:
      return ConvBlock<5>(tokens);
    case 6:
      return ConvBlock<6>(tokens);
    case 7:
      return ConvBlock<7>(tokens);
    case 8:
      return ConvBlock<8>(tokens);
    default:
      return;  // refused by the contract
  }
}

// Any number of taps, so tap by tap over a tile of sums; from +0, product and sum rounding separately.
inline void ShortConv(const ShortConvToken& token) {
  float* HWY_RESTRICT out = token.out;
  for (int c = 0; c < token.channels; ++c) out[c] = 0.0F;
  for (int k = 0; k < token.taps; ++k) {
    const float* HWY_RESTRICT input = token.inputs[k];
    const float* HWY_RESTRICT weight = token.weight + static_cast<std::ptrdiff_t>(k) * kConvTile;
    for (int c = 0; c < token.channels; ++c) out[c] += input[c] * weight[c];
  }
}

}  // namespace recoverssm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // RECOVERSSM_CPU_CONV_KERNELS_INL_H_
