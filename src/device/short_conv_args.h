// Arguments of short_conv's kernel.
#pragma once

#include <cstdint>

#include "device/line.h"

namespace recoverssm::device {

struct ShortConvArgs {
  RowsArgs rows;
  LineArgs line;
  View x, weight, residual, outer_residual;
  std::int64_t channels = 0;
  std::int64_t taps = 0, dilation = 0;
};

}  // namespace recoverssm::device
