// A CUDA device in the CPU's memory. Its kernels are the CPU's operations; contents that the CPU refuses raise the flag and write nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace fake_cuda {

extern bool present;                         // whether there is a device
extern bool raises;                          // every kernel raises the flag, for no reason
extern bool writes_outside;                  // every kernel writes one byte past its workspace
extern std::atomic<std::int64_t> launches;   // so far
extern std::atomic<std::int64_t> allocated;  // pieces of device memory not given back
extern thread_local int device;              // the current one

constexpr std::size_t kWorkspace = 192;  // what every call asks for

}  // namespace fake_cuda
