// C structs of a C++ call, written by hand field by field: what the converter of the library is compared with.
#pragma once

#include <list>
#include <vector>

#include "recoverssm/recoverssm.h"
#include "recoverssm/recoverssm.hpp"

namespace c_api_tests {

// The C side of an operation.
template <class Params>
struct Op;

#define C_API_OP(op, Params)                                                                                           \
  template <>                                                                                                          \
  struct Op<recoverssm::Params> {                                                                                      \
    using C = recoverssm_##op##_params;                                                                                \
    static constexpr const char* kName = #op;                                                                          \
    static void init(C* params, std::size_t size) { recoverssm_##op##_params_init(params, size); }                     \
    static int validate(const C* params) { return recoverssm_##op##_validate(params); }                                \
    static int query_support(const C* params) { return recoverssm_##op##_query_support(params); }                      \
    static int workspace_size(const C* params, const recoverssm_launch* launch, std::size_t* bytes) {                  \
      return recoverssm_##op##_workspace_size(params, launch, bytes);                                                  \
    }                                                                                                                  \
    static int run(const C* params, const recoverssm_launch* launch) { return recoverssm_##op##_run(params, launch); } \
  };
C_API_OP(split_projections, SplitProjectionsParams)
C_API_OP(causal_conv1d, CausalConv1dParams)
C_API_OP(causal_conv1d_window, CausalConv1dWindowParams)
C_API_OP(gated_delta_rule, GatedDeltaRuleParams)
C_API_OP(gated_delta_rule_snapshots, GatedDeltaRuleSnapshotsParams)
C_API_OP(gated_delta_rule_verify, GatedDeltaRuleVerifyParams)
C_API_OP(commit_plan, CommitPlanParams)
C_API_OP(commit_plan_groups, CommitPlanGroupsParams)
C_API_OP(commit, CommitParams)
C_API_OP(materialize, MaterializeParams)
C_API_OP(align_move, AlignMoveParams)
C_API_OP(align_advance, AlignAdvanceParams)
C_API_OP(short_conv, ShortConvParams)
C_API_OP(gdn_attention, GdnAttentionParams)
#undef C_API_OP

// Structs that hold each other by pointer live as long as the ToC.
class ToC {
 public:
  recoverssm_split_projections_params operator()(const recoverssm::SplitProjectionsParams& from);
  recoverssm_causal_conv1d_params operator()(const recoverssm::CausalConv1dParams& from);
  recoverssm_causal_conv1d_window_params operator()(const recoverssm::CausalConv1dWindowParams& from);
  recoverssm_gated_delta_rule_params operator()(const recoverssm::GatedDeltaRuleParams& from);
  recoverssm_gated_delta_rule_snapshots_params operator()(const recoverssm::GatedDeltaRuleSnapshotsParams& from);
  recoverssm_gated_delta_rule_verify_params operator()(const recoverssm::GatedDeltaRuleVerifyParams& from);
  recoverssm_commit_plan_params operator()(const recoverssm::CommitPlanParams& from);
  recoverssm_commit_plan_groups_params operator()(const recoverssm::CommitPlanGroupsParams& from);
  recoverssm_commit_params operator()(const recoverssm::CommitParams& from);
  recoverssm_materialize_params operator()(const recoverssm::MaterializeParams& from);
  recoverssm_align_move_params operator()(const recoverssm::AlignMoveParams& from);
  recoverssm_align_advance_params operator()(const recoverssm::AlignAdvanceParams& from);
  recoverssm_short_conv_params operator()(const recoverssm::ShortConvParams& from);
  recoverssm_gdn_attention_params operator()(const recoverssm::GdnAttentionParams& from);

  recoverssm_rows* rows(const recoverssm::Rows& from);
  recoverssm_rule_inputs* inputs(const recoverssm::RuleInputs& from);
  recoverssm_records* records(const recoverssm::Records& from);  // null for none
  recoverssm_plan_outputs* outputs(const recoverssm::PlanOutputs& from);
  recoverssm_layer* layers(std::span<const recoverssm::Layer> from);

 private:
  std::list<recoverssm_rows> rows_;
  std::list<recoverssm_rule_inputs> inputs_;
  std::list<recoverssm_records> records_;
  std::list<recoverssm_plan_outputs> outputs_;
  std::list<recoverssm_attention_plain> plain_;
  std::list<recoverssm_attention_windows> windows_;
  std::list<std::vector<recoverssm_layer>> layers_;
  std::list<std::vector<recoverssm_commit_group>> commit_groups_;
  std::list<std::vector<recoverssm_plan_group>> plan_groups_;
};

}  // namespace c_api_tests
