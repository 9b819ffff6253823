// The convolutions and silu for one SIMD target. Included once per target by kernels.cc, inside Highway's target namespace. Plain
// loops over channels: a channel's sum has a fixed order, channels are independent, so the compiler may run as many at once as the
// target has lanes without changing a bit.

#if defined(RECOVERSSM_CPU_CONV_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RECOVERSSM_CPU_CONV_KERNELS_INL_H_
#undef RECOVERSSM_CPU_CONV_KERNELS_INL_H_
#else
#define RECOVERSSM_CPU_CONV_KERNELS_INL_H_
#endif

#include "arithmetic/gates.h"
#include "arithmetic/portable.h"
#include "cpu/kernels.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace recoverssm::cpu::HWY_NAMESPACE {

// x and to may be the same, but do not overlap otherwise.
inline void Silu(const float* x, float* to, int n) {
  for (int i = 0; i < n; ++i) to[i] = arithmetic::silu(x[i]);
}

// W is a compile-time number so that the sums stay in registers.
template <int W>
void ConvTaps(const ConvToken& token) {
  static constexpr float kNoBias[kConvTile] = {};  // +0, the sum's start where there is no bias
  const float* HWY_RESTRICT bias = token.bias != nullptr ? token.bias : kNoBias;
  const float* HWY_RESTRICT weight = token.weight;
  float* HWY_RESTRICT out = token.out;
  const float* inputs[W];
  for (int w = 0; w < W; ++w) inputs[w] = token.inputs[w];
  for (int c = 0; c < token.channels; ++c) {
    float acc = bias[c];
    for (int w = 0; w < W; ++w) acc = arithmetic::fused_multiply_add(inputs[w][c], weight[w * kConvTile + c], acc);
    out[c] = acc;
  }
}

inline void Conv(const ConvToken& token) {
  switch (token.taps) {
    case 2:
      ConvTaps<2>(token);
      break;
    case 3:
      ConvTaps<3>(token);
      break;
    case 4:
      ConvTaps<4>(token);
      break;
    case 5:
      ConvTaps<5>(token);
      break;
    case 6:
      ConvTaps<6>(token);
      break;
    case 7:
      ConvTaps<7>(token);
      break;
    case 8:
      ConvTaps<8>(token);
      break;
    default:
      return;  // refused by the contract
  }
  if (token.silu) Silu(token.out, token.out, token.channels);
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
