// What the self-test compares with. All of it is compiled in, so that a machine needs nothing but the command.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace recoverssm::check {

// A trace file (traces/golden/*.rst.safetensors): its name, its bytes.
struct GoldenTrace {
  std::string name;
  std::span<const std::byte> bytes;
};

// fp32 bits: an argument and what the canonical functions give for it.
struct FunctionRow {
  std::uint32_t x;
  std::uint32_t exp;
  std::uint32_t log;
  std::uint32_t sigmoid;
  std::uint32_t silu;
  std::uint32_t decay;    // gdn_decay(x, kDtBias, kALog, 1, 20)
  std::uint32_t bounded;  // kda_decay_bounded(x + kDtBias, exp(kALog), kLowerBound)
};
constexpr float kDtBias = 0.25F;
constexpr float kALog = 0.5F;
constexpr float kLowerBound = -5.0F;

struct Material {
  std::vector<GoldenTrace> traces;
  std::span<const FunctionRow> functions;
  // What tests put a fault in with: called with a check's name, what is compared, and the result before it is compared.
  std::function<void(const std::string& check, const std::string& what, std::span<std::byte> result)> tamper;
};

// What was compiled in.
Material embedded();

}  // namespace recoverssm::check
