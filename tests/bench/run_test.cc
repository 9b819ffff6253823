// A small run in cache, all of it: pool, ceilings, every case. Says nothing about speed but that there is some.
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "bench/bench.h"
#include "bench/ceiling_kernels.h"

namespace recoverssm::bench {
namespace {

TEST(BenchRun, EveryCaseOnce) {
  Options options;
  options.heads = 1;
  options.value_heads = 2;
  options.k = options.v = 32;
  options.tokens = 3;
  options.threads = {1};
  options.sizes = {Size::in_cache};
  options.min_time = 1e-6;
  options.repetitions = 2;
  std::size_t heard = 0;
  Listener listener;
  listener.result = [&](const Result&) { ++heard; };
  const Report report = run(options, listener);
  ASSERT_EQ(report.ceilings.size(), 1U);
  EXPECT_GT(report.ceilings[0].read.rate, 0);
  EXPECT_GE(report.ceilings[0].copy.rate, report.ceilings[0].memcpy_.rate);
  EXPECT_EQ(report.results.size(), jobs_of(options).size() * available_targets().size());
  EXPECT_EQ(heard, report.results.size());
  for (const Result& result : report.results) {
    EXPECT_EQ(result.skipped, "") << result.job.name;
    EXPECT_GT(result.seconds.best, 0) << result.job.name;
    EXPECT_LE(result.seconds.best, result.seconds.median) << result.job.name;
    EXPECT_EQ(result.share.limit.empty(), result.job.row->bound == Bound::none) << result.job.name;
  }
}

TEST(BenchRun, RefusesMoreThreadsThanCores) {
  Options options;
  options.ops = {"commit_plan"};
  options.threads = {static_cast<int>(usable_cpus().size()) + 1};
  EXPECT_THROW(run(options, {}), Error);
}

TEST(BenchRun, SaysWhatTheMemoryLimitLeavesOut) {
  Options options;
  options.ops = {"commit.in_place.gdn"};
  options.threads = {1};
  options.sizes = {Size::in_cache};
  options.memory_gib = 1e-6;
  options.min_time = 1e-6;
  const Report report = run(options, {});
  ASSERT_FALSE(report.results.empty());
  for (const Result& result : report.results) EXPECT_NE(result.skipped.find("--memory"), std::string::npos);
}

TEST(BenchPool, EveryTaskOnce) {
  const std::vector<int> all = usable_cpus();
  ASSERT_FALSE(all.empty());
  // More workers than cores would be refused by the command; the pool itself only pins.
  std::vector<int> cpus = {all[0], all.back(), all[0]};
  PinnedPool pool(cpus);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::atomic<int>> counts(static_cast<std::size_t>(round % 7));
    const ParallelFor parallel = pool.parallel_for();
    ASSERT_EQ(parallel.workers, 3);
    parallel.run(
        parallel.self, static_cast<std::int64_t>(counts.size()),
        [](void* context, std::int64_t task, int) {
          (*static_cast<std::vector<std::atomic<int>>*>(context))[static_cast<std::size_t>(task)]++;
        },
        &counts);
    for (const std::atomic<int>& count : counts) ASSERT_EQ(count, 1);
  }
}

// What the ceilings call reading and copying must be that.
TEST(BenchCeilings, KernelsTouchEveryElement) {
  constexpr std::int64_t n = 4096;
  alignas(64) static float from[n], to[n];
  for (const Target target : available_targets()) {
    const CeilingKernels& kernels = ceiling_kernels(target);
    for (const int streams : {1, 2, 4, 8}) {
      // One lane of the sum is returned: with every element 1 it is the number of elements it saw.
      std::fill_n(from, n, 1.0F);
      EXPECT_EQ(kernels.read(from, n, streams, 1024), static_cast<float>(n / kernels.lanes)) << name_of(target);
      kernels.update(from, n, streams, 1024);
      for (const float x : from) ASSERT_EQ(x, -1.0F) << name_of(target) << " " << streams;
    }
    std::iota(from, from + n, 0.0F);
    for (const auto copy : {kernels.copy, kernels.copy_stream, copy_string}) {
      std::fill_n(to, n, -1.0F);
      copy(from, to, n);
      for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(to[i], static_cast<float>(i)) << name_of(target);
    }
  }
}

}  // namespace
}  // namespace recoverssm::bench
