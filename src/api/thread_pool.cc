#include "api/thread_pool.h"

namespace recoverssm {

ThreadPool::ThreadPool(int workers) {
  for (int worker = 1; worker < workers; ++worker) threads_.emplace_back([this, worker] { work(worker); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

ParallelFor ThreadPool::parallel_for() {
  return {[](void* self, std::int64_t tasks, ParallelFor::Body body, void* context) {
            static_cast<ThreadPool*>(self)->run(tasks, body, context);
          },
          this, static_cast<int>(threads_.size()) + 1};
}

void ThreadPool::run(std::int64_t tasks, ParallelFor::Body body, void* context) {
  {
    const std::lock_guard lock(mutex_);
    tasks_ = tasks;
    body_ = body;
    context_ = context;
    next_.store(0, std::memory_order_relaxed);
    busy_ = static_cast<int>(threads_.size());
    ++round_;
  }
  start_.notify_all();
  take_tasks(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
}

void ThreadPool::work(int worker) {
  std::uint64_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stop_ || round_ != seen; });
      if (stop_) return;
      seen = round_;
    }
    take_tasks(worker);
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) done_.notify_one();
  }
}

void ThreadPool::take_tasks(int worker) {
  for (;;) {
    const std::int64_t task = next_.fetch_add(1, std::memory_order_relaxed);
    if (task >= tasks_) return;
    body_(context_, task, worker);
  }
}

}  // namespace recoverssm
