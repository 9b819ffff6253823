// Strided views in device code, and elements between their dtypes and fp32. Widening is exact, narrowing rounds to nearest even: the
// hardware's conversions are IEEE, and tests/cuda compares them with arithmetic/rounding.h over all floats.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "arithmetic/portable.h"
#include "recoverssm/types.hpp"

namespace recoverssm::cuda {

// A TensorView without its shape: what a kernel needs to find an element. Sizes travel beside it.
struct View {
  std::byte* data = nullptr;
  std::int64_t stride[kMaxDims] = {};
  DType dtype = DType::f32;
  std::uint8_t shift = 2;  // log2 of an element's bytes: a switch over dtypes at every access costs a dozen instructions
  bool present = false;
};

RSSM_HOST_DEVICE constexpr std::uint8_t shift_of(DType dtype) {
  const std::int64_t size = size_of(dtype);
  return size == 8 ? 3 : size == 4 ? 2 : size == 2 ? 1 : 0;
}

inline View view_of(const TensorView& t) {
  View v;
  v.data = static_cast<std::byte*>(t.data);
  for (int d = 0; d < kMaxDims; ++d) v.stride[d] = t.stride[static_cast<std::size_t>(d)];
  v.dtype = t.dtype;
  v.shift = shift_of(t.dtype);
  v.present = t.present();
  return v;
}

// Of element (i), (i, j), ..., in elements: 64-bit throughout.
template <class... Index>
__device__ __forceinline__ std::int64_t offset_of(const View& view, Index... index) {
  const std::int64_t indices[] = {static_cast<std::int64_t>(index)...};
  std::int64_t offset = 0;
#pragma unroll
  for (int d = 0; d < static_cast<int>(sizeof...(Index)); ++d) offset += indices[d] * view.stride[d];
  return offset;
}

template <class... Index>
__device__ __forceinline__ std::byte* at(const View& view, Index... index) {
  return view.data + (offset_of(view, index...) << view.shift);
}

template <class... Index>
__device__ __forceinline__ std::int32_t i32_at(const View& view, Index... index) {
  return reinterpret_cast<const std::int32_t*>(view.data)[offset_of(view, index...)];
}

template <class... Index>
__device__ __forceinline__ void store_i32(const View& view, std::int32_t value, Index... index) {
  reinterpret_cast<std::int32_t*>(view.data)[offset_of(view, index...)] = value;
}

__device__ __forceinline__ bool bool_at(const View& view, std::int64_t i) {
  return reinterpret_cast<const std::uint8_t*>(view.data)[offset_of(view, i)] != 0;
}

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float widen(__half x) { return __half2float(x); }

template <class T>
__device__ __forceinline__ T narrow(float x);
template <>
__device__ __forceinline__ float narrow<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ __nv_bfloat16 narrow<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ __forceinline__ __half narrow<__half>(float x) {
  return __float2half_rn(x);
}

// One element of a dtype that is known only now; the branch is the same for a whole grid.
__device__ __forceinline__ float load_float(const std::byte* p, DType dtype) {
  if (dtype == DType::f32) return *reinterpret_cast<const float*>(p);
  if (dtype == DType::bf16) return widen(*reinterpret_cast<const __nv_bfloat16*>(p));
  return widen(*reinterpret_cast<const __half*>(p));
}

__device__ __forceinline__ void store_float(std::byte* p, DType dtype, float x) {
  if (dtype == DType::f32) {
    *reinterpret_cast<float*>(p) = x;
  } else if (dtype == DType::bf16) {
    *reinterpret_cast<__nv_bfloat16*>(p) = narrow<__nv_bfloat16>(x);
  } else {
    *reinterpret_cast<__half*>(p) = narrow<__half>(x);
  }
}

// Moves one element of 2 or 4 bytes, bit by bit.
__device__ __forceinline__ void copy_element(std::byte* to, const std::byte* from, int size) {
  if (size == 4) {
    *reinterpret_cast<std::uint32_t*>(to) = *reinterpret_cast<const std::uint32_t*>(from);
  } else {
    *reinterpret_cast<std::uint16_t*>(to) = *reinterpret_cast<const std::uint16_t*>(from);
  }
}

__device__ __forceinline__ void clear_element(std::byte* to, int size) {
  if (size == 4) {
    *reinterpret_cast<std::uint32_t*>(to) = 0;
  } else {
    *reinterpret_cast<std::uint16_t*>(to) = 0;
  }
}

// Four neighbours at once where they are aligned to their own size.
__device__ __forceinline__ float4 load4(const float* p) { return *reinterpret_cast<const float4*>(p); }
__device__ __forceinline__ float4 load4(const __nv_bfloat16* p) {
  const uint2 bits = *reinterpret_cast<const uint2*>(p);
  return {__uint_as_float(bits.x << 16), __uint_as_float(bits.x & 0xffff0000u), __uint_as_float(bits.y << 16),
          __uint_as_float(bits.y & 0xffff0000u)};
}
__device__ __forceinline__ float4 load4(const __half* p) {
  const uint2 bits = *reinterpret_cast<const uint2*>(p);
  const __half2 low = *reinterpret_cast<const __half2*>(&bits.x), high = *reinterpret_cast<const __half2*>(&bits.y);
  const float2 a = __half22float2(low), b = __half22float2(high);
  return {a.x, a.y, b.x, b.y};
}

// The same for what is read once: it need not stay in a cache.
__device__ __forceinline__ float4 load4_once(const float* p) { return __ldcs(reinterpret_cast<const float4*>(p)); }
template <class T>
__device__ __forceinline__ float4 load4_once(const T* p) {
  const uint2 bits = __ldcs(reinterpret_cast<const uint2*>(p));
  return load4(reinterpret_cast<const T*>(&bits));
}

// For what is not read soon: the first to leave L2.
__device__ __forceinline__ void store4_once(float* p, float4 x) { __stcs(reinterpret_cast<float4*>(p), x); }
__device__ __forceinline__ void store4(float* p, float4 x) { *reinterpret_cast<float4*>(p) = x; }
__device__ __forceinline__ void store4(__nv_bfloat16* p, float4 x) {
  const __nv_bfloat162 low = __floats2bfloat162_rn(x.x, x.y), high = __floats2bfloat162_rn(x.z, x.w);
  uint2 bits;
  bits.x = *reinterpret_cast<const std::uint32_t*>(&low);
  bits.y = *reinterpret_cast<const std::uint32_t*>(&high);
  *reinterpret_cast<uint2*>(p) = bits;
}
__device__ __forceinline__ void store4(__half* p, float4 x) {
  const __half2 low = __floats2half2_rn(x.x, x.y), high = __floats2half2_rn(x.z, x.w);
  uint2 bits;
  bits.x = *reinterpret_cast<const std::uint32_t*>(&low);
  bits.y = *reinterpret_cast<const std::uint32_t*>(&high);
  *reinterpret_cast<uint2*>(p) = bits;
}

}  // namespace recoverssm::cuda
