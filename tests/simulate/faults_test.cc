// Deliberate faults in the session, each found by the simulation; and without them nothing is.
#include "session/faults.h"

#include <gtest/gtest.h>

#include "simulate/round.h"

namespace recoverssm {

Fault active_fault = Fault::none;

namespace {

constexpr std::uint64_t kFirstSeed = 1, kRounds = 40;

struct FaultCase {
  const char* name;
  Fault fault;
};

const FaultCase kFaults[] = {
    {"counts_mixed_up", Fault::counts_mixed_up},
    {"plain_counts_late", Fault::plain_counts_late},
    {"stale_state", Fault::stale_state},
    {"freed_block_early", Fault::freed_block_early},
    {"records_stay", Fault::records_stay},
    {"waiting_count_lost", Fault::waiting_count_lost},
    {"boundary_not_reached", Fault::boundary_not_reached},
    {"move_skipped", Fault::move_skipped},
    {"copy_without_fold", Fault::copy_without_fold},
    {"dead_lives", Fault::dead_lives},
};

simulate::Options short_rounds() {
  simulate::Options options;
  options.steps = 80;
  return options;
}

class DeliberateFault : public testing::TestWithParam<FaultCase> {
  void TearDown() override { active_fault = Fault::none; }
};

TEST_P(DeliberateFault, IsFound) {
  active_fault = GetParam().fault;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + kRounds; ++seed) {
    const simulate::RoundResult round = simulate::run_round(simulate::random_setup(short_rounds(), seed));
    if (round.difference.empty()) continue;
    std::printf("%s: round %d: %s\n", GetParam().name, static_cast<int>(seed), round.difference.c_str());
    return;
  }
  FAIL() << "not found in " << kRounds << " rounds";
}

INSTANTIATE_TEST_SUITE_P(Session, DeliberateFault, testing::ValuesIn(kFaults), [](const auto& each) { return each.param.name; });

TEST(DeliberateFaults, NoneIsNone) {
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + kRounds / 2; ++seed) {
    const simulate::RoundResult round = simulate::run_round(simulate::random_setup(short_rounds(), seed));
    EXPECT_EQ(round.difference, "") << "round " << seed;
  }
}

}  // namespace
}  // namespace recoverssm
