#include "api/devices.h"

#include "cuda/device.h"
#include "cuda/ops.h"
#include "sycl/load.h"

namespace recoverssm {
namespace {

cuda::SharedMemory kind_of(SharedMemory kind) {
  return kind == SharedMemory::pinned ? cuda::SharedMemory::pinned : cuda::SharedMemory::managed;
}

constexpr DeviceCalls kCuda = {
    .unavailable_reason = cuda::unavailable_reason,
    .allocate = [](void*, std::size_t bytes) { return cuda::allocate(bytes); },
    .release = [](void*, void* memory) { cuda::release(memory); },
    .allocate_shared = [](SharedMemory kind, std::size_t bytes) { return cuda::allocate_shared(kind_of(kind), bytes); },
    .release_shared = [](SharedMemory kind, void* memory) { cuda::release_shared(kind_of(kind), memory); },
    .create_stream = cuda::create_stream,
    .destroy_stream = cuda::destroy_stream,
    .synchronize = cuda::synchronize,
    .copy_to_device = cuda::copy_to_device,
    .copy_to_host = cuda::copy_to_host,
};

}  // namespace

const DeviceCalls& device_calls(Backend backend) { return backend == Backend::sycl ? sycl_backend::calls() : kCuda; }

std::string unavailable_reason(Backend backend) {
  return backend == Backend::cpu ? std::string() : device_calls(backend).unavailable_reason();
}

}  // namespace recoverssm
