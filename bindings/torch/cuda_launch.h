// A launch on PyTorch's current stream of a CUDA device.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <cstdint>

#include "recoverssm/types.hpp"

namespace recoverssm::torch_ops {

// While it is there the device is the current one. Without the CUDA backend in this build, or a device for it, launch() is one that every
// operation refuses with the reason.
class CudaLaunch {
 public:
  explicit CudaLaunch(std::int32_t device);
  ~CudaLaunch();
  CudaLaunch(const CudaLaunch&) = delete;
  CudaLaunch& operator=(const CudaLaunch&) = delete;

  const Launch& launch() const { return launch_; }
  // Scratch memory from PyTorch's allocator. It is given back when the call returns: whatever gets it next is on the stream behind the call.
  void make_room(std::size_t bytes);

 private:
  struct Guard {
    DeviceGuardHandle handle = nullptr;
    ~Guard() {
      if (handle != nullptr) aoti_torch_delete_device_guard(handle);
    }
  };

  std::int32_t device_;
  Guard guard_;
  AtenTensorHandle room_ = nullptr;
  Launch launch_{.backend = Backend::cuda};
};

}  // namespace recoverssm::torch_ops
