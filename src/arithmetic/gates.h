// Gates, activation and norm: which operations, in which order. Every line is part of the contract; a rearrangement that is equal
// on paper changes bits.
#pragma once

#include "arithmetic/exp_log.h"
#include "arithmetic/portable.h"

namespace recoverssm::arithmetic {

// Added to the sum of squares, inside the root.
constexpr float kNormEpsilon = 1e-6f;

RSSM_HOST_DEVICE float sigmoid(float x) { return divide(1.0f, 1.0f + exp_f32(-x)); }

// x / (1 + exp(-x)). At -infinity this is -inf/inf = NaN, as the formula says; from about -88.7 down to it the result is -0.
RSSM_HOST_DEVICE float silu(float x) { return divide(x, 1.0f + exp_f32(-x)); }

// log(1 + exp(beta x)) / beta up to the threshold, x above it and for NaN. Both sides are computed and one selected, so that loops
// vectorise. With beta = 1 the product and the quotient are exact.
RSSM_HOST_DEVICE float softplus(float x, float beta, float threshold) {
  const float scaled = beta * x;
  const float soft = divide(log_f32(1.0f + exp_f32(scaled)), beta);
  return scaled <= threshold ? soft : x;
}

// The same with beta = 1, without the product and the quotient: a division is most of a GPU's branches here.
RSSM_HOST_DEVICE float softplus_of_one(float x, float threshold) {
  const float soft = log_f32(1.0f + exp_f32(x));
  return x <= threshold ? soft : x;
}

// The decay of one key channel. y = raw_g + dt_bias (fp32); exp_A_log = exp_f32(A_log), one value a head: take it out of loops,
// since compilers do not vectorise a loop with it inside.
RSSM_HOST_DEVICE float kda_decay(float y, float exp_A_log, float softplus_beta, float softplus_threshold) {
  return exp_f32(-exp_A_log * softplus(y, softplus_beta, softplus_threshold));
}

RSSM_HOST_DEVICE float kda_decay_of_one(float y, float exp_A_log, float softplus_threshold) {
  return exp_f32(-exp_A_log * softplus_of_one(y, softplus_threshold));
}

// The same with a lower bound < 0: the log of the decay stays between the bound and 0.
RSSM_HOST_DEVICE float kda_decay_bounded(float y, float exp_A_log, float lower_bound) {
  const float log_decay = divide(lower_bound, 1.0f + exp_f32(-exp_A_log * y));
  return exp_f32(log_decay);
}

// The decay of one token and value head: the same formula, once a head. a + dt_bias is summed in fp32, whatever dtype the two came
// in.
RSSM_HOST_DEVICE float gdn_decay(float a, float dt_bias, float A_log, float softplus_beta, float softplus_threshold) {
  return kda_decay(a + dt_bias, exp_f32(A_log), softplus_beta, softplus_threshold);
}

// What a query or key is multiplied with to have length one.
RSSM_HOST_DEVICE float inverse_norm(float sum_of_squares) { return divide(1.0f, square_root(sum_of_squares + kNormEpsilon)); }

// The scale of the query if the caller gives none: computed once on the host, in double, then rounded.
inline float default_scale(int K) { return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(K))); }

}  // namespace recoverssm::arithmetic
