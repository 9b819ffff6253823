// Sessions on a device against plain runs on the CPU: every output, state and checkpoint to the bit.
#include <gtest/gtest.h>

#include "device/fake_cuda.h"
#include "simulate/report.h"
#include "simulate/simulation.h"

namespace {

using namespace recoverssm;

TEST(SimulateOnDevice, SessionsAgreeWithPlainRunsOnTheCpu) {
  simulate::Options options;
  options.backend = Backend::cuda;
  options.seed = 77;
  options.rounds = 24;
  const std::int64_t launches = fake_cuda::launches, allocated = fake_cuda::allocated;
  const simulate::Result result = simulate::simulate(options);
  for (const simulate::Difference& difference : result.differences) ADD_FAILURE() << simulate::lines_of(difference);
  EXPECT_EQ(result.counts.rounds, 24);
  EXPECT_GT(result.counts.committed_tokens(), 3000);
  EXPECT_GT(result.counts.refused, 0);
  EXPECT_GT(fake_cuda::launches, launches + 1000);
  EXPECT_EQ(fake_cuda::allocated, allocated);
}

// The same round on both: a seed means the same scheduler.
TEST(SimulateOnDevice, ARoundIsTheSameAsOnTheCpu) {
  simulate::Options options;
  options.seed = 5;
  options.rounds = 2;
  const simulate::Result cpu = simulate::simulate(options);
  options.backend = Backend::cuda;
  const simulate::Result cuda = simulate::simulate(options);
  EXPECT_TRUE(cpu.ok() && cuda.ok());
  EXPECT_EQ(cpu.counts.kept_tokens, cuda.counts.kept_tokens);
  EXPECT_EQ(cpu.counts.outputs_compared, cuda.counts.outputs_compared);
  EXPECT_EQ(cpu.counts.states_compared, cuda.counts.states_compared);
  EXPECT_EQ(simulate::command_of(options, 5), "recoverssm simulate --seed 5 --rounds 1 --backend cuda");
}

}  // namespace
