#include <cuda_runtime.h>

#include "arithmetic/gates.h"
#include "cuda/functions.h"
#include "cuda/view.cuh"

namespace recoverssm::cuda_test {
namespace {

__device__ std::uint32_t apply(Function f, std::uint32_t pattern) {
  const float x = __uint_as_float(pattern);
  switch (f) {
    case Function::exp:
      return __float_as_uint(arithmetic::exp_f32(x));
    case Function::log:
      return __float_as_uint(arithmetic::log_f32(x));
    case Function::sigmoid:
      return __float_as_uint(arithmetic::sigmoid(x));
    case Function::silu:
      return __float_as_uint(arithmetic::silu(x));
    case Function::softplus:
      return __float_as_uint(arithmetic::softplus(x, 1.5f, 20.0f));
    case Function::softplus_of_one:  // the host divides by one
      return __float_as_uint(arithmetic::softplus_of_one(x, 20.0f));
    case Function::inverse_norm:
      return __float_as_uint(arithmetic::inverse_norm(x));
    case Function::to_bf16:
      return __bfloat16_as_ushort(cuda::narrow<__nv_bfloat16>(x));
    case Function::to_f16:
      return __half_as_ushort(cuda::narrow<__half>(x));
    case Function::from_bf16:
      return __float_as_uint(cuda::widen(__ushort_as_bfloat16(static_cast<unsigned short>(pattern))));
    case Function::from_f16:
      return __float_as_uint(cuda::widen(__ushort_as_half(static_cast<unsigned short>(pattern))));
  }
  return 0;
}

__global__ void kernel(Function f, std::uint32_t first, std::uint32_t count, std::uint32_t* results) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) results[i] = apply(f, first + i);
}

}  // namespace

bool run_on_device(Function f, std::uint32_t first, std::uint32_t count, std::uint32_t* results, const char** why) {
  static std::uint32_t* buffer = nullptr;
  static std::uint32_t room = 0;
  cudaError_t error = cudaSuccess;
  if (count > room) {
    cudaFree(buffer);
    error = cudaMalloc(&buffer, std::size_t{count} * 4);
    room = error == cudaSuccess ? count : 0;
  }
  if (error == cudaSuccess) {
    kernel<<<(count + 255) / 256, 256>>>(f, first, count, buffer);
    error = cudaMemcpy(results, buffer, std::size_t{count} * 4, cudaMemcpyDeviceToHost);
  }
  *why = cudaGetErrorString(error);
  return error == cudaSuccess;
}

}  // namespace recoverssm::cuda_test
