// From a trace's calls to the library's: which arguments an operation has, by the names of docs/traces.md.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "recoverssm/recoverssm.hpp"
#include "trace/arguments.h"
#include "trace/document.h"

namespace recoverssm::trace {

using AnyParams =
    std::variant<SplitProjectionsParams, CausalConv1dParams, CausalConv1dWindowParams, GatedDeltaRuleParams,
                 GatedDeltaRuleSnapshotsParams, GatedDeltaRuleVerifyParams, CommitPlanParams, CommitPlanGroupsParams, CommitParams,
                 MaterializeParams, AlignMoveParams, AlignAdvanceParams, ShortConvParams, GdnAttentionParams>;

// A call ready to run. May be moved (the Params' spans point into the vectors' storage), not copied.
struct BoundCall {
  BoundCall() = default;
  BoundCall(BoundCall&&) = default;
  BoundCall& operator=(BoundCall&&) = default;

  AnyParams params;
  std::vector<Layer> layers;
  std::vector<CommitGroup> groups;
  std::vector<PlanGroup> plan_groups;
  Status refusal;  // not ok: an argument that no Params struct can hold; running the call gives this
};

// Throws Malformed for an unknown operation, or an argument that is unknown, missing, or of another kind.
BoundCall bind(const Call& call, const Locate& locate);

// Binds every call without memory. Throws Malformed, naming the call.
void check_arguments(const Document& document);

std::size_t workspace_size(const BoundCall& call, const Launch& launch);
Status run(const BoundCall& call, const Launch& launch) noexcept;

// Names of all operations, in the order of the contract.
std::vector<std::string> operation_names();

}  // namespace recoverssm::trace
