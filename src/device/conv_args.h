// Arguments of the causal convolutions' kernels: causal_conv1d, causal_conv1d_window, and gdn_attention, whose x is its packed projections.
#pragma once

#include <cstdint>

#include "device/line.h"
#include "device/packed.h"

namespace recoverssm::device {

struct ConvArgs {
  RowsArgs rows;
  LineArgs line;
  View x;       // global rows; packed: of `sizes`
  View out;     // global rows; packed: local ones
  View weight;  // [C, W]
  View bias;
  PackedSizes sizes;
  std::int64_t channels = 0;
  std::int32_t taps = 0;
  bool silu = false;
  bool window = false;
};

}  // namespace recoverssm::device
