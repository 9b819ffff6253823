// Host side of devices, for sessions, tests and trace replay: memory, copies, waiting. No operation uses these.
#pragma once

#include <cstddef>

#include "api/backend_memory.h"
#include "recoverssm/cuda.hpp"
#include "recoverssm/types.hpp"

namespace recoverssm::cuda {

// Memory of the current device (staging: pinned pages) and copies on streams of it.
const BackendMemory& memory();

// Memory with one address for host and kernels: pages of the host that the device reaches over the bus, or managed ones that move to whoever
// touches them. The host looks at it when nothing runs. Null: none left.
enum class SharedMemory { pinned, managed };
void* allocate_shared(SharedMemory kind, std::size_t bytes);
void release_shared(SharedMemory kind, void* memory);

// A stream of the current device, in order with the default stream. Null: the device refuses.
void* create_stream();
void destroy_stream(void* stream);

// Whether calls on the stream are being captured into a graph: nothing may be allocated then.
bool capturing(void* stream);

// Waits until what was put on the stream is done. device_error in the driver's words if a kernel failed.
Status synchronize(void* stream);

// Wait as well. device_error if the copy, or a kernel before it, failed.
Status copy_to_device(void* device, const void* host, std::size_t bytes);
Status copy_to_host(void* host, const void* device, std::size_t bytes);

}  // namespace recoverssm::cuda
