// A fixed set of threads that run one parallel_for at a time. The calling thread is worker 0 and takes part.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "recoverssm/types.hpp"

namespace recoverssm {

class ThreadPool {
 public:
  explicit ThreadPool(int workers);  // >= 1
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  ParallelFor parallel_for();

 private:
  void run(std::int64_t tasks, ParallelFor::Body body, void* context);
  void work(int worker);
  void take_tasks(int worker);

  std::mutex mutex_;
  std::condition_variable start_, done_;
  std::uint64_t round_ = 0;  // one a run; threads sleep until it changes
  int busy_ = 0;             // threads still in this round
  bool stop_ = false;
  std::int64_t tasks_ = 0;
  ParallelFor::Body body_ = nullptr;
  void* context_ = nullptr;
  std::atomic<std::int64_t> next_{0};
  std::vector<std::thread> threads_;
};

}  // namespace recoverssm
