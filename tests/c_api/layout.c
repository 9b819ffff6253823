/* Layout of the structs of recoverssm.h. */
#include "layout.h"

#include <recoverssm/recoverssm.h>

static void tensor_layout(void) {
  BEGIN(tensor);
  FIELD(tensor, data);
  FIELD(tensor, dtype);
  FIELD(tensor, dims);
  FIELD(tensor, shape);
  FIELD(tensor, stride);
  FIELD(tensor, reserved);
  END(tensor);
}

static void rows_layout(void) {
  BEGIN(rows);
  FIELD(rows, struct_size);
  FIELD(rows, query_start_loc);
  FIELD(rows, state_indices);
  FIELD(rows, has_initial_state);
  FIELD(rows, num_accepted);
  FIELD(rows, token_index);
  FIELD(rows, window_capacity);
  FIELD(rows, null_block_id);
  END(rows);
}

static void rule_inputs_layout(void) {
  BEGIN(rule_inputs);
  FIELD(rule_inputs, struct_size);
  FIELD(rule_inputs, q);
  FIELD(rule_inputs, k);
  FIELD(rule_inputs, v);
  FIELD(rule_inputs, a);
  FIELD(rule_inputs, b);
  FIELD(rule_inputs, A_log);
  FIELD(rule_inputs, dt_bias);
  FIELD(rule_inputs, gate);
  FIELD(rule_inputs, l2norm);
  FIELD(rule_inputs, has_lower_bound);
  FIELD(rule_inputs, lower_bound);
  FIELD(rule_inputs, has_scale);
  FIELD(rule_inputs, scale);
  FIELD(rule_inputs, softplus_beta);
  FIELD(rule_inputs, softplus_threshold);
  END(rule_inputs);
}

static void records_layout(void) {
  BEGIN(records);
  FIELD(records, struct_size);
  FIELD(records, packed);
  FIELD(records, corrections);
  FIELD(records, key_gate);
  END(records);
}

static void layer_layout(void) {
  BEGIN(layer);
  FIELD(layer, struct_size);
  FIELD(layer, line);
  FIELD(layer, state);
  FIELD(layer, pending);
  FIELD(layer, A_log);
  FIELD(layer, dt_bias);
  FIELD(layer, records);
  FIELD(layer, group);
  FIELD(layer, line_kind);
  FIELD(layer, conv_taps);
  FIELD(layer, gate);
  FIELD(layer, has_lower_bound);
  FIELD(layer, lower_bound);
  FIELD(layer, l2norm);
  FIELD(layer, softplus_beta);
  FIELD(layer, softplus_threshold);
  FIELD(layer, reserved);
  END(layer);
}

static void split_projections_params_layout(void) {
  BEGIN(split_projections_params);
  FIELD(split_projections_params, struct_size);
  FIELD(split_projections_params, qkvz);
  FIELD(split_projections_params, ba);
  FIELD(split_projections_params, mixed_qkv);
  FIELD(split_projections_params, z);
  FIELD(split_projections_params, b);
  FIELD(split_projections_params, a);
  FIELD(split_projections_params, token_index);
  FIELD(split_projections_params, layout);
  FIELD(split_projections_params, num_k_heads);
  FIELD(split_projections_params, num_v_heads);
  FIELD(split_projections_params, head_k_dim);
  FIELD(split_projections_params, head_v_dim);
  FIELD(split_projections_params, reserved);
  END(split_projections_params);
}

static void causal_conv1d_params_layout(void) {
  BEGIN(causal_conv1d_params);
  FIELD(causal_conv1d_params, struct_size);
  FIELD(causal_conv1d_params, x);
  FIELD(causal_conv1d_params, weight);
  FIELD(causal_conv1d_params, bias);
  FIELD(causal_conv1d_params, out);
  FIELD(causal_conv1d_params, line);
  FIELD(causal_conv1d_params, rows);
  FIELD(causal_conv1d_params, activation);
  FIELD(causal_conv1d_params, line_kind);
  END(causal_conv1d_params);
}

