// The kernel tables: this file compiles itself once per SIMD target (Highway's foreach_target), which is the only place where targets
// are named.

// The oldest x86 targets have no fma, and AVX3_DL adds nothing these kernels use. (Arm: src/CMakeLists.txt.)
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/kernels.cc"
// clang-format off: foreach_target.h comes first, and includes this file again for every target.
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// clang-format on

#include "arithmetic/gates.h"
#include "cpu/conv_kernels-inl.h"
#include "cpu/convert-inl.h"
#include "cpu/delta_kernels-inl.h"
#include "cpu/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace recoverssm::cpu::HWY_NAMESPACE {

inline void Sigmoid(const float* b, float* beta, int n) {
  for (int i = 0; i < n; ++i) beta[i] = arithmetic::sigmoid(b[i]);
}

// arithmetic::gdn_decay with exp(A_log) taken out of the loop, which GCC would not vectorise with it inside.
inline void GdnDecay(const GdnGate& gate, const float* a, float* decay, int n) {
  const float exp_A_log = arithmetic::exp_f32(gate.A_log);
  for (int i = 0; i < n; ++i) {
    decay[i] = arithmetic::kda_decay(a[i] + gate.dt_bias, exp_A_log, gate.softplus_beta, gate.softplus_threshold);
  }
}

inline void KdaDecay(const KdaGate& gate, const float* raw, const float* dt_bias, float* decay, int n) {
  const float exp_A_log = arithmetic::exp_f32(gate.A_log);
  if (gate.bounded) {
    for (int i = 0; i < n; ++i) decay[i] = arithmetic::kda_decay_bounded(raw[i] + dt_bias[i], exp_A_log, gate.lower_bound);
    return;
  }
  for (int i = 0; i < n; ++i) {
    decay[i] = arithmetic::kda_decay(raw[i] + dt_bias[i], exp_A_log, gate.softplus_beta, gate.softplus_threshold);
  }
}

// Also keeps the table of a target that this build's baseline makes unreachable from being an unused function.
inline const Kernels& Table(Target target) {
  static const Kernels table = {target, Widen, Narrow, Sigmoid, GdnDecay, KdaDecay, Silu, Conv, ShortConv, Prepare, Delta, Replay};
  return table;
}

}  // namespace recoverssm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace recoverssm::cpu {

const Kernels& kernels_of(Target target) {
#if HWY_TARGETS & HWY_AVX3
  if (target == Target::avx512) return N_AVX3::Table(Target::avx512);
#endif
#if HWY_TARGETS & HWY_AVX2
  if (target == Target::avx2) return N_AVX2::Table(Target::avx2);
#endif
  return HWY_STATIC_DISPATCH(Table)(Target::portable);
}

bool has_target(Target target) {
  [[maybe_unused]] static const auto cpu = hwy::SupportedTargets();
#if HWY_TARGETS & HWY_AVX3
  if (target == Target::avx512) return (cpu & HWY_AVX3) != 0;
#endif
#if HWY_TARGETS & HWY_AVX2
  if (target == Target::avx2) return (cpu & HWY_AVX2) != 0;
#endif
  return target == Target::portable;
}

}  // namespace recoverssm::cpu

#endif  // HWY_ONCE
