// Delta rule, replay and dot for one SIMD target. Included once per target by kernels.cc, inside Highway's target namespace.
//
// The canonical dot has 32 partial sums and a tree of neighbours. With N lanes, N/2 state rows run together: the dots of a row with k
// and with q are two of N sums. 32/N vectors hold a sum's partial sums; vector g of all N sums is reduced at once, neighbours first,
// which leaves sum j in lane j, and the last levels of the tree add those vectors.

#if defined(RECOVERSSM_CPU_DELTA_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RECOVERSSM_CPU_DELTA_KERNELS_INL_H_
#undef RECOVERSSM_CPU_DELTA_KERNELS_INL_H_
#else
#define RECOVERSSM_CPU_DELTA_KERNELS_INL_H_
#endif

#include <algorithm>

#include "arithmetic/gates.h"
#include "arithmetic/portable.h"
#include "cpu/convert-inl.h"
#include "cpu/kernels.h"
#include "cpu/lanes-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace recoverssm::cpu::HWY_NAMESPACE {
constexpr int kRowGroup = kLanes / 2;  // state rows that run together
static_assert(kStateRows % kRowGroup == 0);

// Where the first token of a call finds its state: in scratch already, or in the state itself. kStride: elements a row, 0 if only
// known when running.
template <int kStride>
struct ScratchRows {
  const float* h;
  int stride;
  HWY_INLINE ScratchRows from(int row) const { return {h + row * stride, stride}; }
  HWY_INLINE Floats operator()(int row, int at) const { return Load(h + row * (kStride != 0 ? kStride : stride) + at); }
};
template <int kStride, DType kDType>
struct StoredRows {
  const std::byte* data;
  int K;
  HWY_INLINE StoredRows from(int row) const { return {data + std::int64_t{row} * K * size_of(kDType), K}; }
  HWY_INLINE Floats operator()(int row, int at) const { return LoadWidened<kDType>(data, row * (kStride != 0 ? kStride : K) + at); }
};

// Brings the next tile into the second-level cache while this one is computed, a few lines at a time: a burst of prefetches would hold
// up the arithmetic behind it, and the first level has too few fill buffers to keep memory busy.
class Prefetcher {
 public:
  // `steps` calls of step() fetch `bytes` from `next` on; none does if it is null.
  Prefetcher(const std::byte* next, std::int64_t bytes, std::int64_t steps)
      : at_(next), end_(next), left_(next == nullptr ? 0 : steps), step_(next == nullptr ? 0 : (bytes + steps - 1) / steps) {}

  HWY_INLINE void step() {
    if (left_ == 0) return;
    --left_;
    end_ += step_;
    for (; at_ < end_; at_ += 64) __builtin_prefetch(at_, 0, 2);
  }

 private:
  const std::byte* at_;
  const std::byte* end_;
  std::int64_t left_;
  std::int64_t step_;
};

// Tokens over which a tile is fetched: those of a usual window.
constexpr int kFetchTokens = 4;

// One token for one group of rows: the previous token's update where there is one, the decay, and both dots. Lanes past K take part in
// everything but the dots. The decayed rows go to h. Lane r of the result is row r's dot with k, lane kRowGroup + r that with q.
template <int kStride, bool kDecayPerChannel, bool kWholeBlocks, bool kFirst, class Source>
HWY_INLINE Floats AdvanceRows(const HeadTokens& tokens, int t, Source source, const float* previous_correction, float* h,
                              Prefetcher& prefetcher) {
  const int stride = kStride != 0 ? kStride : padded_k(tokens.K);
  const std::int64_t row = static_cast<std::int64_t>(t) * stride;
  const float* k = tokens.k + row;
  const float* q = tokens.q + row;
  const float* previous_k = kFirst ? nullptr : k - stride;
  const float* channel_decay = kDecayPerChannel ? tokens.decay + row : nullptr;
  const Floats row_decay = Set(kDecayPerChannel ? 0.0F : tokens.decay[t]);
  Floats correction[kRowGroup];
  if constexpr (!kFirst) {
    for (int r = 0; r < kRowGroup; ++r) correction[r] = Set(previous_correction[r]);
  }

  Floats leaves[kLeafVectors];
  for (int g = 0; g < kLeafVectors; ++g) {
    Floats sums[kLanes];
    for (int r = 0; r < kLanes; ++r) sums[r] = Set(0.0F);
    for (int at = g * kLanes; at < stride; at += 32) {
      prefetcher.step();
      const Floats on_k = Load(k + at);
      const Floats on_q = Load(q + at);
      const Floats decay = kDecayPerChannel ? Load(channel_decay + at) : row_decay;
      const Floats update = kFirst ? decay : Load(previous_k + at);
      for (int r = 0; r < kRowGroup; ++r) {
        Floats state = source(r, at);
        if constexpr (!kFirst) state = FusedMulAdd(correction[r], update, state);
        const Floats decayed = Mul(state, decay);
        Store(decayed, h + r * stride + at);
        const Floats sum_k = FusedMulAdd(decayed, on_k, sums[r]);
        const Floats sum_q = FusedMulAdd(decayed, on_q, sums[kRowGroup + r]);
        sums[r] = kWholeBlocks ? sum_k : FirstLanes(tokens.K - at, sum_k, sums[r]);
        sums[kRowGroup + r] = kWholeBlocks ? sum_q : FirstLanes(tokens.K - at, sum_q, sums[kRowGroup + r]);
      }
    }
    leaves[g] = ReduceLanes(sums);
  }
  return AddLeaves(leaves);
}

