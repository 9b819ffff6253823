// Words that let one source compile for the host, for CUDA and for SYCL. Everything in src/arithmetic is written with these, without
// library calls, and without branches where a vectorising compiler should be able to run several lanes at once.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define RSSM_HOST_DEVICE __host__ __device__ __forceinline__
#elif defined(__GNUC__)
// always_inline: an inline copy compiled for the baseline must not serve a caller compiled for a wider target.
#define RSSM_HOST_DEVICE inline __attribute__((always_inline))
#else
#define RSSM_HOST_DEVICE inline
#endif

#if defined(__SYCL_DEVICE_ONLY__)
#include <sycl/sycl.hpp>
#endif

namespace recoverssm::arithmetic {

// x*y + z with one rounding.
RSSM_HOST_DEVICE float fused_multiply_add(float x, float y, float z) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(x, y, z);
#elif defined(__SYCL_DEVICE_ONLY__)
  return sycl::fma(x, y, z);
#else
  return __builtin_fmaf(x, y, z);
#endif
}

RSSM_HOST_DEVICE float square_root(float x) {
#if defined(__CUDA_ARCH__)
  return __fsqrt_rn(x);
#elif defined(__SYCL_DEVICE_ONLY__)
  return sycl::sqrt(x);
#else
  return __builtin_sqrtf(x);
#endif
}

RSSM_HOST_DEVICE float divide(float x, float y) {
#if defined(__CUDA_ARCH__)
  return __fdiv_rn(x, y);
#else
  return x / y;
#endif
}

RSSM_HOST_DEVICE std::uint32_t bits_of(float x) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(x);
#else
  std::uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
#endif
}

RSSM_HOST_DEVICE float float_of(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
#endif
}

}  // namespace recoverssm::arithmetic
