// The tokens of one value head, widened and prepared once for all state rows of the head: normalised key and query, their dot, decay
// and beta. verify, the plain rule and snapshots prepare them from the inputs, replay from records.
#pragma once

#include <cstdint>
#include <optional>

#include "cpu/execution.h"
#include "cpu/kernels.h"
#include "recoverssm/rows.hpp"

namespace recoverssm::cpu {

// Tokens prepared at once. A longer row runs in chunks with its state kept in fp32 between them, which changes no bit.
constexpr int kTokenChunk = 16;

struct RuleShape {
  int H = 0, HV = 0, K = 0, V = 0;
  int k_stride = 0;  // padded_k(K)
  int v_stride = 0;  // V rounded up to whole groups of kStateRows
  float scale = 0;
};

RuleShape shape_of(const RuleInputs& inputs);

// How keys and raw gate inputs become k^ and d: what verify and commit must agree on.
struct GateRule {
  Gate gate = Gate::gdn;
  TensorView A_log;
  TensorView dt_bias;
  std::optional<float> lower_bound;
  bool l2norm = true;
  float softplus_beta = 1;
  float softplus_threshold = 20;
};

GateRule gate_rule_of(const RuleInputs& inputs);
GateRule gate_rule_of(const Layer& layer);

// Scratch of one worker for `tokens` tokens of a head.
struct HeadScratch {
  float* k = nullptr;           // [tokens][k_stride]
  float* q = nullptr;           // [tokens][k_stride]
  float* decay = nullptr;       // gdn [tokens]; kda [tokens][k_stride]
  float* k_dot_q = nullptr;     // [tokens]
  float* beta = nullptr;        // [tokens]
  float* gate_input = nullptr;  // [tokens] or [k_stride]: widened a and b
  float* dt_bias = nullptr;     // kda [k_stride]
  float* v = nullptr;           // [tokens][v_stride]
  float* correction = nullptr;  // [tokens][v_stride]
  float* out = nullptr;         // [tokens][v_stride]
  // Whose keys and queries k, q and k_dot_q hold: value heads of one key head share them, and a worker mostly takes neighbours.
  std::int64_t* keys_of = nullptr;  // [1]: first token * H + key head; kNoKeys: nobody's
};

constexpr std::int64_t kNoKeys = -1;

// replay: only what records give (k, decay, correction).
HeadScratch carve_head(Carver& carver, const RuleShape& shape, Gate gate, std::int64_t tokens, bool replay);

// Tokens first .. first+count-1 (local) of value head `head`; fills scratch.v as well.
HeadTokens prepare_inputs(const Kernels& kernels, const RuleInputs& inputs, const RuleShape& shape, std::int64_t head,
                          std::int64_t first, int count, const HeadScratch& scratch);

// Records 0..count-1 of value head `head` in `block`; fills scratch.correction as well. `shape` needs K, V and the strides.
HeadTokens prepare_records(const Kernels& kernels, const GateRule& rule, const Records& records, const RuleShape& shape,
                           std::int64_t block, std::int64_t head, int count, const HeadScratch& scratch);

// Writes record t of a window: correction [V] as computed, and what commit needs to repeat k^ and d. `token` is the local token,
// `index` its place in `tokens` and in scratch.
void write_record(const RuleInputs& inputs, const Records& records, const RuleShape& shape, std::int64_t block, std::int64_t head,
                  std::int64_t position, std::int64_t token, const HeadTokens& tokens, int index, const float* correction);

// Asks for the records that write_record will write, positions 0..count-1, and for what prepare_inputs will read of `head`'s values.
void prefetch_records(const Records& records, Gate gate, std::int64_t block, std::int64_t head, std::int64_t count);
void prefetch_values(const RuleInputs& inputs, std::int64_t head, std::int64_t first, std::int64_t count);

// State rows from `first` on of one head.
StateTile tile_of(const TensorView& state, std::int64_t block, std::int64_t head, int first);

}  // namespace recoverssm::cpu
