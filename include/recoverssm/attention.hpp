// gdn_attention: one GDN layer of a mixed step, from packed projections to the delta rule's output. Source:
// docs/operations.md#gdn_attention
#pragma once

#include <optional>

#include "recoverssm/rows.hpp"

namespace recoverssm {

// Plain rows of the step. num_accepted, pending and records as in causal_conv1d and gated_delta_rule.
struct AttentionPlainPart {
  Rows rows{};
  TensorView pending{};  // optional [blocks] int32; absent, with records absent too: the window part's
  Records records{};
};

enum class WindowMode : std::uint8_t { snapshots, verify };

// Windows of the step: snapshots ([N, S] state_indices, num_accepted required) or verify ([N] state_indices, records; lazy with
// pending and num_accepted).
struct AttentionWindowPart {
  WindowMode mode = WindowMode::verify;
  Rows rows{};
  TensorView pending{};
  Records records{};
};

struct GdnAttentionParams {
  TensorView qkvz{};  // [n, 2*H*K + 2*HV*V] T
  TensorView ba{};    // [n, 2*HV] T
  Layout layout = Layout::interleaved;
  std::int32_t num_k_heads = 0;
  std::int32_t num_v_heads = 0;
  std::int32_t head_k_dim = 0;
  std::int32_t head_v_dim = 0;
  TensorView weight{};  // [C, W] T or f32
  TensorView bias{};    // optional [C] T or f32
  Activation activation = Activation::none;
  TensorView A_log{};    // [HV] T or f32
  TensorView dt_bias{};  // [HV] T or f32
  std::optional<float> scale{};
  bool l2norm = true;
  float softplus_beta = 1.0F;
  float softplus_threshold = 20.0F;
  TensorView line{};  // [blocks, cols, C] T
  LineKind line_kind = LineKind::rolled;
  TensorView state{};  // [blocks, HV, V, K]
  TensorView out{};    // [m, HV, V] T or f32, written at global rows
  TensorView z{};      // [n, HV, V] T, written at global rows, for the tokens of all rows
  std::optional<AttentionPlainPart> plain{};
  std::optional<AttentionWindowPart> windows{};
  std::int32_t null_block_id = 0;  // of both parts; the parts' own rows.null_block_id is not read
};

Status validate(const GdnAttentionParams& params);
Support query_support(const GdnAttentionParams& params, Backend backend = Backend::cpu);
std::size_t workspace_size(const GdnAttentionParams& params, const Launch& launch);
Status run(const GdnAttentionParams& params, const Launch& launch) noexcept;

}  // namespace recoverssm
