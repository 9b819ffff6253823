// Bytes of everything a request owns, so that every caller allocates from the same figures. Source: docs/operations.md#sizes
#pragma once

#include <cstdint>

#include "recoverssm/rows.hpp"

namespace recoverssm {

struct Geometry {
  std::int32_t H = 0, HV = 0, K = 0, V = 0;
  std::int32_t W = 0;         // conv taps; 0: no conv line
  std::int32_t channels = 0;  // C; 0: 2*H*K + HV*V
  std::int32_t S = 1;         // window capacity
  Gate gate = Gate::gdn;
  DType activation = DType::bf16;  // T
  DType state = DType::f32;
};

// Per request and layer, in bytes.
struct Sizes {
  std::int64_t state = 0;
  std::int64_t line_rolled = 0;    // (W-1 + S-1) * C
  std::int64_t line_anchored = 0;  // (W-1 + S) * C
  std::int64_t records = 0;
  std::int64_t page_rolled = 0;    // state + records + rolled line
  std::int64_t page_anchored = 0;  // state + records + anchored line
  std::int64_t snapshots = 0;      // S states + rolled line: what the same window takes without records
};

// Throws Error(invalid_argument) for a geometry no operation accepts.
Sizes sizes(const Geometry& geometry);

}  // namespace recoverssm
