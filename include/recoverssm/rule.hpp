// The gated delta rule: plain rows, windows with a state per token (snapshots), windows with records (verify).
// Source: docs/operations.md#gated_delta_rule, #gated_delta_rule_snapshots, #gated_delta_rule_verify
#pragma once

#include "recoverssm/rows.hpp"

namespace recoverssm {

// Plain rows: prefill or decode. Reads the row's block (or starts from zero), writes the final state back to it.
struct GatedDeltaRuleParams {
  RuleInputs inputs{};
  TensorView state{};    // [blocks, HV, V, K] f32, bf16 or f16; inner part contiguous, block stride free
  TensorView out{};      // [m, HV, V] T or f32, written at global rows; V contiguous
  Rows rows{};           // num_accepted: only with pending
  TensorView pending{};  // optional [blocks] int32, with rows.num_accepted and records: min(num_accepted, pending) waiting records
                         // are folded into a row's start state first; every row leaves pending 0
  Records records{};     // read only
};

// Windows, one state a token: starts from column max(num_accepted-1, 0) of the row's state_indices, stores the state after token t
// to column t. A column id <= null is not written; a start id <= null makes a null row.
struct GatedDeltaRuleSnapshotsParams {
  RuleInputs inputs{};
  TensorView state{};  // [blocks, HV, V, K] f32, bf16 or f16
  TensorView out{};    // [m, HV, V] T or f32, written at global rows
  Rows rows{};         // state_indices [N, S]; num_accepted required; window_capacity 0 or S
};

// Windows, with records: the state is read and left alone (without pending), records of positions t < L are written.
// With pending (lazy form): min(num_accepted, pending[b]) waiting records are folded into the state first, which is written back
// once; the window's records replace the old ones; pending[b] = L.
struct GatedDeltaRuleVerifyParams {
  RuleInputs inputs{};
  TensorView state{};    // [blocks, HV, V, K] f32, bf16 or f16
  TensorView out{};      // [m, HV, V] T or f32, written at global rows
  Records records{};     // written
  Rows rows{};           // num_accepted: required with pending (it counts the previous window), rejected without
  TensorView pending{};  // optional [blocks] int32
};

Status validate(const GatedDeltaRuleParams& params);
Support query_support(const GatedDeltaRuleParams& params, Backend backend = Backend::cpu);
std::size_t workspace_size(const GatedDeltaRuleParams& params, const Launch& launch);
Status run(const GatedDeltaRuleParams& params, const Launch& launch) noexcept;

Status validate(const GatedDeltaRuleSnapshotsParams& params);
Support query_support(const GatedDeltaRuleSnapshotsParams& params, Backend backend = Backend::cpu);
std::size_t workspace_size(const GatedDeltaRuleSnapshotsParams& params, const Launch& launch);
Status run(const GatedDeltaRuleSnapshotsParams& params, const Launch& launch) noexcept;

Status validate(const GatedDeltaRuleVerifyParams& params);
Support query_support(const GatedDeltaRuleVerifyParams& params, Backend backend = Backend::cpu);
std::size_t workspace_size(const GatedDeltaRuleVerifyParams& params, const Launch& launch);
Status run(const GatedDeltaRuleVerifyParams& params, const Launch& launch) noexcept;

}  // namespace recoverssm
