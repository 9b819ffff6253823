// The SYCL backend, as the library sees it. Its code is a module of its own, librecoverssm_sycl.so (src/sycl/module), loaded when SYCL is
// first asked for: this library never depends on the SYCL runtime. Arguments are valid and supported when execute is called.
//   support       whether this backend can run it; of arguments that validate refuses, nothing in particular
//   scratch_size  bytes of device workspace; compiles the kernels the call will need, once a device and kind of call
//   execute       puts the kernels on the launch's queue; neither allocates nor synchronises (a call whose size was never asked for
//                 compiles first). device_error if a launch fails
#pragma once

#include "recoverssm/recoverssm.hpp"

namespace recoverssm::sycl_backend {

// clang-format off
#define RECOVERSSM_SYCL_OPERATIONS(OP)                               \
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

#define RECOVERSSM_OP(name, Params)                                     \
  Support support(const Params& params);                                \
  std::size_t scratch_size(const Params& params, const Launch& launch); \
  Status execute(const Params& params, const Launch& launch);
RECOVERSSM_SYCL_OPERATIONS(RECOVERSSM_OP)
#undef RECOVERSSM_OP
// clang-format on

}  // namespace recoverssm::sycl_backend
