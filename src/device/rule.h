// Inputs of the delta rules in kernels, and the gates of a token from them.
#pragma once

#include <cstdint>

#include "arithmetic/gates.h"
#include "contract/rules.h"
#include "device/view.h"
#include "recoverssm/rows.hpp"

namespace recoverssm::device {

// How keys and raw gate inputs become k^ and d: what verify and commit must agree on.
struct GateArgs {
  View A_log, dt_bias;
  float lower_bound = 0;
  float softplus_beta = 1;
  float softplus_threshold = 20;
  bool bounded = false;
  bool l2norm = true;
};

struct RuleArgs {
  View q, k, v, a, b;
  GateArgs gate;
  float scale = 0;
  std::int32_t H = 0, HV = 0, K = 0, V = 0;
};

struct RecordArgs {
  View packed, corrections, key_gate;
};

inline RuleArgs rule_args(const RuleInputs& inputs) {
  RuleArgs args;
  args.q = view_of(inputs.q);
  args.k = view_of(inputs.k);
  args.v = view_of(inputs.v);
  args.a = view_of(inputs.a);
  args.b = view_of(inputs.b);
  args.gate.A_log = view_of(inputs.A_log);
  args.gate.dt_bias = view_of(inputs.dt_bias);
  args.gate.bounded = inputs.lower_bound.has_value();
  args.gate.lower_bound = inputs.lower_bound.value_or(0.0F);
  args.gate.softplus_beta = inputs.softplus_beta;
  args.gate.softplus_threshold = inputs.softplus_threshold;
  args.gate.l2norm = inputs.l2norm;
  args.H = static_cast<std::int32_t>(inputs.q.shape[1]);
  args.K = static_cast<std::int32_t>(inputs.q.shape[2]);
  args.HV = static_cast<std::int32_t>(inputs.v.shape[1]);
  args.V = static_cast<std::int32_t>(inputs.v.shape[2]);
  args.scale = inputs.scale.value_or(arithmetic::default_scale(args.K));
  return args;
}

inline RecordArgs record_args(const Records& records) {
  return {view_of(records.packed), view_of(records.corrections), view_of(records.key_gate)};
}

inline std::int64_t local_tokens_of(const RuleInputs& in) {
  return min64(min64(min64(in.q.shape[0], in.k.shape[0]), min64(in.v.shape[0], in.a.shape[0])), in.b.shape[0]);
}

RSSM_HOST_DEVICE float gdn_decay_of(const GateArgs& gate, float a, std::int64_t head) {
  const float dt_bias = load_float(at(gate.dt_bias, head), gate.dt_bias.dtype);
  const float A_log = load_float(at(gate.A_log, head), gate.A_log.dtype);
  return arithmetic::gdn_decay(a, dt_bias, A_log, gate.softplus_beta, gate.softplus_threshold);
}

RSSM_HOST_DEVICE float kda_decay_of(const GateArgs& gate, float exp_A_log, float raw, std::int64_t head, std::int64_t k) {
  const float y = raw + load_float(at(gate.dt_bias, head, k), gate.dt_bias.dtype);
  return gate.bounded ? arithmetic::kda_decay_bounded(y, exp_A_log, gate.lower_bound)
                      : arithmetic::kda_decay(y, exp_A_log, gate.softplus_beta, gate.softplus_threshold);
}

RSSM_HOST_DEVICE float exp_A_log_of(const GateArgs& gate, std::int64_t head) {
  return arithmetic::exp_f32(load_float(at(gate.A_log, head), gate.A_log.dtype));
}

}  // namespace recoverssm::device
