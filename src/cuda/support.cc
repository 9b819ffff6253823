// What the CUDA backend can run: everything the contract allows, with K up to 256 and sizes that a launch's grid holds.

#include "contract/support.h"

#include "cuda/ops.h"
#include "cuda/select_delta.h"

namespace recoverssm::cuda {
namespace {

constexpr std::int64_t kMaxK = 256;
constexpr std::int64_t kMaxSize = 1 << 30;        // heads and V: kernels count in int
constexpr std::int64_t kMaxHeadRows = INT32_MAX;  // HV * V: in commit a grid's first dimension has a block for each few of them
constexpr std::int64_t kMaxRows = 65535;          // a grid's second and third dimension
constexpr std::int64_t kMaxHeads = kMaxRows;      // of the rules, a grid's second one

Support sizes_fit(const char* op, const std::string& argument, std::initializer_list<SizeLimit> sizes) {
  return within_limits(op, argument, sizes, "on CUDA");
}

Support rows_support(const char* op, const Rows& rows) {
  const TensorView& ids = rows.state_indices;
  return sizes_fit(op, "state_indices", {{"N", ids.dims >= 1 ? ids.shape[0] : 0, kMaxRows}});
}

Support rule_support(const char* op, const RuleInputs& inputs, const Rows& rows) {
  const Support keys = sizes_fit(op, "q", {{"H", size_at(inputs.q, 3, 1), kMaxSize}, {"K", size_at(inputs.q, 3, 2), kMaxK}});
  if (!keys.supported) return keys;
  const Support values = sizes_fit(op, "v", {{"HV", size_at(inputs.v, 3, 1), kMaxHeads}, {"V", size_at(inputs.v, 3, 2), kMaxSize}});
  if (!values.supported) return values;
  const Support grid = sizes_fit(op, "v", {{"HV * V", size_at(inputs.v, 3, 1) * size_at(inputs.v, 3, 2), kMaxHeadRows}});
  return grid.supported ? rows_support(op, rows) : grid;
}

// Of the lazy form.
Support lazy_support(const char* op, const char* argument, const TensorView& pending, std::int64_t V) {
  return pending.present() ? sizes_fit(op, argument, {{"V with pending", V, kMostLazyValues}}) : Support{};
}

Support layer_support(const char* op, std::span<const Layer> layers) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const TensorView& state = layers[i].state;
    const Support fits = sizes_fit(op, "layers[" + std::to_string(i) + "].state",
                                   {{"HV", size_at(state, 4, 1), kMaxSize},
                                    {"V", size_at(state, 4, 2), kMaxSize},
                                    {"HV * V", size_at(state, 4, 1) * size_at(state, 4, 2), kMaxHeadRows},
                                    {"K", size_at(state, 4, 3), kMaxK}});
    if (!fits.supported) return fits;
  }
  return {};
}

Support list_support(const char* op, const char* argument, const TensorView& list) {
  return sizes_fit(op, argument, {{"N", size_at(list, 1, 0), kMaxRows}});
}

}  // namespace

Support support(const SplitProjectionsParams&) { return {}; }
Support support(const CausalConv1dParams& p) { return rows_support("causal_conv1d", p.rows); }
Support support(const CausalConv1dWindowParams& p) { return rows_support("causal_conv1d_window", p.rows); }
Support support(const GatedDeltaRuleParams& p) { return rule_support("gated_delta_rule", p.inputs, p.rows); }
Support support(const GatedDeltaRuleSnapshotsParams& p) { return rule_support("gated_delta_rule_snapshots", p.inputs, p.rows); }
Support support(const GatedDeltaRuleVerifyParams& p) {
  const Support lazy = lazy_support("gated_delta_rule_verify", "v", p.pending, size_at(p.inputs.v, 3, 2));
  return lazy.supported ? rule_support("gated_delta_rule_verify", p.inputs, p.rows) : lazy;
}
Support support(const CommitPlanParams&) { return {}; }
Support support(const CommitPlanGroupsParams& p) {
  return sizes_fit("commit_plan_groups", "groups", {{"number", static_cast<std::int64_t>(p.groups.size()), kMaxPlanGroups}});
}
Support support(const CommitParams& p) {
  for (std::size_t g = 0; g < p.groups.size(); ++g) {
    const Support fits = sizes_fit("commit", "groups[" + std::to_string(g) + "].state_indices",
                                   {{"N", size_at(p.groups[g].state_indices, 1, 0), kMaxRows}});
    if (!fits.supported) return fits;
  }
  return layer_support("commit", p.layers);
}
Support support(const MaterializeParams& p) {
  const Support fits = list_support("materialize", "blocks", p.blocks);
  return fits.supported ? layer_support("materialize", p.layers) : fits;
}
Support support(const AlignMoveParams& p) { return list_support("align_move", "from", p.from); }
Support support(const AlignAdvanceParams&) { return {}; }
Support support(const ShortConvParams& p) { return rows_support("short_conv", p.rows); }
Support support(const GdnAttentionParams& p) {
  const Support keys = sizes_fit("gdn_attention", "head_k_dim", {{"K", p.head_k_dim, kMaxK}});
  if (!keys.supported) return keys;
  const Support values = sizes_fit("gdn_attention", "head_v_dim", {{"V", p.head_v_dim, kMaxSize}});
  if (!values.supported) return values;
  const std::int64_t head_rows = std::int64_t{p.num_v_heads} * p.head_v_dim;
  const Support grid =
      sizes_fit("gdn_attention", "num_v_heads", {{"HV", p.num_v_heads, kMaxHeads}, {"HV * V", head_rows, kMaxHeadRows}});
  if (!grid.supported) return grid;
  if (p.plain) {
    if (Support fits = rows_support("gdn_attention", p.plain->rows); !fits.supported) return fits;
  }
  if (!p.windows) return {};
  const Support lazy = lazy_support("gdn_attention", "head_v_dim", p.windows->pending, p.head_v_dim);
  return lazy.supported ? rows_support("gdn_attention", p.windows->rows) : lazy;
}

}  // namespace recoverssm::cuda
