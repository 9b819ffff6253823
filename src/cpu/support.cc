// What the CPU backend can run: everything the contract allows, with K up to 256 and sizes that an int holds.

#include "contract/support.h"

#include "cpu/ops.h"

namespace recoverssm::cpu {
namespace {

constexpr std::int64_t kMaxK = 256;
constexpr std::int64_t kMaxSize = 1 << 30;  // heads and V: the kernels count in int, with room for padding

Support sizes_fit(const char* op, const std::string& argument, std::initializer_list<SizeLimit> sizes) {
  return within_limits(op, argument, sizes, "on the CPU");
}

Support rule_support(const char* op, const RuleInputs& inputs) {
  const Support keys = sizes_fit(op, "q", {{"H", size_at(inputs.q, 3, 1), kMaxSize}, {"K", size_at(inputs.q, 3, 2), kMaxK}});
  if (!keys.supported) return keys;
  return sizes_fit(op, "v", {{"HV", size_at(inputs.v, 3, 1), kMaxSize}, {"V", size_at(inputs.v, 3, 2), kMaxSize}});
}

Support layer_support(const char* op, std::span<const Layer> layers) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const TensorView& state = layers[i].state;
    const Support fits = sizes_fit(
        op, "layers[" + std::to_string(i) + "].state",
        {{"HV", size_at(state, 4, 1), kMaxSize}, {"V", size_at(state, 4, 2), kMaxSize}, {"K", size_at(state, 4, 3), kMaxK}});
    if (!fits.supported) return fits;
  }
  return {};
}

Support attention_support(const GdnAttentionParams& p) {
  const Support keys = sizes_fit("gdn_attention", "head_k_dim", {{"K", p.head_k_dim, kMaxK}});
  if (!keys.supported) return keys;
  const Support values = sizes_fit("gdn_attention", "head_v_dim", {{"V", p.head_v_dim, kMaxSize}});
  return values.supported ? sizes_fit("gdn_attention", "num_v_heads", {{"HV", p.num_v_heads, kMaxSize}}) : values;
}

}  // namespace

Support support(const SplitProjectionsParams&) { return {}; }
Support support(const CausalConv1dParams&) { return {}; }
Support support(const CausalConv1dWindowParams&) { return {}; }
Support support(const GatedDeltaRuleParams& p) { return rule_support("gated_delta_rule", p.inputs); }
Support support(const GatedDeltaRuleSnapshotsParams& p) { return rule_support("gated_delta_rule_snapshots", p.inputs); }
Support support(const GatedDeltaRuleVerifyParams& p) { return rule_support("gated_delta_rule_verify", p.inputs); }
Support support(const CommitPlanParams&) { return {}; }
Support support(const CommitPlanGroupsParams&) { return {}; }
Support support(const CommitParams& p) { return layer_support("commit", p.layers); }
Support support(const MaterializeParams& p) { return layer_support("materialize", p.layers); }
Support support(const AlignMoveParams&) { return {}; }
Support support(const AlignAdvanceParams&) { return {}; }
Support support(const ShortConvParams&) { return {}; }
Support support(const GdnAttentionParams& p) { return attention_support(p); }

}  // namespace recoverssm::cpu
