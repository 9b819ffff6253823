// Vectors of one SIMD target and the reduction the canonical dot asks for. Included once per target, inside Highway's target namespace.

#if defined(RECOVERSSM_CPU_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RECOVERSSM_CPU_LANES_INL_H_
#undef RECOVERSSM_CPU_LANES_INL_H_
#else
#define RECOVERSSM_CPU_LANES_INL_H_
#endif

#include "arithmetic/portable.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace recoverssm::cpu::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

// No instruction set to rely on: four lanes of the compiler's own vectors, and an fma of the C library, which rounds once.
using Floats = float __attribute__((vector_size(16)));
constexpr int kLanes = 4;

HWY_INLINE Floats LoadU(const float* from) {
  Floats x;
  __builtin_memcpy(&x, from, sizeof x);
  return x;
}
HWY_INLINE Floats Load(const float* from) { return LoadU(from); }
HWY_INLINE void StoreU(Floats x, float* to) { __builtin_memcpy(to, &x, sizeof x); }
HWY_INLINE void Store(Floats x, float* to) { StoreU(x, to); }
HWY_INLINE Floats Set(float x) { return Floats{x, x, x, x}; }
HWY_INLINE Floats Add(Floats x, Floats y) { return x + y; }
HWY_INLINE Floats Mul(Floats x, Floats y) { return x * y; }
HWY_INLINE Floats FusedMulAdd(Floats x, Floats y, Floats z) {
  for (int i = 0; i < kLanes; ++i) z[i] = arithmetic::fused_multiply_add(x[i], y[i], z[i]);
  return z;
}
// x in the first n lanes, y in the others.
HWY_INLINE Floats FirstLanes(int n, Floats x, Floats y) {
  for (int i = 0; i < kLanes; ++i) y[i] = i < n ? x[i] : y[i];
  return y;
}

// Half a vector: what N/2 rows have one of.
using HalfFloats = float __attribute__((vector_size(8)));
HWY_INLINE HalfFloats LoadHalf(const float* from) { return HalfFloats{from[0], from[1]}; }
HWY_INLINE void StoreHalf(HalfFloats x, float* to) { __builtin_memcpy(to, &x, sizeof x); }
HWY_INLINE HalfFloats SetHalf(float x) { return HalfFloats{x, x}; }
HWY_INLINE HalfFloats LowerHalf(Floats x) { return HalfFloats{x[0], x[1]}; }
HWY_INLINE HalfFloats UpperHalf(Floats x) { return HalfFloats{x[2], x[3]}; }
HWY_INLINE HalfFloats Sub(HalfFloats x, HalfFloats y) { return x - y; }
HWY_INLINE HalfFloats Mul(HalfFloats x, HalfFloats y) { return x * y; }
HWY_INLINE HalfFloats FusedMulAdd(HalfFloats x, HalfFloats y, HalfFloats z) {
  for (int i = 0; i < kLanes / 2; ++i) z[i] = arithmetic::fused_multiply_add(x[i], y[i], z[i]);
  return z;
}

HWY_INLINE Floats PairSums(Floats low, Floats high) {
  return Floats{low[0], low[2], high[0], high[2]} + Floats{low[1], low[3], high[1], high[3]};
}

#else

namespace hn = hwy::HWY_NAMESPACE;
using FloatTag = hn::CappedTag<float, 16>;
using Floats = hn::Vec<FloatTag>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(FloatTag()));

HWY_INLINE Floats LoadU(const float* from) { return hn::LoadU(FloatTag(), from); }
HWY_INLINE Floats Load(const float* from) { return hn::Load(FloatTag(), from); }
HWY_INLINE void StoreU(Floats x, float* to) { hn::StoreU(x, FloatTag(), to); }
HWY_INLINE void Store(Floats x, float* to) { hn::Store(x, FloatTag(), to); }
HWY_INLINE Floats Set(float x) { return hn::Set(FloatTag(), x); }
HWY_INLINE Floats Add(Floats x, Floats y) { return hn::Add(x, y); }
HWY_INLINE Floats Mul(Floats x, Floats y) { return hn::Mul(x, y); }
HWY_INLINE Floats FusedMulAdd(Floats x, Floats y, Floats z) { return hn::MulAdd(x, y, z); }
// x in the first n lanes, y in the others.
HWY_INLINE Floats FirstLanes(int n, Floats x, Floats y) {
  return hn::IfThenElse(hn::FirstN(FloatTag(), static_cast<std::size_t>(n < 0 ? 0 : n)), x, y);
}

