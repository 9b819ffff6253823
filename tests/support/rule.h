// Delta-rule calls: random shapes, weights, token inputs and pools, and their values as the reference wants them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "recoverssm/commit.hpp"
#include "recoverssm/rule.hpp"
#include "reference/reference.h"
#include "support/rows.h"

namespace support {

using recoverssm::Gate;

struct RuleShape {
  Gate gate = Gate::gdn;
  int H = 1, HV = 1, K = 4, V = 4;
  DType T = DType::f32;
  DType state = DType::f32;
  DType out = DType::f32;      // T or f32
  DType A_log = DType::f32;    // T or f32
  DType dt_bias = DType::f32;  // T or f32
  bool l2norm = true;
  std::optional<float> lower_bound = std::nullopt;
  std::optional<float> scale = std::nullopt;
  float softplus_beta = 1.0F, softplus_threshold = 20.0F;

  bool kda() const { return gate == Gate::kda; }
  std::string text() const;
};

// K of 1..256 (odd sizes, sizes around multiples of 32), V of 1..40, HV/H of 1..3, all dtypes.
RuleShape random_rule_shape(Pick& pick);

struct RuleWeights {
  Tensor A_log, dt_bias;
};
RuleWeights random_weights(Pick& pick, const RuleShape& shape);

// Inputs of `count` local tokens. q, k and v may be slices of one row, a and b of another.
struct RuleTokens {
  int count = 0;
  Tensor q, k, v, a, b;
};
RuleTokens random_tokens(Pick& pick, const RuleShape& shape, int count);
// The tokens named by `which` (bits) in another layout, as tokens first..first+which.size()-1 of `count`; the rest is never initialised.
RuleTokens gather(Pick& pick, const RuleShape& shape, const RuleTokens& tokens, const std::vector<int>& which, int first,
                  int count);

// Blocks of one layer. Every block holds a state; records are filled with the guard pattern (NaN); pending is 0.
struct RulePool {
  int blocks = 0;
  int capacity = 0;  // S of the records; 0: none
  Tensor state, packed, corrections, key_gate, pending;

  recoverssm::Records records() const { return {packed, corrections, key_gate}; }
  std::vector<Untouched::Watch> watches() const;
  // The parts of block b's records that belong to tokens first..last-1.
  std::vector<TensorView> record_slices(int block, int first, int last) const;
};
RulePool random_pool(Pick& pick, const RuleShape& shape, int blocks, int capacity);
// The same contents, pending included, in another layout.
RulePool another_pool(Pick& pick, const RulePool& pool);
// Copies the contents of one block (state, records, pending) between pools of one shape.
void copy_block(const RulePool& from, int from_block, const RulePool& to, int to_block);

// [rows, HV, V], filled with NaN.
Tensor random_out(Pick& pick, const RuleShape& shape, int rows);

recoverssm::RuleInputs inputs_of(const RuleShape& shape, const RuleWeights& weights, const RuleTokens& tokens);
recoverssm::Layer layer_of(const RuleShape& shape, const RuleWeights& weights, const RulePool& pool, bool with_pending = false);

// ---- for the reference -----------------------------------------------------------------------------------------------------------

reference::Head head_of(const RuleShape& shape, const RuleWeights& weights, int head);
reference::Token token_of(const RuleShape& shape, const RuleTokens& tokens, int token, int head);
reference::Matrix matrix_of(const Tensor& state, int block, int head);

// |got - expected| <= absolute + relative*|expected| + half an ulp of the dtype it was stored in.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
};
::testing::AssertionResult near(double got, double expected, DType stored, Tolerance tolerance);

// Tolerance of a delta-rule value. fp32 keeps 2^-24 = 6e-8 a rounding; a value is a sum of up to 256 products of numbers of size 1, in
// dots of 8 + 5 rounded additions a leaf, and rounding errors of earlier tokens decay or stay, they do not grow: 1e-5 holds for
// some fifty tokens with room of about ten.
constexpr Tolerance kRuleTolerance{2e-5, 2e-5};

}  // namespace support
