// Neighbouring elements that a thread moves as one value, and kernels chosen by dtype.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda/view.cuh"

namespace recoverssm::cuda {

template <int kBytes>
struct BitsOfSize;
template <>
struct BitsOfSize<2> {
  using type = std::uint16_t;
};
template <>
struct BitsOfSize<4> {
  using type = std::uint32_t;
};
template <>
struct BitsOfSize<8> {
  using type = uint2;
};
template <>
struct BitsOfSize<16> {
  using type = uint4;
};

// An element of `kSize` bytes whose value does not matter, and kLanes of them side by side.
template <int kSize>
using ElementBits = typename BitsOfSize<kSize>::type;
template <int kSize, int kLanes>
using LaneBits = typename BitsOfSize<kSize * kLanes>::type;

template <class Bits>
__device__ __forceinline__ Bits load_bits(const std::byte* p) {
  return *reinterpret_cast<const Bits*>(p);
}
template <class Bits>
__device__ __forceinline__ void store_bits(std::byte* p, Bits bits) {
  *reinterpret_cast<Bits*>(p) = bits;
}

template <class T, int kLanes>
__device__ __forceinline__ void unpack(LaneBits<sizeof(T), kLanes> bits, float (&to)[kLanes]) {
  T elements[kLanes];
  memcpy(elements, &bits, sizeof bits);
#pragma unroll
  for (int i = 0; i < kLanes; ++i) to[i] = widen(elements[i]);
}

// One rounding to T.
template <class T, int kLanes>
__device__ __forceinline__ LaneBits<sizeof(T), kLanes> pack(const float (&from)[kLanes]) {
  T elements[kLanes];
#pragma unroll
  for (int i = 0; i < kLanes; ++i) elements[i] = narrow<T>(from[i]);
  LaneBits<sizeof(T), kLanes> bits;
  memcpy(&bits, elements, sizeof bits);
  return bits;
}

template <class T>
struct TypeTag {
  using type = T;
};

// Calls f with the tag of an activation dtype.
template <class F>
void with_activation(DType dtype, F&& f) {
  if (dtype == DType::f32) return f(TypeTag<float>{});
  if (dtype == DType::bf16) return f(TypeTag<__nv_bfloat16>{});
  return f(TypeTag<__half>{});
}

// Calls f with a constant: 4 lanes where `four`, else 1.
template <class F>
void with_lanes(bool four, F&& f) {
  if (four) return f(std::integral_constant<int, 4>{});
  return f(std::integral_constant<int, 1>{});
}

}  // namespace recoverssm::cuda
