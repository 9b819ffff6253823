// How work is spread: every task once, no two at once with the same worker number, round after round.
#include "api/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <system_error>

#include "cpu/execution.h"

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

TEST(Pieces, ShareEveryTaskOutOnce) {
  for (const int workers : {1, 2, 7, 128}) {
    for (const std::int64_t tasks :
         {std::int64_t{1}, std::int64_t{15}, std::int64_t{16}, std::int64_t{383}, std::int64_t{100000}}) {
      const std::int64_t pieces = cpu::pieces_of(tasks, workers);
      ASSERT_GE(pieces, 1);
      ASSERT_LE(pieces, tasks);
      std::int64_t next = 0;
      for (std::int64_t piece = 0; piece < pieces; ++piece) {
        ASSERT_EQ(cpu::share_of(tasks, piece, pieces), next);
        next = cpu::share_of(tasks, piece + 1, pieces);
        ASSERT_GE(next - cpu::share_of(tasks, piece, pieces), tasks / pieces);
        ASSERT_LE(next - cpu::share_of(tasks, piece, pieces), tasks / pieces + 1);
      }
      ASSERT_EQ(next, tasks);
    }
  }
  // Where the product of both would not fit.
  constexpr std::int64_t kMany = INT64_MAX;
  EXPECT_EQ(cpu::share_of(kMany, 32, 32), kMany);
}

}  // namespace
}  // namespace recoverssm
