#include "trace/binding.h"

#include <fmt/format.h>

#include "api/words.h"
#include "trace/malformed.h"

namespace recoverssm::trace {

namespace {

// --- Arguments several operations share

std::int32_t null_block_id(Arguments& a) { return a.integer_or("null_block_id", 0); }

// Offsets, ids and null id, which all row operations name alike; the rest of Rows differs.
Rows rows(Arguments& a) {
  Rows r;
  r.query_start_loc = a.view("query_start_loc");
  r.state_indices = a.view("state_indices");
  r.token_index = a.view("token_index");
  return r;
}

RuleInputs rule_inputs(Arguments& a) {
  RuleInputs in;
  in.gate = a.word("gate", kGates);
  in.q = a.view("q");
  in.k = a.view("k");
  in.v = a.view("v");
  in.a = a.view("a");
  in.b = a.view("b");
  in.A_log = a.view("A_log");
  in.dt_bias = a.view("dt_bias");
  in.lower_bound = a.optional_real("lower_bound");
  in.scale = a.optional_real("scale");
  in.l2norm = a.flag_or("l2norm", true);
  in.softplus_beta = a.real_or("softplus_beta", 1.0F);
  in.softplus_threshold = a.real_or("softplus_threshold", 20.0F);
  return in;
}

Layer layer(Arguments& a) {
  Layer l;
  l.group = a.integer("group");
  l.line = a.view("line");
  l.line_kind = a.word("line_kind", kLineKinds);
  l.conv_taps = a.integer("conv_taps");
  l.state = a.view("state");
  l.records = a.records("records");
  l.pending = a.view_or_absent("pending");
  l.gate = a.word("gate", kGates);
  l.A_log = a.view("A_log");
  l.dt_bias = a.view("dt_bias");
  l.lower_bound = a.optional_real("lower_bound");
  l.l2norm = a.flag("l2norm");
  l.softplus_beta = a.real_or("softplus_beta", 1.0F);
  l.softplus_threshold = a.real_or("softplus_threshold", 20.0F);
  return l;
}

std::span<const Layer> layers(Arguments& a, BoundCall& call) {
  a.list("layers", [&](Arguments& item) { call.layers.push_back(layer(item)); });
  return call.layers;
}

PlanOutputs plan_outputs(Arguments& a) {
  PlanOutputs out;
  out.commit_len = a.view("commit_len");
  out.final_indices = a.view("final_indices");
  out.boundary_indices = a.view("boundary_indices");
  out.boundary_len = a.view("boundary_len");
  return out;
}

// --- One function an operation, in the order of docs/traces.md

SplitProjectionsParams split_projections(Arguments& a, BoundCall&) {
  SplitProjectionsParams p;
  p.qkvz = a.view("qkvz");
  p.ba = a.view("ba");
  p.layout = a.word("layout", kLayouts);
  p.num_k_heads = a.integer("num_k_heads");
  p.num_v_heads = a.integer("num_v_heads");
  p.head_k_dim = a.integer("head_k_dim");
  p.head_v_dim = a.integer("head_v_dim");
  p.mixed_qkv = a.view("mixed_qkv");
  p.z = a.view("z");
  p.b = a.view("b");
  p.a = a.view("a");
  p.token_index = a.view("token_index");
  return p;
}

CausalConv1dParams causal_conv1d(Arguments& a, BoundCall&) {
  CausalConv1dParams p;
  p.x = a.view("x");
  p.weight = a.view("weight");
  p.bias = a.view("bias");
  p.activation = a.word_or_none("activation", kActivations, Activation::none);
  p.out = a.view("out");
  p.line = a.view("line");
  p.line_kind = a.word_or("line_kind", kLineKinds, LineKind::rolled);
  p.rows = rows(a);
  p.rows.has_initial_state = a.view("has_initial_state");
  p.rows.num_accepted = a.view_or_absent("num_accepted");
  p.rows.null_block_id = null_block_id(a);
  return p;
}

CausalConv1dWindowParams causal_conv1d_window(Arguments& a, BoundCall&) {
  CausalConv1dWindowParams p;
  p.x = a.view("x");
  p.weight = a.view("weight");
  p.bias = a.view("bias");
  p.activation = a.word_or_none("activation", kActivations, Activation::none);
  p.out = a.view("out");
  p.line = a.view("line");
  p.line_kind = a.word("line_kind", kLineKinds);
  p.rows = rows(a);
  p.rows.window_capacity = a.integer("window_capacity");
  p.rows.num_accepted = a.view("num_accepted");
  p.rows.null_block_id = null_block_id(a);
  return p;
}

GatedDeltaRuleParams gated_delta_rule(Arguments& a, BoundCall&) {
  GatedDeltaRuleParams p;
  p.inputs = rule_inputs(a);
  p.state = a.view("state");
  p.out = a.view("out");
  p.rows = rows(a);
  p.rows.has_initial_state = a.view("has_initial_state");
  p.rows.num_accepted = a.view_or_absent("num_accepted");
  p.rows.null_block_id = null_block_id(a);
  p.pending = a.view_or_absent("pending");
  p.records = a.records_or_absent("records");
  return p;
}

GatedDeltaRuleSnapshotsParams gated_delta_rule_snapshots(Arguments& a, BoundCall&) {
  GatedDeltaRuleSnapshotsParams p;
  p.inputs = rule_inputs(a);
  p.state = a.view("state");
  p.out = a.view("out");
  p.rows = rows(a);
  p.rows.num_accepted = a.view("num_accepted");
  p.rows.null_block_id = null_block_id(a);
  return p;
}

GatedDeltaRuleVerifyParams gated_delta_rule_verify(Arguments& a, BoundCall&) {
  GatedDeltaRuleVerifyParams p;
  p.inputs = rule_inputs(a);
  p.state = a.view("state");
  p.out = a.view("out");
  p.records = a.records("records");
  p.rows = rows(a);
  p.rows.window_capacity = a.integer("window_capacity");
  p.rows.num_accepted = a.view_or_absent("num_accepted");
  p.rows.null_block_id = null_block_id(a);
  p.pending = a.view_or_absent("pending");
  return p;
}

CommitPlanParams commit_plan(Arguments& a, BoundCall&) {
  CommitPlanParams p;
  p.num_accepted = a.view("num_accepted");
  p.query_start_loc = a.view("query_start_loc");
  p.state_indices = a.view("state_indices");
  p.window_capacity = a.integer("window_capacity");
  p.request_index = a.view("request_index");
  p.block_table = a.view("block_table");
  p.num_computed = a.view("num_computed");
  p.block_size = a.optional_integer("block_size");
  p.out = plan_outputs(a);
  p.null_block_id = null_block_id(a);
  return p;
}

CommitPlanGroupsParams commit_plan_groups(Arguments& a, BoundCall& call) {
  CommitPlanGroupsParams p;
  p.num_accepted = a.view("num_accepted");
  p.query_start_loc = a.view("query_start_loc");
  p.window_capacity = a.integer("window_capacity");
  p.request_index = a.view("request_index");
  p.num_computed = a.view("num_computed");
  p.block_size = a.optional_integer("block_size");
  a.list("groups", [&](Arguments& item) {
    PlanGroup group;
    group.state_indices = item.view("state_indices");
    group.block_table = item.view("block_table");
    group.out = plan_outputs(item);
    call.plan_groups.push_back(group);
  });
  p.groups = call.plan_groups;
  p.null_block_id = null_block_id(a);
  return p;
}

CommitParams commit(Arguments& a, BoundCall& call) {
  CommitParams p;
  a.list("groups", [&](Arguments& item) {
    CommitGroup group;
    group.state_indices = item.view("state_indices");
    group.commit_len = item.view("commit_len");
    group.final_indices = item.view("final_indices");
    group.boundary_indices = item.view("boundary_indices");
    group.boundary_len = item.view("boundary_len");
    call.groups.push_back(group);
  });
  p.groups = call.groups;
  p.layers = layers(a, call);
  p.window_capacity = a.integer("window_capacity");
  p.null_block_id = null_block_id(a);
  return p;
}

MaterializeParams materialize(Arguments& a, BoundCall& call) {
  MaterializeParams p;
  p.blocks = a.view("blocks");
  p.num_accepted = a.view("num_accepted");
  p.layers = layers(a, call);
  p.null_block_id = null_block_id(a);
  return p;
}

AlignMoveParams align_move(Arguments& a, BoundCall& call) {
  AlignMoveParams p;
  p.from = a.view("from");
  p.to = a.view("to");
  p.layers = layers(a, call);
  p.null_block_id = null_block_id(a);
  return p;
}

AlignAdvanceParams align_advance(Arguments& a, BoundCall&) {
  AlignAdvanceParams p;
  p.commit_len = a.view("commit_len");
  p.state_indices = a.view("state_indices");
  p.request_index = a.view("request_index");
  p.num_computed = a.view("num_computed");
  p.block_size = a.integer("block_size");
  p.running_column = a.view("running_column");
  p.num_accepted = a.view("num_accepted");
  p.null_block_id = null_block_id(a);
  return p;
}

ShortConvParams short_conv(Arguments& a, BoundCall&) {
  ShortConvParams p;
  p.x = a.view("x");
  p.weight = a.view("weight");
  p.dilation = a.integer("dilation");
  p.residual = a.view("residual");
  p.outer_residual = a.view("outer_residual");
  p.line = a.view("line");
  p.line_kind = a.word("line_kind", kLineKinds);
  p.rows = rows(a);
  p.rows.window_capacity = a.integer("window_capacity");
  p.rows.has_initial_state = a.view("has_initial_state");
  p.rows.num_accepted = a.view("num_accepted");
  p.rows.null_block_id = null_block_id(a);
  return p;
}

GdnAttentionParams gdn_attention(Arguments& a, BoundCall&) {
  GdnAttentionParams p;
  p.qkvz = a.view("qkvz");
  p.ba = a.view("ba");
  p.layout = a.word("layout", kLayouts);
  p.num_k_heads = a.integer("num_k_heads");
  p.num_v_heads = a.integer("num_v_heads");
  p.head_k_dim = a.integer("head_k_dim");
  p.head_v_dim = a.integer("head_v_dim");
  p.weight = a.view("weight");
  p.bias = a.view("bias");
  p.activation = a.word_or_none("activation", kActivations, Activation::none);
  p.A_log = a.view("A_log");
  p.dt_bias = a.view("dt_bias");
  p.scale = a.optional_real("scale");
  p.l2norm = a.flag_or("l2norm", true);
  p.softplus_beta = a.real_or("softplus_beta", 1.0F);
  p.softplus_threshold = a.real_or("softplus_threshold", 20.0F);
  p.line = a.view("line");
  p.line_kind = a.word("line_kind", kLineKinds);
  p.state = a.view("state");
  p.out = a.view("out");
  p.z = a.view("z");
  a.object("plain", [&](Arguments& part) {
    p.plain.emplace();
    p.plain->rows = rows(part);
    p.plain->rows.has_initial_state = part.view("has_initial_state");
    p.plain->rows.num_accepted = part.view_or_absent("num_accepted");
    p.plain->pending = part.view_or_absent("pending");
    p.plain->records = part.records_or_absent("records");
  });
  a.object("windows", [&](Arguments& part) {
    p.windows.emplace();
    p.windows->mode = part.word("mode", kModes);
    p.windows->rows = rows(part);
    p.windows->rows.num_accepted = part.view("num_accepted");
    p.windows->rows.window_capacity = part.integer("window_capacity");
    p.windows->records = part.records("records");
    p.windows->pending = part.view("pending");
  });
  p.null_block_id = null_block_id(a);
  return p;
}

struct Operation {
  const char* name;
  void (*bind)(Arguments& arguments, BoundCall& call);
};

template <auto read>
void store_params(Arguments& arguments, BoundCall& call) {
  call.params = read(arguments, call);
}

constexpr Operation kOperations[] = {
    {"split_projections", store_params<split_projections>},
    {"causal_conv1d", store_params<causal_conv1d>},
    {"causal_conv1d_window", store_params<causal_conv1d_window>},
    {"gated_delta_rule", store_params<gated_delta_rule>},
    {"gated_delta_rule_snapshots", store_params<gated_delta_rule_snapshots>},
    {"gated_delta_rule_verify", store_params<gated_delta_rule_verify>},
    {"commit_plan", store_params<commit_plan>},
    {"commit_plan_groups", store_params<commit_plan_groups>},
    {"commit", store_params<commit>},
    {"align_move", store_params<align_move>},
    {"align_advance", store_params<align_advance>},
    {"materialize", store_params<materialize>},
    {"short_conv", store_params<short_conv>},
    {"gdn_attention", store_params<gdn_attention>},
};

}  // namespace

BoundCall bind(const Call& call, const Locate& locate) {
  for (const Operation& operation : kOperations) {
    if (call.op != operation.name) continue;
    BoundCall bound;
    Arguments arguments(call.op, "", call.arguments, locate, bound.refusal);
    operation.bind(arguments, bound);
    arguments.finish();
    return bound;
  }
  throw Malformed(fmt::format("unknown operation \"{}\"", call.op));
}

void check_arguments(const Document& document) {
  const Locate nowhere = [](std::int32_t) { return static_cast<std::byte*>(nullptr); };
  for (const Call& call : document.calls) {
    try {
      bind(call, nowhere);
    } catch (const Malformed& error) {
      throw Malformed(fmt::format("call {}: {}", call.id, error.what()));
    }
  }
}

std::size_t workspace_size(const BoundCall& call, const Launch& launch) {
  if (!call.refusal.ok()) return 0;
  return std::visit([&](const auto& params) { return recoverssm::workspace_size(params, launch); }, call.params);
}

Status run(const BoundCall& call, const Launch& launch) noexcept {
  if (!call.refusal.ok()) return call.refusal;
  return std::visit([&](const auto& params) { return recoverssm::run(params, launch); }, call.params);
}

std::vector<std::string> operation_names() {
  std::vector<std::string> names;
  for (const Operation& operation : kOperations) names.emplace_back(operation.name);
  return names;
}

}  // namespace recoverssm::trace
