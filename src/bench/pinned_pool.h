// Threads that stay on one core each, for ceilings and operations alike: a caller's own ParallelFor, as an engine brings it.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "recoverssm/types.hpp"

namespace recoverssm::bench {

// The CPUs this process may run on; of cores with several hardware threads the first threads come first.
std::vector<int> usable_cpus();

// Keeps the calling thread on one CPU as long as it lives, then lets it run where it could before.
class PinnedThread {
 public:
  explicit PinnedThread(int cpu);
  ~PinnedThread();
  PinnedThread(const PinnedThread&) = delete;
  PinnedThread& operator=(const PinnedThread&) = delete;

 private:
  cpu_set_t before_;
};

// Worker 0 is the caller, which should be pinned to cpus[0]; worker i runs on cpus[i]. Between two calls workers spin for some
// microseconds, then sleep.
class PinnedPool {
 public:
  explicit PinnedPool(const std::vector<int>& cpus);
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  ParallelFor parallel_for();  // of one worker: the default, which runs in the calling thread
  int workers() const { return static_cast<int>(threads_.size()) + 1; }
  void run(std::int64_t tasks, ParallelFor::Body body, void* context);

 private:
  void work(int worker);
  void take_tasks(int worker);

  std::vector<std::thread> threads_;
  std::atomic<std::uint32_t> round_{0};  // one a run
  std::atomic<int> busy_{0};
  std::atomic<bool> stop_{false};
  std::atomic<std::int64_t> next_{0};
  std::int64_t tasks_ = 0;
  ParallelFor::Body body_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace recoverssm::bench
