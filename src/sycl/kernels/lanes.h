// A sub-group, and the canonical dot product spread over it. Lane l holds elements l, l + SG, l + 2 SG, ... of a row: neighbouring lanes touch
// neighbouring memory, and element i belongs to leaf i mod 32 of the dot's tree, which is lane l's leaf number (i mod 32) / SG of 32 / SG.
// The tree's lower levels are exchanges between lanes, the upper ones sums within a lane.
#pragma once

#include "arithmetic/gates.h"
#include "sycl/kernels/entry.h"

namespace recoverssm::sycl_backend {

template <int SG>
struct Lanes {
  static_assert(SG == 8 || SG == 16 || SG == 32);
  static constexpr int kSize = SG;
  static constexpr int kLeaves = 32 / SG;  // of a lane

  ::sycl::sub_group group;
  int lane;

  RSSM_HOST_DEVICE explicit Lanes(const ::sycl::nd_item<3>& item)
      : group(item.get_sub_group()), lane(static_cast<int>(group.get_local_linear_id())) {}

  RSSM_HOST_DEVICE float exchange(float x, int distance) const {
    return ::sycl::permute_group_by_xor(group, x, static_cast<unsigned>(distance));
  }
  RSSM_HOST_DEVICE float from(float x, int other) const {
    return ::sycl::select_from_group(group, x, static_cast<unsigned>(other));
  }
  RSSM_HOST_DEVICE bool any(bool x) const { return ::sycl::any_of_group(group, x); }
  // Local memory written before it is there for all lanes after it.
  RSSM_HOST_DEVICE void barrier() const { ::sycl::group_barrier(group); }
};

// One sum of 32 leaves; all lanes get it.
template <int SG>
RSSM_HOST_DEVICE float sum_of_leaves(const Lanes<SG>& lanes, const float (&leaves)[Lanes<SG>::kLeaves]) {
  float sums[Lanes<SG>::kLeaves];
  RSSM_UNROLL
  for (int m = 0; m < Lanes<SG>::kLeaves; ++m) {
    sums[m] = leaves[m];
    RSSM_UNROLL
    for (int distance = 1; distance < SG; distance *= 2) sums[m] = sums[m] + lanes.exchange(sums[m], distance);
  }
  if constexpr (SG == 32) return sums[0];
  if constexpr (SG == 16) return sums[0] + sums[1];
  if constexpr (SG == 8) return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// N sums over lanes at once: at each level lanes exchange the half of their values that the other one keeps. A lane ends with max(N / SG, 1)
// sums, which ones: the bits of a value's number, from the highest down, are the bits of its lane's number from the lowest up.
template <int SG, int N, int DISTANCE = 1, int ALL>
RSSM_HOST_DEVICE void scatter_sums(const Lanes<SG>& lanes, float (&values)[ALL]) {
  if constexpr (DISTANCE < SG) {
    if constexpr (N == 1) {
      values[0] = values[0] + lanes.exchange(values[0], DISTANCE);
      scatter_sums<SG, 1, 2 * DISTANCE>(lanes, values);
    } else {
      const bool upper = (lanes.lane & DISTANCE) != 0;
      RSSM_UNROLL
      for (int i = 0; i < N / 2; ++i) {
        const float lower_sum = values[i] + lanes.exchange(values[i], DISTANCE);
        const float upper_sum = values[N / 2 + i] + lanes.exchange(values[N / 2 + i], DISTANCE);
        values[i] = upper ? upper_sum : lower_sum;
      }
      scatter_sums<SG, N / 2, 2 * DISTANCE>(lanes, values);
    }
  }
}

// Two dots each of four rows. `values`: leaf m of dot d of row r at (2 m + d) 4 + r. Afterwards lane l has both dots of row l mod 4.
constexpr int kRows = 4;

template <int SG>
RSSM_HOST_DEVICE void both_dots(const Lanes<SG>& lanes, float (&values)[2 * kRows * Lanes<SG>::kLeaves], float& first,
                                float& second) {
  constexpr int kValues = 2 * kRows * Lanes<SG>::kLeaves;
  scatter_sums<SG, kValues>(lanes, values);
  constexpr int kLeft = kValues > SG ? kValues / SG : 1;
  RSSM_UNROLL
  for (int i = 0; i < kLeft; ++i) {  // leaves of one lane: neighbours first
    if constexpr (SG == 8) values[i] = values[i] + lanes.exchange(values[i], 2);
    if constexpr (SG <= 16) values[i] = values[i] + lanes.exchange(values[i], 1);
  }
  const int row = lanes.lane % kRows;
  if constexpr (SG == 8) {  // values[r] of lanes 0.. and 4..
    first = second = 0.0f;
    RSSM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const float a = lanes.from(values[r], 0), b = lanes.from(values[r], 4);
      first = row == r ? a : first;
      second = row == r ? b : second;
    }
  } else {
    constexpr int kDot = SG == 16 ? 2 : 1;  // lane bit of the dot, then those of the row
    const int of_row = (row >> 1) * (2 * kDot) + (row & 1) * (4 * kDot);
    first = lanes.from(values[0], of_row);
    second = lanes.from(values[0], of_row + kDot);
  }
}

}  // namespace recoverssm::sycl_backend
