// Element conversions of the tests, written apart from the library's: through double, with ldexp and nearbyint.
#pragma once

#include <cstdint>

#include "recoverssm/types.hpp"

namespace support {

// Value of one f32, bf16, f16 or i32 element. Exact.
double decode(recoverssm::DType dtype, const void* element);

// Stores `value` rounded to nearest even. i32 takes integers only.
void encode(recoverssm::DType dtype, double value, void* element);

// `value` as it reads back after a store in `dtype`.
double round_to(recoverssm::DType dtype, double value);

// Distance between neighbouring numbers of `dtype` at |value| (of the smallest subnormal at 0).
double ulp(recoverssm::DType dtype, double value);

// Raw bits of an element of any dtype, zero-extended.
std::uint64_t raw_bits(recoverssm::DType dtype, const void* element);
void set_raw_bits(recoverssm::DType dtype, std::uint64_t bits, void* element);

}  // namespace support
