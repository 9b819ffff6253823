// What the benchmark needs of a device beside the operations: memory, a timed graph, and kernels for the ceilings. One implementation a
// backend; everything else of `recoverssm bench` is the same on all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "recoverssm/recoverssm.hpp"

namespace recoverssm::bench {

struct DeviceHardware {
  std::string name;    // empty: no device took part
  std::string driver;  // versions, in the backend's words: "580.159.04, CUDA 13.0"; runtime: what this build was made with
  std::string runtime;
  std::string clocks;  // at the time of asking; "unknown" where nobody says
  int multiprocessors = 0;
  std::size_t l2_bytes = 0, memory_bytes = 0;
};

// All work goes to one stream, in order. Functions throw Error(device_error) in the driver's words.
class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceHardware hardware() = 0;

  virtual void* allocate(std::size_t bytes) = 0;  // at least kWorkspaceAlignment
  virtual void release(void* memory) = 0;
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;    // returns when `from` may change
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;  // waits
  // to[i] = pattern[i % pattern_bytes]; pattern is host memory.
  virtual void repeat(void* to, std::size_t bytes, const void* pattern, std::size_t pattern_bytes) = 0;
  virtual void set_words(void* to, std::int32_t value, std::int64_t count) = 0;

  virtual Launch launch() const = 0;  // without workspace
  virtual void wait() = 0;

  // Captures `work` into a graph and replays it; seconds of each of `replays`, by events around it, after warm_up others.
  virtual std::vector<double> time(const std::function<void()>& work, int warm_up, int replays) = 0;

  // For the ceilings, on `bytes` (a multiple of 16).
  virtual void read(const void* from, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;         // a kernel of ours
  virtual void driver_copy(void* to, const void* from, std::size_t bytes) = 0;  // the backend's own copy
  virtual std::int64_t multiply_add() = 0;  // independent chains in registers: how many were issued
  virtual void empty() = 0;                 // a kernel that does nothing
};

// Throws Error(unsupported) with the reason where nothing runs on that backend here.
std::unique_ptr<Device> open_device(Backend backend);

// Of a build with the CUDA backend; absent otherwise.
std::unique_ptr<Device> open_cuda();
// Where the SYCL backend is available.
std::unique_ptr<Device> open_sycl();

}  // namespace recoverssm::bench
