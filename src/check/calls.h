// Small calls through which the checks look at one arithmetic operation: they use the public operations only, so that what is checked
// is what a user's call runs, on the chosen target.
#pragma once

#include <optional>
#include <vector>

#include "check/check.h"
#include "check/tensor.h"

namespace recoverssm::check {

constexpr std::int32_t kBlock = 1;  // 0 is the null block

// One token per channel: fma(x[c], weight[c], bias[c]) by a convolution of two taps whose history is zero; then silu if asked for;
// then rounded to x's dtype. `bias` may be empty: then +0.
Tensor convolve(const Place& place, const Tensor& x, const std::vector<float>& weight, const std::vector<float>& bias,
                Activation activation);

// The decays of a GDN layer with one head, one for each gate input `a`: exp(-exp(A_log) * softplus(a + dt_bias)).
struct GdnGateInputs {
  float A_log = 0;
  float dt_bias = 0;
  float softplus_beta = 1;
  float softplus_threshold = 20;
};
std::vector<float> gdn_decays(const Place& place, const std::vector<float>& a, const GdnGateInputs& gate);

// The decays of a KDA layer, one for each raw gate input: through a state of ones, a zero key and a zero value. No NaN among them.
struct KdaGateInputs {
  float A_log = 0;
  float dt_bias = 0;
  std::optional<float> lower_bound{};
  float softplus_beta = 1;
  float softplus_threshold = 20;
};
std::vector<float> kda_decays(const Place& place, const std::vector<float>& raw, const KdaGateInputs& gate);

// beta = 1 / (1 + exp(-b)) for each b: the correction of a zero state to the value 1.
std::vector<float> betas(const Place& place, const std::vector<float>& b);

// Normalised keys, as verify records them. keys: rows of K elements.
std::vector<float> normalised(const Place& place, const std::vector<float>& keys, int K);

// The bytes of floats.
std::span<std::byte> bytes_of(std::vector<float>& values);
std::span<const std::byte> bytes_of(const std::vector<float>& values);

}  // namespace recoverssm::check
