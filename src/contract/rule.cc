// gated_delta_rule, gated_delta_rule_snapshots, gated_delta_rule_verify: shapes, strides, dtypes, and which optional arguments go together.
#include "recoverssm/rule.hpp"

#include "contract/overlap.h"
#include "contract/rows.h"
#include "contract/rule_inputs.h"

namespace recoverssm {
namespace {

// What the three operations have in common: inputs, state, out, rows.
template <class Params>
HeadSizes check_rule(Check& check, const Params& p, RowsKind kind) {
  const HeadSizes s = check_rule_inputs(check, p.inputs);
  check_state(check, "state", p.state, {"HV", s.HV}, {"V", s.V}, {"K", s.K});
  check_head_rows(check, "out", p.out, T_or_f32(p.inputs.q.dtype), any("m"), s.HV, s.V);
  check_rows(check, "", p.rows, kind);
  return s;
}

void check_rule_overlap(Check& check, const RuleInputs& in, const Rows& rows, const TensorView& out, const Operand& state,
                        const Operand& packed = {}, const Operand& corrections = {}, const Operand& key_gate = {},
                        const TensorView& pending = {}) {
  check_overlap(check, {{"q", &in.q},
                        {"k", &in.k},
                        {"v", &in.v},
                        {"a", &in.a},
                        {"b", &in.b},
                        {"A_log", &in.A_log},
                        {"dt_bias", &in.dt_bias},
                        state,
                        {"out", &out, true},
                        packed,
                        corrections,
                        key_gate,
                        {"pending", &pending, true},
                        {"query_start_loc", &rows.query_start_loc},
                        {"state_indices", &rows.state_indices},
                        {"has_initial_state", &rows.has_initial_state},
                        {"num_accepted", &rows.num_accepted},
                        {"token_index", &rows.token_index}});
}

}  // namespace

Status validate(const GatedDeltaRuleParams& p) {
  Check check("gated_delta_rule");
  const HeadSizes s = check_rule(check, p, RowsKind::plain);
  if (p.pending.present()) {
    check.required("num_accepted", p.rows.num_accepted, "[N] of i32 beside pending: it says how many waiting records are kept");
    check_pending(check, "pending", p.pending, p.state.shape[0]);
    check_records(check, "records", p.records, p.inputs.gate, p.inputs.q.dtype,
                  {p.state.shape[0], s.HV, s.V, s.K, at_least("S", 1)});
  } else {
    check.absent("num_accepted", p.rows.num_accepted, "none without pending");
    if (check.ok() && p.records.present()) check.invalid("records", "given", "none without pending");
  }
  check_rule_overlap(check, p.inputs, p.rows, p.out, {"state", &p.state, true}, {"records", &p.records.packed},
                     {"records.corrections", &p.records.corrections}, {"records.key_gate", &p.records.key_gate}, p.pending);
  return check.take();
}

Status validate(const GatedDeltaRuleSnapshotsParams& p) {
  Check check("gated_delta_rule_snapshots");
  check_rule(check, p, RowsKind::snapshots);
  check_rule_overlap(check, p.inputs, p.rows, p.out, {"state", &p.state, true});
  return check.take();
}

Status validate(const GatedDeltaRuleVerifyParams& p) {
  Check check("gated_delta_rule_verify");
  const HeadSizes s = check_rule(check, p, RowsKind::windows);
  check_records(check, "records", p.records, p.inputs.gate, p.inputs.q.dtype,
                {p.state.shape[0], s.HV, s.V, s.K, {"window_capacity", p.rows.window_capacity}});
  const bool lazy = p.pending.present();
  if (lazy) {
    check_pending(check, "pending", p.pending, p.state.shape[0]);
    check.required("num_accepted", p.rows.num_accepted, "[N] of i32 beside pending: the counts of the previous window");
  } else {
    check.absent("num_accepted", p.rows.num_accepted, "none without pending");
  }
  check_rule_overlap(check, p.inputs, p.rows, p.out, {"state", &p.state, lazy}, {"records", &p.records.packed, true},
                     {"records.corrections", &p.records.corrections, true}, {"records.key_gate", &p.records.key_gate, true},
                     p.pending);
  return check.take();
}

}  // namespace recoverssm
