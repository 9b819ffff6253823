#include "to_c.h"

namespace c_api_tests {
namespace {

recoverssm_tensor tensor(const recoverssm::TensorView& from) {
  recoverssm_tensor to{};
  to.data = from.data;
  to.dtype = static_cast<std::int32_t>(from.dtype);
  to.dims = from.dims;
  for (std::size_t d = 0; d < 4; ++d) {
    to.shape[d] = from.shape[d];
    to.stride[d] = from.stride[d];
  }
  return to;
}

// A struct as its init function leaves it. (Each name once more, so that the right function is called.)
#define C_API_NEW(name)                             \
  [] {                                              \
    recoverssm_##name value;                        \
    recoverssm_##name##_init(&value, sizeof value); \
    return value;                                   \
  }()

}  // namespace

recoverssm_rows* ToC::rows(const recoverssm::Rows& from) {
  recoverssm_rows& to = rows_.emplace_back(C_API_NEW(rows));
  to.query_start_loc = tensor(from.query_start_loc);
  to.state_indices = tensor(from.state_indices);
  to.has_initial_state = tensor(from.has_initial_state);
  to.num_accepted = tensor(from.num_accepted);
  to.token_index = tensor(from.token_index);
  to.window_capacity = static_cast<std::int32_t>(from.window_capacity);
  to.null_block_id = static_cast<std::int32_t>(from.null_block_id);
  return &to;
}

recoverssm_rule_inputs* ToC::inputs(const recoverssm::RuleInputs& from) {
  recoverssm_rule_inputs& to = inputs_.emplace_back(C_API_NEW(rule_inputs));
  to.q = tensor(from.q);
  to.k = tensor(from.k);
  to.v = tensor(from.v);
  to.a = tensor(from.a);
  to.b = tensor(from.b);
  to.A_log = tensor(from.A_log);
  to.dt_bias = tensor(from.dt_bias);
  to.gate = static_cast<std::int32_t>(from.gate);
  to.l2norm = static_cast<std::int32_t>(from.l2norm);
  to.has_lower_bound = from.lower_bound ? 1 : 0;
  to.lower_bound = from.lower_bound.value_or(99);
  to.has_scale = from.scale ? 1 : 0;
  to.scale = from.scale.value_or(99);
  to.softplus_beta = from.softplus_beta;
  to.softplus_threshold = from.softplus_threshold;
  return &to;
}

recoverssm_plan_outputs* ToC::outputs(const recoverssm::PlanOutputs& from) {
  recoverssm_plan_outputs& to = outputs_.emplace_back(C_API_NEW(plan_outputs));
  to.commit_len = tensor(from.commit_len);
  to.final_indices = tensor(from.final_indices);
  to.boundary_indices = tensor(from.boundary_indices);
  to.boundary_len = tensor(from.boundary_len);
  return &to;
}

recoverssm_records* ToC::records(const recoverssm::Records& from) {
  if (!from.present()) return nullptr;
  recoverssm_records& to = records_.emplace_back(C_API_NEW(records));
  to.packed = tensor(from.packed);
  to.corrections = tensor(from.corrections);
  to.key_gate = tensor(from.key_gate);
  return &to;
}

recoverssm_layer* ToC::layers(std::span<const recoverssm::Layer> all) {
  std::vector<recoverssm_layer>& list = layers_.emplace_back();
  for (const recoverssm::Layer& from : all) {
    recoverssm_layer& to = list.emplace_back(C_API_NEW(layer));
    to.line = tensor(from.line);
    to.state = tensor(from.state);
    to.pending = tensor(from.pending);
    to.A_log = tensor(from.A_log);
    to.dt_bias = tensor(from.dt_bias);
    to.records = records(from.records);
    to.group = static_cast<std::int32_t>(from.group);
    to.line_kind = static_cast<std::int32_t>(from.line_kind);
    to.conv_taps = static_cast<std::int32_t>(from.conv_taps);
    to.gate = static_cast<std::int32_t>(from.gate);
    to.has_lower_bound = from.lower_bound ? 1 : 0;
    to.lower_bound = from.lower_bound.value_or(99);
    to.l2norm = static_cast<std::int32_t>(from.l2norm);
    to.softplus_beta = from.softplus_beta;
    to.softplus_threshold = from.softplus_threshold;
  }
  return list.data();
}

recoverssm_split_projections_params ToC::operator()(const recoverssm::SplitProjectionsParams& from) {
  recoverssm_split_projections_params to = C_API_NEW(split_projections_params);
  to.qkvz = tensor(from.qkvz);
  to.ba = tensor(from.ba);
  to.mixed_qkv = tensor(from.mixed_qkv);
  to.z = tensor(from.z);
  to.b = tensor(from.b);
  to.a = tensor(from.a);
  to.token_index = tensor(from.token_index);
  to.layout = static_cast<std::int32_t>(from.layout);
  to.num_k_heads = static_cast<std::int32_t>(from.num_k_heads);
  to.num_v_heads = static_cast<std::int32_t>(from.num_v_heads);
  to.head_k_dim = static_cast<std::int32_t>(from.head_k_dim);
  to.head_v_dim = static_cast<std::int32_t>(from.head_v_dim);
  return to;
}

recoverssm_causal_conv1d_params ToC::operator()(const recoverssm::CausalConv1dParams& from) {
  recoverssm_causal_conv1d_params to = C_API_NEW(causal_conv1d_params);
  to.x = tensor(from.x);
  to.weight = tensor(from.weight);
  to.bias = tensor(from.bias);
  to.out = tensor(from.out);
  to.line = tensor(from.line);
  to.rows = rows(from.rows);
  to.activation = static_cast<std::int32_t>(from.activation);
  to.line_kind = static_cast<std::int32_t>(from.line_kind);
  return to;
}

recoverssm_causal_conv1d_window_params ToC::operator()(const recoverssm::CausalConv1dWindowParams& from) {
  recoverssm_causal_conv1d_window_params to = C_API_NEW(causal_conv1d_window_params);
  to.x = tensor(from.x);
  to.weight = tensor(from.weight);
  to.bias = tensor(from.bias);
  to.out = tensor(from.out);
  to.line = tensor(from.line);
  to.rows = rows(from.rows);
  to.activation = static_cast<std::int32_t>(from.activation);
  to.line_kind = static_cast<std::int32_t>(from.line_kind);
  return to;
}

recoverssm_gated_delta_rule_params ToC::operator()(const recoverssm::GatedDeltaRuleParams& from) {
  recoverssm_gated_delta_rule_params to = C_API_NEW(gated_delta_rule_params);
  to.inputs = inputs(from.inputs);
  to.rows = rows(from.rows);
  to.records = records(from.records);
  to.state = tensor(from.state);
  to.out = tensor(from.out);
  to.pending = tensor(from.pending);
  return to;
}

recoverssm_gated_delta_rule_snapshots_params ToC::operator()(const recoverssm::GatedDeltaRuleSnapshotsParams& from) {
  recoverssm_gated_delta_rule_snapshots_params to = C_API_NEW(gated_delta_rule_snapshots_params);
  to.inputs = inputs(from.inputs);
  to.rows = rows(from.rows);
  to.state = tensor(from.state);
  to.out = tensor(from.out);
  return to;
}

recoverssm_gated_delta_rule_verify_params ToC::operator()(const recoverssm::GatedDeltaRuleVerifyParams& from) {
  recoverssm_gated_delta_rule_verify_params to = C_API_NEW(gated_delta_rule_verify_params);
  to.inputs = inputs(from.inputs);
  to.rows = rows(from.rows);
  to.records = records(from.records);
  to.state = tensor(from.state);
  to.out = tensor(from.out);
  to.pending = tensor(from.pending);
  return to;
}

recoverssm_commit_plan_params ToC::operator()(const recoverssm::CommitPlanParams& from) {
  recoverssm_commit_plan_params to = C_API_NEW(commit_plan_params);
  to.num_accepted = tensor(from.num_accepted);
  to.query_start_loc = tensor(from.query_start_loc);
  to.state_indices = tensor(from.state_indices);
  to.request_index = tensor(from.request_index);
  to.block_table = tensor(from.block_table);
  to.num_computed = tensor(from.num_computed);
  to.out = outputs(from.out);
  to.window_capacity = static_cast<std::int32_t>(from.window_capacity);
  to.null_block_id = static_cast<std::int32_t>(from.null_block_id);
  to.has_block_size = from.block_size ? 1 : 0;
  to.block_size = from.block_size.value_or(99);
  return to;
}

recoverssm_commit_plan_groups_params ToC::operator()(const recoverssm::CommitPlanGroupsParams& from) {
  recoverssm_commit_plan_groups_params to = C_API_NEW(commit_plan_groups_params);
  to.num_accepted = tensor(from.num_accepted);
  to.query_start_loc = tensor(from.query_start_loc);
  to.request_index = tensor(from.request_index);
  to.num_computed = tensor(from.num_computed);
  to.window_capacity = static_cast<std::int32_t>(from.window_capacity);
  to.null_block_id = static_cast<std::int32_t>(from.null_block_id);
  to.has_block_size = from.block_size ? 1 : 0;
  to.block_size = from.block_size.value_or(99);
  auto& list = plan_groups_.emplace_back();
  for (const recoverssm::PlanGroup& group : from.groups) {
    recoverssm_plan_group& to_group = list.emplace_back(C_API_NEW(plan_group));
    to_group.state_indices = tensor(group.state_indices);
    to_group.block_table = tensor(group.block_table);
    to_group.out = outputs(group.out);
  }
  to.groups = list.data();
  to.group_count = list.size();
  return to;
}

recoverssm_commit_params ToC::operator()(const recoverssm::CommitParams& from) {
  recoverssm_commit_params to = C_API_NEW(commit_params);
  to.layers = layers(from.layers);
  to.layer_count = from.layers.size();
  to.window_capacity = static_cast<std::int32_t>(from.window_capacity);
  to.null_block_id = static_cast<std::int32_t>(from.null_block_id);
  auto& list = commit_groups_.emplace_back();
  for (const recoverssm::CommitGroup& group : from.groups) {
    recoverssm_commit_group& to_group = list.emplace_back(C_API_NEW(commit_group));
    to_group.state_indices = tensor(group.state_indices);
    to_group.commit_len = tensor(group.commit_len);
    to_group.final_indices = tensor(group.final_indices);
    to_group.boundary_indices = tensor(group.boundary_indices);
    to_group.boundary_len = tensor(group.boundary_len);
  }
  to.groups = list.data();
  to.group_count = list.size();
  return to;
}

recoverssm_materialize_params ToC::operator()(const recoverssm::MaterializeParams& from) {
  recoverssm_materialize_params to = C_API_NEW(materialize_params);
  to.blocks = tensor(from.blocks);
  to.num_accepted = tensor(from.num_accepted);
  to.layers = layers(from.layers);
  to.layer_count = from.layers.size();
  to.null_block_id = static_cast<std::int32_t>(from.null_block_id);
  return to;
}

recoverssm_align_move_params ToC::operator()(const recoverssm::AlignMoveParams& from) {
  recoverssm_align_move_params to = C_API_NEW(align_move_params);
  to.from = tensor(from.from);
  to.to = tensor(from.to);
  to.layers = layers(from.layers);
  to.layer_count = from.layers.size();
  to.null_block_id = static_cast<std::int32_t>(from.null_block_id);
  return to;
}

recoverssm_align_advance_params ToC::operator()(const recoverssm::AlignAdvanceParams& from) {
  recoverssm_align_advance_params to = C_API_NEW(align_advance_params);
  to.commit_len = tensor(from.commit_len);
  to.state_indices = tensor(from.state_indices);
  to.request_index = tensor(from.request_index);
  to.num_computed = tensor(from.num_computed);
  to.running_column = tensor(from.running_column);
  to.num_accepted = tensor(from.num_accepted);
  to.block_size = static_cast<std::int32_t>(from.block_size);
  to.null_block_id = static_cast<std::int32_t>(from.null_block_id);
  return to;
}

recoverssm_short_conv_params ToC::operator()(const recoverssm::ShortConvParams& from) {
  recoverssm_short_conv_params to = C_API_NEW(short_conv_params);
  to.x = tensor(from.x);
  to.weight = tensor(from.weight);
  to.residual = tensor(from.residual);
  to.outer_residual = tensor(from.outer_residual);
  to.line = tensor(from.line);
  to.rows = rows(from.rows);
  to.dilation = static_cast<std::int32_t>(from.dilation);
  to.line_kind = static_cast<std::int32_t>(from.line_kind);
  return to;
}

recoverssm_gdn_attention_params ToC::operator()(const recoverssm::GdnAttentionParams& from) {
  recoverssm_gdn_attention_params to = C_API_NEW(gdn_attention_params);
  to.qkvz = tensor(from.qkvz);
  to.ba = tensor(from.ba);
  to.weight = tensor(from.weight);
  to.bias = tensor(from.bias);
  to.A_log = tensor(from.A_log);
  to.dt_bias = tensor(from.dt_bias);
  to.line = tensor(from.line);
  to.state = tensor(from.state);
  to.out = tensor(from.out);
  to.z = tensor(from.z);
  to.layout = static_cast<std::int32_t>(from.layout);
  to.num_k_heads = static_cast<std::int32_t>(from.num_k_heads);
  to.num_v_heads = static_cast<std::int32_t>(from.num_v_heads);
  to.head_k_dim = static_cast<std::int32_t>(from.head_k_dim);
  to.head_v_dim = static_cast<std::int32_t>(from.head_v_dim);
  to.activation = static_cast<std::int32_t>(from.activation);
  to.line_kind = static_cast<std::int32_t>(from.line_kind);
  to.l2norm = static_cast<std::int32_t>(from.l2norm);
  to.has_scale = from.scale ? 1 : 0;
  to.scale = from.scale.value_or(99);
  to.softplus_beta = from.softplus_beta;
  to.softplus_threshold = from.softplus_threshold;
  to.null_block_id = static_cast<std::int32_t>(from.null_block_id);
  if (from.plain) {
    recoverssm_attention_plain& part = plain_.emplace_back(C_API_NEW(attention_plain));
    part.rows = rows(from.plain->rows);
    part.records = records(from.plain->records);
    part.pending = tensor(from.plain->pending);
    to.plain = &part;
  }
  if (from.windows) {
    recoverssm_attention_windows& part = windows_.emplace_back(C_API_NEW(attention_windows));
    part.rows = rows(from.windows->rows);
    part.records = records(from.windows->records);
    part.pending = tensor(from.windows->pending);
    part.mode = static_cast<std::int32_t>(from.windows->mode);
    to.windows = &part;
  }
  return to;
}

}  // namespace c_api_tests
