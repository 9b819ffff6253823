// What of CUDA this build and this machine have. How to run on it: Launch::backend, stream and flag (types.hpp), Context::cuda.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace recoverssm::cuda {

struct Device {
  int index = 0;  // as cudaSetDevice counts
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  std::int64_t memory_bytes = 0;
  std::string unusable;  // why this build's kernels do not run there; empty: they do
};

// As CUDA counts: 13000 is 13.0. 0: there is none.
struct Versions {
  int driver = 0;   // what the installed driver supports
  int runtime = 0;  // what this build was made with
};

// All devices of this machine, usable or not. None without a driver, or in a build without the CUDA backend.
std::vector<Device> devices();

// Why nothing runs on CUDA here: "this build has no CUDA backend", "no CUDA driver", "no CUDA device", ... Empty: something does.
std::string unavailable_reason();

// What this build's kernels are compiled for: "sm_90" (code), "compute_120" (PTX for what comes after). Empty without the backend.
std::vector<std::string> architectures();

Versions versions();

}  // namespace recoverssm::cuda