static void causal_conv1d_window_params_layout(void) {
  BEGIN(causal_conv1d_window_params);
  FIELD(causal_conv1d_window_params, struct_size);
  FIELD(causal_conv1d_window_params, x);
  FIELD(causal_conv1d_window_params, weight);
  FIELD(causal_conv1d_window_params, bias);
  FIELD(causal_conv1d_window_params, out);
  FIELD(causal_conv1d_window_params, line);
  FIELD(causal_conv1d_window_params, rows);
  FIELD(causal_conv1d_window_params, activation);
  FIELD(causal_conv1d_window_params, line_kind);
  END(causal_conv1d_window_params);
}

static void gated_delta_rule_params_layout(void) {
  BEGIN(gated_delta_rule_params);
  FIELD(gated_delta_rule_params, struct_size);
  FIELD(gated_delta_rule_params, inputs);
  FIELD(gated_delta_rule_params, rows);
  FIELD(gated_delta_rule_params, records);
  FIELD(gated_delta_rule_params, state);
  FIELD(gated_delta_rule_params, out);
  FIELD(gated_delta_rule_params, pending);
  END(gated_delta_rule_params);
}

static void gated_delta_rule_snapshots_params_layout(void) {
  BEGIN(gated_delta_rule_snapshots_params);
  FIELD(gated_delta_rule_snapshots_params, struct_size);
  FIELD(gated_delta_rule_snapshots_params, inputs);
  FIELD(gated_delta_rule_snapshots_params, rows);
  FIELD(gated_delta_rule_snapshots_params, state);
  FIELD(gated_delta_rule_snapshots_params, out);
  END(gated_delta_rule_snapshots_params);
}

static void gated_delta_rule_verify_params_layout(void) {
  BEGIN(gated_delta_rule_verify_params);
  FIELD(gated_delta_rule_verify_params, struct_size);
  FIELD(gated_delta_rule_verify_params, inputs);
  FIELD(gated_delta_rule_verify_params, rows);
  FIELD(gated_delta_rule_verify_params, records);
  FIELD(gated_delta_rule_verify_params, state);
  FIELD(gated_delta_rule_verify_params, out);
  FIELD(gated_delta_rule_verify_params, pending);
  END(gated_delta_rule_verify_params);
}

static void plan_outputs_layout(void) {
  BEGIN(plan_outputs);
  FIELD(plan_outputs, struct_size);
  FIELD(plan_outputs, commit_len);
  FIELD(plan_outputs, final_indices);
  FIELD(plan_outputs, boundary_indices);
  FIELD(plan_outputs, boundary_len);
  END(plan_outputs);
}

static void commit_plan_params_layout(void) {
  BEGIN(commit_plan_params);
  FIELD(commit_plan_params, struct_size);
  FIELD(commit_plan_params, num_accepted);
  FIELD(commit_plan_params, query_start_loc);
  FIELD(commit_plan_params, state_indices);
  FIELD(commit_plan_params, request_index);
  FIELD(commit_plan_params, block_table);
  FIELD(commit_plan_params, num_computed);
  FIELD(commit_plan_params, out);
  FIELD(commit_plan_params, window_capacity);
  FIELD(commit_plan_params, null_block_id);
  FIELD(commit_plan_params, has_block_size);
  FIELD(commit_plan_params, block_size);
  END(commit_plan_params);
}

static void plan_group_layout(void) {
  BEGIN(plan_group);
  FIELD(plan_group, struct_size);
  FIELD(plan_group, state_indices);
  FIELD(plan_group, block_table);
  FIELD(plan_group, out);
  END(plan_group);
}

static void commit_plan_groups_params_layout(void) {
  BEGIN(commit_plan_groups_params);
  FIELD(commit_plan_groups_params, struct_size);
  FIELD(commit_plan_groups_params, num_accepted);
  FIELD(commit_plan_groups_params, query_start_loc);
  FIELD(commit_plan_groups_params, request_index);
  FIELD(commit_plan_groups_params, num_computed);
  FIELD(commit_plan_groups_params, groups);
  FIELD(commit_plan_groups_params, group_count);
  FIELD(commit_plan_groups_params, window_capacity);
  FIELD(commit_plan_groups_params, null_block_id);
  FIELD(commit_plan_groups_params, has_block_size);
  FIELD(commit_plan_groups_params, block_size);
  END(commit_plan_groups_params);
}

