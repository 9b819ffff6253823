// Packed projection rows on CUDA: device/packed.h says where things are.
#pragma once

#include <cstdint>

#include "cuda/select.h"
#include "device/packed.h"
#include "recoverssm/types.hpp"

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

// Whether a thread may move as many elements of z as one value.
inline bool z_lanes_fit(const PackedSizes& s, const TensorView& qkvz, const TensorView& z, int lanes) {
  const std::int64_t size = size_of(z.dtype);
  return packed_lanes_fit(s, lanes) && lanes_fit(qkvz.data, size, qkvz.stride[1], {qkvz.stride[0]}, lanes) &&
         lanes_fit(z.data, size, z.stride[2], {z.stride[0], z.stride[1]}, lanes);
}

}  // namespace recoverssm::cuda
