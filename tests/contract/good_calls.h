// Right calls of every operation, small: H=2, HV=4, K=16, V=8, W=4, S=3, six tokens. Their tensors live as long as the Calls.
#pragma once

#include <array>
#include <list>
#include <vector>

#include "recoverssm/recoverssm.hpp"
#include "support/tensor.h"

namespace contract_tests {

class Calls {
 public:
  recoverssm::TensorView tensor(recoverssm::DType dtype, const support::Shape& shape);
  recoverssm::TensorView ints(const std::vector<int>& values);
  recoverssm::TensorView table(const std::vector<std::vector<int>>& rows);  // int32
  recoverssm::TensorView flags(const std::vector<int>& values);

  recoverssm::SplitProjectionsParams split(recoverssm::Layout layout = recoverssm::Layout::flat);
  recoverssm::CausalConv1dParams conv();
  recoverssm::CausalConv1dWindowParams conv_window();
  recoverssm::GatedDeltaRuleParams rule(recoverssm::Gate gate = recoverssm::Gate::gdn);
  recoverssm::GatedDeltaRuleParams lazy_rule(recoverssm::Gate gate = recoverssm::Gate::gdn);
  recoverssm::GatedDeltaRuleSnapshotsParams snapshots();
  recoverssm::GatedDeltaRuleVerifyParams verify(recoverssm::Gate gate = recoverssm::Gate::gdn);
  recoverssm::GatedDeltaRuleVerifyParams lazy_verify(recoverssm::Gate gate = recoverssm::Gate::gdn);
  recoverssm::CommitPlanParams plan();  // align mode
  recoverssm::CommitPlanGroupsParams plan_groups();
  recoverssm::CommitParams commit(recoverssm::Gate gate = recoverssm::Gate::gdn);  // two layers, rows 1 -> 1 and 3 -> 4
  recoverssm::MaterializeParams materialize();
  recoverssm::AlignMoveParams align_move();
  recoverssm::AlignAdvanceParams align_advance();
  recoverssm::ShortConvParams short_conv(recoverssm::LineKind kind = recoverssm::LineKind::anchored);
  recoverssm::GdnAttentionParams attention_verify();  // lazy; the plain part takes pending and records from the windows
  recoverssm::GdnAttentionParams attention_snapshots();

  recoverssm::Layer layer(recoverssm::Gate gate, int blocks);

  // Copies of a call's lists that a case may change; the span then points at the copy.
  std::vector<recoverssm::Layer>& own(std::span<const recoverssm::Layer>& layers);
  std::vector<recoverssm::CommitGroup>& own(std::span<const recoverssm::CommitGroup>& groups);
  std::vector<recoverssm::PlanGroup>& own(std::span<const recoverssm::PlanGroup>& groups);

 private:
  recoverssm::RuleInputs inputs(recoverssm::Gate gate, recoverssm::DType T);
  recoverssm::Records records(recoverssm::Gate gate, int blocks, recoverssm::DType T);
  recoverssm::PlanOutputs plan_outputs(int rows);
  recoverssm::GdnAttentionParams attention();

  std::list<support::Tensor> tensors_;
  std::list<std::vector<recoverssm::Layer>> layers_;
  std::list<std::vector<recoverssm::CommitGroup>> commit_groups_;
  std::list<std::vector<recoverssm::PlanGroup>> plan_groups_;
};

}  // namespace contract_tests
