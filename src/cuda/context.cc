// What a Context wants of a device.
#include <cuda_runtime.h>

#include "cuda/ops.h"

namespace recoverssm::cuda {

int current_device() {
  int device = -1;
  if (cudaGetDevice(&device) == cudaSuccess) return device;
  cudaGetLastError();
  return -1;
}

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes) == cudaSuccess) return memory;
  cudaGetLastError();  // said by the null: no later call may stumble over it
  return nullptr;
}

void release(void* memory) { cudaFree(memory); }

}  // namespace recoverssm::cuda
