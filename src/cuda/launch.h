// Host side of a launch: what a failed one becomes, and how device workspace is cut.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string>

#include "recoverssm/types.hpp"

namespace recoverssm::cuda {

inline cudaStream_t stream_of(const Launch& launch) { return static_cast<cudaStream_t>(launch.stream); }

// After the last kernel of a call: device_error in the driver's words if one of them could not be launched.
inline Status launched(const char* op) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return {};
  return {ErrorKind::device_error, std::string(op) + ": launch: " + cudaGetErrorName(error) + ", " + cudaGetErrorString(error)};
}

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
