// Host side of the delta kernels: Params to kernel arguments, and from sizes and dtypes to an instantiation. The instantiations are
// those of dispatch_delta, one list for every operation.
#pragma once

#include "arithmetic/gates.h"
#include "cuda/delta.cuh"
#include "cuda/launch.h"
#include "recoverssm/rows.hpp"

namespace recoverssm::cuda {

// Whether every row along the last dimension starts on a multiple of four elements.
inline bool rows_aligned(const TensorView& view) {
  const std::int64_t size = size_of(view.dtype);
  if (reinterpret_cast<std::uintptr_t>(view.data) % static_cast<std::uintptr_t>(4 * size) != 0) return false;
  for (int d = 0; d + 1 < view.dims; ++d) {
    if (view.stride[static_cast<std::size_t>(d)] % 4 != 0) return false;
  }
  return true;
}

inline bool state_aligned(const TensorView& state) { return rows_aligned(state) && state.shape[2] % 4 == 0; }

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
  args.H = static_cast<int>(inputs.q.shape[1]);
  args.K = static_cast<int>(inputs.q.shape[2]);
  args.HV = static_cast<int>(inputs.v.shape[1]);
  args.V = static_cast<int>(inputs.v.shape[2]);
  args.scale = inputs.scale.value_or(arithmetic::default_scale(args.K));
  args.vector_keys = rows_aligned(inputs.q) && rows_aligned(inputs.k);
  args.vector_values = rows_aligned(inputs.v) && args.V % 4 == 0;
  return args;
}

inline RecordArgs record_args(const Records& records) {
  return {view_of(records.packed), view_of(records.corrections), view_of(records.key_gate)};
}

inline std::int64_t local_tokens_of(const RuleInputs& in) {
  return min64(min64(min64(in.q.shape[0], in.k.shape[0]), min64(in.v.shape[0], in.a.shape[0])), in.b.shape[0]);
}

// As part_of_block reads it.
inline dim3 parts_grid(const DeltaCut& cut, const RuleArgs& rule, const RowsArgs& rows) {
  return {static_cast<unsigned>(cut.tiles), static_cast<unsigned>(rule.HV), static_cast<unsigned>(rows.rows)};
}

template <class State, int CHUNKS, int ROWS, bool WHOLE, bool KDA>
struct DeltaKernel {};  // a tag that names an instantiation

template <class State, bool KDA, class F>
void dispatch_tile(const DeltaTile& tile, F&& f) {
  if (tile == DeltaTile{2, 4, true}) return f(DeltaKernel<State, 2, 4, true, KDA>{});
  if (tile == DeltaTile{2, 1, true}) return f(DeltaKernel<State, 2, 1, true, KDA>{});
  if (tile == DeltaTile{4, 4, true}) return f(DeltaKernel<State, 4, 4, true, KDA>{});
  if (tile == DeltaTile{4, 1, true}) return f(DeltaKernel<State, 4, 1, true, KDA>{});
  if (tile == DeltaTile{8, 2, true}) return f(DeltaKernel<State, 8, 2, true, KDA>{});
  if (tile == DeltaTile{8, 1, true}) return f(DeltaKernel<State, 8, 1, true, KDA>{});
  if (tile == DeltaTile{4, 1, false}) return f(DeltaKernel<State, 4, 1, false, KDA>{});
  return f(DeltaKernel<State, 8, 1, false, KDA>{});
}

// Calls f with the instantiation's tag.
template <class F>
void dispatch_delta(const DeltaTile& tile, DType state, Gate gate, F&& f) {
  const bool kda = gate == Gate::kda;
  if (state == DType::f32) return kda ? dispatch_tile<float, true>(tile, f) : dispatch_tile<float, false>(tile, f);
  if (state == DType::bf16) return kda ? dispatch_tile<__nv_bfloat16, true>(tile, f) : dispatch_tile<__nv_bfloat16, false>(tile, f);
  return kda ? dispatch_tile<__half, true>(tile, f) : dispatch_tile<__half, false>(tile, f);
}

inline std::size_t shared_bytes(const DeltaTile& tile, const DeltaCut& cut, Gate gate) {
  return static_cast<std::size_t>(shared_floats(tile, cut.block_rows(tile), gate == Gate::kda, cut.token_chunk) * 4);
}

}  // namespace recoverssm::cuda
