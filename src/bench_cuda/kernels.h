// Device kernels of the benchmark itself: inputs, and the ceilings everything is measured against.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "recoverssm/types.hpp"

namespace recoverssm::bench_cuda {

// Element i becomes a value in [low, high] that depends on i and seed only.
void fill_random(void* data, DType dtype, std::int64_t count, float low, float high, std::uint32_t seed, cudaStream_t stream);

// Reads `bytes` (a multiple of 16) and keeps their sum in `sink`, so that nothing is optimised away.
void read_all(const void* data, std::int64_t bytes, float* sink, cudaStream_t stream);
// Copies `bytes` (a multiple of 16).
void copy_all(void* to, const void* from, std::int64_t bytes, cudaStream_t stream);
void empty(cudaStream_t stream);

}  // namespace recoverssm::bench_cuda
