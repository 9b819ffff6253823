// gated_delta_rule_verify for gdn_attention, which has zeroed memory to spare.
#pragma once

#include "recoverssm/rule.hpp"

namespace recoverssm::cuda {

// done: [N] zeros on the device, one a row; with it the lazy form is one launch, without (null) two.
Status execute_verify(const GatedDeltaRuleVerifyParams& params, const Launch& launch, std::int32_t* done);

}  // namespace recoverssm::cuda
