// A trace's buffers on a device. The host keeps a copy of each, guards included, which is what the checks look at: contents go to the
// device before a call and come back after it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "recoverssm/recoverssm.hpp"
#include "trace/guarded.h"

namespace recoverssm::trace {

// Device memory that is given back. Throws Error(device_error) if there is none.
class DeviceMemory {
 public:
  DeviceMemory(Backend backend, std::size_t bytes);
  std::byte* data() const { return memory_.get(); }
  Backend backend() const { return memory_.get_deleter().backend; }

 private:
  struct Release {
    Backend backend;
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Release> memory_;
};

// Memory beside a GuardedMemory. With `guards` they go along, and damage to them is found on the host. Without, the device allocation ends
// where the contents end: what compute-sanitizer needs to find a read past it.
class DeviceCopy {
 public:
  DeviceCopy(Backend backend, std::size_t bytes, bool guards);

  std::byte* data() const { return memory_.data() + (guards_ ? GuardedMemory::kGuard : 0); }
  // Between the device and a host memory of the same size. Throw Error(device_error).
  void upload(GuardedMemory& host) const;
  void download(GuardedMemory& host) const;

 private:
  std::span<std::byte> part(GuardedMemory& host) const;

  bool guards_;
  DeviceMemory memory_;
};

// Stream and flag of one trace.
class DeviceStream {
 public:
  explicit DeviceStream(Backend backend);
  ~DeviceStream();
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  Backend backend() const { return flag_.backend(); }
  // Without a workspace.
  Launch launch() const;
  // Waits for what was launched.
  Status wait() const;
  // What the kernels have reported. Throws Error(device_error).
  DeviceFlag flag() const;

 private:
  void* stream_;
  DeviceMemory flag_;
};

}  // namespace recoverssm::trace
