#include "launch.h"

#include <torch/csrc/stable/c/shim.h>
#include <torch/headeronly/util/shim_utils.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <stdexcept>

namespace recoverssm::torch_ops {

namespace {

// Waking PyTorch's threads costs some microseconds, and milliseconds where other programs keep the cores busy: a call shorter than this
// never asks for them. Pieces are small (16 a worker), so a long call loses little by starting alone.
constexpr std::chrono::microseconds kAlone{20};

struct Round {
  std::int64_t tasks;
  ParallelFor::Body body;
  void* context;
  std::atomic<std::int64_t> next{0};

  void work(int worker) {
    for (std::int64_t task = next++; task < tasks; task = next++) body(context, task, worker);
  }
};

// `self` holds the number of workers that the scratch memory was made for. PyTorch splits a range into one part a thread; the range here
// is that of the workers, and each takes tasks until none is left, so that a slow thread holds nobody up.
void run_on_torch_threads(void* self, std::int64_t tasks, ParallelFor::Body body, void* context) {
  Round round{tasks, body, context};
  const auto end = std::chrono::steady_clock::now() + kAlone;
  while (round.next < tasks && std::chrono::steady_clock::now() < end) body(context, round.next++, 0);
  const std::int64_t workers = std::min(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(self)), tasks - round.next);
  const auto part = [](std::int64_t begin, std::int64_t last, void* given) {
    for (std::int64_t worker = begin; worker < last; ++worker) static_cast<Round*>(given)->work(static_cast<int>(worker));
  };
  // Should PyTorch refuse, the calling thread does what is left.
  if (workers > 0 && torch_parallel_for(0, workers, 1, part, &round) != TORCH_SUCCESS) round.work(0);
}

struct AlignedDelete {
  void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{kWorkspaceAlignment}); }
};

}  // namespace

ParallelFor torch_threads() {
  std::uint32_t threads = 1;
  if (torch_get_num_threads(&threads) != TORCH_SUCCESS || threads <= 1) return {};
  return {
      .run = run_on_torch_threads, .self = reinterpret_cast<void*>(std::intptr_t{threads}), .workers = static_cast<int>(threads)};
}

Workspace thread_workspace(std::size_t bytes) {
  thread_local std::unique_ptr<std::byte, AlignedDelete> memory;
  thread_local std::size_t size = 0;
  if (bytes > size) {
    memory.reset();
    size = 0;
    memory.reset(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kWorkspaceAlignment})));
    size = bytes;
  }
  return {memory.get(), size};
}

void raise(const Status& status) {
  throw std::runtime_error("[recoverssm." + std::string(name_of(status.kind)) + "] " + status.message);
}

}  // namespace recoverssm::torch_ops
