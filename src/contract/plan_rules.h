// The plan of one window (docs/operations.md#commit_plan): how many tokens are kept, and which columns of the request's block table
// hold the state afterwards. The only copy of these formulas: plan, align bookkeeping, validators and devices call them. All int64:
// num_computed + commit_len may pass 2^31.
#pragma once

#include <cstdint>

#include "contract/rules.h"

namespace recoverssm {

// Tokens a window keeps. A sampler may count past the window, or hand in a negative count for a freed request.
RSSM_HOST_DEVICE constexpr std::int64_t plan_commit_len(std::int64_t num_accepted, std::int64_t length, std::int64_t capacity) {
  return min64(max64(num_accepted, 0), min64(length, capacity));
}

// Column that holds the state after n tokens: (n-1)/B, not n/B, whose block may not exist yet. n = 0 counts as column 0.
RSSM_HOST_DEVICE constexpr std::int64_t state_column(std::int64_t tokens, std::int64_t block_size) {
  return max64(tokens - 1, 0) / block_size;
}

// Align mode, for a window with num_computed >= 0 tokens before it that keeps commit_len > 0.
struct AlignedPlan {
  std::int64_t final_column;
  std::int64_t boundary_column;  // -1: this commit crosses no boundary, the table is not read for one
  std::int64_t boundary_len;     // tokens from the window's start to the next boundary, 1..B
};

RSSM_HOST_DEVICE constexpr AlignedPlan aligned_plan(std::int64_t num_computed, std::int64_t commit_len, std::int64_t block_size) {
  const std::int64_t after = num_computed + commit_len;
  const std::int64_t boundary = (num_computed / block_size + 1) * block_size;  // B >= S: a window crosses at most this one
  AlignedPlan plan{};
  plan.final_column = state_column(after, block_size);
  plan.boundary_column = after >= boundary ? state_column(boundary, block_size) : -1;
  plan.boundary_len = boundary - num_computed;
  return plan;
}

}  // namespace recoverssm
