// The only place where a session touches bytes of a pool itself; everything else goes through operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "api/backend_memory.h"
#include "recoverssm/session_config.hpp"

namespace recoverssm {

// Where a session's memory is: a backend and the stream that everything is put on.
struct MemoryPlace {
  Backend backend = Backend::cpu;
  void* stream = nullptr;

  const BackendMemory& memory() const { return backend_memory(backend); }
  bool on_device() const { return backend != Backend::cpu; }
};

// 64-byte aligned memory, not initialised: pages of a pool that are never touched cost nothing.
struct FreeMemory {
  MemoryPlace place{};
  bool staging = false;
  void operator()(std::byte* memory) const;
};
using Memory = std::unique_ptr<std::byte[], FreeMemory>;
// Where the operations of this place read and write. Throws Error(device_error) if a device has none left, std::bad_alloc on the CPU.
Memory allocate(const MemoryPlace& place, std::int64_t bytes);
// Host memory that copies of this place read after the call, and that its kernels reach.
Memory allocate_staging(const MemoryPlace& place, std::int64_t bytes);

// Throws what is not ok.
void must(Status status);

// No records wait in any block; in one block.
void clear_pending(const MemoryPlace& place, const TensorView& pending);
void clear_pending(const MemoryPlace& place, const TensorView& pending, std::int32_t block);

// One block's history and state, dense, in host memory: [history, channels], oldest first, then [HV, V, K]. Return where the next layer's begin.
// On a device: put on the stream; the host's bytes are there, or may go, after a wait.
std::byte* copy_from_block(const MemoryPlace& place, const LayerConfig& layer, const LayerPool& pool, std::int32_t block,
                           std::byte* dense);
const std::byte* copy_to_block(const MemoryPlace& place, const LayerConfig& layer, const LayerPool& pool, std::int32_t block,
                               const std::byte* dense);

}  // namespace recoverssm
