// fp32 against the 16-bit dtypes for one SIMD target. Included once per target, inside Highway's target namespace. The rules are
// arithmetic/rounding.h's.

#if defined(RECOVERSSM_CPU_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RECOVERSSM_CPU_CONVERT_INL_H_
#undef RECOVERSSM_CPU_CONVERT_INL_H_
#else
#define RECOVERSSM_CPU_CONVERT_INL_H_
#endif

#include "arithmetic/rounding.h"
#include "cpu/kernels.h"
#include "cpu/lanes-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace recoverssm::cpu::HWY_NAMESPACE {
inline void Widen(DType dtype, const void* from, float* HWY_RESTRICT to, std::int64_t n) {
  if (dtype == DType::f32) {
    __builtin_memcpy(to, from, static_cast<std::size_t>(n) * sizeof(float));
    return;
  }
  const auto* HWY_RESTRICT bits = static_cast<const std::uint16_t*>(from);
  if (dtype == DType::bf16) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = arithmetic::from_bf16(bits[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i] = arithmetic::from_f16(bits[i]);
  }
}

inline void Narrow(DType dtype, const float* HWY_RESTRICT from, void* to, std::int64_t n) {
  if (dtype == DType::f32) {
    __builtin_memcpy(to, from, static_cast<std::size_t>(n) * sizeof(float));
    return;
  }
  auto* HWY_RESTRICT bits = static_cast<std::uint16_t*>(to);
  if (dtype == DType::bf16) {
    for (std::int64_t i = 0; i < n; ++i) bits[i] = arithmetic::to_bf16(from[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) bits[i] = arithmetic::to_f16(from[i]);
  }
}

// kLanes elements from `index` on, widened.
template <DType kDType>
HWY_INLINE Floats LoadWidened(const void* data, int index) {
  if constexpr (kDType == DType::f32) return LoadU(static_cast<const float*>(data) + index);
  alignas(64) float wide[kLanes];
  const auto* HWY_RESTRICT bits = static_cast<const std::uint16_t*>(data) + index;
  for (int i = 0; i < kLanes; ++i) {
    wide[i] = kDType == DType::bf16 ? arithmetic::from_bf16(bits[i]) : arithmetic::from_f16(bits[i]);
  }
  return Load(wide);
}

// Row r of a tile.
HWY_INLINE void* row_of(const StateTile& tile, int r, int K) {
  return static_cast<std::byte*>(tile.data) + std::int64_t{r} * K * size_of(tile.dtype);
}

}  // namespace recoverssm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // RECOVERSSM_CPU_CONVERT_INL_H_
