// Devices as contexts, tests and trace replay see them: memory, streams, copies, waiting. A table a backend; no operation uses these, but
// for the workspace of a Context.
#pragma once

#include <cstddef>
#include <string>

#include "recoverssm/types.hpp"

namespace recoverssm {

// Memory with one address for host and kernels. pinned: the host's, which the device reaches over the bus; managed: its pages move to
// whoever touches them. The host looks at it when nothing runs.
enum class SharedMemory { pinned, managed };

// stream: a cudaStream_t or sycl::queue*; null: the default one. Of memory: whose device or context it is.
struct DeviceCalls {
  std::string (*unavailable_reason)() = nullptr;                 // why nothing runs there; empty: something does
  void* (*allocate)(void* stream, std::size_t bytes) = nullptr;  // null: none left
  void (*release)(void* stream, void* memory) = nullptr;
  void* (*allocate_shared)(SharedMemory kind, std::size_t bytes) = nullptr;
  void (*release_shared)(SharedMemory kind, void* memory) = nullptr;
  void* (*create_stream)() = nullptr;  // in order with itself, of the default device; null: refused
  void (*destroy_stream)(void* stream) = nullptr;
  Status (*synchronize)(void* stream) = nullptr;                                          // waits; device_error if a kernel failed
  Status (*copy_to_device)(void* device, const void* host, std::size_t bytes) = nullptr;  // copies wait as well
  Status (*copy_to_host)(void* host, const void* device, std::size_t bytes) = nullptr;
};

// Of a backend other than the CPU.
const DeviceCalls& device_calls(Backend backend);

// Why nothing runs on this backend; empty: something does.
std::string unavailable_reason(Backend backend);

}  // namespace recoverssm