// Corrections and outputs of one token and group of rows, from both dots of each row.
HWY_INLINE void FinishToken(const DeltaRows& rows, int t, int group, Floats dots) {
  const std::int64_t at = t * rows.token_stride + group;
  const HalfFloats error = Sub(LoadHalf(rows.v + at), LowerHalf(dots));
  const HalfFloats correction = Mul(error, SetHalf(rows.tokens.beta[t]));
  StoreHalf(correction, rows.correction + at);
  StoreHalf(FusedMulAdd(correction, SetHalf(rows.tokens.k_dot_q[t]), UpperHalf(dots)), rows.out + at);
}

template <int kStride, bool kDecayPerChannel, bool kWholeBlocks, class Source>
HWY_INLINE void RunTokens(const DeltaRows& rows, Source source) {
  const HeadTokens& tokens = rows.tokens;
  const int stride = kStride != 0 ? kStride : padded_k(tokens.K);
  const int groups = (rows.rows + kRowGroup - 1) / kRowGroup;
  const std::int64_t bytes = std::int64_t{rows.rows} * tokens.K * size_of(rows.from.dtype);
  Prefetcher prefetcher(rows.next, bytes, std::int64_t{groups} * (stride / kLanes) * std::min(tokens.count, kFetchTokens));
  for (int t = 0; t < tokens.count; ++t) {
    // Groups are independent: one group's reduction overlaps with the next one's products.
    for (int g = 0; g < groups; ++g) {
      const int group = g * kRowGroup;
      float* h = rows.h + group * stride;
      Floats dots;
      if (t == 0) {
        dots = AdvanceRows<kStride, kDecayPerChannel, kWholeBlocks, true>(tokens, t, source.from(group), nullptr, h, prefetcher);
      } else {
        const float* previous = rows.correction + (t - 1) * rows.token_stride + group;
        dots = AdvanceRows<kStride, kDecayPerChannel, kWholeBlocks, false>(tokens, t, ScratchRows<kStride>{h, stride}, previous, h,
                                                                           prefetcher);
      }
      FinishToken(rows, t, group, dots);
    }
  }
}

// The last token's update, for those who want the state behind it.
HWY_INLINE void FinishRows(const DeltaRows& rows) {
  if (rows.to.data == nullptr && !rows.keep) return;
  const HeadTokens& tokens = rows.tokens;
  const int stride = padded_k(tokens.K);
  const float* k = tokens.k + static_cast<std::int64_t>(tokens.count - 1) * stride;
  const float* correction = rows.correction + (tokens.count - 1) * rows.token_stride;
  const bool direct = rows.to.data != nullptr && !rows.keep && rows.to.dtype == DType::f32 && tokens.K % kLanes == 0;
  for (int r = 0; r < rows.rows; ++r) {
    const Floats c = Set(correction[r]);
    float* h = rows.h + r * stride;
    if (direct) {
      float* to = static_cast<float*>(rows.to.data) + r * tokens.K;
      for (int at = 0; at < tokens.K; at += kLanes) StoreU(FusedMulAdd(c, Load(k + at), Load(h + at)), to + at);
      continue;
    }
    for (int at = 0; at < stride; at += kLanes) Store(FusedMulAdd(c, Load(k + at), Load(h + at)), h + at);
    if (rows.to.data != nullptr) Narrow(rows.to.dtype, h, row_of(rows.to, r, tokens.K), tokens.K);
  }
}

HWY_INLINE void LoadRows(const DeltaRows& rows) {
  const int K = rows.tokens.K;
  const int stride = padded_k(K);
  for (int r = 0; r < kStateRows; ++r) {
    float* h = rows.h + r * stride;
    if (r < rows.rows) Widen(rows.from.dtype, row_of(rows.from, r, K), h, K);
    const int filled = r < rows.rows ? K : 0;
    std::fill(h + filled, h + stride, 0.0F);
  }
}

