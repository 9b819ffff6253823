// What several operations share: rows of tokens, rule inputs, records, layers.
#pragma once

#include <cstdint>
#include <optional>

#include "recoverssm/types.hpp"

namespace recoverssm {

// gdn: one decay a value head. kda: one decay a key channel.
enum class Gate : std::uint8_t { gdn, kda };

// How a block's conv line holds its history (docs/operations.md, "Conv lines").
//   plain     short_conv only: history, nothing beside it
//   rolled    history, then the window's inputs; every window moves the history, so a window cannot be undone
//   anchored  history stays at the front, the window's inputs follow it; a window can be repeated or dropped
enum class LineKind : std::uint8_t { plain, rolled, anchored };

enum class Activation : std::uint8_t { none, silu };

// Packed projection rows. interleaved: per q/k head [q K | k K | v r*V | z r*V] and [b r | a r], r = HV/H.
// flat: [q H*K | k H*K | v HV*V | z HV*V] and [b HV | a HV].
enum class Layout : std::uint8_t { interleaved, flat };

// The rows of one call. Row i owns the op's local tokens query_start_loc[i] .. query_start_loc[i+1]-1; tokens outside every row are
// left alone. A row whose block id is <= null_block_id is a null row: its outputs become 0 and nothing else is touched. Of a row
// without tokens only the offsets are read.
struct Rows {
  TensorView query_start_loc{};      // [N+1] int32, not decreasing; the first may be > 0
  TensorView state_indices{};        // [N] int32, one block a row, any stride; snapshots: [N, S], one block a token
  TensorView has_initial_state{};    // optional [N] boolean, plain rows only: false starts from zero. Absent: all true
  TensorView num_accepted{};         // optional [N] int32; the op says what it selects
  TensorView token_index{};          // optional int32: local token -> row of the globally addressed tensors. Absent: identity
  std::int32_t window_capacity = 0;  // S: the most tokens of a window; ignored by plain ops
  std::int32_t null_block_id = 0;
};

// Inputs of the delta rules, addressed by local token. T is q's dtype: f32, bf16 or f16. HV is a positive multiple of H; value head
// j reads q/k head j / (HV/H). Token strides are free, a head's K or V elements are contiguous.
struct RuleInputs {
  Gate gate = Gate::gdn;
  TensorView q{};                      // [n, H, K] T, K <= 256
  TensorView k{};                      // [n, H, K] T
  TensorView v{};                      // [n, HV, V] T
  TensorView a{};                      // gdn: [n, HV] T; kda: [n, HV, K] T, the raw gate
  TensorView b{};                      // [n, HV] T
  TensorView A_log{};                  // [HV] T or f32, used unrounded
  TensorView dt_bias{};                // gdn: [HV]; kda: [HV, K]; T or f32, used unrounded
  std::optional<float> lower_bound{};  // kda only, < 0: selects the bounded gate
  std::optional<float> scale{};        // multiplies the normalised query; default fp32(1/sqrt(double(K)))
  bool l2norm = true;
  float softplus_beta = 1.0F;
  float softplus_threshold = 20.0F;
};

// What verify stores per token so that commit can replay it. The gate names the layout (its id travels with exported state):
//   gdn, layout id "gdn_f32": packed = [blocks, HV, S, V+K+1] f32: correction (V), normalised key (K), decay (1). Last stride 1, the
//        other three free.
//   kda, layout id "kda_act": corrections [blocks, HV, S, V] f32 and key_gate [blocks, HV, S, 2K] in T: raw key | raw gate input;
//        last stride 1, the other three free.
struct Records {
  TensorView packed{};
  TensorView corrections{};
  TensorView key_gate{};

  bool present() const { return packed.present() || corrections.present() || key_gate.present(); }
};

const char* record_layout_id(Gate gate);  // "gdn_f32", "kda_act"

// One layer of commit, materialize or align_move: a state with records, a conv line, or both. A short-conv layer has no state and
// no records, and conv_taps = (Kc-1)*dilation + 1.
struct Layer {
  std::int32_t group = 0;  // index into commit's groups; ignored by materialize and align_move
  TensorView line{};       // optional [blocks, cols, C] T, any strides
  LineKind line_kind = LineKind::rolled;
  std::int32_t conv_taps = 0;  // W; history is W-1 positions. Read where there is a line
  TensorView state{};          // optional [blocks, HV, V, K] f32, bf16 or f16; inner part contiguous, block stride free
  Records records{};           // present with state (align_move: optional, not read)
  TensorView pending{};        // optional [blocks] int32: how many records wait in a block (lazy form)
  Gate gate = Gate::gdn;
  TensorView A_log{};    // kda: [HV], dtype of key_gate or f32
  TensorView dt_bias{};  // kda: [HV, K], dtype of key_gate or f32
  std::optional<float> lower_bound{};
  bool l2norm = true;
  float softplus_beta = 1.0F;
  float softplus_threshold = 20.0F;
};

}  // namespace recoverssm
