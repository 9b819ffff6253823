#include "contract/rule_inputs.h"

#include <cmath>

#include "contract/rows.h"

namespace recoverssm {

void check_head_counts(Check& check, const Name& name, std::int64_t HV, std::int64_t H) {
  if (!check.ok() || (H > 0 && HV > 0 && HV % H == 0)) return;
  check.invalid(name, text("HV = ", HV, " value heads"), text("a positive multiple of H = ", H));
}

HeadSizes check_rule_inputs(Check& check, const RuleInputs& in) {
  const Dim n = any("n");
  check_gate(check, "", in.gate);
  check.view("q", in.q, kFloats, {n, at_least("H", 1), at_least("K", 1)});
  if (!check.ok()) return {};
  const DType T = in.q.dtype;
  const std::int64_t H = in.q.shape[1], K = in.q.shape[2];
  check.view("k", in.k, T, {n, {"H", H}, {"K", K}});
  check.view("v", in.v, T, {n, at_least("HV", 1), at_least("V", 1)});
  if (!check.ok()) return {};
  const std::int64_t HV = in.v.shape[1], V = in.v.shape[2];
  check_head_counts(check, "v", HV, H);
  for (const auto& [name, view] : {std::pair<const char*, const TensorView*>{"q", &in.q}, {"k", &in.k}, {"v", &in.v}}) {
    check.contiguous_last(name, *view);
  }
  if (in.gate == Gate::gdn) {
    check.view("a", in.a, T, {n, {"HV", HV}});
  } else {
    check.view("a", in.a, T, {n, {"HV", HV}, {"K", K}});
    check.contiguous_last("a", in.a);
  }
  check.view("b", in.b, T, {n, {"HV", HV}});
  const GateParameters gate{in.gate, in.A_log, in.dt_bias, in.lower_bound, in.softplus_beta, in.softplus_threshold};
  check_gate_tensors(check, "", gate, T_or_f32(T), HV, K);
  check_gate_scalars(check, "", gate);
  if (in.scale) check.finite("scale", *in.scale);
  return {H, HV, K, V};
}

void check_gate(Check& check, const Name& owner, Gate gate) {
  check.one_of(owner.dot("gate"), gate, {Gate::gdn, Gate::kda}, "gdn or kda");
}

void check_gate_scalars(Check& check, const Name& owner, const GateParameters& p) {
  check.positive(owner.dot("softplus_beta"), p.softplus_beta);
  check.finite(owner.dot("softplus_threshold"), p.softplus_threshold);
  if (!check.ok() || !p.lower_bound) return;
  const float bound = *p.lower_bound;
  if (p.gate == Gate::gdn) return check.invalid(owner.dot("lower_bound"), text(bound), "none: only the kda gate has a lower bound");
  if (!(std::isfinite(bound) && bound < 0)) check.invalid(owner.dot("lower_bound"), text(bound), "a finite number < 0");
}

void check_gate_tensors(Check& check, const Name& owner, const GateParameters& p, DTypes dtypes, std::int64_t HV, std::int64_t K) {
  check.view(owner.dot("A_log"), p.A_log, dtypes, {{"HV", HV}});
  if (p.gate == Gate::gdn) {
    check.view(owner.dot("dt_bias"), p.dt_bias, dtypes, {{"HV", HV}});
  } else {
    check.view(owner.dot("dt_bias"), p.dt_bias, dtypes, {{"HV", HV}, {"K", K}});
  }
}

void check_state(Check& check, const Name& name, const TensorView& state, const Dim& HV, const Dim& V, const Dim& K) {
  check.view(name, state, kFloats, {any("blocks"), HV, V, K});
  if (!check.ok()) return;
  check.stride(name, state, 3, {"", 1});
  check.stride(name, state, 2, {"K", state.shape[3]});
  check.stride(name, state, 1, {"V*K", state.shape[2] * state.shape[3]});
}

void check_head_rows(Check& check, const Name& name, const TensorView& view, DTypes dtypes, const Dim& rows, std::int64_t HV,
                     std::int64_t V) {
  check.view(name, view, dtypes, {rows, {"HV", HV}, {"V", V}});
  check.contiguous_last(name, view);
}

void check_records(Check& check, const Name& name, const Records& records, Gate gate, DTypes activation, const RecordSizes& sizes) {
  if (!check.ok()) return;
  const Dim blocks{"blocks", sizes.blocks}, HV{"HV", sizes.HV};
  if (gate == Gate::gdn) {
    if (records.corrections.present() || records.key_gate.present()) {
      return check.invalid(name, "corrections and key_gate", "one tensor [blocks, HV, S, V+K+1]: the gate is gdn");
    }
    check.view(name, records.packed, DType::f32, {blocks, HV, sizes.S, {"V+K+1", plus(plus(sizes.V, sizes.K), 1)}});
    check.contiguous_last(name, records.packed);
    return;
  }
  if (records.packed.present()) return check.invalid(name, "one tensor", "corrections and key_gate: the gate is kda");
  check.view(name.dot("corrections"), records.corrections, DType::f32, {blocks, HV, sizes.S, {"V", sizes.V}});
  check.contiguous_last(name.dot("corrections"), records.corrections);
  if (!check.ok()) return;
  const Dim S{sizes.S.what, records.corrections.shape[2]};
  check.view(name.dot("key_gate"), records.key_gate, activation, {blocks, HV, S, {"2*K", times(2, sizes.K)}});
  check.contiguous_last(name.dot("key_gate"), records.key_gate);
}

void check_pending(Check& check, const Name& name, const TensorView& pending, std::int64_t blocks) {
  check_indices(check, name, pending, {"blocks", blocks});
}

}  // namespace recoverssm
