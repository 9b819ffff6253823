// Data sets of several operations in a row: a window's convolution and verify, and a whole speculative step.
#include "bench/set_parts.h"

namespace recoverssm::bench {
namespace {

// What the layers of a step share.
struct StepRows {
  TensorView offsets, ids, accepted;
  TensorView table, ones;  // snapshots
};

// One layer: x -> convolution -> delta rule. The rule reads q, k and v where the convolution wrote them.
struct LayerParts {
  RuleInputs inputs;
  Records records;
  TensorView state, line;
  std::unique_ptr<DataSet> conv, rule;
};

RuleInputs inputs_from(const Shape& s, const TensorView& mixed, Arena& arena) {
  const std::int64_t n = static_cast<std::int64_t>(s.rows) * s.tokens, C = s.channels(), size = size_of(s.activation);
  auto* const base = static_cast<std::byte*>(mixed.data);
  RuleInputs in;
  in.gate = s.gate;
  in.q = TensorView(base, s.activation, {n, s.H, s.K}, {C, s.K, 1});
  in.k = TensorView(base + s.H * s.K * size, s.activation, {n, s.H, s.K}, {C, s.K, 1});
  in.v = TensorView(base + 2 * s.H * s.K * size, s.activation, {n, s.HV, s.V}, {C, s.V, 1});
  in.a = s.gate == Gate::gdn ? arena.values(s.activation, {n, s.HV}) : arena.values(s.activation, {n, s.HV, s.K});
  in.b = arena.values(s.activation, {n, s.HV});
  in.A_log = arena.values(DType::f32, {s.HV});
  in.dt_bias = s.gate == Gate::gdn ? arena.values(DType::f32, {s.HV}) : arena.values(DType::f32, {s.HV, s.K});
  return in;
}

Rows rows_from(const Shape& s, const StepRows& shared) {
  Rows rows;
  rows.query_start_loc = shared.offsets;
  rows.state_indices = shared.ids;
  rows.window_capacity = static_cast<std::int32_t>(s.window());
  rows.null_block_id = kNull;
  return rows;
}

LayerParts layer_parts(const Shape& s, const StepRows& shared, Arena& arena) {
  const std::int64_t n = static_cast<std::int64_t>(s.rows) * s.tokens;
  const bool snapshots = s.form == Form::snapshots, lazy = s.form == Form::lazy;
  LayerParts parts;
  auto conv = std::make_unique<Call<CausalConv1dWindowParams>>();
  CausalConv1dWindowParams& c = conv->params;
  c.x = arena.values(s.activation, {n, s.channels()});
  c.weight = arena.values(s.activation, {s.channels(), s.W}, -0.5F, 0.5F);
  c.activation = Activation::silu;
  c.out = arena.values(s.activation, {n, s.channels()});
  parts.line = c.line = conv_line(s, s.rows, line_columns(s, s.W - 1), arena);
  c.line_kind = s.line_kind;
  c.rows = rows_from(s, shared);
  if (lazy) c.rows.num_accepted = shared.accepted;

  parts.inputs = inputs_from(s, c.out, arena);
  parts.state = states(s, static_cast<std::int64_t>(s.rows) * (snapshots ? s.window() : 1), arena);
  if (snapshots) {
    auto rule = std::make_unique<Call<GatedDeltaRuleSnapshotsParams>>();
    rule->params.inputs = parts.inputs;
    rule->params.state = parts.state;
    rule->params.out = outputs(s, arena);
    rule->params.rows = rows_from(s, shared);
    rule->params.rows.state_indices = shared.table;
    rule->params.rows.num_accepted = shared.ones;
    parts.rule = std::move(rule);
  } else {
    auto rule = std::make_unique<Call<GatedDeltaRuleVerifyParams>>();
    rule->params.inputs = parts.inputs;
    rule->params.state = parts.state;
    rule->params.out = outputs(s, arena);
    parts.records = rule->params.records = records_of(s, s.rows, arena);
    rule->params.rows = rows_from(s, shared);
    if (lazy) {
      rule->params.rows.num_accepted = shared.accepted;
      rule->params.pending = arena.ints(s.rows, static_cast<std::int32_t>(s.window()));
    }
    parts.rule = std::move(rule);
  }
  parts.conv = std::move(conv);
  return parts;
}

StepRows step_rows(const Shape& s, Arena& arena) {
  StepRows shared;
  shared.offsets = offsets(s, arena);
  shared.ids = arena.ints(counting(s.rows));
  shared.accepted = arena.ints(s.rows, std::max(1, s.waiting));
  if (s.form == Form::snapshots) {
    shared.table = arena.ints(s.rows, s.window(), counting(s.rows * s.window()));
    shared.ones = arena.ints(s.rows, 1);
  }
  return shared;
}

}  // namespace

std::unique_ptr<DataSet> build_conv_verify(const Shape& shape, Arena& arena) {
  Shape s = shape;
  s.form = Form::records;
  auto all = std::make_unique<Calls>();
  LayerParts parts = layer_parts(s, step_rows(s, arena), arena);
  all->calls.push_back(std::move(parts.conv));
  all->calls.push_back(std::move(parts.rule));
  return all;
}

// records: layers, plan, commit. lazy and snapshots: the layers are all there is, the next step reads the counts.
std::unique_ptr<DataSet> build_step(const Shape& s, Arena& arena) {
  auto all = std::make_unique<Calls>();
  StepRows shared = step_rows(s, arena);
  std::vector<Layer> layers;
  for (int i = 0; i < s.layers; ++i) {
    LayerParts parts = layer_parts(s, shared, arena);
    Layer layer;
    layer.line = parts.line;
    layer.line_kind = s.line_kind;
    layer.conv_taps = static_cast<std::int32_t>(s.W);
    layer.state = parts.state;
    layer.records = parts.records;
    layer.gate = s.gate;
    if (s.gate == Gate::kda) {
      layer.A_log = parts.inputs.A_log;
      layer.dt_bias = parts.inputs.dt_bias;
    }
    layers.push_back(layer);
    all->calls.push_back(std::move(parts.conv));
    all->calls.push_back(std::move(parts.rule));
  }
  if (s.form != Form::records) return all;

  auto plan = std::make_unique<Call<CommitPlanParams>>();
  plan->params.num_accepted = shared.accepted;
  plan->params.query_start_loc = shared.offsets;
  plan->params.state_indices = shared.ids;
  plan->params.window_capacity = static_cast<std::int32_t>(s.window());
  plan->params.null_block_id = kNull;
  plan->params.out = {arena.ints(s.rows, 0), arena.ints(s.rows, 0), arena.ints(s.rows, 0), arena.ints(s.rows, 0)};

  auto commit = std::make_unique<Call<CommitParams>>();
  const PlanOutputs& planned = plan->params.out;
  CommitGroup group;
  group.state_indices = shared.ids;
  group.commit_len = planned.commit_len;
  group.final_indices = planned.final_indices;
  group.boundary_indices = planned.boundary_indices;
  group.boundary_len = planned.boundary_len;
  commit->groups.push_back(group);
  commit->layers = std::move(layers);
  commit->params.groups = commit->groups;
  commit->params.layers = commit->layers;
  commit->params.window_capacity = static_cast<std::int32_t>(s.window());
  commit->params.null_block_id = kNull;
  all->calls.push_back(std::move(plan));
  all->calls.push_back(std::move(commit));
  return all;
}

}  // namespace recoverssm::bench
