// A fixed set of threads that run one parallel_for at a time. The calling thread is worker 0 and takes part.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "recoverssm/types.hpp"

namespace recoverssm {

class ThreadPool {
 public:
  explicit ThreadPool(int workers);  // >= 1; throws std::system_error where the system has no more threads
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  ParallelFor parallel_for();

 private:
  void run(std::int64_t tasks, ParallelFor::Body body, void* context);
  void stop();
  void work(int worker);
  void take_tasks(int worker);

  const int looks_;
  std::vector<std::thread> threads_;
  std::atomic<std::uint32_t> round_{0};  // one more for every run
  std::atomic<int> busy_{0};             // threads that have not finished the present round
  std::atomic<std::int64_t> next_{0};    // task to take next

  // Written between rounds only.
  bool stop_ = false;
  std::int64_t tasks_ = 0;
  ParallelFor::Body body_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace recoverssm
