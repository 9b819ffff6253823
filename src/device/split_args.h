// Arguments of split_projections' kernel.
#pragma once

#include <cstdint>

#include "device/packed.h"
#include "device/rows.h"

namespace recoverssm::device {

struct SplitArgs {
  View qkvz, ba, mixed_qkv, z, b, a, token_index;
  PackedSizes sizes;
  std::int64_t tokens = 0;
  std::int64_t global_rows = 0;
  std::int64_t wide_items = 0;  // work items that move mixed_qkv and z; those behind them move b and a
  std::int64_t items = 0;
  std::int64_t tokens_per_item = 0;
  std::int32_t lanes =
      1;  // neighbouring elements of mixed_qkv and z that a work item moves as one value of 16 bytes; 1: single ones
  Reporter reporter;
};

}  // namespace recoverssm::device
