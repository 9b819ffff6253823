// A CUDA device in the CPU's memory. Its kernels are the CPU's operations; contents that the CPU refuses raise the flag and write nothing.
//
// Device memory is closed to the host: who reads or writes it other than by a copy, a fill or a kernel gets a segmentation fault. A tensor that
// no device could reach, and staging memory that changes before the copy from it is known to be done, are failures of the running
// test. Copies to the host arrive when the stream is waited for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fake_cuda {

extern bool present;                      // whether there is a device
extern bool raises;                       // every kernel raises the flag, for no reason
extern bool writes_outside;               // every kernel writes one byte past its workspace
extern bool full;                         // no device memory is left
extern std::int64_t launches;             // so far
extern std::vector<std::string>* ranges;  // optional: names of the ranges that begin, in order
extern std::int64_t waits;                // times that the host waited for a stream
extern std::int64_t allocated;            // pieces of device memory not given back

constexpr std::size_t kWorkspace = 192;  // what every call asks for

}  // namespace fake_cuda
