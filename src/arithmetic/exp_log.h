// exp and log in fp32: one source for every backend, so that every backend gives the same bits. No library call, no fast intrinsic,
// no branch; at most 1 ulp over all floats (measured figures: docs/arithmetic.md). Subnormal arguments and results are kept.
//
// The coefficients are our own: tools/fit_polynomials.py fits and prints them.
#pragma once

#include <cstdint>

#include "arithmetic/portable.h"

namespace recoverssm::arithmetic {

// exp(x) = 2^n exp(r) with n = round(x / ln 2), |r| <= ln(2)/2 and exp(r) = 1 + r + r^2 q(r).
// Exact cases: exp(+-0) = 1; +0 below -104; +inf above 88.72283f (0x42b17217), at which the result is finite; NaN for NaN.
RSSM_HOST_DEVICE float exp_f32(float x) {
  // Beyond these the result is +0 and +inf anyway, by rounding; inside them n fits both steps of the scaling. The order of the
  // operands lets NaN through.
  const float low = x < -104.0f ? -104.0f : x;
  const float clamped = low > 89.0f ? 89.0f : low;

  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
  const float shifter = 0x1.8p23f;
  const float shifted = fused_multiply_add(clamped, 0x1.715476p+0f, shifter);  // log2(e)
  const float n = shifted - shifter;
  const std::int32_t exponent = static_cast<std::int32_t>(bits_of(shifted) - bits_of(shifter));

  // r = head + tail. ln 2 has two parts: the first fma is exact, the tail is what the rounding of ln 2 to 24 bits left out.
  const float head = fused_multiply_add(n, -0x1.62e43p-1f, clamped);
  const float tail = n * 0x1.05c61p-29f;
  const float r = head + tail;

  float q = 0x1.6a1c8ep-10f;
  q = fused_multiply_add(q, r, 0x1.123984p-7f);
  q = fused_multiply_add(q, r, 0x1.5558d2p-5f);
  q = fused_multiply_add(q, r, 0x1.555492p-3f);
  q = fused_multiply_add(q, r, 0x1.fffffcp-2f);

  // 1 + head + (tail + r^2 q): what the first sum rounds off goes to the small term, so that little but the last rounding is left.
  const float small = fused_multiply_add(r * r, q, tail);
  const float sum = 1.0f + head;
  const float lost = (1.0f - sum) + head;
  const float mantissa = sum + (lost + small);

  // 2^n in two factors, each a normal number: 2^128 is none, and a subnormal result must be rounded only once, by the last product.
  const std::int32_t half = exponent >> 1;
  const float first = float_of(static_cast<std::uint32_t>(half + 127) << 23);
  const float second = float_of(static_cast<std::uint32_t>(exponent - half + 127) << 23);
  return mantissa * first * second;
}

// log(x) = e ln 2 + log(1 + f) with 1 + f in [sqrt(1/2), sqrt(2)) and log(1 + f) = f - f^2/2 + f^3 p(f).
// Exact cases: log(1) = +0; log(+-0) = -inf; log(+inf) = +inf; NaN below zero and for NaN.
RSSM_HOST_DEVICE float log_f32(float x) {
  // Subnormals are scaled into the normal range first.
  const bool subnormal = x < 0x1p-126f;
  const float normal = subnormal ? x * 0x1p25f : x;
  const float scaling = subnormal ? -25.0f : 0.0f;

  // Counting the exponent from sqrt(1/2) instead of from 1 centres the mantissa around 1.
  const std::uint32_t root_half = 0x3f3504f3u;
  const std::uint32_t offset = bits_of(normal) - root_half;
  const float e = static_cast<float>(static_cast<std::int32_t>(offset) >> 23) + scaling;
  const float f = float_of((offset & 0x7fffffu) + root_half) - 1.0f;

  float p = 0x1.146be6p-4f;
  p = fused_multiply_add(p, f, -0x1.de1f1p-4f);
  p = fused_multiply_add(p, f, 0x1.e6d806p-4f);
  p = fused_multiply_add(p, f, -0x1.fc2446p-4f);
  p = fused_multiply_add(p, f, 0x1.2338bep-3f);
  p = fused_multiply_add(p, f, -0x1.555c1ep-3f);
  p = fused_multiply_add(p, f, 0x1.99a49ep-3f);
  p = fused_multiply_add(p, f, -0x1.000008p-2f);
  p = fused_multiply_add(p, f, 0x1.555548p-2f);

  // f - f^2/2 + (f^3 p + tail), smallest first. f^2/2 is never rounded by itself, and e * 0x1.62e4p-1 is exact (15 bits), so the
  // sum of that with f loses only what `lost` recovers.
  const float tail = e * 0x1.7f7d1cp-20f;
  const float cubic = fused_multiply_add(f * f * f, p, tail);
  const float small = fused_multiply_add(-0.5f * f, f, cubic);
  const float whole = e * 0x1.62e4p-1f;
  const float sum = whole + f;
  const float lost = (whole - sum) + f;
  const float finite = sum + (lost + small);

  const float infinity = __builtin_huge_valf();
  const float edge = x == 0.0f ? -infinity : __builtin_nanf("");
  const float positive = x < infinity ? finite : x;
  return x > 0.0f ? positive : edge;
}

}  // namespace recoverssm::arithmetic
