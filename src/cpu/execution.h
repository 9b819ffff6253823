// How a CPU operation runs: kernels, threads, scratch, and the floating-point mode the contract asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "cpu/kernels.h"
#include "cpu/select.h"
#include "recoverssm/types.hpp"

namespace recoverssm::cpu {

// Round to nearest, subnormals kept, no exception trapped, whatever the caller's mode; the caller's mode comes back at the end.
class ScopedFpMode {
 public:
#if defined(__x86_64__)
  ScopedFpMode() : saved_(_mm_getcsr()) { _mm_setcsr(0x1F80); }
  ~ScopedFpMode() { _mm_setcsr(saved_); }
#elif defined(__aarch64__)
  ScopedFpMode() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" : : "r"(std::uint64_t{0}) : "memory");
  }
  ~ScopedFpMode() { asm volatile("msr fpcr, %0" : : "r"(saved_) : "memory"); }
#else
#error "recoverssm: set the floating-point mode of this architecture here"
#endif
  ScopedFpMode(const ScopedFpMode&) = delete;
  ScopedFpMode& operator=(const ScopedFpMode&) = delete;

 private:
#if defined(__x86_64__)
  unsigned saved_;
#else
  std::uint64_t saved_ = 0;
#endif
};

struct Execution {
  const Kernels& kernels;
  const ParallelFor& parallel;
  std::byte* scratch;  // scratch_size() bytes, aligned to kWorkspaceAlignment
  Counters* counters;  // may be null
};

// Number of workers a launch may use at once: what per-worker scratch is multiplied by.
inline int workers_of(const Launch& launch) { return launch.parallel.run == nullptr ? 1 : launch.parallel.workers; }
inline int workers_of(const Execution& e) { return e.parallel.run == nullptr ? 1 : e.parallel.workers; }

// Calls f(task, worker) for every task. Kernels are reached through function pointers, so no arithmetic moves out of the scope of the
// floating-point mode.
template <class F>
void parallel_for(const Execution& e, std::int64_t tasks, F&& f) {
  if (tasks <= 0) return;
  if (e.parallel.run == nullptr || tasks == 1) {
    const ScopedFpMode mode;
    for (std::int64_t task = 0; task < tasks; ++task) f(task, 0);
    return;
  }
  struct Pieces {
    std::remove_reference_t<F>& f;
    std::int64_t tasks, pieces;
  } pieces = {f, tasks, pieces_of(tasks, e.parallel.workers)};
  e.parallel.run(
      e.parallel.self, pieces.pieces,
      [](void* context, std::int64_t piece, int worker) {
        const ScopedFpMode mode;
        const Pieces& body = *static_cast<Pieces*>(context);
        const std::int64_t end = share_of(body.tasks, piece + 1, body.pieces);
        for (std::int64_t task = share_of(body.tasks, piece, body.pieces); task < end; ++task) body.f(task, worker);
      },
      &pieces);
}

// A size that no workspace has: a launch that needs it is refused, so nothing is ever taken behind it.
constexpr std::size_t kTooLarge = std::size_t{1} << 56;

// Scratch of all workers, from that of one.
constexpr std::size_t for_workers(std::size_t bytes, int workers) {
  std::size_t all = 0;
  const bool overflow = __builtin_mul_overflow(bytes, static_cast<std::size_t>(workers), &all);
  return overflow || all > kTooLarge ? kTooLarge : all;
}

// Hands out aligned pieces of scratch memory. With a null base it only measures, so that a size and its use are one piece of code.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}

  template <class T>
  T* take(std::int64_t count) {
    std::byte* at = base_ == nullptr ? nullptr : base_ + used_;
    std::size_t bytes = 0, end = 0;
    const bool too_large =
        __builtin_mul_overflow(count, sizeof(T), &bytes) || __builtin_add_overflow(used_, bytes, &end) || end > kTooLarge;
    used_ = too_large ? kTooLarge : (end + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
    return reinterpret_cast<T*>(at);
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

}  // namespace recoverssm::cpu
