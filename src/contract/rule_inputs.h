// Shape rules that the delta rules, commit and gdn_attention share: rule inputs, states, records, pending counts, outputs.
#pragma once

#include <cstdint>

#include "contract/check.h"
#include "recoverssm/rows.hpp"

namespace recoverssm {

struct HeadSizes {
  std::int64_t H = 0, HV = 0, K = 0, V = 0;
};

// HV is a positive multiple of H.
void check_head_counts(Check& check, const Name& name, std::int64_t HV, std::int64_t H);

// q, k, v, gate inputs and scalars. The sizes mean something only if the check still holds.
HeadSizes check_rule_inputs(Check& check, const RuleInputs& inputs);

// Gate parameters. `owner` prefixes the names: "" or a layer.
struct GateParameters {
  Gate gate;
  const TensorView& A_log;
  const TensorView& dt_bias;
  const std::optional<float>& lower_bound;
  float softplus_beta;
  float softplus_threshold;
};
void check_gate(Check& check, const Name& owner, Gate gate);
void check_gate_scalars(Check& check, const Name& owner, const GateParameters& p);
void check_gate_tensors(Check& check, const Name& owner, const GateParameters& p, DTypes dtypes, std::int64_t HV, std::int64_t K);

// [blocks, HV, V, K]: the inner part contiguous, the block stride free.
void check_state(Check& check, const Name& name, const TensorView& state, const Dim& HV, const Dim& V, const Dim& K);

// [m, HV, V], V contiguous.
void check_head_rows(Check& check, const Name& name, const TensorView& view, DTypes dtypes, const Dim& rows, std::int64_t HV,
                     std::int64_t V);

// Records in the gate's layout, for a state of these sizes. `activation`: dtypes of kda's key_gate.
struct RecordSizes {
  std::int64_t blocks, HV, V, K;
  Dim S;
};
void check_records(Check& check, const Name& name, const Records& records, Gate gate, DTypes activation, const RecordSizes& sizes);

void check_pending(Check& check, const Name& name, const TensorView& pending, std::int64_t blocks);

}  // namespace recoverssm
