// A CUDA device in the CPU's memory. Its kernels are the CPU's operations; contents that the CPU refuses raise the flag and write nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fake_cuda {

extern bool present;            // whether there is a device
extern bool raises;             // every kernel raises the flag, for no reason
extern bool writes_outside;     // every kernel writes one byte past its workspace
extern std::int64_t launches;   // so far
extern std::int64_t allocated;  // pieces of device memory not given back

constexpr std::size_t kWorkspace = 192;  // what every call asks for

}  // namespace fake_cuda
