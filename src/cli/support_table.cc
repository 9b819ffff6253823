#include "cli/support_table.h"

#include <cstdint>
#include <initializer_list>

#include "recoverssm/recoverssm.hpp"

namespace recoverssm::cli {

namespace {

constexpr std::int64_t H = 2, HV = 4, K = 128, V = 128, W = 4, S = 4, N = 2, B = 3, kTokens = N * S;
constexpr std::int64_t C = 2 * H * K + HV * V;
constexpr std::int64_t kColumns = W - 1 + S;

// Views of memory that does not exist: validate and query_support read none.
class Views {
 public:
  TensorView operator()(DType dtype, std::initializer_list<std::int64_t> shape) {
    constexpr std::uintptr_t kApart = std::uintptr_t{1} << 32;
    return {reinterpret_cast<void*>(next_ += kApart), dtype, shape};
  }
  TensorView index(std::initializer_list<std::int64_t> shape) { return (*this)(DType::i32, shape); }

 private:
  std::uintptr_t next_ = 0;
};

// The Params of one example, for activation dtype T and state dtype.
struct Example {
  DType T, state_dtype;
  Backend backend;
  Views view;

  Rows rows(bool counts = false) {
    Rows r;
    r.query_start_loc = view.index({N + 1});
    r.state_indices = view.index({N});
    if (counts) r.num_accepted = view.index({N});
    r.window_capacity = S;
    return r;
  }
  TensorView state() { return view(state_dtype, {B, HV, V, K}); }
  TensorView line() { return view(T, {B, kColumns, C}); }
  TensorView out() { return view(T, {kTokens, HV, V}); }
  Records records() {
    Records r;
    r.packed = view(DType::f32, {B, HV, S, V + K + 1});
    return r;
  }
  RuleInputs inputs() {
    RuleInputs in;
    in.q = view(T, {kTokens, H, K});
    in.k = view(T, {kTokens, H, K});
    in.v = view(T, {kTokens, HV, V});
    in.a = view(T, {kTokens, HV});
    in.b = view(T, {kTokens, HV});
    in.A_log = view(DType::f32, {HV});
    in.dt_bias = view(DType::f32, {HV});
    return in;
  }
  Layer layer() {
    Layer l;
    l.line = line();
    l.line_kind = LineKind::anchored;
    l.conv_taps = W;
    l.state = state();
    l.records = records();
    l.pending = view.index({B});
    return l;
  }
  PlanOutputs plan() { return {view.index({N}), view.index({N}), view.index({N}), view.index({N})}; }
};

template <class Params>
Support ask(const Params& params, Backend backend) {
  const Status status = validate(params);
  return status.ok() ? query_support(params, backend) : Support{false, status.message};
}

Support split_projections(Example e) {
  SplitProjectionsParams p;
  p.qkvz = e.view(e.T, {kTokens, 2 * H * K + 2 * HV * V});
  p.ba = e.view(e.T, {kTokens, 2 * HV});
  p.num_k_heads = H;
  p.num_v_heads = HV;
  p.head_k_dim = K;
  p.head_v_dim = V;
  p.mixed_qkv = e.view(e.T, {kTokens, C});
  p.z = e.out();
  p.b = e.view(e.T, {kTokens, HV});
  p.a = e.view(e.T, {kTokens, HV});
  return ask(p, e.backend);
}

template <class Params>
Support conv(Example e) {
  Params p;
  p.x = e.view(e.T, {kTokens, C});
  p.weight = e.view(e.T, {C, W});
  p.out = e.view(e.T, {kTokens, C});
  p.line = e.line();
  p.rows = e.rows();
  return ask(p, e.backend);
}

Support gated_delta_rule(Example e) {
  GatedDeltaRuleParams p;
  p.inputs = e.inputs();
  p.state = e.state();
  p.out = e.out();
  p.rows = e.rows();
  return ask(p, e.backend);
}

Support snapshots(Example e) {
  GatedDeltaRuleSnapshotsParams p;
  p.inputs = e.inputs();
  p.state = e.state();
  p.out = e.out();
  p.rows = e.rows(true);
  p.rows.state_indices = e.view.index({N, S});
  return ask(p, e.backend);
}

Support verify(Example e) {
  GatedDeltaRuleVerifyParams p;
  p.inputs = e.inputs();
  p.state = e.state();
  p.out = e.out();
  p.records = e.records();
  p.rows = e.rows();
  return ask(p, e.backend);
}

Support commit_plan(Example e) {
  CommitPlanParams p;
  p.num_accepted = e.view.index({N});
  p.query_start_loc = e.view.index({N + 1});
  p.state_indices = e.view.index({N});
  p.window_capacity = S;
  p.out = e.plan();
  return ask(p, e.backend);
}

Support commit_plan_groups(Example e) {
  CommitPlanGroupsParams p;
  p.num_accepted = e.view.index({N});
  p.query_start_loc = e.view.index({N + 1});
  p.window_capacity = S;
  PlanGroup group;
  group.state_indices = e.view.index({N});
  group.out = e.plan();
  p.groups = {&group, 1};
  return ask(p, e.backend);
}

Support commit(Example e) {
  CommitParams p;
  const CommitGroup group = {e.view.index({N}), e.view.index({N}), e.view.index({N}), e.view.index({N}), e.view.index({N})};
  const Layer layer = e.layer();
  p.groups = {&group, 1};
  p.layers = {&layer, 1};
  p.window_capacity = S;
  return ask(p, e.backend);
}

Support materialize(Example e) {
  MaterializeParams p;
  p.blocks = e.view.index({N});
  p.num_accepted = e.view.index({N});
  const Layer layer = e.layer();
  p.layers = {&layer, 1};
  return ask(p, e.backend);
}

Support align_move(Example e) {
  AlignMoveParams p;
  p.from = e.view.index({N});
  p.to = e.view.index({N});
  const Layer layer = e.layer();
  p.layers = {&layer, 1};
  return ask(p, e.backend);
}

Support align_advance(Example e) {
  AlignAdvanceParams p;
  p.commit_len = e.view.index({N});
  p.state_indices = e.view.index({N});
  p.num_computed = e.view.index({N});
  p.block_size = 16;
  p.running_column = e.view.index({N});
  p.num_accepted = e.view.index({N});
  return ask(p, e.backend);
}

Support short_conv(Example e) {
  ShortConvParams p;
  p.x = e.view(e.T, {kTokens, C});
  p.weight = e.view(e.T, {C, W});
  p.residual = e.view(e.T, {kTokens, C});
  p.line = e.line();
  p.rows = e.rows();
  return ask(p, e.backend);
}

Support gdn_attention(Example e) {
  GdnAttentionParams p;
  p.qkvz = e.view(e.T, {kTokens, 2 * H * K + 2 * HV * V});
  p.ba = e.view(e.T, {kTokens, 2 * HV});
  p.num_k_heads = H;
  p.num_v_heads = HV;
  p.head_k_dim = K;
  p.head_v_dim = V;
  p.weight = e.view(e.T, {C, W});
  p.A_log = e.view(DType::f32, {HV});
  p.dt_bias = e.view(DType::f32, {HV});
  p.line = e.line();
  p.state = e.state();
  p.out = e.out();
  p.z = e.out();
  AttentionWindowPart part;
  part.rows = e.rows();
  part.records = e.records();
  p.windows = part;
  return ask(p, e.backend);
}

struct Operation {
  const char* name;
  Support (*ask)(Example example);
  bool has_activation, has_state;
};

constexpr Operation kOperations[] = {
    {"split_projections", split_projections, true, false},
    {"causal_conv1d", conv<CausalConv1dParams>, true, false},
    {"causal_conv1d_window", conv<CausalConv1dWindowParams>, true, false},
    {"gated_delta_rule", gated_delta_rule, true, true},
    {"gated_delta_rule_snapshots", snapshots, true, true},
    {"gated_delta_rule_verify", verify, true, true},
    {"commit_plan", commit_plan, false, false},
    {"commit_plan_groups", commit_plan_groups, false, false},
    {"commit", commit, true, true},
    {"align_move", align_move, true, true},
    {"align_advance", align_advance, false, false},
    {"materialize", materialize, true, true},
    {"short_conv", short_conv, true, false},
    {"gdn_attention", gdn_attention, true, true},
};

}  // namespace

std::vector<SupportEntry> support_table(Backend backend) {
  constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::f16};
  std::vector<SupportEntry> entries;
  for (const Operation& operation : kOperations) {
    for (const DType activation : kDTypes) {
      for (const DType state : kDTypes) {
        if (!operation.has_activation && activation != kDTypes[0]) continue;
        if (!operation.has_state && state != kDTypes[0]) continue;
        entries.push_back({operation.name, activation, state, operation.has_activation, operation.has_state,
                           operation.ask({activation, state, backend, {}})});
      }
    }
  }
  return entries;
}

}  // namespace recoverssm::cli
