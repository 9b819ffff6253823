// The CPU backend's operations, one .cc file each. Arguments are valid when these are called.
//   support       whether this backend can run it; of arguments that validate refuses, nothing in particular
//   scratch_size  bytes of workspace for `workers` threads
//   execute       does the work; neither fails nor allocates
#pragma once

#include "cpu/execution.h"
#include "recoverssm/recoverssm.hpp"

namespace recoverssm::cpu {

Support support(const SplitProjectionsParams& params);
Support support(const CausalConv1dParams& params);
Support support(const CausalConv1dWindowParams& params);
Support support(const GatedDeltaRuleParams& params);
Support support(const GatedDeltaRuleSnapshotsParams& params);
Support support(const GatedDeltaRuleVerifyParams& params);
Support support(const CommitPlanParams& params);
Support support(const CommitPlanGroupsParams& params);
Support support(const CommitParams& params);
Support support(const MaterializeParams& params);
Support support(const AlignMoveParams& params);
Support support(const AlignAdvanceParams& params);
Support support(const ShortConvParams& params);
Support support(const GdnAttentionParams& params);

std::size_t scratch_size(const SplitProjectionsParams& params, int workers);
std::size_t scratch_size(const CausalConv1dParams& params, int workers);
std::size_t scratch_size(const CausalConv1dWindowParams& params, int workers);
std::size_t scratch_size(const GatedDeltaRuleParams& params, int workers);
std::size_t scratch_size(const GatedDeltaRuleSnapshotsParams& params, int workers);
std::size_t scratch_size(const GatedDeltaRuleVerifyParams& params, int workers);
std::size_t scratch_size(const CommitPlanParams& params, int workers);
std::size_t scratch_size(const CommitPlanGroupsParams& params, int workers);
std::size_t scratch_size(const CommitParams& params, int workers);
std::size_t scratch_size(const MaterializeParams& params, int workers);
std::size_t scratch_size(const AlignMoveParams& params, int workers);
std::size_t scratch_size(const AlignAdvanceParams& params, int workers);
std::size_t scratch_size(const ShortConvParams& params, int workers);
std::size_t scratch_size(const GdnAttentionParams& params, int workers);

void execute(const SplitProjectionsParams& params, const Execution& e);
void execute(const CausalConv1dParams& params, const Execution& e);
void execute(const CausalConv1dWindowParams& params, const Execution& e);
void execute(const GatedDeltaRuleParams& params, const Execution& e);
void execute(const GatedDeltaRuleSnapshotsParams& params, const Execution& e);
void execute(const GatedDeltaRuleVerifyParams& params, const Execution& e);
void execute(const CommitPlanParams& params, const Execution& e);
void execute(const CommitPlanGroupsParams& params, const Execution& e);
void execute(const CommitParams& params, const Execution& e);
void execute(const MaterializeParams& params, const Execution& e);
void execute(const AlignMoveParams& params, const Execution& e);
void execute(const AlignAdvanceParams& params, const Execution& e);
void execute(const ShortConvParams& params, const Execution& e);
void execute(const GdnAttentionParams& params, const Execution& e);

}  // namespace recoverssm::cpu
