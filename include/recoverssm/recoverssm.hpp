// recoverssm, C++ API. Every operation is a plain Params struct with five functions:
//
//   Status      validate(params)                shapes, strides, dtypes; reads no tensor
//   Support     query_support(params)           can this build and machine run it, and if not, why
//   size_t      workspace_size(params, launch)  bytes of scratch memory the launch needs; 0 if validate refuses the params
//   Status      run(params, launch)             checks everything, then computes; never throws, never allocates on success
//   void        op_name(params, context)        run with a Context's threads and workspace; throws Error
//
// Nothing is written unless every check has passed.
#pragma once

#include "recoverssm/align.hpp"
#include "recoverssm/attention.hpp"
#include "recoverssm/checkpoint.hpp"
#include "recoverssm/commit.hpp"
#include "recoverssm/context.hpp"
#include "recoverssm/conv.hpp"
#include "recoverssm/cuda.hpp"
#include "recoverssm/info.hpp"
#include "recoverssm/plan.hpp"
#include "recoverssm/projections.hpp"
#include "recoverssm/rule.hpp"
#include "recoverssm/session.hpp"
#include "recoverssm/session_config.hpp"
#include "recoverssm/short_conv.hpp"
#include "recoverssm/sizes.hpp"
#include "recoverssm/sycl.hpp"
#include "recoverssm/types.hpp"

namespace recoverssm {

void split_projections(const SplitProjectionsParams& params, Context& context);
void causal_conv1d(const CausalConv1dParams& params, Context& context);
void causal_conv1d_window(const CausalConv1dWindowParams& params, Context& context);
void gated_delta_rule(const GatedDeltaRuleParams& params, Context& context);
void gated_delta_rule_snapshots(const GatedDeltaRuleSnapshotsParams& params, Context& context);
void gated_delta_rule_verify(const GatedDeltaRuleVerifyParams& params, Context& context);
void commit_plan(const CommitPlanParams& params, Context& context);
void commit_plan_groups(const CommitPlanGroupsParams& params, Context& context);
void commit(const CommitParams& params, Context& context);
void materialize(const MaterializeParams& params, Context& context);
void align_move(const AlignMoveParams& params, Context& context);
void align_advance(const AlignAdvanceParams& params, Context& context);
void short_conv(const ShortConvParams& params, Context& context);
void gdn_attention(const GdnAttentionParams& params, Context& context);

}  // namespace recoverssm
