// Functions of one float whose bits the device and the host must share: what tests/cuda/exhaustive.cc compares.
#pragma once

#include <cstdint>

namespace recoverssm::cuda_test {

enum class Function : int {
  exp,
  log,
  sigmoid,
  silu,
  softplus,
  softplus_of_one,
  inverse_norm,
  to_bf16,
  to_f16,
  from_bf16,
  from_f16
};
constexpr int kFunctions = 11;
constexpr const char* kNames[kFunctions] = {"exp",          "log",     "sigmoid", "silu",      "softplus", "softplus of beta 1",
                                            "inverse_norm", "to_bf16", "to_f16",  "from_bf16", "from_f16"};
// The last two take 16 bits.
constexpr bool is_16_bit(Function f) { return f == Function::from_bf16 || f == Function::from_f16; }

// Results, as bit patterns, of the floats with patterns first..first+count-1, by the device. false: the device failed; why says how.
bool run_on_device(Function f, std::uint32_t first, std::uint32_t count, std::uint32_t* results, const char** why);

}  // namespace recoverssm::cuda_test
