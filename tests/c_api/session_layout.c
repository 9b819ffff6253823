/* Layout of the structs of session.h. */
#include <recoverssm/session.h>

#include "layout.h"

static void layer_config_layout(void) {
  BEGIN(layer_config);
  FIELD(layer_config, struct_size);
  FIELD(layer_config, weight);
  FIELD(layer_config, bias);
  FIELD(layer_config, A_log);
  FIELD(layer_config, dt_bias);
  FIELD(layer_config, kind);
  FIELD(layer_config, group);
  FIELD(layer_config, H);
  FIELD(layer_config, HV);
  FIELD(layer_config, K);
  FIELD(layer_config, V);
  FIELD(layer_config, W);
  FIELD(layer_config, channels);
  FIELD(layer_config, dilation);
  FIELD(layer_config, activation);
  FIELD(layer_config, state);
  FIELD(layer_config, conv_activation);
  FIELD(layer_config, has_lower_bound);
  FIELD(layer_config, lower_bound);
  FIELD(layer_config, has_scale);
  FIELD(layer_config, scale);
  FIELD(layer_config, l2norm);
  FIELD(layer_config, softplus_beta);
  FIELD(layer_config, softplus_threshold);
  FIELD(layer_config, reserved);
  END(layer_config);
}

static void group_config_layout(void) {
  BEGIN(group_config);
  FIELD(group_config, struct_size);
  FIELD(group_config, blocks);
  FIELD(group_config, has_block_size);
  FIELD(group_config, block_size);
  FIELD(group_config, reserved);
  END(group_config);
}

static void session_config_layout(void) {
  BEGIN(session_config);
  FIELD(session_config, struct_size);
  FIELD(session_config, layers);
  FIELD(session_config, layer_count);
  FIELD(session_config, groups);
  FIELD(session_config, group_count);
  FIELD(session_config, window_capacity);
  FIELD(session_config, line_kind);
  FIELD(session_config, lazy);
  FIELD(session_config, null_block_id);
  FIELD(session_config, kept_boundaries);
  FIELD(session_config, backend);
  FIELD(session_config, stream);
  END(session_config);
}

static void layer_pool_layout(void) {
  BEGIN(layer_pool);
  FIELD(layer_pool, struct_size);
  FIELD(layer_pool, line);
  FIELD(layer_pool, state);
  FIELD(layer_pool, pending);
  FIELD(layer_pool, records);
  END(layer_pool);
}

static void session_memory_layout(void) {
  BEGIN(session_memory);
  FIELD(session_memory, struct_size);
  FIELD(session_memory, request);
  FIELD(session_memory, pools);
  FIELD(session_memory, checkpoint);
  FIELD(session_memory, blocks_per_request);
  FIELD(session_memory, reserved);
  END(session_memory);
}

static void layer_memory_layout(void) {
  BEGIN(layer_memory);
  FIELD(layer_memory, state);
  FIELD(layer_memory, line);
  FIELD(layer_memory, records);
  FIELD(layer_memory, pending);
  FIELD(layer_memory, reserved);
  END(layer_memory);
}

static void step_row_layout(void) {
  BEGIN(step_row);
  FIELD(step_row, request);
  FIELD(step_row, num_computed);
  FIELD(step_row, has_num_computed);
  FIELD(step_row, kind);
  FIELD(step_row, tokens);
  FIELD(step_row, reserved);
  END(step_row);
}

static void accepted_layout(void) {
  BEGIN(accepted);
  FIELD(accepted, request);
  FIELD(accepted, count);
  FIELD(accepted, reserved);
  END(accepted);
}

static void delta_inputs_layout(void) {
  BEGIN(delta_inputs);
  FIELD(delta_inputs, struct_size);
  FIELD(delta_inputs, x);
  FIELD(delta_inputs, a);
  FIELD(delta_inputs, b);
  FIELD(delta_inputs, out);
  END(delta_inputs);
}

static void short_conv_inputs_layout(void) {
  BEGIN(short_conv_inputs);
  FIELD(short_conv_inputs, struct_size);
  FIELD(short_conv_inputs, x);
  FIELD(short_conv_inputs, residual);
  FIELD(short_conv_inputs, outer_residual);
  END(short_conv_inputs);
}

static void request_info_layout(void) {
  BEGIN(request_info);
  FIELD(request_info, struct_size);
  FIELD(request_info, tokens);
  FIELD(request_info, open_step);
  FIELD(request_info, phase);
  FIELD(request_info, waiting);
  END(request_info);
}

static void block_tag_layout(void) {
  BEGIN(block_tag);
  FIELD(block_tag, struct_size);
  FIELD(block_tag, owner);
  FIELD(block_tag, tokens);
  FIELD(block_tag, step);
  FIELD(block_tag, references);
  FIELD(block_tag, reserved);
  FIELD(block_tag, layout);
  END(block_tag);
}

static void session_counts_layout(void) {
  BEGIN(session_counts);
  FIELD(session_counts, struct_size);
  FIELD(session_counts, steps_opened);
  FIELD(session_counts, steps_committed);
  FIELD(session_counts, steps_abandoned);
  FIELD(session_counts, prefill_rows);
  FIELD(session_counts, decode_rows);
  FIELD(session_counts, window_rows);
  FIELD(session_counts, prefill_tokens);
  FIELD(session_counts, decode_tokens);
  FIELD(session_counts, verified_tokens);
  FIELD(session_counts, kept_tokens);
  FIELD(session_counts, library_calls);
  FIELD(session_counts, grouped_calls);
  FIELD(session_counts, per_group_calls);
  FIELD(session_counts, folded_rows);
  FIELD(session_counts, moved_rows);
  FIELD(session_counts, dead_rows);
  FIELD(session_counts, refused_calls);
  FIELD(session_counts, refused_by_kind);
  FIELD(session_counts, per_group_reason);
  FIELD(session_counts, last_refusal);
  END(session_counts);
}

static void checkpoint_info_layout(void) {
  BEGIN(checkpoint_info);
  FIELD(checkpoint_info, struct_size);
  FIELD(checkpoint_info, tokens);
  FIELD(checkpoint_info, tag);
  FIELD(checkpoint_info, owner);
  FIELD(checkpoint_info, step);
  FIELD(checkpoint_info, bytes);
  FIELD(checkpoint_info, version);
  FIELD(checkpoint_info, layers);
  FIELD(checkpoint_info, layout);
  END(checkpoint_info);
}

int main(void) {
  layer_config_layout();
  group_config_layout();
  session_config_layout();
  layer_pool_layout();
  session_memory_layout();
  layer_memory_layout();
  step_row_layout();
  accepted_layout();
  delta_inputs_layout();
  short_conv_inputs_layout();
  request_info_layout();
  block_tag_layout();
  session_counts_layout();
  checkpoint_info_layout();
  return layout_result();
}