// Half a vector: what N/2 rows have one of.
using HalfTag = hn::Half<FloatTag>;
using HalfFloats = hn::Vec<HalfTag>;
HWY_INLINE HalfFloats LoadHalf(const float* from) { return hn::LoadU(HalfTag(), from); }
HWY_INLINE void StoreHalf(HalfFloats x, float* to) { hn::StoreU(x, HalfTag(), to); }
HWY_INLINE HalfFloats SetHalf(float x) { return hn::Set(HalfTag(), x); }
HWY_INLINE HalfFloats LowerHalf(Floats x) { return hn::LowerHalf(HalfTag(), x); }
HWY_INLINE HalfFloats UpperHalf(Floats x) { return hn::UpperHalf(HalfTag(), x); }
HWY_INLINE HalfFloats Sub(HalfFloats x, HalfFloats y) { return hn::Sub(x, y); }
HWY_INLINE HalfFloats Mul(HalfFloats x, HalfFloats y) { return hn::Mul(x, y); }
HWY_INLINE HalfFloats FusedMulAdd(HalfFloats x, HalfFloats y, HalfFloats z) { return hn::MulAdd(x, y, z); }

// Sums of neighbours, in each block of four lanes: low's two, then high's two.
HWY_INLINE Floats PairSums(Floats low, Floats high) {
#if HWY_TARGET == HWY_AVX3
  return Floats{_mm512_add_ps(_mm512_shuffle_ps(low.raw, high.raw, 0x88), _mm512_shuffle_ps(low.raw, high.raw, 0xDD))};
#elif HWY_TARGET == HWY_AVX2
  return Floats{_mm256_add_ps(_mm256_shuffle_ps(low.raw, high.raw, 0x88), _mm256_shuffle_ps(low.raw, high.raw, 0xDD))};
#else
  return hn::Add(hn::ConcatEven(FloatTag(), high, low), hn::ConcatOdd(FloatTag(), high, low));
#endif
}

#endif

constexpr int kLeafVectors = 32 / kLanes;  // vectors that hold the 32 partial sums of one dot
static_assert(kLanes == 4 || kLanes == 8 || kLanes == 16);

// Sums of neighbouring blocks of four lanes: low's, then high's.
HWY_INLINE Floats BlockSums(Floats low, Floats high) {
#if HWY_TARGET == HWY_AVX3
  return Floats{_mm512_add_ps(_mm512_shuffle_f32x4(low.raw, high.raw, 0x88), _mm512_shuffle_f32x4(low.raw, high.raw, 0xDD))};
#elif HWY_TARGET == HWY_AVX2
  return Add(hn::ConcatLowerLower(FloatTag(), high, low), hn::ConcatUpperUpper(FloatTag(), high, low));
#else
  static_assert(kLanes == 4);
  return Add(low, high);  // never called: a vector is one block
#endif
}

// sums[j] holds kLanes partial sums of sum j. The result holds sum j in lane j: a tree of neighbours, distances 1, 2, 4, ..
HWY_INLINE Floats ReduceLanes(const Floats* sums) {
  Floats fours[kLanes / 4];
  for (int i = 0; i < kLanes / 4; ++i) {
    fours[i] = PairSums(PairSums(sums[4 * i], sums[4 * i + 1]), PairSums(sums[4 * i + 2], sums[4 * i + 3]));
  }
  for (int width = kLanes / 4; width > 1; width /= 2) {
    for (int i = 0; i < width / 2; ++i) fours[i] = BlockSums(fours[2 * i], fours[2 * i + 1]);
  }
  return fours[0];
}

// The rest of the tree: distances kLanes .. 16 between the vectors of one dot.
HWY_INLINE Floats AddLeaves(Floats* leaves) {
  for (int width = kLeafVectors; width > 1; width /= 2) {
    for (int i = 0; i < width / 2; ++i) leaves[i] = Add(leaves[2 * i], leaves[2 * i + 1]);
  }
  return leaves[0];
}

}  // namespace recoverssm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // RECOVERSSM_CPU_LANES_INL_H_
