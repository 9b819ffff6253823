// What of SYCL this build and this machine have. How to run on it: Launch::backend, stream and flag (types.hpp), Context::sycl.
// The namespace is not called sycl: a program with `using namespace recoverssm` could no longer say sycl::queue.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace recoverssm::sycl_backend {

struct Device {
  int index = 0;         // as devices() counts
  std::string name;      // "Intel(R) Arc(TM) ..."
  std::string platform;  // "Intel(R) OpenCL", ...
  std::string driver;    // its version
  std::string kind;      // "cpu", "gpu", "accelerator"
  int compute_units = 0;
  std::int64_t memory_bytes = 0;
  std::vector<int> sub_group_sizes;
  bool chosen = false;  // what a null queue means
  std::string
      unusable;  // why operations do not run there; empty: they do. The self-check's findings are no part of it, see inexact
};

// All devices the runtime shows, usable or not; its own environment variables (ONEAPI_DEVICE_SELECTOR, OCL_ICD_FILENAMES) decide which.
// None without the runtime or the module.
std::vector<Device> devices();

// Why nothing runs on SYCL here: "librecoverssm_sycl.so.0: cannot open shared object file ...", "no SYCL device", ... Empty: something does.
std::string unavailable_reason();

// What a small kernel on the default device found of its arithmetic when it was first asked for: division, square root, multiply-add and
// subnormals, compared with the host's bits. Empty: exact. Otherwise every operation is unsupported, for this reason.
std::string inexact();

// What the backend's module was built with and runs with: "SYCL 2020, DPC++ 2026.2 ..."; empty without it.
std::string runtime();

// The sub-group size kernels are compiled for, of those a device has; 0: the backend's choice. No size changes a bit. For tuning and
// tests; calls that run at the same time see one or the other.
void set_sub_group_size(int size);

}  // namespace recoverssm::sycl_backend
