// The canonical dot product, written to be read. It defines the order of operations; SIMD and GPU kernels spread the same
// operations over lanes and are tested against it, bit for bit.
#pragma once

#include "arithmetic/portable.h"

namespace recoverssm::arithmetic {

constexpr int kDotLeaves = 32;

// 32 partial sums, element i into sum i mod 32 in rising order, then a tree of neighbours. The tree always has 32 leaves: one
// without elements is +0 and is added, which matters when its neighbour is -0. Nothing is multiplied for an index >= n: a padded
// element would turn a partial sum of -0 into +0, and garbage times zero may be NaN.
RSSM_HOST_DEVICE float dot(const float* x, const float* y, int n) {
  float partial[kDotLeaves] = {};
  for (int i = 0; i < n; ++i) partial[i % kDotLeaves] = fused_multiply_add(x[i], y[i], partial[i % kDotLeaves]);
  for (int distance = 1; distance < kDotLeaves; distance *= 2) {
    for (int i = 0; i < kDotLeaves; i += 2 * distance) partial[i] = partial[i] + partial[i + distance];
  }
  return partial[0];
}

}  // namespace recoverssm::arithmetic
