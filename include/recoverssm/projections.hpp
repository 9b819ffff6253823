// split_projections: packed projection rows to the tensors the other operations take. Moves bits, no arithmetic.
// Source: docs/operations.md#split_projections
#pragma once

#include "recoverssm/rows.hpp"

namespace recoverssm {

struct SplitProjectionsParams {
  TensorView qkvz{};  // [n, 2*H*K + 2*HV*V] T, read at global rows
  TensorView ba{};    // [n, 2*HV] T, read at global rows
  Layout layout = Layout::interleaved;
  std::int32_t num_k_heads = 0;  // H
  std::int32_t num_v_heads = 0;  // HV, a positive multiple of H
  std::int32_t head_k_dim = 0;   // K
  std::int32_t head_v_dim = 0;   // V
  TensorView mixed_qkv{};        // [m, C] T, C = 2*H*K + HV*V in the order q, k, v; written at local rows
  TensorView z{};                // [n, HV, V] T, written at global rows
  TensorView b{};                // [m, HV] T, written at local rows
  TensorView a{};                // [m, HV] T, written at local rows
  TensorView token_index{};      // optional [tokens] int32: local token -> global row. Absent: all n rows
};

Status validate(const SplitProjectionsParams& params);
Support query_support(const SplitProjectionsParams& params, Backend backend = Backend::cpu);
std::size_t workspace_size(const SplitProjectionsParams& params, const Launch& launch);
Status run(const SplitProjectionsParams& params, const Launch& launch) noexcept;

}  // namespace recoverssm
