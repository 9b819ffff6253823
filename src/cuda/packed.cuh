// Packed projection rows on CUDA: device/packed.h says where things are.
#pragma once

#include <cstdint>

#include "device/packed.h"

namespace recoverssm::cuda {

using device::a_column;
using device::b_column;
using device::PackedSizes;
using device::qkv_channels;
using device::qkv_column;
using device::z_column;

// As a `Columns` of conv.cuh: x is then the packed rows.
struct PackedColumns {
  PackedSizes sizes;
  RSSM_HOST_DEVICE constexpr std::int64_t operator()(std::int64_t channel) const { return qkv_column(sizes, channel); }
};

// Whether `lanes` channels from a multiple of `lanes` on, and as many elements of a z head, are neighbouring columns that start at a multiple
// of `lanes`.
constexpr bool packed_lanes_fit(const PackedSizes& s, int lanes) { return s.K % lanes == 0 && s.V % lanes == 0; }

}  // namespace recoverssm::cuda
