// Shape rules of packed projection rows, shared by split_projections and gdn_attention.
#pragma once

#include "contract/check.h"
#include "contract/rule_inputs.h"

namespace recoverssm {

struct PackedProjections {
  const TensorView& qkvz;
  const TensorView& ba;
  Layout layout;
  std::int32_t num_k_heads, num_v_heads, head_k_dim, head_v_dim;
};
HeadSizes check_packed(Check& check, const PackedProjections& p);

// C = 2*H*K + HV*V.
std::int64_t conv_channels(const HeadSizes& sizes);

}  // namespace recoverssm
