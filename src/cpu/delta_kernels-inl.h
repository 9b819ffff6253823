// Delta rule, replay and dot for one SIMD target. Included once per target by kernels.cc, inside Highway's target namespace.
//
// A group of N = lanes state rows runs together. Each row keeps the 32 partial sums of the canonical dot in 32/N vectors; the sums of
// N rows are then reduced together, neighbours first, which leaves row r's dot in lane r.

#if defined(RECOVERSSM_CPU_DELTA_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RECOVERSSM_CPU_DELTA_KERNELS_INL_H_
#undef RECOVERSSM_CPU_DELTA_KERNELS_INL_H_
#else
#define RECOVERSSM_CPU_DELTA_KERNELS_INL_H_
#endif

#include "arithmetic/portable.h"
#include "cpu/kernels.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace recoverssm::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
using Floats = hn::Vec<FloatTag>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(FloatTag()));
constexpr int kLeafVectors = 32 / kLanes;  // vectors that hold the 32 partial sums of one dot
static_assert(kStateRows % kLanes == 0);

// One rounding on every target. Highway's MulAdd rounds twice where the instruction set has no fma.
HWY_INLINE Floats FusedMulAdd(Floats x, Floats y, Floats z) {
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  const FloatTag d;
  alignas(64) float xs[kLanes], ys[kLanes], zs[kLanes];
  hn::Store(x, d, xs);
  hn::Store(y, d, ys);
  hn::Store(z, d, zs);
  for (int i = 0; i < kLanes; ++i) zs[i] = arithmetic::fused_multiply_add(xs[i], ys[i], zs[i]);
  return hn::Load(d, zs);
#else
  return hn::MulAdd(x, y, z);
#endif
}

// partial[row] holds kLanes partial sums of that row; the result holds in lane r the tree sum of row r, distance 1 first.
HWY_INLINE Floats ReduceRows(Floats* partial) {
#if HWY_TARGET != HWY_SCALAR  // one lane: nothing to reduce, and no lane operations to do it with
  const FloatTag d;
  for (int width = kLanes; width > 1; width /= 2) {
    for (int i = 0; i < width / 2; ++i) {
      const Floats low = partial[2 * i];
      const Floats high = partial[2 * i + 1];
      partial[i] = hn::Add(hn::ConcatEven(d, high, low), hn::ConcatOdd(d, high, low));
    }
  }
#endif
  return partial[0];
}

// The rest of the tree: distances kLanes .. 16 between the vectors of one dot.
HWY_INLINE Floats ReduceLeaves(Floats (*partial)[kLanes]) {
  Floats sums[kLeafVectors];
  for (int g = 0; g < kLeafVectors; ++g) sums[g] = ReduceRows(partial[g]);
  for (int width = kLeafVectors; width > 1; width /= 2) {
    for (int i = 0; i < width / 2; ++i) sums[i] = hn::Add(sums[2 * i], sums[2 * i + 1]);
  }
  return sums[0];
}

// One token for one state row: the previous token's update (correction, previous_k; skipped where previous_k is null), the decay,
// and both dots' partial sums. Lanes past K take part in everything but the dots.
template <bool kDecayPerChannel>
HWY_INLINE void AdvanceRow(const HeadTokens& tokens, int t, const float* previous_k, float previous_correction,
                           float* HWY_RESTRICT h, Floats* on_k, Floats* on_q) {
  const FloatTag d;
  const int stride = padded_k(tokens.K);
  const float* k = tokens.k + static_cast<std::int64_t>(t) * stride;
  const float* q = tokens.q + static_cast<std::int64_t>(t) * stride;
  const Floats c = hn::Set(d, previous_correction);
  const Floats row_decay = hn::Set(d, kDecayPerChannel ? 0.0F : tokens.decay[t]);
  const float* channel_decay = kDecayPerChannel ? tokens.decay + static_cast<std::int64_t>(t) * stride : nullptr;
  for (int g = 0; g < kLeafVectors; ++g) on_k[g] = on_q[g] = hn::Zero(d);

  for (int block = 0; block < stride; block += 32) {
    for (int g = 0; g < kLeafVectors; ++g) {
      const int at = block + g * kLanes;
      Floats state = hn::Load(d, h + at);
      if (previous_k != nullptr) state = FusedMulAdd(c, hn::Load(d, previous_k + at), state);
      const Floats decayed = hn::Mul(state, kDecayPerChannel ? hn::Load(d, channel_decay + at) : row_decay);
      hn::Store(decayed, d, h + at);
      const Floats sum_k = FusedMulAdd(decayed, hn::Load(d, k + at), on_k[g]);
      const Floats sum_q = FusedMulAdd(decayed, hn::Load(d, q + at), on_q[g]);
      if (at + kLanes <= tokens.K) {
        on_k[g] = sum_k;
        on_q[g] = sum_q;
      } else {
        const auto inside = hn::FirstN(d, static_cast<std::size_t>(at < tokens.K ? tokens.K - at : 0));
        on_k[g] = hn::IfThenElse(inside, sum_k, on_k[g]);
        on_q[g] = hn::IfThenElse(inside, sum_q, on_q[g]);
      }
    }
  }
}

