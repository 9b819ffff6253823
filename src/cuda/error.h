// What becomes of a driver call's result outside of launches.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "recoverssm/types.hpp"

namespace recoverssm::cuda {

// An error that has been told must not be found again by a later call.
inline Status status_of(const char* what, cudaError_t error) {
  if (error == cudaSuccess) return {};
  cudaGetLastError();
  return {ErrorKind::device_error, std::string(what) + ": " + cudaGetErrorName(error) + ", " + cudaGetErrorString(error)};
}

}  // namespace recoverssm::cuda
