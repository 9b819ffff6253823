// From the public functions to a backend: validate, ask whether it can run, check contents, execute. The same few lines for every
// operation.

#include <algorithm>
#include <new>
#include <string>

#include "contract/contents.h"
#include "cpu/ops.h"
#include "cuda/ops.h"
#include "cuda/range.h"
#include "recoverssm/recoverssm.hpp"
#include "sycl/ops.h"

namespace recoverssm {
namespace {

// Whether a call has anything to launch for. Zero tokens or zero rows need no workspace either.
bool has_work(const SplitProjectionsParams&) { return true; }
bool has_work(const CommitPlanGroupsParams&) { return true; }
bool has_work(const CommitParams&) { return true; }
bool has_work(const MaterializeParams& p) { return p.blocks.shape[0] > 0; }
bool has_work(const AlignMoveParams& p) { return p.from.shape[0] > 0; }
bool has_work(const AlignAdvanceParams& p) { return p.state_indices.shape[0] > 0; }
bool has_work(const CommitPlanParams& p) { return p.state_indices.shape[0] > 0; }
bool has_work(const GdnAttentionParams& p) {
  return (p.plain && p.plain->rows.state_indices.shape[0] > 0) || (p.windows && p.windows->rows.state_indices.shape[0] > 0);
}
template <class Params>
bool has_work(const Params& p) {
  return p.rows.state_indices.shape[0] > 0;
}

// Of params that validate accepts.
template <class Params>
std::size_t workspace_size_of(const Params& params, const Launch& launch) {
  if (!has_work(params)) return 0;
  if (launch.backend == Backend::cuda) return cuda::scratch_size(params);
  if (launch.backend == Backend::sycl) return sycl_backend::scratch_size(params, launch);
  return std::max(contents_workspace_size(params), cpu::scratch_size(params, std::max(cpu::workers_of(launch), 1)));
}

Status invalid(const char* op, const char* argument, const std::string& got, const std::string& expected) {
  return {ErrorKind::invalid_argument, std::string(op) + ": " + argument + ": " + got + ", expected " + expected};
}

template <class Params>
Support support_on(const char* op, const Params& params, Backend backend) {
  if (backend == Backend::cpu) return cpu::support(params);
  if (backend == Backend::cuda) return cuda::support(params);
  if (backend == Backend::sycl) return sycl_backend::support(params);
  return {false,
          std::string(op) + ": backend: value " + std::to_string(static_cast<int>(backend)) + ", expected cpu, cuda or sycl"};
}

Status check_launch(const char* op, const Launch& launch, std::size_t needed) {
  if (launch.parallel.run != nullptr && launch.parallel.workers < 1) {
    return invalid(op, "parallel", "workers " + std::to_string(launch.parallel.workers), "at least 1");
  }
  if (needed == 0) return {};
  if (launch.workspace.data == nullptr) return invalid(op, "workspace", "null", std::to_string(needed) + " bytes");
  if (launch.workspace.bytes < needed) {
    return invalid(op, "workspace", std::to_string(launch.workspace.bytes) + " bytes", "at least " + std::to_string(needed));
  }
  const auto past = reinterpret_cast<std::uintptr_t>(launch.workspace.data) % kWorkspaceAlignment;
  if (past != 0) {
    return invalid(op, "workspace",
                   "an address " + std::to_string(past) + " past a multiple of " + std::to_string(kWorkspaceAlignment),
                   "one aligned to " + std::to_string(kWorkspaceAlignment) + " bytes");
  }
  return {};
}

// Of params that validate accepts and this backend supports. Contents are the kernels' own matter.
template <class Params>
Status run_on_device(const char* op, const Params& params, const Launch& launch) {
  if (launch.counters != nullptr) return invalid(op, "counters", "given", "none: a device's rows are not known to the host");
  if (Status status = check_launch(op, launch, workspace_size_of(params, launch)); !status.ok()) return status;
  if (!has_work(params)) return {};
  if (launch.backend == Backend::sycl) return sycl_backend::execute(params, launch);
  const cuda::Range range(op);
  return cuda::execute(params, launch);
}

// Of params that validate accepts.
template <class Params>
Status run_valid(const char* op, const Params& params, const Launch& launch) {
  if (const Support support = query_support(params, launch.backend); !support.supported) {
    return {ErrorKind::unsupported, support.reason};
  }
  if (launch.backend != Backend::cpu) return run_on_device(op, params, launch);
  Target target = Target::best;
  if (Status status = resolve_target(launch.target, target); !status.ok()) {
    return {status.kind, std::string(op) + ": " + status.message};
  }
  if (Status status = check_launch(op, launch, workspace_size_of(params, launch)); !status.ok()) return status;
  if (!has_work(params)) return {};
  if (Status status = validate_contents(params, launch.workspace); !status.ok()) return status;
  cpu::execute(params, {cpu::kernels_of(target), launch.parallel, static_cast<std::byte*>(launch.workspace.data), launch.counters});
  return {};
}

// The mode is also for what is computed between the parallel parts (a default scale), whatever mode the caller runs in.

template <class Params>
std::size_t workspace_size_checked(const Params& params, const Launch& launch) {
  const cpu::ScopedFpMode mode;
  return validate(params).ok() ? workspace_size_of(params, launch) : 0;
}

template <class Params>
Status run_checked(const char* op, const Params& params, const Launch& launch) noexcept {
  const cpu::ScopedFpMode mode;
  try {
    if (Status status = validate(params); !status.ok()) return status;
    return run_valid(op, params, launch);
  } catch (const std::bad_alloc&) {                 // only an error's text allocates
    return {ErrorKind::device_error, "no memory"};  // short enough to need none
  }
}

template <class Params>
void run_or_throw(const char* op, const Params& params, Context& context) {
  const cpu::ScopedFpMode mode;
  Status status = validate(params);
  if (status.ok()) status = run_valid(op, params, context.launch(workspace_size_of(params, context.launch())));
  if (!status.ok()) throw Error(std::move(status));
}

}  // namespace

// clang-format off
#define RECOVERSSM_OP(name, Params)                                                                                             \
  Support query_support(const Params& params, Backend backend) { return support_on(#name, params, backend); }                   \
  std::size_t workspace_size(const Params& params, const Launch& launch) { return workspace_size_checked(params, launch); }     \
  Status run(const Params& params, const Launch& launch) noexcept { return run_checked(#name, params, launch); }                 \
  void name(const Params& params, Context& context) { run_or_throw(#name, params, context); }
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
