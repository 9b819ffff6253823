// What the machine is asked to do at its fastest: reading, copying, updating in place, multiply-adds. One table a SIMD target.
#pragma once

#include <cstdint>

#include "recoverssm/types.hpp"

namespace recoverssm::bench {

constexpr int kFmaChains = 24;

struct CeilingKernels {
  // n floats, 64-byte aligned; a multiple of 256 x streams. streams: 1, 2, 4 or 8 places read at once. prefetch: bytes ahead, 0: none.
  float (*read)(const float* from, std::int64_t n, int streams, int prefetch);
  void (*update)(float* data, std::int64_t n, int streams, int prefetch);
  void (*copy)(const float* from, float* to, std::int64_t n);         // ordinary stores
  void (*copy_stream)(const float* from, float* to, std::int64_t n);  // non-temporal stores
  // rounds x kFmaChains fused multiply-adds that do not wait for each other, in registers.
  float (*fma)(std::int64_t rounds);
  int lanes;  // fp32 lanes of one multiply-add
};

// The target must be one of available_targets().
const CeilingKernels& ceiling_kernels(Target target);

// `rep movsb` where there is one, else memcpy.
void copy_string(const float* from, float* to, std::int64_t n);
constexpr bool has_copy_string() {
#if defined(__x86_64__)
  return true;
#else
  return false;
#endif
}

}  // namespace recoverssm::bench
