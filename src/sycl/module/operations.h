// The operations of the module, one .cc file each, named as in src/cpu and src/cuda.
//   workspace_bytes  of a call
//   prepare          compiles what launch will need. Throws ::sycl::exception
//   launch           puts the kernels on the queue, which is in order. Throws ::sycl::exception
#pragma once

#include "sycl/module/runtime.h"

namespace recoverssm::sycl_backend {

// clang-format off
// Those written. An operation that is not here is unsupported.
#define RECOVERSSM_SYCL_WRITTEN(OP)                                  \
  OP(split_projections, SplitProjectionsParams)                      \
  OP(causal_conv1d, CausalConv1dParams)                              \
  OP(causal_conv1d_window, CausalConv1dWindowParams)                 \
  OP(gated_delta_rule, GatedDeltaRuleParams)                         \
  OP(gated_delta_rule_snapshots, GatedDeltaRuleSnapshotsParams)      \
  OP(gated_delta_rule_verify, GatedDeltaRuleVerifyParams)            \
  OP(commit_plan, CommitPlanParams)                                  \
  OP(commit_plan_groups, CommitPlanGroupsParams)                     \
  OP(commit, CommitParams)                                           \
  OP(materialize, MaterializeParams)                                 \
  OP(align_move, AlignMoveParams)                                    \
  OP(align_advance, AlignAdvanceParams)                              \
  OP(short_conv, ShortConvParams)                                    \
  OP(gdn_attention, GdnAttentionParams)

#define RECOVERSSM_OP(name, Params)                                             \
  std::size_t workspace_bytes(const Params& params, ::sycl::queue& queue);      \
  void prepare(const Params& params, ::sycl::queue& queue);                     \
  void launch(const Params& params, const Launch& launch, ::sycl::queue& queue);
RECOVERSSM_SYCL_WRITTEN(RECOVERSSM_OP)
#undef RECOVERSSM_OP
// clang-format on

}  // namespace recoverssm::sycl_backend
