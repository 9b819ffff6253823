// Where packed projection rows hold what the operations take: the column of a channel of mixed_qkv, and of an element of z, b and a.
// Source: docs/operations.md#split_projections. Plain arithmetic for host and devices; runs of K or V neighbouring channels are
// neighbouring columns.
#pragma once

#include <cstdint>

#include "arithmetic/portable.h"
#include "recoverssm/rows.hpp"

namespace recoverssm::device {

// Of counts and sizes that validate accepts: H, HV, K, V are positive, HV a multiple of H.
struct PackedSizes {
  Layout layout = Layout::interleaved;
  std::int64_t H = 0, HV = 0, K = 0, V = 0;
};

RSSM_HOST_DEVICE constexpr std::int64_t qkv_channels(const PackedSizes& s) { return 2 * s.H * s.K + s.HV * s.V; }

// Column of channel c of q, k, v order. Interleaved: a head is [q K | k K | v r*V | z r*V].
RSSM_HOST_DEVICE constexpr std::int64_t qkv_column(const PackedSizes& s, std::int64_t channel) {
  if (s.layout == Layout::flat) return channel;
  const std::int64_t values = s.HV / s.H * s.V, head = 2 * s.K + 2 * values, keys = s.H * s.K;
  if (channel >= 2 * keys) {
    const std::int64_t v = channel - 2 * keys;
    return v / values * head + 2 * s.K + v % values;
  }
  const bool is_k = channel >= keys;
  const std::int64_t c = is_k ? channel - keys : channel;
  return c / s.K * head + (is_k ? s.K : 0) + c % s.K;
}

// Column of z's value head j, element v.
RSSM_HOST_DEVICE constexpr std::int64_t z_column(const PackedSizes& s, std::int64_t j, std::int64_t v) {
  if (s.layout == Layout::flat) return qkv_channels(s) + j * s.V + v;
  const std::int64_t r = s.HV / s.H, values = r * s.V;
  return j / r * (2 * s.K + 2 * values) + 2 * s.K + values + j % r * s.V + v;
}

// Columns of b and a of value head j in rows [b r | a r] a head, or [b HV | a HV].
RSSM_HOST_DEVICE constexpr std::int64_t b_column(const PackedSizes& s, std::int64_t j) {
  const std::int64_t run = s.layout == Layout::flat ? s.HV : s.HV / s.H;
  return j / run * 2 * run + j % run;
}
RSSM_HOST_DEVICE constexpr std::int64_t a_column(const PackedSizes& s, std::int64_t j) {
  return b_column(s, j) + (s.layout == Layout::flat ? s.HV : s.HV / s.H);
}

}  // namespace recoverssm::device
