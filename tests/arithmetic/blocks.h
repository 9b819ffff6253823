// The functions of src/arithmetic as loops over an array, compiled for every x86 target that the CPU backend uses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace recoverssm::arithmetic_test {

struct FloatLoop {
  const char* name;
  void (*run)(const float* x, float* y, int n);
};

struct NarrowLoop {
  const char* name;
  void (*run)(const float* x, std::uint16_t* y, int n);
};

struct Blocks {
  const char* target;
  bool available;  // this CPU can run it
  FloatLoop exp, log;
  std::vector<FloatLoop> gates;
  NarrowLoop bf16, f16;
};

// The baseline first, then avx2, then avx512.
const std::vector<Blocks>& all_blocks();

// The widest that this CPU can run.
const Blocks& fastest_blocks();

}  // namespace recoverssm::arithmetic_test
