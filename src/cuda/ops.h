// The CUDA backend's operations, one .cu file each, named as in src/cpu. Arguments are valid and supported when execute is called.
//   support       whether this backend can run it; of arguments that validate refuses, nothing in particular
//   scratch_size  bytes of device workspace
//   execute       puts the kernels on the launch's stream; neither allocates nor synchronises. device_error if a launch fails
// A build without CUDA has src/cuda/absent.cc in their place.
#pragma once

#include "recoverssm/recoverssm.hpp"

namespace recoverssm::cuda {

constexpr std::size_t kMaxPlanGroups = 200;  // of one plan launch, all in a kernel's parameters

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

std::size_t scratch_size(const SplitProjectionsParams& params);
std::size_t scratch_size(const CausalConv1dParams& params);
std::size_t scratch_size(const CausalConv1dWindowParams& params);
std::size_t scratch_size(const GatedDeltaRuleParams& params);
std::size_t scratch_size(const GatedDeltaRuleSnapshotsParams& params);
std::size_t scratch_size(const GatedDeltaRuleVerifyParams& params);
std::size_t scratch_size(const CommitPlanParams& params);
std::size_t scratch_size(const CommitPlanGroupsParams& params);
std::size_t scratch_size(const CommitParams& params);
std::size_t scratch_size(const MaterializeParams& params);
std::size_t scratch_size(const AlignMoveParams& params);
std::size_t scratch_size(const AlignAdvanceParams& params);
std::size_t scratch_size(const ShortConvParams& params);
std::size_t scratch_size(const GdnAttentionParams& params);

Status execute(const SplitProjectionsParams& params, const Launch& launch);
Status execute(const CausalConv1dParams& params, const Launch& launch);
Status execute(const CausalConv1dWindowParams& params, const Launch& launch);
Status execute(const GatedDeltaRuleParams& params, const Launch& launch);
Status execute(const GatedDeltaRuleSnapshotsParams& params, const Launch& launch);
Status execute(const GatedDeltaRuleVerifyParams& params, const Launch& launch);
Status execute(const CommitPlanParams& params, const Launch& launch);
Status execute(const CommitPlanGroupsParams& params, const Launch& launch);
Status execute(const CommitParams& params, const Launch& launch);
Status execute(const MaterializeParams& params, const Launch& launch);
Status execute(const AlignMoveParams& params, const Launch& launch);
Status execute(const AlignAdvanceParams& params, const Launch& launch);
Status execute(const ShortConvParams& params, const Launch& launch);
Status execute(const GdnAttentionParams& params, const Launch& launch);

// The calling thread's current device, as cudaGetDevice says; -1 if it cannot.
int current_device();

// Memory of the current device, for a Context's workspace. Null if there is none left.
void* allocate(std::size_t bytes);
void release(void* memory);

}  // namespace recoverssm::cuda
