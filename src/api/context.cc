#include "recoverssm/context.hpp"

#include <algorithm>
#include <cstdint>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "api/devices.h"
#include "api/thread_pool.h"
#include "cuda/ops.h"

namespace recoverssm {
namespace {

// Gives workspace back to where it came from.
struct Release {
  Backend backend = Backend::cpu;
  void* stream = nullptr;
  void operator()(std::byte* memory) const {
    if (backend != Backend::cpu) return device_calls(backend).release(stream, memory);
    ::operator delete (memory, std::align_val_t{kWorkspaceAlignment});
  }
};

std::byte* allocate(Backend backend, void* stream, std::size_t bytes) {
  if (backend == Backend::cpu) return static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kWorkspaceAlignment}));
  void* const memory = device_calls(backend).allocate(stream, bytes);
  if (memory == nullptr)
    throw Error({ErrorKind::device_error, "no device memory for a workspace of " + std::to_string(bytes) + " bytes"});
  return static_cast<std::byte*>(memory);
}

}  // namespace

struct Context::State {
  explicit State(int workers) : pool(workers) {}
  State(Backend backend_, void* stream_)
      : pool(1),
        backend(backend_),
        stream(stream_),
        device(backend_ == Backend::cuda ? cuda::current_device() : -1),
        memory(nullptr, {backend_, stream_}) {}

  ThreadPool pool;
  Backend backend = Backend::cpu;
  void* stream = nullptr;
  int device = -1;  // where stream and workspace are
  std::unique_ptr<std::byte, Release> memory;
  std::size_t bytes = 0;
};

Context::Context(int threads) {
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  state_ = std::make_unique<State>(threads <= 0 ? cores : threads);
}

Context::Context(std::unique_ptr<State> state) : state_(std::move(state)) {}

namespace {

void must_run(Backend backend) {
  if (const std::string reason = unavailable_reason(backend); !reason.empty())
    throw Error({ErrorKind::unsupported, std::string(name_of(backend)) + ": " + reason});
}

}  // namespace

Context Context::cuda(void* stream) {
  must_run(Backend::cuda);
  return Context(std::make_unique<State>(Backend::cuda, stream));
}

Context Context::sycl(void* queue) {
  must_run(Backend::sycl);
  return Context(std::make_unique<State>(Backend::sycl, queue));
}

Backend Context::backend() const { return state_->backend; }

Context::~Context() = default;
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;

Launch Context::launch() const {
  const ParallelFor parallel = state_->pool.parallel_for();
  return {.workspace = {state_->memory.get(), state_->bytes},
          .parallel = parallel.workers > 1 ? parallel : ParallelFor{},
          .target = target,
          .counters = counters,
          .backend = state_->backend,
          .stream = state_->stream,
          .flag = flag};
}

Launch Context::launch(std::size_t bytes) {
  // With the default stream kernels would run on the current device and write to the other one's memory: the driver then gives up the
  // whole process.
  if (state_->backend == Backend::cuda) {
    if (const int current = cuda::current_device(); current != state_->device) {
      throw Error({ErrorKind::bad_state, "context: the current device is " + std::to_string(current) + ", expected " +
                                             std::to_string(state_->device) + ", where its stream and its workspace are"});
    }
  }
  if (bytes > state_->bytes) {
    if (bytes > std::size_t{PTRDIFF_MAX}) throw std::bad_alloc();  // the library's own check of such a size would wrap
    state_->memory.reset();
    state_->bytes = 0;
    state_->memory.reset(allocate(state_->backend, state_->stream, bytes));
    state_->bytes = bytes;
  }
  return launch();
}

}  // namespace recoverssm
