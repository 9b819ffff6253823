// The six functions of every operation: read the C structs, call the C++ API, keep the error.
#include <string>

#include "c_api/export.h"
#include "c_api/import.h"

namespace recoverssm::c_api {
namespace {

template <class Params, class C>
int validate_c(const char* op, const C* given) noexcept {
  return guarded([&]() -> Status {
    ListMemory memory;
    Import import(op, memory);
    Params params;
    import.read("params", given, params);
    return import.ok() ? validate(params) : import.take();
  });
}

template <class Params, class C>
int query_support_c(const char* op, const C* given, std::int32_t backend) noexcept {
  return guarded([&]() -> Status {
    ListMemory memory;
    Import import(op, memory);
    Params params;
    import.read("params", given, params);
    if (!import.ok()) return import.take();
    if (backend < 0 || backend > 255) {
      return invalid(op, "backend", "value " + std::to_string(backend), "one of the constants");
    }
    Support support = query_support(params, static_cast<Backend>(backend));
    return support.supported ? Status{} : Status{ErrorKind::unsupported, std::move(support.reason)};
  });
}

bool on_device(const LaunchParts& parts) { return parts.launch.backend != Backend::cpu; }

template <class Params, class C>
int workspace_size_c(const char* op, const C* given, const recoverssm_launch* launch, std::size_t* bytes) noexcept {
  return guarded([&]() -> Status {
    if (bytes == nullptr) return invalid(op, "bytes", "null", "where to write the size");
    *bytes = 0;
    ListMemory memory;
    Import import(op, memory);
    Params params;
    LaunchParts parts;
    import.read("params", given, params);
    import.read("launch", launch, parts);
    if (!import.ok()) return import.take();
    if (Status status = validate(params); !status.ok()) return status;
    *bytes = workspace_size(params, parts.launch);
    if (!on_device(parts)) *bytes += memory.needed();
    return {};
  });
}

Status refuse_workspace(const char* op, Workspace workspace, std::size_t needed) {
  const std::string bytes = std::to_string(needed);
  if (workspace.data == nullptr) return invalid(op, "workspace", "null", bytes + " bytes");
  if (workspace.bytes < needed) {
    return invalid(op, "workspace", std::to_string(workspace.bytes) + " bytes", "at least " + bytes);
  }
  const auto past = reinterpret_cast<std::uintptr_t>(workspace.data) % kWorkspaceAlignment;
  return invalid(op, "workspace",
                 "an address " + std::to_string(past) + " past a multiple of " + std::to_string(kWorkspaceAlignment),
                 "one aligned to " + std::to_string(kWorkspaceAlignment) + " bytes");
}

// The host cannot write to a device's workspace: lists are converted here.
template <class Params, class C>
Status run_on_device_c(const char* op, const C* given, LaunchParts& parts) {
  constexpr std::size_t kLists = 64 << 10;
  alignas(kWorkspaceAlignment) std::byte lists[kLists];
  ListMemory memory({lists, kLists});
  Import import(op, memory);
  Params params;
  import.read("params", given, params);
  if (!import.ok()) return import.take();
  parts.launch.flag = flag_of(parts);
  return run(params, parts.launch);
}

template <class Params, class C>
int run_c(const char* op, const C* given, const recoverssm_launch* launch) noexcept {
  return guarded([&]() -> Status {
    LaunchParts parts;
    ListMemory no_lists;
    Import launch_import(op, no_lists);
    launch_import.read("launch", launch, parts);
    Counters counters;
    if (parts.counters != nullptr) {
      launch_import.read("counters", parts.counters, counters);
      parts.launch.counters = &counters;
    }
    if (launch_import.ok() && on_device(parts)) return run_on_device_c<Params>(op, given, parts);
    const Workspace workspace = parts.launch.workspace;
    ListMemory memory(workspace);
    Import import(op, memory);
    Params params;
    import.read("params", given, params);
    if (!import.ok()) return import.take();
    if (!launch_import.ok()) return launch_import.take();
    const auto needed = [&] { return memory.needed() + workspace_size(params, parts.launch); };
    if (memory.spilled()) {
      Status status = validate(params);
      return status.ok() ? refuse_workspace(op, workspace, needed()) : status;
    }
    parts.launch.workspace = memory.rest();
    Status status = run(params, parts.launch);
    if (!status.ok()) {
      // The C++ API has seen the rest of the workspace only: the sizes to name are those of the whole.
      const bool wrong_sizes = memory.needed() > 0 && workspace.bytes < needed() && validate(params).ok();
      return wrong_sizes ? refuse_workspace(op, workspace, needed()) : status;
    }
    if (parts.counters != nullptr) write(parts.counters, parts.counters->struct_size, counters);
    return status;
  });
}

}  // namespace
}  // namespace recoverssm::c_api

// clang-format off
#define RECOVERSSM_OP(op, Params)                                                                                                   \
  void recoverssm_##op##_params_init(recoverssm_##op##_params* params, size_t size) {                                               \
    recoverssm::c_api::init<recoverssm::Params>(params, size);                                                                      \
  }                                                                                                                                 \
  int recoverssm_##op##_validate(const recoverssm_##op##_params* params) {                                                          \
    return recoverssm::c_api::validate_c<recoverssm::Params>(#op, params);                                                          \
  }                                                                                                                                 \
  int recoverssm_##op##_query_support(const recoverssm_##op##_params* params) {                                                     \
    return recoverssm::c_api::query_support_c<recoverssm::Params>(#op, params, RECOVERSSM_BACKEND_CPU);                             \
  }                                                                                                                                 \
  int recoverssm_##op##_query_support_on(const recoverssm_##op##_params* params, int32_t backend) {                                 \
    return recoverssm::c_api::query_support_c<recoverssm::Params>(#op, params, backend);                                            \
  }                                                                                                                                 \
  int recoverssm_##op##_workspace_size(const recoverssm_##op##_params* params, const recoverssm_launch* launch, size_t* bytes) {    \
    return recoverssm::c_api::workspace_size_c<recoverssm::Params>(#op, params, launch, bytes);                                     \
  }                                                                                                                                 \
  int recoverssm_##op##_run(const recoverssm_##op##_params* params, const recoverssm_launch* launch) {                              \
    return recoverssm::c_api::run_c<recoverssm::Params>(#op, params, launch);                                                       \
  }
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
