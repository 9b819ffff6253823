// The simulation itself: what it compares, what it draws, that it repeats.
#include <gtest/gtest.h>

#include <set>

#include "simulate/report.h"
#include "simulate/round.h"
#include "simulate/simulation.h"

namespace recoverssm::simulate {
namespace {

Options some_rounds(std::int64_t rounds, std::uint64_t seed) {
  Options options;
  options.seed = seed;
  options.rounds = rounds;
  options.steps = 60;
  return options;
}

void expect_no_difference(const Options& options) {
  const Result result = simulate(options);
  for (const Difference& difference : result.differences) ADD_FAILURE() << lines_of(difference);
  EXPECT_GT(result.counts.committed_tokens(), 0);
  EXPECT_GT(result.counts.outputs_compared, 0);
  EXPECT_GT(result.counts.states_compared, 0);
}

// One of each kind of session; everything else is drawn.
struct Kind {
  const char* name;
  bool lazy, align;
  LineKind line;
};

class Sessions : public testing::TestWithParam<Kind> {};

TEST_P(Sessions, AgreeWithPlainDecoding) {
  Options options = some_rounds(4, 1000);
  options.lazy = GetParam().lazy;
  options.align = GetParam().align;
  options.line = GetParam().line;
  expect_no_difference(options);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Sessions,
                         testing::Values(Kind{"eager_none_rolled", false, false, LineKind::rolled},
                                         Kind{"eager_none_anchored", false, false, LineKind::anchored},
                                         Kind{"eager_align_rolled", false, true, LineKind::rolled},
                                         Kind{"eager_align_anchored", false, true, LineKind::anchored},
                                         Kind{"lazy_none_rolled", true, false, LineKind::rolled},
                                         Kind{"lazy_none_anchored", true, false, LineKind::anchored},
                                         Kind{"lazy_align_rolled", true, true, LineKind::rolled},
                                         Kind{"lazy_align_anchored", true, true, LineKind::anchored}),
                         [](const auto& each) { return each.param.name; });

TEST(Simulation, WithoutFaultsNothingIsRefusedAndNobodyDies) {
  Options options = some_rounds(6, 2000);
  options.faults = false;
  const Result result = simulate(options);
  for (const Difference& difference : result.differences) ADD_FAILURE() << lines_of(difference);
  EXPECT_EQ(result.counts.refused, 0);
  EXPECT_EQ(result.counts.died, 0);
  EXPECT_EQ(result.counts.steps_abandoned, 0);
}

// Every way that a request, a step or a state can go is gone in the rounds of one short run.
TEST(Simulation, EverythingHappens) {
  Options options = some_rounds(40, 3000);
  options.steps = 100;
  const Result result = simulate(options);
  for (const Difference& difference : result.differences) ADD_FAILURE() << lines_of(difference);
  for (const CountName& each : kCounts) EXPECT_GT(result.counts.*each.count, 0) << each.name;
  EXPECT_GT(result.counts.float64_worst, 0);
}

TEST(Simulation, ASeedGivesTheSameSummary) {
  const auto summary = [](std::uint64_t seed) {
    Result result = simulate(some_rounds(3, seed));
    result.seconds = 0;
    return to_json(result).dump();
  };
  EXPECT_EQ(summary(4000), summary(4000));
  EXPECT_NE(summary(4000), summary(4001));
}

// A round's result is the same alone and after others, and with any number of threads.
TEST(Simulation, ARoundDependsOnItsSeedOnly) {
  const auto counts = [](Options options, std::int64_t rounds) {
    options.rounds = rounds;
    nlohmann::ordered_json json = to_json(simulate(options));
    return json["counts"];
  };
  Options from_5000 = some_rounds(2, 5000), only_5001 = some_rounds(1, 5001);
  const nlohmann::ordered_json first = counts(from_5000, 1), both = counts(from_5000, 2), second = counts(only_5001, 1);
  for (const CountName& each : kCounts) {
    EXPECT_EQ(both[each.name].get<std::int64_t>(), first[each.name].get<std::int64_t>() + second[each.name].get<std::int64_t>())
        << each.name;
  }
  only_5001.threads = 3;
  EXPECT_EQ(counts(only_5001, 1), second);
}

// The comparator sees a single bit, wherever it is: in an output, a state, a conv history or a checkpoint.
TEST(Comparator, SeesOneBit) {
  simulate::Setup setup = random_setup(some_rounds(1, 6000), 6000);
  ASSERT_EQ(run_round(setup).difference, "");
  std::set<std::string> kinds;
  for (std::int64_t comparison = 0; comparison < 400; comparison += 9) {
    setup.flipped_comparison = comparison;
    const std::string difference = run_round(setup).difference;
    ASSERT_NE(difference, "") << "comparison " << comparison;
    for (const char* kind : {"output", "state of layer", "conv history"}) {
      if (difference.find(kind) != std::string::npos) kinds.insert(kind);
    }
  }
  EXPECT_EQ(kinds.size(), 3U);
}

TEST(Command, NamesTheRoundAndWhatWasFixed) {
  Options options = some_rounds(7, 1);
  options.lazy = true;
  options.align = false;
  options.line = LineKind::rolled;
  options.state = DType::bf16;
  options.window = 5;
  EXPECT_EQ(command_of(options, 3),
            "recoverssm simulate --seed 3 --rounds 1 --steps 60 --window 5 --lazy --no-align --line rolled --state-dtype bf16");
}

}  // namespace
}  // namespace recoverssm::simulate