template <int kStride, bool kDecayPerChannel>
HWY_INLINE void DeltaFrom(const DeltaRows& rows, const DeltaChoice& choice) {
  const int K = rows.tokens.K;
  const auto* stored = static_cast<const std::byte*>(rows.from.data);
  if (!choice.from_state) {
    if (stored != nullptr) LoadRows(rows);
    const ScratchRows<kStride> scratch = {rows.h, padded_k(K)};
    if (choice.whole_blocks) {
      RunTokens<kStride, kDecayPerChannel, true>(rows, scratch);
    } else if constexpr (kStride == 0) {
      RunTokens<kStride, kDecayPerChannel, false>(rows, scratch);
    }
  } else if (rows.from.dtype == DType::f32) {
    RunTokens<kStride, kDecayPerChannel, true>(rows, StoredRows<kStride, DType::f32>{stored, K});
  } else if (rows.from.dtype == DType::bf16) {
    RunTokens<kStride, kDecayPerChannel, true>(rows, StoredRows<kStride, DType::bf16>{stored, K});
  } else {
    RunTokens<kStride, kDecayPerChannel, true>(rows, StoredRows<kStride, DType::f16>{stored, K});
  }
}

template <int kStride>
HWY_INLINE void DeltaOf(const DeltaRows& rows, const DeltaChoice& choice) {
  if (rows.tokens.decay_per_channel) {
    DeltaFrom<kStride, true>(rows, choice);
  } else {
    DeltaFrom<kStride, false>(rows, choice);
  }
}

inline void Delta(const DeltaRows& rows) {
  static_assert(kCommonK % 32 == 0);
  const DeltaChoice choice = select_delta(rows.tokens.K, rows.rows, rows.from.data != nullptr);
  if (choice.common_k) {
    DeltaOf<kCommonK>(rows, choice);
  } else {
    DeltaOf<0>(rows, choice);
  }
  FinishRows(rows);
}

// One row in fp32, `width` elements (a multiple of 32). boundary may be null; it and `to` may be `from`.
template <bool kDecayPerChannel>
HWY_INLINE void ReplayRow(const ReplayRows& rows, int r, int width, const float* from, float* boundary, float* to,
                          Prefetcher& prefetcher) {
  const HeadTokens& tokens = rows.tokens;
  const int stride = padded_k(tokens.K);
  for (int block = 0; block < width; block += 32) {
    prefetcher.step();
    Floats state[kLeafVectors];
    for (int g = 0; g < kLeafVectors; ++g) state[g] = LoadU(from + block + g * kLanes);
    for (int t = 0; t < rows.len; ++t) {
      const float* k = tokens.k + static_cast<std::int64_t>(t) * stride + block;
      const float* channel_decay = kDecayPerChannel ? tokens.decay + static_cast<std::int64_t>(t) * stride + block : nullptr;
      const Floats row_decay = Set(kDecayPerChannel ? 0.0F : tokens.decay[t]);
      const Floats c = Set(rows.correction[t * rows.token_stride + r]);
      for (int g = 0; g < kLeafVectors; ++g) {
        const Floats decay = kDecayPerChannel ? Load(channel_decay + g * kLanes) : row_decay;
        state[g] = FusedMulAdd(c, Load(k + g * kLanes), Mul(state[g], decay));
      }
      if (boundary != nullptr && t + 1 == rows.boundary_len) {
        for (int g = 0; g < kLeafVectors; ++g) StoreU(state[g], boundary + block + g * kLanes);
      }
    }
    for (int g = 0; g < kLeafVectors; ++g) StoreU(state[g], to + block + g * kLanes);
  }
}

template <bool kDecayPerChannel>
HWY_INLINE void ReplayTile(const ReplayRows& rows) {
  const int K = rows.tokens.K;
  const int stride = padded_k(K);
  const std::int64_t bytes = std::int64_t{rows.rows} * K * size_of(rows.from.dtype);
  Prefetcher prefetcher(rows.next, bytes, std::int64_t{rows.rows} * (stride / 32));
  if (select_direct_replay(K, rows.from.dtype)) {
    const auto row = [&](const StateTile& tile, int r) {
      return tile.data == nullptr ? nullptr : static_cast<float*>(tile.data) + r * K;
    };
    for (int r = 0; r < rows.rows; ++r) {
      ReplayRow<kDecayPerChannel>(rows, r, K, row(rows.from, r), row(rows.boundary, r), row(rows.to, r), prefetcher);
    }
    return;
  }
  float* h = rows.h;
  float* at_boundary = rows.boundary.data == nullptr ? nullptr : rows.h + stride;
  for (int r = 0; r < rows.rows; ++r) {
    Widen(rows.from.dtype, row_of(rows.from, r, K), h, K);
    std::fill(h + K, h + stride, 0.0F);
    ReplayRow<kDecayPerChannel>(rows, r, stride, h, at_boundary, h, prefetcher);
    if (at_boundary != nullptr) Narrow(rows.boundary.dtype, at_boundary, row_of(rows.boundary, r, K), K);
    Narrow(rows.to.dtype, h, row_of(rows.to, r, K), K);
  }
}

