// From the public functions to a backend: validate, ask whether it can run, check contents, execute. The same few lines for every
// operation.

#include <algorithm>
#include <string>

#include "contract/contents.h"
#include "cpu/ops.h"
#include "recoverssm/recoverssm.hpp"

namespace recoverssm {
namespace {

template <class Params>
std::size_t workspace_size_of(const Params& params, const Launch& launch) {
  return std::max(contents_workspace_size(params), cpu::scratch_size(params, cpu::workers_of(launch)));
}

Status check_workspace(const char* op, const Launch& launch, std::size_t needed) {
  if (launch.parallel.run != nullptr && launch.parallel.workers < 1) {
    return {ErrorKind::invalid_argument,
            std::string(op) + ": parallel: workers " + std::to_string(launch.parallel.workers) + ", expected at least 1"};
  }
  if (launch.workspace.bytes < needed) {
    return {ErrorKind::invalid_argument, std::string(op) + ": workspace: " + std::to_string(launch.workspace.bytes) +
                                             " bytes, expected at least " + std::to_string(needed)};
  }
  if (needed > 0 && reinterpret_cast<std::uintptr_t>(launch.workspace.data) % kWorkspaceAlignment != 0) {
    return {ErrorKind::invalid_argument,
            std::string(op) + ": workspace: not aligned to " + std::to_string(kWorkspaceAlignment) + " bytes"};
  }
  return {};
}

template <class Params>
Status run_on_cpu(const char* op, const Params& params, const Launch& launch) {
  // Also for what is computed between the parallel parts, whatever mode the caller runs in.
  const cpu::ScopedFpMode mode;
  if (Status status = validate(params); !status.ok()) return status;
  if (const Support support = query_support(params); !support.supported) return {ErrorKind::unsupported, support.reason};
  Target target = Target::best;
  if (Status status = resolve_target(launch.target, target); !status.ok()) return status;
  if (Status status = check_workspace(op, launch, workspace_size_of(params, launch)); !status.ok()) return status;
  if (Status status = validate_contents(params, launch.workspace); !status.ok()) return status;
  cpu::execute(params, {cpu::kernels_of(target), launch.parallel, static_cast<std::byte*>(launch.workspace.data), launch.counters});
  return {};
}

template <class Params>
void run_or_throw(const Params& params, Context& context) {
  const std::size_t bytes = workspace_size(params, context.launch());
  if (Status status = run(params, context.launch(bytes)); !status.ok()) throw Error(std::move(status));
}

}  // namespace

// clang-format off
#define RECOVERSSM_OP(name, Params)                                                                           \
  std::size_t workspace_size(const Params& params, const Launch& launch) {                                    \
    return validate(params).ok() ? workspace_size_of(params, launch) : 0;                                     \
  }                                                                                                            \
  Status run(const Params& params, const Launch& launch) noexcept { return run_on_cpu(#name, params, launch); }        \
  void name(const Params& params, Context& context) { run_or_throw(params, context); }
// clang-format on

RECOVERSSM_OP(split_projections, SplitProjectionsParams)
RECOVERSSM_OP(causal_conv1d, CausalConv1dParams)
RECOVERSSM_OP(causal_conv1d_window, CausalConv1dWindowParams)
RECOVERSSM_OP(gated_delta_rule, GatedDeltaRuleParams)
RECOVERSSM_OP(gated_delta_rule_snapshots, GatedDeltaRuleSnapshotsParams)
RECOVERSSM_OP(gated_delta_rule_verify, GatedDeltaRuleVerifyParams)
RECOVERSSM_OP(commit_plan, CommitPlanParams)
RECOVERSSM_OP(commit_plan_groups, CommitPlanGroupsParams)
RECOVERSSM_OP(commit, CommitParams)
RECOVERSSM_OP(materialize, MaterializeParams)
RECOVERSSM_OP(align_move, AlignMoveParams)
RECOVERSSM_OP(align_advance, AlignAdvanceParams)
RECOVERSSM_OP(short_conv, ShortConvParams)
RECOVERSSM_OP(gdn_attention, GdnAttentionParams)

#undef RECOVERSSM_OP

}  // namespace recoverssm
