// Compiles itself once per SIMD target, with the same targets as src/cpu/kernels.cc.

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/ceiling_kernels.cc"
// clang-format off: foreach_target.h comes first, and includes this file again for every target.
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// clang-format on

#include <hwy/cache_control.h>

#include <cstring>

#include "arithmetic/portable.h"
#include "bench/ceiling_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace recoverssm::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, 16>;
using Vec = hn::Vec<Tag>;
constexpr std::int64_t kVector = static_cast<std::int64_t>(hn::MaxLanes(Tag()));
constexpr std::int64_t kLine = 16;  // floats of a cache line

HWY_INLINE void Prefetch(const float* at, int bytes) {
  if (bytes != 0) __builtin_prefetch(reinterpret_cast<const char*>(at) + bytes);
}

template <int kStreams>
float ReadStreams(const float* HWY_RESTRICT from, std::int64_t n, int prefetch) {
  const Tag d;
  const std::int64_t part = n / kStreams;
  Vec sums[kStreams][2];
  for (auto& sum : sums) sum[0] = sum[1] = hn::Zero(d);
  for (std::int64_t i = 0; i < part; i += 2 * kLine) {
    for (int s = 0; s < kStreams; ++s) {
      const float* at = from + s * part + i;
      Prefetch(at, prefetch);
      Prefetch(at + kLine, prefetch);
      for (std::int64_t j = 0; j < 2 * kLine; j += 2 * kVector) {
        sums[s][0] = hn::Add(sums[s][0], hn::Load(d, at + j));
        sums[s][1] = hn::Add(sums[s][1], hn::Load(d, at + j + kVector));
      }
    }
  }
  Vec sum = hn::Zero(d);
  for (auto& one : sums) sum = hn::Add(sum, hn::Add(one[0], one[1]));
  return hn::GetLane(sum);
}

inline float Read(const float* from, std::int64_t n, int streams, int prefetch) {
  switch (streams) {
    case 2:
      return ReadStreams<2>(from, n, prefetch);
    case 4:
      return ReadStreams<4>(from, n, prefetch);
    case 8:
      return ReadStreams<8>(from, n, prefetch);
    default:
      return ReadStreams<1>(from, n, prefetch);
  }
}

template <int kStreams>
void UpdateStreams(float* HWY_RESTRICT data, std::int64_t n, int prefetch) {
  const Tag d;
  const std::int64_t part = n / kStreams;
  const Vec factor = hn::Set(d, -1.0F);  // the data stays in range however often it is updated
  for (std::int64_t i = 0; i < part; i += kLine) {
    for (int s = 0; s < kStreams; ++s) {
      float* at = data + s * part + i;
      Prefetch(at, prefetch);
      for (std::int64_t j = 0; j < kLine; j += kVector) hn::Store(hn::Mul(hn::Load(d, at + j), factor), d, at + j);
    }
  }
}

inline void Update(float* data, std::int64_t n, int streams, int prefetch) {
  switch (streams) {
    case 2:
      return UpdateStreams<2>(data, n, prefetch);
    case 4:
      return UpdateStreams<4>(data, n, prefetch);
    case 8:
      return UpdateStreams<8>(data, n, prefetch);
    default:
      return UpdateStreams<1>(data, n, prefetch);
  }
}

inline void Copy(const float* HWY_RESTRICT from, float* HWY_RESTRICT to, std::int64_t n) {
  const Tag d;
  for (std::int64_t i = 0; i < n; i += 4 * kLine) {
    for (std::int64_t j = 0; j < 4 * kLine; j += kVector) hn::Store(hn::Load(d, from + i + j), d, to + i + j);
  }
}

inline void CopyStream(const float* HWY_RESTRICT from, float* HWY_RESTRICT to, std::int64_t n) {
  const Tag d;
  for (std::int64_t i = 0; i < n; i += 4 * kLine) {
    for (std::int64_t j = 0; j < 4 * kLine; j += kVector) hn::Stream(hn::Load(d, from + i + j), d, to + i + j);
  }
  hwy::FlushStream();
}

// One rounding, as the library's own kernels have it: the portable target calls the C library's fmaf.
HWY_INLINE Vec FusedMulAdd(Vec x, Vec y, Vec z) {
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  const Tag d;
  alignas(64) float xs[kVector], ys[kVector], zs[kVector];
  hn::Store(x, d, xs);
  hn::Store(y, d, ys);
  hn::Store(z, d, zs);
  for (int i = 0; i < kVector; ++i) zs[i] = arithmetic::fused_multiply_add(xs[i], ys[i], zs[i]);
  return hn::Load(d, zs);
#else
  return hn::MulAdd(x, y, z);
#endif
}

inline float Fma(std::int64_t rounds) {
  const Tag d;
  // 24 chains hide 4 cycles of latency on up to 6 units. AVX2 has 16 registers: 12 chains there, run twice, which hides them on 3.
  constexpr int kChains = HWY_TARGET == HWY_AVX2 ? 12 : kFmaChains;
  const Vec x = hn::Set(d, 0.5F), y = hn::Set(d, 0.25F);
  Vec sums[kChains];
  // Unrolled by order: GCC would leave loops of more than 16 as they are, with the sums in memory.
#pragma GCC unroll 24
  for (int c = 0; c < kChains; ++c) sums[c] = hn::Set(d, static_cast<float>(c));
  for (std::int64_t round = 0; round < rounds * (kFmaChains / kChains); ++round) {
#pragma GCC unroll 24
    for (int c = 0; c < kChains; ++c) sums[c] = FusedMulAdd(sums[c], x, y);
  }
  Vec sum = hn::Zero(d);
#pragma GCC unroll 24
  for (int c = 0; c < kChains; ++c) sum = hn::Add(sum, sums[c]);
  return hn::GetLane(sum);
}

inline const CeilingKernels& Table() {
  static const CeilingKernels table = {Read, Update, Copy, CopyStream, Fma, static_cast<int>(kVector)};
  return table;
}

}  // namespace recoverssm::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace recoverssm::bench {

const CeilingKernels& ceiling_kernels(Target target) {
#if HWY_TARGETS & HWY_AVX3
  if (target == Target::avx512) return N_AVX3::Table();
#endif
#if HWY_TARGETS & HWY_AVX2
  if (target == Target::avx2) return N_AVX2::Table();
#endif
  return HWY_STATIC_DISPATCH(Table)();
}

void copy_string(const float* from, float* to, std::int64_t n) {
  auto bytes = static_cast<std::size_t>(n) * sizeof(float);
#if defined(__x86_64__)
  asm volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(bytes) : : "memory");
#else
  std::memcpy(to, from, bytes);
#endif
}

}  // namespace recoverssm::bench

#endif  // HWY_ONCE