static void commit_group_layout(void) {
  BEGIN(commit_group);
  FIELD(commit_group, struct_size);
  FIELD(commit_group, state_indices);
  FIELD(commit_group, commit_len);
  FIELD(commit_group, final_indices);
  FIELD(commit_group, boundary_indices);
  FIELD(commit_group, boundary_len);
  END(commit_group);
}

static void commit_params_layout(void) {
  BEGIN(commit_params);
  FIELD(commit_params, struct_size);
  FIELD(commit_params, groups);
  FIELD(commit_params, group_count);
  FIELD(commit_params, layers);
  FIELD(commit_params, layer_count);
  FIELD(commit_params, window_capacity);
  FIELD(commit_params, null_block_id);
  END(commit_params);
}

static void materialize_params_layout(void) {
  BEGIN(materialize_params);
  FIELD(materialize_params, struct_size);
  FIELD(materialize_params, blocks);
  FIELD(materialize_params, num_accepted);
  FIELD(materialize_params, layers);
  FIELD(materialize_params, layer_count);
  FIELD(materialize_params, null_block_id);
  FIELD(materialize_params, reserved);
  END(materialize_params);
}

static void align_move_params_layout(void) {
  BEGIN(align_move_params);
  FIELD(align_move_params, struct_size);
  FIELD(align_move_params, from);
  FIELD(align_move_params, to);
  FIELD(align_move_params, layers);
  FIELD(align_move_params, layer_count);
  FIELD(align_move_params, null_block_id);
  FIELD(align_move_params, reserved);
  END(align_move_params);
}

static void align_advance_params_layout(void) {
  BEGIN(align_advance_params);
  FIELD(align_advance_params, struct_size);
  FIELD(align_advance_params, commit_len);
  FIELD(align_advance_params, state_indices);
  FIELD(align_advance_params, request_index);
  FIELD(align_advance_params, num_computed);
  FIELD(align_advance_params, running_column);
  FIELD(align_advance_params, num_accepted);
  FIELD(align_advance_params, block_size);
  FIELD(align_advance_params, null_block_id);
  END(align_advance_params);
}

static void short_conv_params_layout(void) {
  BEGIN(short_conv_params);
  FIELD(short_conv_params, struct_size);
  FIELD(short_conv_params, x);
  FIELD(short_conv_params, weight);
  FIELD(short_conv_params, residual);
  FIELD(short_conv_params, outer_residual);
  FIELD(short_conv_params, line);
  FIELD(short_conv_params, rows);
  FIELD(short_conv_params, dilation);
  FIELD(short_conv_params, line_kind);
  END(short_conv_params);
}

static void attention_plain_layout(void) {
  BEGIN(attention_plain);
  FIELD(attention_plain, struct_size);
  FIELD(attention_plain, rows);
  FIELD(attention_plain, records);
  FIELD(attention_plain, pending);
  END(attention_plain);
}

static void attention_windows_layout(void) {
  BEGIN(attention_windows);
  FIELD(attention_windows, struct_size);
  FIELD(attention_windows, rows);
  FIELD(attention_windows, records);
  FIELD(attention_windows, pending);
  FIELD(attention_windows, mode);
  FIELD(attention_windows, reserved);
  END(attention_windows);
}

static void gdn_attention_params_layout(void) {
  BEGIN(gdn_attention_params);
  FIELD(gdn_attention_params, struct_size);
  FIELD(gdn_attention_params, qkvz);
  FIELD(gdn_attention_params, ba);
  FIELD(gdn_attention_params, weight);
  FIELD(gdn_attention_params, bias);
  FIELD(gdn_attention_params, A_log);
  FIELD(gdn_attention_params, dt_bias);
  FIELD(gdn_attention_params, line);
  FIELD(gdn_attention_params, state);
  FIELD(gdn_attention_params, out);
  FIELD(gdn_attention_params, z);
  FIELD(gdn_attention_params, plain);
  FIELD(gdn_attention_params, windows);
  FIELD(gdn_attention_params, layout);
  FIELD(gdn_attention_params, num_k_heads);
  FIELD(gdn_attention_params, num_v_heads);
  FIELD(gdn_attention_params, head_k_dim);
  FIELD(gdn_attention_params, head_v_dim);
  FIELD(gdn_attention_params, activation);
  FIELD(gdn_attention_params, line_kind);
  FIELD(gdn_attention_params, l2norm);
  FIELD(gdn_attention_params, has_scale);
  FIELD(gdn_attention_params, scale);
  FIELD(gdn_attention_params, softplus_beta);
  FIELD(gdn_attention_params, softplus_threshold);
  FIELD(gdn_attention_params, null_block_id);
  FIELD(gdn_attention_params, reserved);
  END(gdn_attention_params);
}

