// bf16 and fp16 against fp32. Widening is exact; narrowing rounds to nearest, ties to even, keeps subnormals and the sign of zero,
// overflows to infinity and turns every NaN into a quiet NaN of the same sign.
//
// All of it is integer arithmetic (and one exact product), so that neither the rounding mode nor flush-to-zero can reach it, and
// branch-free, so that loops over it vectorise. 16-bit values travel as bit patterns.
#pragma once

#include <cstdint>

#include "arithmetic/portable.h"

namespace recoverssm::arithmetic {

RSSM_HOST_DEVICE float from_bf16(std::uint16_t value) { return float_of(static_cast<std::uint32_t>(value) << 16); }

RSSM_HOST_DEVICE std::uint16_t to_bf16(float value) {
  const std::uint32_t bits = bits_of(value);
  // Just under half a unit of the last kept bit, plus one if that bit is odd: a tie carries only to an even result. The carry may
  // run into the exponent and up to infinity, which is the right answer there.
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40u;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<std::uint16_t>(is_nan ? quiet : rounded);
}

RSSM_HOST_DEVICE float from_f16(std::uint16_t value) {
  const std::uint32_t sign = (value & 0x8000u) << 16;
  const std::uint32_t magnitude = value & 0x7fffu;
  const std::uint32_t bias = (127u - 15u) << 23;
  const std::uint32_t normal = (magnitude << 13) + bias;
  // Infinity and NaN: the largest exponent of one format is the largest of the other.
  const std::uint32_t special = normal + bias;
  // Subnormals are a multiple of 2^-24; the conversion and the product are exact.
  const std::uint32_t subnormal = bits_of(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f);
  const std::uint32_t finite = magnitude < 0x400u ? subnormal : normal;
  return float_of(sign | (magnitude < 0x7c00u ? finite : special));
}

RSSM_HOST_DEVICE std::uint16_t to_f16(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;

  // Normal results: as in to_bf16, after moving the exponent to the smaller bias.
  const std::uint32_t normal = (magnitude - ((127u - 15u) << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;

  // Subnormal results are a count of 2^-24: the significand shifted right by 126 - exponent (14 at the largest). From 25 on nothing
  // is left whatever the significand, so the shift is capped where it is still defined; fp32 subnormals go the same way. For normal
  // results the shift means nothing and is only kept in range.
  const std::uint32_t exponent = magnitude >> 23;
  const std::uint32_t distance = 126u - exponent;
  const std::uint32_t shift = exponent > 112u ? 14u : (distance > 31u ? 31u : distance);
  const std::uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
  const std::uint32_t subnormal = (significand + ((1u << (shift - 1u)) - 1u) + ((significand >> shift) & 1u)) >> shift;

  const std::uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;  // 2^-14
  const std::uint32_t bounded = magnitude < 0x47800000u ? finite : 0x7c00u;   // 2^16; 65520.. rounds up to infinity by itself
  const std::uint32_t quiet = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  return static_cast<std::uint16_t>(sign | (magnitude > 0x7f800000u ? quiet : bounded));
}

}  // namespace recoverssm::arithmetic
