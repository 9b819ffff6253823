#include "api/thread_pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace recoverssm {
namespace {

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until `value` is no longer `old`. An engine's next operation follows within microseconds, and waking a thread through the
// kernel takes longer than a small operation: so look a while before sleeping.
template <class T>
T wait_for_change(const std::atomic<T>& value, T old, int looks) {
  for (int i = 0; i < looks; ++i) {
    const T now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    pause();
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

// About 50 us; none where there are more threads than cores, since one that looks keeps another from working.
int looks_of(int workers) {
  constexpr int kLooks = 1000;
  return workers <= static_cast<int>(std::thread::hardware_concurrency()) ? kLooks : 0;
}

}  // namespace

ThreadPool::ThreadPool(int workers) : looks_(looks_of(workers)) {
  try {
    for (int worker = 1; worker < workers; ++worker) threads_.emplace_back([this, worker] { work(worker); });
  } catch (...) {  // the system has no more threads: those that started must end before the caller hears of it
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stop_ = true;
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

ParallelFor ThreadPool::parallel_for() {
  return {[](void* self, std::int64_t tasks, ParallelFor::Body body, void* context) {
            static_cast<ThreadPool*>(self)->run(tasks, body, context);
          },
          this, static_cast<int>(threads_.size()) + 1};
}

void ThreadPool::run(std::int64_t tasks, ParallelFor::Body body, void* context) {
  tasks_ = tasks;
  body_ = body;
  context_ = context;
  next_.store(0, std::memory_order_relaxed);
  busy_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);  // the workers see everything above with it
  round_.notify_all();
  take_tasks(0);
  for (int busy = busy_.load(std::memory_order_acquire); busy != 0;) busy = wait_for_change(busy_, busy, looks_);
}

void ThreadPool::work(int worker) {
  for (std::uint32_t seen = 0;;) {
    seen = wait_for_change(round_, seen, looks_);
    if (stop_) return;
    take_tasks(worker);
    busy_.fetch_sub(1, std::memory_order_acq_rel);
    busy_.notify_one();
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