inline void Replay(const ReplayRows& rows) {
  if (rows.tokens.decay_per_channel) {
    ReplayTile<true>(rows);
  } else {
    ReplayTile<false>(rows);
  }
}

// The canonical dots (arithmetic/dot.h) of n <= kLanes / 2 rows of x with rows of y, then, if z is given, of z with itself: out[j] and squares[j].
HWY_INLINE void Dots(const float* x, const float* y, const float* z, int stride, int n, int K, float* out, float* squares) {
  alignas(64) float dots[kLanes];
  Floats leaves[kLeafVectors];
  for (int g = 0; g < kLeafVectors; ++g) {
    Floats sums[kLanes];
    for (int j = 0; j < kRowGroup; ++j) {
      const float* xs = x + j * stride;
      const float* ys = y + j * stride;
      const float* zs = z == nullptr ? nullptr : z + j * stride;
      Floats sum = Set(0.0F), square = Set(0.0F);
      for (int at = g * kLanes; at < K && j < n; at += 32) {
        const Floats on_y = FusedMulAdd(Load(xs + at), Load(ys + at), sum);
        sum = at + kLanes <= K ? on_y : FirstLanes(K - at, on_y, sum);
        if (z == nullptr) continue;
        const Floats on_z = FusedMulAdd(Load(zs + at), Load(zs + at), square);
        square = at + kLanes <= K ? on_z : FirstLanes(K - at, on_z, square);
      }
      sums[j] = sum;
      sums[kRowGroup + j] = square;
    }
    leaves[g] = ReduceLanes(sums);
  }
  Store(AddLeaves(leaves), dots);
  std::copy_n(dots, n, out);
  if (z != nullptr) std::copy_n(dots + kRowGroup, n, squares);
}

HWY_INLINE void ScaleRow(float factor, float* x, int n) {
  for (int at = 0; at < n; at += kLanes) Store(Mul(Load(x + at), Set(factor)), x + at);
}

// Rows of padded_k(K): widened, then 0.
HWY_INLINE void WidenRows(DType dtype, const std::byte* from, std::int64_t step, int count, int K, float* to) {
  const int stride = padded_k(K);
  for (int t = 0; t < count; ++t) {
    Widen(dtype, from + t * step, to + t * stride, K);
    std::fill(to + t * stride + K, to + (t + 1) * stride, 0.0F);
  }
}

// Tokens first .. first+n-1, n <= kRowGroup, widened already.
HWY_INLINE void NormaliseTokens(const KeysAndQueries& tokens, int first, int n) {
  const int stride = padded_k(tokens.K);
  float* k = tokens.k_out + first * stride;
  float* q = tokens.q == nullptr ? nullptr : tokens.q_out + first * stride;
  if (tokens.l2norm) {
    float k_inverse[kRowGroup], q_inverse[kRowGroup];
    Dots(k, k, q, stride, n, tokens.K, k_inverse, q_inverse);
    for (int j = 0; j < n; ++j) {
      ScaleRow(arithmetic::inverse_norm(k_inverse[j]), k + j * stride, stride);
      if (q == nullptr) continue;
      const float inverse = arithmetic::inverse_norm(q_inverse[j]);
      ScaleRow(tokens.scale_inverse ? inverse * tokens.scale : inverse, q + j * stride, stride);
    }
  }
  if (q == nullptr) return;
  if (!tokens.l2norm || !tokens.scale_inverse) {
    for (int j = 0; j < n; ++j) ScaleRow(tokens.scale, q + j * stride, stride);
  }
  Dots(k, q, nullptr, stride, n, tokens.K, tokens.k_dot_q + first, nullptr);
}

inline void Prepare(const KeysAndQueries& tokens) {
  WidenRows(tokens.dtype, tokens.k, tokens.k_step, tokens.count, tokens.K, tokens.k_out);
  if (tokens.q != nullptr) WidenRows(tokens.dtype, tokens.q, tokens.q_step, tokens.count, tokens.K, tokens.q_out);
  for (int first = 0; first < tokens.count; first += kRowGroup) {
    NormaliseTokens(tokens, first, std::min(kRowGroup, tokens.count - first));
  }
}

}  // namespace recoverssm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // RECOVERSSM_CPU_DELTA_KERNELS_INL_H_
