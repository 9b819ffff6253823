// Host side of a launch: kernels onto a stream, what a failed one becomes, and how device workspace is cut.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string>
#include <type_traits>

#include "cuda/dependent.cuh"
#include "cuda/dependent.h"
#include "recoverssm/types.hpp"

namespace recoverssm::cuda {

// Puts a call's kernels on its stream and keeps the first error. After one nothing more is put there.
//
// The error is each launch's own: <<<>>> would leave it to cudaGetLastError, which may hold what another library's call left there. That
// one is its caller's to find: a call of ours that succeeds neither reports nor clears it. Only an error that spoils the whole context (a
// kernel of whoever went astray) comes back from every launch, ours too.
class Launcher {
 public:
  explicit Launcher(const Launch& launch) : stream_(static_cast<cudaStream_t>(launch.stream)) {}

  template <class... Args>
  void put(void (*kernel)(Args...), dim3 grid, int threads, std::size_t shared_bytes, const std::type_identity_t<Args>&... args) {
    if (error_ != cudaSuccess) return;
    const void* pointers[] = {&args...};
    const void* const function = reinterpret_cast<const void*>(kernel);
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = dim3(static_cast<unsigned>(threads));
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream_;
    config.attrs = &early;
    config.numAttrs = kernels_wait(function) ? 1 : 0;
    error_ = cudaLaunchKernelExC(&config, function, const_cast<void**>(pointers));
    if (error_ != cudaSuccess) cudaGetLastError();  // told by the status: no later call may stumble over it
  }

  bool ok() const { return error_ == cudaSuccess; }

  // device_error in the driver's words if a kernel could not be launched.
  Status status(const char* op) const {
    if (ok()) return {};
    std::string text = std::string(op) + ": launch: " + cudaGetErrorName(error_) + ", " + cudaGetErrorString(error_);
    int device = 0;
    if (error_ == cudaErrorInvalidResourceHandle && stream_ != nullptr && cudaGetDevice(&device) == cudaSuccess) {
      text += "; got a stream that is none of the current device, " + std::to_string(device) + ", expected one of its own";
    }
    return {ErrorKind::device_error, text};
  }

 private:
  cudaStream_t stream_;
  cudaError_t error_ = cudaSuccess;
};

// Hands out aligned pieces of workspace. With a null base it only measures, so that a size and its use are one piece of code.
class Carver {
 public:
  explicit Carver(void* base) : base_(static_cast<std::byte*>(base)) {}

  template <class T>
  T* take(std::int64_t count) {
    const std::size_t at = used_;
    used_ += (static_cast<std::size_t>(count) * sizeof(T) + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + at);
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace recoverssm::cuda
