// The second half of validation: index contents, which only a backend whose tensors the host can read can check. Nothing is written,
// nothing is allocated: the checks that need memory (shared blocks, repeated tokens) take it from the workspace and stay
// O(n log n).
#pragma once

#include <cstddef>

#include "recoverssm/recoverssm.hpp"

namespace recoverssm {

// Bytes of workspace validate_contents needs.
std::size_t contents_workspace_size(const SplitProjectionsParams& params);
std::size_t contents_workspace_size(const CausalConv1dParams& params);
std::size_t contents_workspace_size(const CausalConv1dWindowParams& params);
std::size_t contents_workspace_size(const GatedDeltaRuleParams& params);
std::size_t contents_workspace_size(const GatedDeltaRuleSnapshotsParams& params);
std::size_t contents_workspace_size(const GatedDeltaRuleVerifyParams& params);
std::size_t contents_workspace_size(const CommitPlanParams& params);
std::size_t contents_workspace_size(const CommitPlanGroupsParams& params);
std::size_t contents_workspace_size(const CommitParams& params);
std::size_t contents_workspace_size(const MaterializeParams& params);
std::size_t contents_workspace_size(const AlignMoveParams& params);
std::size_t contents_workspace_size(const AlignAdvanceParams& params);
std::size_t contents_workspace_size(const ShortConvParams& params);
std::size_t contents_workspace_size(const GdnAttentionParams& params);

// Called after validate(params) succeeded. `workspace` holds at least contents_workspace_size(params) bytes.
Status validate_contents(const SplitProjectionsParams& params, Workspace workspace);
Status validate_contents(const CausalConv1dParams& params, Workspace workspace);
Status validate_contents(const CausalConv1dWindowParams& params, Workspace workspace);
Status validate_contents(const GatedDeltaRuleParams& params, Workspace workspace);
Status validate_contents(const GatedDeltaRuleSnapshotsParams& params, Workspace workspace);
Status validate_contents(const GatedDeltaRuleVerifyParams& params, Workspace workspace);
Status validate_contents(const CommitPlanParams& params, Workspace workspace);
Status validate_contents(const CommitPlanGroupsParams& params, Workspace workspace);
Status validate_contents(const CommitParams& params, Workspace workspace);
Status validate_contents(const MaterializeParams& params, Workspace workspace);
Status validate_contents(const AlignMoveParams& params, Workspace workspace);
Status validate_contents(const AlignAdvanceParams& params, Workspace workspace);
Status validate_contents(const ShortConvParams& params, Workspace workspace);
Status validate_contents(const GdnAttentionParams& params, Workspace workspace);

}  // namespace recoverssm