HWY_INLINE void UpdateRow(const float* HWY_RESTRICT k, float correction, float* HWY_RESTRICT h, int stride) {
  const FloatTag d;
  const Floats c = hn::Set(d, correction);
  for (int at = 0; at < stride; at += kLanes) hn::Store(FusedMulAdd(c, hn::Load(d, k + at), hn::Load(d, h + at)), d, h + at);
}

template <bool kDecayPerChannel>
HWY_INLINE void DeltaGroups(const DeltaRows& rows) {
  const FloatTag d;
  const HeadTokens& tokens = rows.tokens;
  const int stride = padded_k(tokens.K);
  for (int group = 0; group < rows.rows; group += kLanes) {
    float* h = rows.h + static_cast<std::int64_t>(group) * stride;
    alignas(64) float correction[kLanes] = {};
    const float* previous_k = nullptr;
    for (int t = 0; t < tokens.count; ++t) {
      Floats on_k[kLeafVectors][kLanes];
      Floats on_q[kLeafVectors][kLanes];
      for (int r = 0; r < kLanes; ++r) {
        Floats row_k[kLeafVectors];
        Floats row_q[kLeafVectors];
        AdvanceRow<kDecayPerChannel>(tokens, t, previous_k, correction[r], h + static_cast<std::int64_t>(r) * stride, row_k, row_q);
        for (int g = 0; g < kLeafVectors; ++g) {
          on_k[g][r] = row_k[g];
          on_q[g][r] = row_q[g];
        }
      }
      const std::int64_t at = t * rows.token_stride + group;
      const Floats error = hn::Sub(hn::LoadU(d, rows.v + at), ReduceLeaves(on_k));
      const Floats c = hn::Mul(error, hn::Set(d, tokens.beta[t]));
      hn::Store(c, d, correction);
      hn::StoreU(c, d, rows.correction + at);
      hn::StoreU(FusedMulAdd(c, hn::Set(d, tokens.k_dot_q[t]), ReduceLeaves(on_q)), d, rows.out + at);
      previous_k = tokens.k + static_cast<std::int64_t>(t) * stride;
    }
    if (!rows.update_after_last || previous_k == nullptr) continue;
    for (int r = 0; r < kLanes; ++r) UpdateRow(previous_k, correction[r], h + static_cast<std::int64_t>(r) * stride, stride);
  }
}

inline void Delta(const DeltaRows& rows) {
  if (rows.tokens.decay_per_channel) {
    DeltaGroups<true>(rows);
  } else {
    DeltaGroups<false>(rows);
  }
}

inline void Replay(const ReplayRows& rows) {
  const FloatTag d;
  const HeadTokens& tokens = rows.tokens;
  const int stride = padded_k(tokens.K);
  for (int r = 0; r < rows.rows; ++r) {
    float* h = rows.h + static_cast<std::int64_t>(r) * stride;
    for (int at = 0; at < stride; at += kLanes) {
      Floats state = hn::Load(d, h + at);
      for (int t = rows.first; t < rows.last; ++t) {
        const std::int64_t row = static_cast<std::int64_t>(t) * stride + at;
        const Floats decay = tokens.decay_per_channel ? hn::Load(d, tokens.decay + row) : hn::Set(d, tokens.decay[t]);
        const Floats decayed = hn::Mul(state, decay);
        state = FusedMulAdd(hn::Set(d, rows.correction[t * rows.token_stride + r]), hn::Load(d, tokens.k + row), decayed);
      }
      hn::Store(state, d, h + at);
    }
  }
}

// The canonical dot of arithmetic/dot.h, 32/N vectors of partial sums.
inline float Dot(const float* x, const float* y, int n) {
  const FloatTag d;
  Floats partial[kLeafVectors];
  for (int g = 0; g < kLeafVectors; ++g) partial[g] = hn::Zero(d);
  int at = 0;
  for (; at + 32 <= n; at += 32) {
    for (int g = 0; g < kLeafVectors; ++g) {
      partial[g] = FusedMulAdd(hn::LoadU(d, x + at + g * kLanes), hn::LoadU(d, y + at + g * kLanes), partial[g]);
    }
  }
  alignas(64) float leaves[32];
  for (int g = 0; g < kLeafVectors; ++g) hn::Store(partial[g], d, leaves + g * kLanes);
  for (int i = 0; at + i < n; ++i) leaves[i] = arithmetic::fused_multiply_add(x[at + i], y[at + i], leaves[i]);
  for (int distance = 1; distance < 32; distance *= 2) {
    for (int i = 0; i < 32; i += 2 * distance) leaves[i] += leaves[i + distance];
  }
  return leaves[0];
}

}  // namespace recoverssm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // RECOVERSSM_CPU_DELTA_KERNELS_INL_H_
