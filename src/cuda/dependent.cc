#include "cuda/dependent.h"

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

namespace recoverssm::cuda {
namespace {

constexpr int kDevices = 64;
enum Known : std::int8_t { unknown = 0, no, yes };

}  // namespace

// Asked of a kernel, not of the device: which code the driver takes depends on the build's architectures and on its own settings
// (CUDA_FORCE_PTX_JIT), and code for what was before 9.0 does not wait. All kernels are compiled for the same list: one answers for a device.
bool kernels_wait(const void* kernel) {
  static std::atomic<std::int8_t> known[kDevices];
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device >= kDevices) {
    cudaGetLastError();
    return false;
  }
  const auto found = known[device].load(std::memory_order_relaxed);
  if (found != unknown) return found == yes;
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  const bool waits = attributes.ptxVersion >= 90;
  known[device].store(waits ? yes : no, std::memory_order_relaxed);
  return waits;
}

}  // namespace recoverssm::cuda
