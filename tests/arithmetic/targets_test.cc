// One source, several instruction sets: a loop compiled for AVX2 or AVX-512 gives the bits of the baseline.
#include <gtest/gtest.h>

#include "arithmetic/measure.h"

namespace recoverssm::arithmetic_test {
namespace {

class Targets : public testing::TestWithParam<std::size_t> {};

TEST_P(Targets, GiveTheBitsOfTheBaseline) {
  if (GetParam() >= all_blocks().size()) GTEST_SKIP() << "this target is not compiled for this architecture";
  const Blocks& baseline = all_blocks().front();
  const Blocks& target = all_blocks()[GetParam()];
  if (!target.available) GTEST_SKIP() << "this CPU does not have " << target.target;
  const std::uint32_t step = step_from_environment();
  std::printf("%s against baseline over %s\n", target.target, describe_sample(step).c_str());
  const auto expect_same = [&](const char* name, const Mismatches& found) {
    EXPECT_EQ(found.wrong, 0u) << target.target << " " << name << ": first at " << std::hexfloat << found.first_wrong;
  };
  expect_same("exp", compare(target.exp, baseline.exp, step));
  expect_same("log", compare(target.log, baseline.log, step));
  expect_same("bf16", compare(target.bf16, baseline.bf16, step));
  expect_same("f16", compare(target.f16, baseline.f16, step));
  // The gates are made of the functions above: a smaller sample, since the baseline calls the C library for each fma and is slow.
  const std::uint32_t gate_step = 17 * kSampleStep;
  std::printf("gates over %s\n", describe_sample(gate_step).c_str());
  for (std::size_t i = 0; i < baseline.gates.size(); ++i) {
    expect_same(baseline.gates[i].name, compare(target.gates[i], baseline.gates[i], gate_step));
  }
}

INSTANTIATE_TEST_SUITE_P(Arithmetic, Targets, testing::Values(1u, 2u),
                         [](const auto& tested) { return tested.param == 1 ? "avx2" : "avx512"; });

}  // namespace
}  // namespace recoverssm::arithmetic_test
