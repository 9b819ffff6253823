// Which field of a C struct is which field of the C++ one: the only place that says so. A visitor reads (import.h), writes defaults
// (export.h) or, in tests, lists what there is. Fields stand in the order of the C struct.
#pragma once

#include <cstddef>

#include "recoverssm/recoverssm.h"
#include "recoverssm/recoverssm.hpp"
#include "recoverssm/session.h"

namespace recoverssm::c_api {

// A visitor V has
//   field(name, c, cpp)              tensor, number, enum or flag
//   optional(name, has, value, cpp)  std::optional of a number
//   nested(name, pointer, cpp)       a struct the C caller must give
//   maybe(name, pointer, cpp)        a struct that may be left out: Records, or std::optional of a struct
//   list(name, pointer, count, items)  items: a span or a vector
//   array(name, c, cpp)              as many numbers on both sides
//   text(name, c, cpp)               char[n] and a string: only ever written, cut to what fits
//   reserved(c)                      zero until it means something
#define RECOVERSSM_FIELD(name) v.field(#name, c.name, cpp.name)

template <class V>
void fields(V& v, recoverssm_rows& c, Rows& cpp) {
  RECOVERSSM_FIELD(query_start_loc);
  RECOVERSSM_FIELD(state_indices);
  RECOVERSSM_FIELD(has_initial_state);
  RECOVERSSM_FIELD(num_accepted);
  RECOVERSSM_FIELD(token_index);
  RECOVERSSM_FIELD(window_capacity);
  RECOVERSSM_FIELD(null_block_id);
}

template <class V>
void fields(V& v, recoverssm_rule_inputs& c, RuleInputs& cpp) {
  RECOVERSSM_FIELD(q);
  RECOVERSSM_FIELD(k);
  RECOVERSSM_FIELD(v);
  RECOVERSSM_FIELD(a);
  RECOVERSSM_FIELD(b);
  RECOVERSSM_FIELD(A_log);
  RECOVERSSM_FIELD(dt_bias);
  RECOVERSSM_FIELD(gate);
  RECOVERSSM_FIELD(l2norm);
  v.optional("lower_bound", c.has_lower_bound, c.lower_bound, cpp.lower_bound);
  v.optional("scale", c.has_scale, c.scale, cpp.scale);
  RECOVERSSM_FIELD(softplus_beta);
  RECOVERSSM_FIELD(softplus_threshold);
}

template <class V>
void fields(V& v, recoverssm_records& c, Records& cpp) {
  RECOVERSSM_FIELD(packed);
  RECOVERSSM_FIELD(corrections);
  RECOVERSSM_FIELD(key_gate);
}

template <class V>
void fields(V& v, recoverssm_layer& c, Layer& cpp) {
  RECOVERSSM_FIELD(line);
  RECOVERSSM_FIELD(state);
  RECOVERSSM_FIELD(pending);
  RECOVERSSM_FIELD(A_log);
  RECOVERSSM_FIELD(dt_bias);
  v.maybe("records", c.records, cpp.records);
  RECOVERSSM_FIELD(group);
  RECOVERSSM_FIELD(line_kind);
  RECOVERSSM_FIELD(conv_taps);
  RECOVERSSM_FIELD(gate);
  v.optional("lower_bound", c.has_lower_bound, c.lower_bound, cpp.lower_bound);
  RECOVERSSM_FIELD(l2norm);
  RECOVERSSM_FIELD(softplus_beta);
  RECOVERSSM_FIELD(softplus_threshold);
  v.reserved(c.reserved);
}

template <class V>
void fields(V& v, recoverssm_split_projections_params& c, SplitProjectionsParams& cpp) {
  RECOVERSSM_FIELD(qkvz);
  RECOVERSSM_FIELD(ba);
  RECOVERSSM_FIELD(mixed_qkv);
  RECOVERSSM_FIELD(z);
  RECOVERSSM_FIELD(b);
  RECOVERSSM_FIELD(a);
  RECOVERSSM_FIELD(token_index);
  RECOVERSSM_FIELD(layout);
  RECOVERSSM_FIELD(num_k_heads);
  RECOVERSSM_FIELD(num_v_heads);
  RECOVERSSM_FIELD(head_k_dim);
  RECOVERSSM_FIELD(head_v_dim);
  v.reserved(c.reserved);
}

template <class V, class C, class Cpp>
void conv_fields(V& v, C& c, Cpp& cpp) {
  RECOVERSSM_FIELD(x);
  RECOVERSSM_FIELD(weight);
  RECOVERSSM_FIELD(bias);
  RECOVERSSM_FIELD(out);
  RECOVERSSM_FIELD(line);
  v.nested("rows", c.rows, cpp.rows);
  RECOVERSSM_FIELD(activation);
  RECOVERSSM_FIELD(line_kind);
}
template <class V>
void fields(V& v, recoverssm_causal_conv1d_params& c, CausalConv1dParams& cpp) {
  conv_fields(v, c, cpp);
}
template <class V>
void fields(V& v, recoverssm_causal_conv1d_window_params& c, CausalConv1dWindowParams& cpp) {
  conv_fields(v, c, cpp);
}

template <class V>
void fields(V& v, recoverssm_gated_delta_rule_params& c, GatedDeltaRuleParams& cpp) {
  v.nested("inputs", c.inputs, cpp.inputs);
  v.nested("rows", c.rows, cpp.rows);
  v.maybe("records", c.records, cpp.records);
  RECOVERSSM_FIELD(state);
  RECOVERSSM_FIELD(out);
  RECOVERSSM_FIELD(pending);
}

template <class V>
void fields(V& v, recoverssm_gated_delta_rule_snapshots_params& c, GatedDeltaRuleSnapshotsParams& cpp) {
  v.nested("inputs", c.inputs, cpp.inputs);
  v.nested("rows", c.rows, cpp.rows);
  RECOVERSSM_FIELD(state);
  RECOVERSSM_FIELD(out);
}

template <class V>
void fields(V& v, recoverssm_gated_delta_rule_verify_params& c, GatedDeltaRuleVerifyParams& cpp) {
  v.nested("inputs", c.inputs, cpp.inputs);
  v.nested("rows", c.rows, cpp.rows);
  v.maybe("records", c.records, cpp.records);
  RECOVERSSM_FIELD(state);
  RECOVERSSM_FIELD(out);
  RECOVERSSM_FIELD(pending);
}

template <class V>
void fields(V& v, recoverssm_plan_outputs& c, PlanOutputs& cpp) {
  RECOVERSSM_FIELD(commit_len);
  RECOVERSSM_FIELD(final_indices);
  RECOVERSSM_FIELD(boundary_indices);
  RECOVERSSM_FIELD(boundary_len);
}

template <class V>
void fields(V& v, recoverssm_commit_plan_params& c, CommitPlanParams& cpp) {
  RECOVERSSM_FIELD(num_accepted);
  RECOVERSSM_FIELD(query_start_loc);
  RECOVERSSM_FIELD(state_indices);
  RECOVERSSM_FIELD(request_index);
  RECOVERSSM_FIELD(block_table);
  RECOVERSSM_FIELD(num_computed);
  v.nested("out", c.out, cpp.out);
  RECOVERSSM_FIELD(window_capacity);
  RECOVERSSM_FIELD(null_block_id);
  v.optional("block_size", c.has_block_size, c.block_size, cpp.block_size);
}

template <class V>
void fields(V& v, recoverssm_plan_group& c, PlanGroup& cpp) {
  RECOVERSSM_FIELD(state_indices);
  RECOVERSSM_FIELD(block_table);
  v.nested("out", c.out, cpp.out);
}

template <class V>
void fields(V& v, recoverssm_commit_plan_groups_params& c, CommitPlanGroupsParams& cpp) {
  RECOVERSSM_FIELD(num_accepted);
  RECOVERSSM_FIELD(query_start_loc);
  RECOVERSSM_FIELD(request_index);
  RECOVERSSM_FIELD(num_computed);
  v.list("groups", c.groups, c.group_count, cpp.groups);
  RECOVERSSM_FIELD(window_capacity);
  RECOVERSSM_FIELD(null_block_id);
  v.optional("block_size", c.has_block_size, c.block_size, cpp.block_size);
}

template <class V>
void fields(V& v, recoverssm_commit_group& c, CommitGroup& cpp) {
  RECOVERSSM_FIELD(state_indices);
  RECOVERSSM_FIELD(commit_len);
  RECOVERSSM_FIELD(final_indices);
  RECOVERSSM_FIELD(boundary_indices);
  RECOVERSSM_FIELD(boundary_len);
}

template <class V>
void fields(V& v, recoverssm_commit_params& c, CommitParams& cpp) {
  v.list("groups", c.groups, c.group_count, cpp.groups);
  v.list("layers", c.layers, c.layer_count, cpp.layers);
  RECOVERSSM_FIELD(window_capacity);
  RECOVERSSM_FIELD(null_block_id);
}

template <class V>
void fields(V& v, recoverssm_materialize_params& c, MaterializeParams& cpp) {
  RECOVERSSM_FIELD(blocks);
  RECOVERSSM_FIELD(num_accepted);
  v.list("layers", c.layers, c.layer_count, cpp.layers);
  RECOVERSSM_FIELD(null_block_id);
  v.reserved(c.reserved);
}

template <class V>
void fields(V& v, recoverssm_align_move_params& c, AlignMoveParams& cpp) {
  RECOVERSSM_FIELD(from);
  RECOVERSSM_FIELD(to);
  v.list("layers", c.layers, c.layer_count, cpp.layers);
  RECOVERSSM_FIELD(null_block_id);
  v.reserved(c.reserved);
}

template <class V>
void fields(V& v, recoverssm_align_advance_params& c, AlignAdvanceParams& cpp) {
  RECOVERSSM_FIELD(commit_len);
  RECOVERSSM_FIELD(state_indices);
  RECOVERSSM_FIELD(request_index);
  RECOVERSSM_FIELD(num_computed);
  RECOVERSSM_FIELD(running_column);
  RECOVERSSM_FIELD(num_accepted);
  RECOVERSSM_FIELD(block_size);
  RECOVERSSM_FIELD(null_block_id);
}

template <class V>
void fields(V& v, recoverssm_short_conv_params& c, ShortConvParams& cpp) {
  RECOVERSSM_FIELD(x);
  RECOVERSSM_FIELD(weight);
  RECOVERSSM_FIELD(residual);
  RECOVERSSM_FIELD(outer_residual);
  RECOVERSSM_FIELD(line);
  v.nested("rows", c.rows, cpp.rows);
  RECOVERSSM_FIELD(dilation);
  RECOVERSSM_FIELD(line_kind);
}

template <class V>
void fields(V& v, recoverssm_attention_plain& c, AttentionPlainPart& cpp) {
  v.nested("rows", c.rows, cpp.rows);
  v.maybe("records", c.records, cpp.records);
  RECOVERSSM_FIELD(pending);
}

template <class V>
void fields(V& v, recoverssm_attention_windows& c, AttentionWindowPart& cpp) {
  v.nested("rows", c.rows, cpp.rows);
  v.maybe("records", c.records, cpp.records);
  RECOVERSSM_FIELD(pending);
  RECOVERSSM_FIELD(mode);
  v.reserved(c.reserved);
}

template <class V>
void fields(V& v, recoverssm_gdn_attention_params& c, GdnAttentionParams& cpp) {
  RECOVERSSM_FIELD(qkvz);
  RECOVERSSM_FIELD(ba);
  RECOVERSSM_FIELD(weight);
  RECOVERSSM_FIELD(bias);
  RECOVERSSM_FIELD(A_log);
  RECOVERSSM_FIELD(dt_bias);
  RECOVERSSM_FIELD(line);
  RECOVERSSM_FIELD(state);
  RECOVERSSM_FIELD(out);
  RECOVERSSM_FIELD(z);
  v.maybe("plain", c.plain, cpp.plain);
  v.maybe("windows", c.windows, cpp.windows);
  RECOVERSSM_FIELD(layout);
  RECOVERSSM_FIELD(num_k_heads);
  RECOVERSSM_FIELD(num_v_heads);
  RECOVERSSM_FIELD(head_k_dim);
  RECOVERSSM_FIELD(head_v_dim);
  RECOVERSSM_FIELD(activation);
  RECOVERSSM_FIELD(line_kind);
  RECOVERSSM_FIELD(l2norm);
  v.optional("scale", c.has_scale, c.scale, cpp.scale);
  RECOVERSSM_FIELD(softplus_beta);
  RECOVERSSM_FIELD(softplus_threshold);
  RECOVERSSM_FIELD(null_block_id);
  v.reserved(c.reserved);
}

template <class V>
void fields(V& v, recoverssm_counters& c, Counters& cpp) {
  RECOVERSSM_FIELD(rows);
  RECOVERSSM_FIELD(tokens);
  RECOVERSSM_FIELD(state_read);
  RECOVERSSM_FIELD(state_written);
  RECOVERSSM_FIELD(record_read);
  RECOVERSSM_FIELD(record_written);
  RECOVERSSM_FIELD(line_read);
  RECOVERSSM_FIELD(line_written);
  RECOVERSSM_FIELD(activation_read);
  RECOVERSSM_FIELD(activation_written);
}

template <class V>
void fields(V& v, recoverssm_geometry& c, Geometry& cpp) {
  RECOVERSSM_FIELD(H);
  RECOVERSSM_FIELD(HV);
  RECOVERSSM_FIELD(K);
  RECOVERSSM_FIELD(V);
  RECOVERSSM_FIELD(W);
  RECOVERSSM_FIELD(channels);
  RECOVERSSM_FIELD(S);
  RECOVERSSM_FIELD(gate);
  RECOVERSSM_FIELD(activation);
  RECOVERSSM_FIELD(state);
}

template <class V>
void fields(V& v, recoverssm_request_sizes& c, Sizes& cpp) {
  RECOVERSSM_FIELD(state);
  RECOVERSSM_FIELD(line_rolled);
  RECOVERSSM_FIELD(line_anchored);
  RECOVERSSM_FIELD(records);
  RECOVERSSM_FIELD(page_rolled);
  RECOVERSSM_FIELD(page_anchored);
  RECOVERSSM_FIELD(snapshots);
}

// A launch and what of it the C caller gave; workspace and threads are one struct each in C++.
struct LaunchParts {
  Launch launch;
  recoverssm_counters* counters = nullptr;
  recoverssm_device_flag* flag = nullptr;  // the same memory as the C++ struct: see flag_of
};

template <class V>
void fields(V& v, recoverssm_launch& c, LaunchParts& cpp) {
  v.field("workspace", c.workspace, cpp.launch.workspace.data);
  v.field("workspace_bytes", c.workspace_bytes, cpp.launch.workspace.bytes);
  v.field("parallel_run", c.parallel_run, cpp.launch.parallel.run);
  v.field("parallel_self", c.parallel_self, cpp.launch.parallel.self);
  v.field("counters", c.counters, cpp.counters);
  v.field("parallel_workers", c.parallel_workers, cpp.launch.parallel.workers);
  v.field("target", c.target, cpp.launch.target);
  v.field("stream", c.stream, cpp.launch.stream);
  v.field("flag", c.flag, cpp.flag);
  v.field("backend", c.backend, cpp.launch.backend);
  v.reserved(c.reserved);
}

// Kernels write it, so neither version may differ from the other.
static_assert(sizeof(recoverssm_device_flag) == sizeof(DeviceFlag) && alignof(recoverssm_device_flag) == alignof(DeviceFlag));
static_assert(offsetof(recoverssm_device_flag, code) == offsetof(DeviceFlag, code));
static_assert(offsetof(recoverssm_device_flag, op) == offsetof(DeviceFlag, op));
static_assert(offsetof(recoverssm_device_flag, layer) == offsetof(DeviceFlag, layer));
static_assert(offsetof(recoverssm_device_flag, row) == offsetof(DeviceFlag, row));
inline DeviceFlag* flag_of(const LaunchParts& parts) { return reinterpret_cast<DeviceFlag*>(parts.flag); }

template <class V>
void fields(V& v, recoverssm_cuda_device& c, cuda::Device& cpp) {
  v.text("name", c.name, cpp.name);
  v.text("unusable", c.unusable, cpp.unusable);
  RECOVERSSM_FIELD(memory_bytes);
  RECOVERSSM_FIELD(index);
  RECOVERSSM_FIELD(major);
  RECOVERSSM_FIELD(minor);
  RECOVERSSM_FIELD(multiprocessors);
}

// ---- sessions ----

template <class V>
void fields(V& v, recoverssm_layer_config& c, LayerConfig& cpp) {
  RECOVERSSM_FIELD(weight);
  RECOVERSSM_FIELD(bias);
  RECOVERSSM_FIELD(A_log);
  RECOVERSSM_FIELD(dt_bias);
  RECOVERSSM_FIELD(kind);
  RECOVERSSM_FIELD(group);
  RECOVERSSM_FIELD(H);
  RECOVERSSM_FIELD(HV);
  RECOVERSSM_FIELD(K);
  RECOVERSSM_FIELD(V);
  RECOVERSSM_FIELD(W);
  RECOVERSSM_FIELD(channels);
  RECOVERSSM_FIELD(dilation);
  RECOVERSSM_FIELD(activation);
  RECOVERSSM_FIELD(state);
  RECOVERSSM_FIELD(conv_activation);
  v.optional("lower_bound", c.has_lower_bound, c.lower_bound, cpp.lower_bound);
  v.optional("scale", c.has_scale, c.scale, cpp.scale);
  RECOVERSSM_FIELD(l2norm);
  RECOVERSSM_FIELD(softplus_beta);
  RECOVERSSM_FIELD(softplus_threshold);
  v.reserved(c.reserved);
}

template <class V>
void fields(V& v, recoverssm_group_config& c, GroupConfig& cpp) {
  RECOVERSSM_FIELD(blocks);
  v.optional("block_size", c.has_block_size, c.block_size, cpp.block_size);
  v.reserved(c.reserved);
}

template <class V>
void fields(V& v, recoverssm_session_config& c, SessionConfig& cpp) {
  v.list("layers", c.layers, c.layer_count, cpp.layers);
  v.list("groups", c.groups, c.group_count, cpp.groups);
  RECOVERSSM_FIELD(window_capacity);
  RECOVERSSM_FIELD(line_kind);
  RECOVERSSM_FIELD(lazy);
  RECOVERSSM_FIELD(null_block_id);
  RECOVERSSM_FIELD(kept_boundaries);
  RECOVERSSM_FIELD(backend);
  RECOVERSSM_FIELD(stream);
}

template <class V>
void fields(V& v, recoverssm_layer_pool& c, LayerPool& cpp) {
  RECOVERSSM_FIELD(line);
  RECOVERSSM_FIELD(state);
  RECOVERSSM_FIELD(pending);
  v.maybe("records", c.records, cpp.records);
}

// Layers and groups have arrays of their own: recoverssm_session_sizes.
template <class V>
void fields(V& v, recoverssm_session_memory& c, SessionSizes& cpp) {
  RECOVERSSM_FIELD(request);
  RECOVERSSM_FIELD(pools);
  RECOVERSSM_FIELD(checkpoint);
  RECOVERSSM_FIELD(blocks_per_request);
  v.reserved(c.reserved);
}

template <class V>
void fields(V& v, recoverssm_delta_inputs& c, DeltaInputs& cpp) {
  RECOVERSSM_FIELD(x);
  RECOVERSSM_FIELD(a);
  RECOVERSSM_FIELD(b);
  RECOVERSSM_FIELD(out);
}

template <class V>
void fields(V& v, recoverssm_short_conv_inputs& c, ShortConvInputs& cpp) {
  RECOVERSSM_FIELD(x);
  RECOVERSSM_FIELD(residual);
  RECOVERSSM_FIELD(outer_residual);
}

// Its blocks are an array of their own: recoverssm_session_blocks.
template <class V>
void fields(V& v, recoverssm_request_info& c, RequestInfo& cpp) {
  RECOVERSSM_FIELD(tokens);
  RECOVERSSM_FIELD(open_step);
  RECOVERSSM_FIELD(phase);
  RECOVERSSM_FIELD(waiting);
}

template <class V>
void fields(V& v, recoverssm_block_tag& c, BlockTag& cpp) {
  RECOVERSSM_FIELD(owner);
  RECOVERSSM_FIELD(tokens);
  RECOVERSSM_FIELD(step);
  RECOVERSSM_FIELD(references);
  v.reserved(c.reserved);
  v.text("layout", c.layout, cpp.layout);
}

// Its traffic is a struct of its own: recoverssm_session_counters.
template <class V>
void fields(V& v, recoverssm_session_counts& c, SessionCounters& cpp) {
  RECOVERSSM_FIELD(steps_opened);
  RECOVERSSM_FIELD(steps_committed);
  RECOVERSSM_FIELD(steps_abandoned);
  RECOVERSSM_FIELD(prefill_rows);
  RECOVERSSM_FIELD(decode_rows);
  RECOVERSSM_FIELD(window_rows);
  RECOVERSSM_FIELD(prefill_tokens);
  RECOVERSSM_FIELD(decode_tokens);
  RECOVERSSM_FIELD(verified_tokens);
  RECOVERSSM_FIELD(kept_tokens);
  RECOVERSSM_FIELD(library_calls);
  RECOVERSSM_FIELD(grouped_calls);
  RECOVERSSM_FIELD(per_group_calls);
  RECOVERSSM_FIELD(folded_rows);
  RECOVERSSM_FIELD(moved_rows);
  RECOVERSSM_FIELD(dead_rows);
  RECOVERSSM_FIELD(refused_calls);
  v.array("refused_by_kind", c.refused_by_kind, cpp.refused_by_kind);
  v.text("per_group_reason", c.per_group_reason, cpp.per_group_reason);
  v.text("last_refusal", c.last_refusal, cpp.last_refusal);
}

template <class V>
void fields(V& v, recoverssm_checkpoint_info& c, CheckpointInfo& cpp) {
  RECOVERSSM_FIELD(tokens);
  RECOVERSSM_FIELD(tag);
  RECOVERSSM_FIELD(owner);
  RECOVERSSM_FIELD(step);
  RECOVERSSM_FIELD(bytes);
  RECOVERSSM_FIELD(version);
  RECOVERSSM_FIELD(layers);
  v.text("layout", c.layout, cpp.layout);
}

#undef RECOVERSSM_FIELD

}  // namespace recoverssm::c_api
