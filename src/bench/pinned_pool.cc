#include "bench/pinned_pool.h"

#include <pthread.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace recoverssm::bench {
namespace {

constexpr int kSpins = 20000;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Whether an earlier CPU of the list is a hardware thread of the same core.
bool second_of_core(int cpu) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
  int first = cpu;
  return static_cast<bool>(file >> first) && first != cpu;
}

}  // namespace

std::vector<int> usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
    }
  }
  std::stable_partition(cpus.begin(), cpus.end(), [](int cpu) { return !second_of_core(cpu); });
  return cpus;
}

PinnedThread::PinnedThread(int cpu) {
  CPU_ZERO(&before_);
  ::pthread_getaffinity_np(::pthread_self(), sizeof before_, &before_);
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set);
}

PinnedThread::~PinnedThread() { ::pthread_setaffinity_np(::pthread_self(), sizeof before_, &before_); }

PinnedPool::PinnedPool(const std::vector<int>& cpus) {
  for (std::size_t worker = 1; worker < cpus.size(); ++worker) {
    threads_.emplace_back([this, worker, cpu = cpus[worker]] {
      const PinnedThread pinned(cpu);
      work(static_cast<int>(worker));
    });
  }
}

PinnedPool::~PinnedPool() {
  stop_ = true;
  round_.fetch_add(1);
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

ParallelFor PinnedPool::parallel_for() {
  if (threads_.empty()) return {};
  return {[](void* self, std::int64_t tasks, ParallelFor::Body body, void* context) {
            static_cast<PinnedPool*>(self)->run(tasks, body, context);
          },
          this, workers()};
}

void PinnedPool::run(std::int64_t tasks, ParallelFor::Body body, void* context) {
  tasks_ = tasks;
  body_ = body;
  context_ = context;
  next_.store(0, std::memory_order_relaxed);
  busy_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  take_tasks(0);
  // Every worker must have left the round before the next one may change tasks_.
  for (int spins = 0; busy_.load(std::memory_order_acquire) != 0; ++spins) {
    if (spins < kSpins) {
      relax();
    } else {
      std::this_thread::yield();
    }
  }
}

void PinnedPool::work(int worker) {
  std::uint32_t seen = 0;
  for (;;) {
    for (int spins = 0; round_.load(std::memory_order_acquire) == seen; ++spins) {
      if (spins < kSpins) {
        relax();
      } else {
        round_.wait(seen, std::memory_order_acquire);
      }
    }
    ++seen;  // no round is skipped: run() waits for every worker
    if (stop_) return;
    take_tasks(worker);
    busy_.fetch_sub(1, std::memory_order_release);
  }
}

void PinnedPool::take_tasks(int worker) {
  for (;;) {
    const std::int64_t task = next_.fetch_add(1, std::memory_order_relaxed);
    if (task >= tasks_) return;
    body_(context_, task, worker);
  }
}

}  // namespace recoverssm::bench
