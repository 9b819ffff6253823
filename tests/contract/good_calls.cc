#include "good_calls.h"

namespace contract_tests {

using recoverssm::DType;
using recoverssm::Gate;
using recoverssm::LineKind;
using recoverssm::TensorView;

namespace {
constexpr int H = 2, HV = 4, K = 16, V = 8, W = 4, S = 3, kBlocks = 5, kTokens = 6;
constexpr int C = 2 * H * K + HV * V;
constexpr DType T = DType::bf16;
}  // namespace

TensorView Calls::tensor(DType dtype, const support::Shape& shape) { return tensors_.emplace_back(support::dense(dtype, shape)); }
TensorView Calls::ints(const std::vector<int>& values) { return tensors_.emplace_back(support::dense_i32(values)); }
TensorView Calls::flags(const std::vector<int>& values) { return tensors_.emplace_back(support::dense_bool(values)); }

TensorView Calls::table(const std::vector<std::vector<int>>& rows) {
  std::vector<int> values;
  for (const auto& row : rows) values.insert(values.end(), row.begin(), row.end());
  const auto width = static_cast<std::int64_t>(rows.front().size());
  return {ints(values).data, DType::i32, {static_cast<std::int64_t>(rows.size()), width}};
}

recoverssm::SplitProjectionsParams Calls::split(recoverssm::Layout layout) {
  return {.qkvz = tensor(T, {kTokens, 2 * H * K + 2 * HV * V}),
          .ba = tensor(T, {kTokens, 2 * HV}),
          .layout = layout,
          .num_k_heads = H,
          .num_v_heads = HV,
          .head_k_dim = K,
          .head_v_dim = V,
          .mixed_qkv = tensor(T, {kTokens, C}),
          .z = tensor(T, {kTokens, HV, V}),
          .b = tensor(T, {kTokens, HV}),
          .a = tensor(T, {kTokens, HV}),
          .token_index = {}};
}

recoverssm::CausalConv1dParams Calls::conv() {
  recoverssm::CausalConv1dParams p;
  p.x = tensor(T, {kTokens, 10});
  p.weight = tensor(T, {10, W});
  p.bias = tensor(DType::f32, {10});
  p.activation = recoverssm::Activation::silu;
  p.out = tensor(T, {kTokens, 10});
  p.line = tensor(T, {4, W - 1 + S - 1, 10});
  p.rows.query_start_loc = ints({0, 3, 4, 6});
  p.rows.state_indices = ints({1, 0, 2});
  p.rows.has_initial_state = flags({1, 1, 1});
  p.rows.num_accepted = ints({3, 1000, -5});
  return p;
}

recoverssm::CausalConv1dWindowParams Calls::conv_window() {
  const auto plain = conv();
  recoverssm::CausalConv1dWindowParams p{.x = plain.x,
                                         .weight = plain.weight,
                                         .bias = plain.bias,
                                         .activation = plain.activation,
                                         .out = plain.out,
                                         .line = plain.line,
                                         .line_kind = LineKind::rolled,
                                         .rows = plain.rows};
  p.rows.has_initial_state = {};
  p.rows.window_capacity = S;
  return p;
}

recoverssm::RuleInputs Calls::inputs(Gate gate, DType dtype) {
  recoverssm::RuleInputs in;
  in.gate = gate;
  in.q = tensor(dtype, {kTokens, H, K});
  in.k = tensor(dtype, {kTokens, H, K});
  in.v = tensor(dtype, {kTokens, HV, V});
  in.a = gate == Gate::gdn ? tensor(dtype, {kTokens, HV}) : tensor(dtype, {kTokens, HV, K});
  in.b = tensor(dtype, {kTokens, HV});
  in.A_log = tensor(DType::f32, {HV});
  in.dt_bias = gate == Gate::gdn ? tensor(dtype, {HV}) : tensor(dtype, {HV, K});
  return in;
}

recoverssm::Records Calls::records(Gate gate, int blocks, DType dtype) {
  recoverssm::Records r;
  if (gate == Gate::gdn) {
    r.packed = tensor(DType::f32, {blocks, HV, S, V + K + 1});
  } else {
    r.corrections = tensor(DType::f32, {blocks, HV, S, V});
    r.key_gate = tensor(dtype, {blocks, HV, S, 2 * K});
  }
  return r;
}

recoverssm::GatedDeltaRuleParams Calls::rule(Gate gate) {
  recoverssm::GatedDeltaRuleParams p;
  p.inputs = inputs(gate, T);
  p.state = tensor(DType::f32, {kBlocks, HV, V, K});
  p.out = tensor(T, {kTokens, HV, V});
  p.rows.query_start_loc = ints({0, 3, 4, 6});
  p.rows.state_indices = ints({1, 0, 2});
  return p;
}

recoverssm::GatedDeltaRuleParams Calls::lazy_rule(Gate gate) {
  auto p = rule(gate);
  p.records = records(gate, kBlocks, T);
  p.pending = ints({99, 2, 3, -7, 77});  // blocks 0, 3 and 4 belong to no live row
  p.rows.num_accepted = ints({3, 1000, -5});
  return p;
}

recoverssm::GatedDeltaRuleSnapshotsParams Calls::snapshots() {
  const auto plain = rule();
  recoverssm::GatedDeltaRuleSnapshotsParams p{.inputs = plain.inputs, .state = plain.state, .out = plain.out, .rows = plain.rows};
  // The start is column 0, 1, 0: row 1 is null, and columns past L_i may hold anything.
  p.rows.state_indices = table({{1, 2, 3}, {99, 0, 1}, {4, -1, 3}});
  p.rows.num_accepted = ints({1, 2, 1});
  return p;
}

recoverssm::GatedDeltaRuleVerifyParams Calls::verify(Gate gate) {
  const auto plain = rule(gate);
  recoverssm::GatedDeltaRuleVerifyParams p;
  p.inputs = plain.inputs;
  p.state = plain.state;
  p.out = plain.out;
  p.records = records(gate, kBlocks, T);
  p.rows = plain.rows;
  p.rows.window_capacity = S;
  return p;
}

recoverssm::GatedDeltaRuleVerifyParams Calls::lazy_verify(Gate gate) {
  auto p = verify(gate);
  p.pending = ints({99, 2, 3, -7, 77});
  p.rows.num_accepted = ints({3, 1000, -5});
  return p;
}

recoverssm::PlanOutputs Calls::plan_outputs(int rows) {
  return {tensor(DType::i32, {rows}), tensor(DType::i32, {rows}), tensor(DType::i32, {rows}), tensor(DType::i32, {rows})};
}

recoverssm::CommitPlanParams Calls::plan() {
  recoverssm::CommitPlanParams p;
  p.num_accepted = ints({2, 1, 1});
  p.query_start_loc = ints({0, 3, 5});
  p.state_indices = ints({1, 3});
  p.window_capacity = S;
  p.request_index = ints({0, 1});
  p.block_table = table({{1, 2}, {3, 4}, {5, 0}});
  p.num_computed = ints({2, 6, -9});  // no row names request 2
  p.block_size = 4;
  p.out = plan_outputs(2);
  return p;
}

recoverssm::CommitPlanGroupsParams Calls::plan_groups() {
  const auto one = plan();
  recoverssm::CommitPlanGroupsParams p;
  p.num_accepted = one.num_accepted;
  p.query_start_loc = one.query_start_loc;
  p.window_capacity = one.window_capacity;
  p.request_index = one.request_index;
  p.num_computed = one.num_computed;
  p.block_size = one.block_size;
  auto& groups = plan_groups_.emplace_back();
  groups.push_back({one.state_indices, one.block_table, one.out});
  groups.push_back({ints({7, 5}), table({{7, 8}, {5, 6}, {9, 9}}), plan_outputs(2)});
  p.groups = groups;
  return p;
}

recoverssm::Layer Calls::layer(Gate gate, int blocks) {
  recoverssm::Layer l;
  l.line = tensor(T, {blocks, W - 1 + S - 1, C});
  l.conv_taps = W;
  l.state = tensor(DType::f32, {blocks, HV, V, K});
  l.records = records(gate, blocks, T);
  l.gate = gate;
  if (gate == Gate::kda) {
    l.A_log = tensor(DType::f32, {HV});
    l.dt_bias = tensor(T, {HV, K});
  }
  return l;
}

recoverssm::CommitParams Calls::commit(Gate gate) {
  recoverssm::CommitParams p;
  auto& groups = commit_groups_.emplace_back();
  // Row 2 is dead: nothing else of it is read.
  groups.push_back({ints({1, 3, 77}), ints({2, 1, 0}), ints({1, 4, 99}), ints({2, 0, 99}), ints({1, 99, 99})});
  auto& layers = layers_.emplace_back();
  for (int i = 0; i < 2; ++i) layers.push_back(layer(gate, 6));
  p.groups = groups;
  p.layers = layers;
  p.window_capacity = S;
  return p;
}

recoverssm::MaterializeParams Calls::materialize() {
  recoverssm::MaterializeParams p;
  p.blocks = ints({1, 0, 2});
  p.num_accepted = ints({1, 1000, 3});
  auto& layers = layers_.emplace_back();
  for (int i = 0; i < 2; ++i) {
    layers.push_back(layer(Gate::gdn, 6));
    layers.back().pending = ints({99, 2, 3, -4, 44, 0});
  }
  p.layers = layers;
  return p;
}

recoverssm::AlignMoveParams Calls::align_move() {
  recoverssm::AlignMoveParams p;
  p.from = ints({1, 2, 4, 0});
  p.to = ints({5, 6, 4, 7});  // the third row stays where it is, the fourth has nothing to move
  auto& layers = layers_.emplace_back();
  for (int i = 0; i < 2; ++i) {
    layers.push_back(layer(Gate::gdn, 8));
    layers.back().pending = ints({99, 0, 0, 2, 1, -1, 3, 9});
  }
  p.layers = layers;
  return p;
}

recoverssm::AlignAdvanceParams Calls::align_advance() {
  recoverssm::AlignAdvanceParams p;
  p.commit_len = ints({2, 0, 1});
  p.state_indices = ints({1, 99, 3});
  p.request_index = ints({0, 99, 2});
  p.num_computed = ints({2, -6, 7});
  p.block_size = 4;
  p.running_column = tensor(DType::i32, {3});
  p.num_accepted = tensor(DType::i32, {3});
  return p;
}

recoverssm::ShortConvParams Calls::short_conv(LineKind kind) {
  recoverssm::ShortConvParams p;
  p.x = tensor(T, {kTokens, 6});
  p.weight = tensor(T, {6, 4});
  p.dilation = 3;
  p.residual = tensor(T, {kTokens, 6});
  p.line = tensor(T, {4, 9 + (kind == LineKind::plain ? 0 : kind == LineKind::rolled ? S - 1 : S), 6});
  p.line_kind = kind;
  p.rows.query_start_loc = ints({0, 3, 4, 6});
  p.rows.state_indices = ints({1, 0, 2});
  if (kind == LineKind::plain) {
    p.rows.has_initial_state = flags({1, 0, 1});
  } else {
    p.rows.window_capacity = S;
    p.rows.num_accepted = ints({3, 1000, -5});
  }
  return p;
}

recoverssm::GdnAttentionParams Calls::attention() {
  recoverssm::GdnAttentionParams p;
  p.qkvz = tensor(T, {kTokens, 2 * H * K + 2 * HV * V});
  p.ba = tensor(T, {kTokens, 2 * HV});
  p.num_k_heads = H;
  p.num_v_heads = HV;
  p.head_k_dim = K;
  p.head_v_dim = V;
  p.weight = tensor(T, {C, W});
  p.A_log = tensor(DType::f32, {HV});
  p.dt_bias = tensor(T, {HV});
  p.line = tensor(T, {8, W - 1 + S - 1, C});
  p.state = tensor(DType::f32, {8, HV, V, K});
  p.out = tensor(T, {kTokens, HV, V});
  p.z = tensor(T, {kTokens, HV, V});
  recoverssm::AttentionPlainPart plain;
  plain.rows.query_start_loc = ints({0, 2});
  plain.rows.state_indices = ints({7});
  plain.rows.token_index = ints({1, 3});
  p.plain = plain;
  recoverssm::AttentionWindowPart windows;
  windows.rows.query_start_loc = ints({0, 3, 4});
  windows.rows.token_index = ints({0, 2, 4, 5});
  windows.rows.window_capacity = S;
  p.windows = windows;
  return p;
}

recoverssm::GdnAttentionParams Calls::attention_verify() {
  auto p = attention();
  p.plain->rows.num_accepted = ints({1});
  p.windows->rows.state_indices = ints({1, 4});
  p.windows->rows.num_accepted = ints({1, 1});
  p.windows->records = records(Gate::gdn, 8, T);
  p.windows->pending = ints({99, 0, 0, -5, 3, 0, 0, 2});
  return p;
}

recoverssm::GdnAttentionParams Calls::attention_snapshots() {
  auto p = attention();
  p.windows->mode = recoverssm::WindowMode::snapshots;
  p.windows->rows.state_indices = table({{1, 2, 3}, {4, 7, 99}});
  p.windows->rows.num_accepted = ints({1, 1});
  return p;
}

std::vector<recoverssm::Layer>& Calls::own(std::span<const recoverssm::Layer>& layers) {
  auto& copy = layers_.emplace_back(layers.begin(), layers.end());
  layers = copy;
  return copy;
}
std::vector<recoverssm::CommitGroup>& Calls::own(std::span<const recoverssm::CommitGroup>& groups) {
  auto& copy = commit_groups_.emplace_back(groups.begin(), groups.end());
  groups = copy;
  return copy;
}
std::vector<recoverssm::PlanGroup>& Calls::own(std::span<const recoverssm::PlanGroup>& groups) {
  auto& copy = plan_groups_.emplace_back(groups.begin(), groups.end());
  groups = copy;
  return copy;
}

}  // namespace contract_tests