static void counters_layout(void) {
  BEGIN(counters);
  FIELD(counters, struct_size);
  FIELD(counters, rows);
  FIELD(counters, tokens);
  FIELD(counters, state_read);
  FIELD(counters, state_written);
  FIELD(counters, record_read);
  FIELD(counters, record_written);
  FIELD(counters, line_read);
  FIELD(counters, line_written);
  FIELD(counters, activation_read);
  FIELD(counters, activation_written);
  END(counters);
}

static void launch_layout(void) {
  BEGIN(launch);
  FIELD(launch, struct_size);
  FIELD(launch, workspace);
  FIELD(launch, workspace_bytes);
  FIELD(launch, parallel_run);
  FIELD(launch, parallel_self);
  FIELD(launch, counters);
  FIELD(launch, parallel_workers);
  FIELD(launch, target);
  FIELD(launch, stream);
  FIELD(launch, flag);
  FIELD(launch, backend);
  FIELD(launch, reserved);
  END(launch);
}

static void device_flag_layout(void) {
  BEGIN(device_flag);
  FIELD(device_flag, code);
  FIELD(device_flag, op);
  FIELD(device_flag, layer);
  FIELD(device_flag, row);
  END(device_flag);
}

static void cuda_device_layout(void) {
  BEGIN(cuda_device);
  FIELD(cuda_device, struct_size);
  FIELD(cuda_device, name);
  FIELD(cuda_device, unusable);
  FIELD(cuda_device, memory_bytes);
  FIELD(cuda_device, index);
  FIELD(cuda_device, major);
  FIELD(cuda_device, minor);
  FIELD(cuda_device, multiprocessors);
  END(cuda_device);
}

static void geometry_layout(void) {
  BEGIN(geometry);
  FIELD(geometry, struct_size);
  FIELD(geometry, H);
  FIELD(geometry, HV);
  FIELD(geometry, K);
  FIELD(geometry, V);
  FIELD(geometry, W);
  FIELD(geometry, channels);
  FIELD(geometry, S);
  FIELD(geometry, gate);
  FIELD(geometry, activation);
  FIELD(geometry, state);
  END(geometry);
}

static void request_sizes_layout(void) {
  BEGIN(request_sizes);
  FIELD(request_sizes, struct_size);
  FIELD(request_sizes, state);
  FIELD(request_sizes, line_rolled);
  FIELD(request_sizes, line_anchored);
  FIELD(request_sizes, records);
  FIELD(request_sizes, page_rolled);
  FIELD(request_sizes, page_anchored);
  FIELD(request_sizes, snapshots);
  END(request_sizes);
}

int main(void) {
  tensor_layout();
  rows_layout();
  rule_inputs_layout();
  records_layout();
  layer_layout();
  split_projections_params_layout();
  causal_conv1d_params_layout();
  causal_conv1d_window_params_layout();
  gated_delta_rule_params_layout();
  gated_delta_rule_snapshots_params_layout();
  gated_delta_rule_verify_params_layout();
  plan_outputs_layout();
  commit_plan_params_layout();
  plan_group_layout();
  commit_plan_groups_params_layout();
  commit_group_layout();
  commit_params_layout();
  materialize_params_layout();
  align_move_params_layout();
  align_advance_params_layout();
  short_conv_params_layout();
  attention_plain_layout();
  attention_windows_layout();
  gdn_attention_params_layout();
  counters_layout();
  launch_layout();
  device_flag_layout();
  cuda_device_layout();
  geometry_layout();
  request_sizes_layout();
  return layout_result();
}
