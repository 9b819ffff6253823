// What the CPU backend can run: everything the contract allows, with K up to 256.

#include <string>

#include "recoverssm/recoverssm.hpp"

namespace recoverssm {
namespace {

constexpr std::int64_t kMaxK = 256;

Support key_size(const char* op, const char* argument, std::int64_t K) {
  if (K <= kMaxK) return {};
  return {false, std::string(op) + ": " + argument + ": K = " + std::to_string(K) + ", expected at most " + std::to_string(kMaxK) +
                     " on the CPU"};
}

Support rule_support(const char* op, const RuleInputs& inputs) {
  return key_size(op, "q", inputs.q.dims == 3 ? inputs.q.shape[2] : 0);
}

Support layer_support(const char* op, std::span<const Layer> layers) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const TensorView& state = layers[i].state;
    if (!state.present() || state.dims != 4 || state.shape[3] <= kMaxK) continue;
    return key_size(op, ("layers[" + std::to_string(i) + "].state").c_str(), state.shape[3]);
  }
  return {};
}

}  // namespace

Support query_support(const SplitProjectionsParams&) { return {}; }
Support query_support(const CausalConv1dParams&) { return {}; }
Support query_support(const CausalConv1dWindowParams&) { return {}; }
Support query_support(const GatedDeltaRuleParams& p) { return rule_support("gated_delta_rule", p.inputs); }
Support query_support(const GatedDeltaRuleSnapshotsParams& p) { return rule_support("gated_delta_rule_snapshots", p.inputs); }
Support query_support(const GatedDeltaRuleVerifyParams& p) { return rule_support("gated_delta_rule_verify", p.inputs); }
Support query_support(const CommitPlanParams&) { return {}; }
Support query_support(const CommitPlanGroupsParams&) { return {}; }
Support query_support(const CommitParams& p) { return layer_support("commit", p.layers); }
Support query_support(const MaterializeParams& p) { return layer_support("materialize", p.layers); }
Support query_support(const AlignMoveParams&) { return {}; }
Support query_support(const AlignAdvanceParams&) { return {}; }
Support query_support(const ShortConvParams&) { return {}; }
Support query_support(const GdnAttentionParams& p) { return key_size("gdn_attention", "head_k_dim", p.head_k_dim); }

}  // namespace recoverssm
