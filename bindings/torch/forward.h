// The arguments of the operations that run a layer's tokens. Each struct is one overload: describe() names its arguments in the order of
// the schema, once for the schema's text (SchemaWriter) and once for reading a call (StackReader).
#pragma once

#include "api/words.h"
#include "recoverssm/recoverssm.hpp"

namespace recoverssm::torch_ops {

// A written argument that may be left out makes an overload of its own: the schema of each says what it writes, all of it required.

struct SplitProjections {
  static constexpr const char* kName = "split_projections";
  SplitProjectionsParams params;

  template <class A>
  void describe(A& a) {
    a.read("qkvz", params.qkvz);
    a.read("ba", params.ba);
    a.write("mixed_qkv", params.mixed_qkv);
    a.write("z", params.z);
    a.write("b", params.b);
    a.write("a", params.a);
    a.word("layout", kLayouts, params.layout);
    a.integer("num_k_heads", params.num_k_heads);
    a.integer("num_v_heads", params.num_v_heads);
    a.integer("head_k_dim", params.head_k_dim);
    a.integer("head_v_dim", params.head_v_dim);
    a.maybe("token_index", params.token_index);
  }
};

template <class A, class Params>
void describe_conv_tensors(A& a, Params& p, bool inplace) {
  if (inplace) {
    a.write("x", p.x);
    p.out = p.x;
  } else {
    a.read("x", p.x);
  }
  a.read("weight", p.weight);
  if (!inplace) a.write("out", p.out);
  a.write("line", p.line);
  a.read("query_start_loc", p.rows.query_start_loc);
  a.read("state_indices", p.rows.state_indices);
}

template <bool inplace>
struct CausalConv1d {
  static constexpr const char* kName = inplace ? "causal_conv1d.inplace" : "causal_conv1d";
  CausalConv1dParams params;

  template <class A>
  void describe(A& a) {
    describe_conv_tensors(a, params, inplace);
    a.maybe("bias", params.bias);
    a.optional_word("activation", kActivations, params.activation);
    a.maybe("has_initial_state", params.rows.has_initial_state);
    a.maybe("num_accepted", params.rows.num_accepted);
    a.word("line_kind", kLineKinds, params.line_kind, "rolled");
    a.maybe("token_index", params.rows.token_index);
    a.integer("null_block_id", params.rows.null_block_id, 0);
  }
};

template <bool inplace>
struct CausalConv1dWindow {
  static constexpr const char* kName = inplace ? "causal_conv1d_window.inplace" : "causal_conv1d_window";
  CausalConv1dWindowParams params;

  template <class A>
  void describe(A& a) {
    describe_conv_tensors(a, params, inplace);
    a.word("line_kind", kLineKinds, params.line_kind);
    a.integer("window_capacity", params.rows.window_capacity);
    a.maybe("bias", params.bias);
    a.optional_word("activation", kActivations, params.activation);
    a.maybe("num_accepted", params.rows.num_accepted);
    a.maybe("token_index", params.rows.token_index);
    a.integer("null_block_id", params.rows.null_block_id, 0);
  }
};

template <class A, class Params>
void describe_rule_tensors(A& a, Params& p) {
  a.read("q", p.inputs.q);
  a.read("k", p.inputs.k);
  a.read("v", p.inputs.v);
  a.read("a", p.inputs.a);
  a.read("b", p.inputs.b);
  a.read("A_log", p.inputs.A_log);
  a.read("dt_bias", p.inputs.dt_bias);
}

// What every delta rule takes after its own arguments; all have defaults.
template <class A, class Params>
void describe_rule_options(A& a, Params& p) {
  a.word("gate", kGates, p.inputs.gate, "gdn");
  a.optional_real("lower_bound", p.inputs.lower_bound);
  a.optional_real("scale", p.inputs.scale);
  a.flag("l2norm", p.inputs.l2norm, true);
  a.real("softplus_beta", p.inputs.softplus_beta, 1);
  a.real("softplus_threshold", p.inputs.softplus_threshold, 20);
  a.maybe("token_index", p.rows.token_index);
  a.integer("null_block_id", p.rows.null_block_id, 0);
}

template <bool lazy>
struct GatedDeltaRule {
  static constexpr const char* kName = lazy ? "gated_delta_rule.lazy" : "gated_delta_rule";
  GatedDeltaRuleParams params;

  template <class A>
  void describe(A& a) {
    describe_rule_tensors(a, params);
    a.write("state", params.state);
    a.write("out", params.out);
    if (lazy) a.write("pending", params.pending);
    a.read("query_start_loc", params.rows.query_start_loc);
    a.read("state_indices", params.rows.state_indices);
    a.maybe("has_initial_state", params.rows.has_initial_state);
    a.maybe("num_accepted", params.rows.num_accepted);
    a.maybe("records", params.records.packed);
    a.maybe("corrections", params.records.corrections);
    a.maybe("key_gate", params.records.key_gate);
    describe_rule_options(a, params);
  }
};

struct GatedDeltaRuleSnapshots {
  static constexpr const char* kName = "gated_delta_rule_snapshots";
  GatedDeltaRuleSnapshotsParams params;

  template <class A>
  void describe(A& a) {
    describe_rule_tensors(a, params);
    a.write("state", params.state);
    a.write("out", params.out);
    a.read("query_start_loc", params.rows.query_start_loc);
    a.read("state_indices", params.rows.state_indices);
    a.read("num_accepted", params.rows.num_accepted);
    describe_rule_options(a, params);
  }
};

// The state is declared as written in the lazy forms only: without pending the operation never writes it.
template <bool kda, bool lazy>
struct GatedDeltaRuleVerify {
  static constexpr const char* kName = kda ? (lazy ? "gated_delta_rule_verify.kda_lazy" : "gated_delta_rule_verify.kda")
                                           : (lazy ? "gated_delta_rule_verify.lazy" : "gated_delta_rule_verify");
  GatedDeltaRuleVerifyParams params;

  template <class A>
  void describe(A& a) {
    describe_rule_tensors(a, params);
    if (lazy) {
      a.write("state", params.state);
    } else {
      a.read("state", params.state);
    }
    a.write("out", params.out);
    if (kda) {
      a.write("corrections", params.records.corrections);
      a.write("key_gate", params.records.key_gate);
    } else {
      a.write("records", params.records.packed);
    }
    if (lazy) a.write("pending", params.pending);
    a.read("query_start_loc", params.rows.query_start_loc);
    a.read("state_indices", params.rows.state_indices);
    a.integer("window_capacity", params.rows.window_capacity);
    a.maybe("num_accepted", params.rows.num_accepted);
    describe_rule_options(a, params);
  }
};

struct ShortConv {
  static constexpr const char* kName = "short_conv";
  ShortConvParams params;

  template <class A>
  void describe(A& a) {
    a.read("x", params.x);
    a.read("weight", params.weight);
    a.write("residual", params.residual);
    a.write("line", params.line);
    a.read("query_start_loc", params.rows.query_start_loc);
    a.read("state_indices", params.rows.state_indices);
    a.integer("dilation", params.dilation);
    a.word("line_kind", kLineKinds, params.line_kind);
    a.integer("window_capacity", params.rows.window_capacity);
    a.maybe("outer_residual", params.outer_residual);
    a.maybe("has_initial_state", params.rows.has_initial_state);
    a.maybe("num_accepted", params.rows.num_accepted);
    a.maybe("token_index", params.rows.token_index);
    a.integer("null_block_id", params.rows.null_block_id, 0);
  }
};

}  // namespace recoverssm::torch_ops
