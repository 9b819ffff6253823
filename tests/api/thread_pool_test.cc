// How work is spread: every task once, no two at once with the same worker number, round after round.
#include "api/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <system_error>

namespace recoverssm {
namespace {

class Workers : public ::testing::TestWithParam<int> {};

TEST_P(Workers, EveryTaskRunsOnceAndWorkersDoNotMeet) {
  const int workers = GetParam();
  ThreadPool pool(workers);
  const ParallelFor parallel = pool.parallel_for();
  ASSERT_EQ(parallel.workers, workers);

  constexpr int kMostTasks = 100;
  struct Round {
    std::atomic<int> times[kMostTasks] = {};
    std::atomic<int> inside[8] = {};
    std::atomic<int> met{0}, outside{0};
    int workers = 0;
  };
  // Enough rounds for threads to be found awake, on their way to sleep and asleep.
  for (int i = 0; i < 3000; ++i) {
    const int tasks = i % (kMostTasks + 1);
    auto round = std::make_unique<Round>();
    round->workers = workers;
    const auto body = [](void* context, std::int64_t task, int worker) {
      Round& r = *static_cast<Round*>(context);
      if (worker < 0 || worker >= r.workers) {
        r.outside.fetch_add(1);
        return;
      }
      if (r.inside[worker].fetch_add(1) != 0) r.met.fetch_add(1);
      r.times[task].fetch_add(1);
      r.inside[worker].fetch_sub(1);
    };
    parallel.run(parallel.self, tasks, body, round.get());
    ASSERT_EQ(round->outside, 0);
    ASSERT_EQ(round->met, 0);
    for (int task = 0; task < kMostTasks; ++task) ASSERT_EQ(round->times[task], task < tasks ? 1 : 0) << i << " " << task;
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, Workers, ::testing::Values(1, 2, 3, 8), ::testing::PrintToStringParamName());

// Threads that cannot be started are an exception, not the end of the program. In a child, with room for few stacks.
TEST(ThreadPoolDeathTest, TooManyThreadsAreAnException) {
  const auto start = [] {
    const rlimit room = {rlim_t{1} << 30, rlim_t{1} << 30};
    if (setrlimit(RLIMIT_AS, &room) != 0) std::_Exit(1);
    try {
      const ThreadPool pool(1 << 16);
    } catch (const std::system_error&) {
      std::_Exit(7);
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(start(), ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace recoverssm
