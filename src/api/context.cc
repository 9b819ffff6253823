#include "recoverssm/context.hpp"

#include <algorithm>
#include <cstdint>
#include <new>
#include <thread>

#include "api/thread_pool.h"

namespace recoverssm {
namespace {

struct AlignedDelete {
  void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{kWorkspaceAlignment}); }
};

}  // namespace

struct Context::State {
  explicit State(int workers) : pool(workers) {}
  ThreadPool pool;
  std::unique_ptr<std::byte, AlignedDelete> memory;
  std::size_t bytes = 0;
};

Context::Context(int threads) {
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  state_ = std::make_unique<State>(threads <= 0 ? cores : threads);
}

Context::~Context() = default;
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;

Launch Context::launch() const {
  const ParallelFor parallel = state_->pool.parallel_for();
  return {.workspace = {state_->memory.get(), state_->bytes},
          .parallel = parallel.workers > 1 ? parallel : ParallelFor{},
          .target = target,
          .counters = counters};
}

Launch Context::launch(std::size_t bytes) {
  if (bytes > state_->bytes) {
    if (bytes > std::size_t{PTRDIFF_MAX}) throw std::bad_alloc();  // the library's own check of such a size would wrap
    state_->memory.reset();
    state_->bytes = 0;
    state_->memory.reset(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kWorkspaceAlignment})));
    state_->bytes = bytes;
  }
  return launch();
}

}  // namespace recoverssm
