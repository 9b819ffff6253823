// Context: the threads and the scratch memory of a caller that has none of its own.
#pragma once

#include <cstddef>
#include <memory>

#include "recoverssm/types.hpp"

namespace recoverssm {

// Owns a thread pool (or a place on a CUDA stream or a SYCL queue) and a workspace that grows before a launch, never inside one. Not to be used by two
// threads at once; make one a caller thread. After fork, the child must make its own.
class Context {
 public:
  // threads: workers including the calling thread; 0: one a core.
  explicit Context(int threads = 1);

  // Launches on a stream of the current device (a cudaStream_t; null: the default stream), with a workspace in that device's memory.
  // Calls return before the device is done. Between two sizes of workspace the device is waited for. Throws Error(unsupported) if
  // cuda::unavailable_reason() has one.
  static Context cuda(void* stream = nullptr);

  // The same on SYCL: on an in-order queue (a sycl::queue*, which must outlive the context; null: a queue of the default device). Throws
  // Error(unsupported) if sycl_backend::unavailable_reason() has one.
  static Context sycl(void* queue = nullptr);

  ~Context();
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;

  Backend backend() const;

  // A launch with this context's threads or stream, for asking a workspace size.
  Launch launch() const;
  // The same with at least `bytes` of workspace. Throws Error(device_error) if a device has no memory left for it.
  Launch launch(std::size_t bytes);

  Target target = Target::best;
  Counters* counters = nullptr;
  DeviceFlag* flag = nullptr;  // devices: where kernels report what they find wrong in index contents

 private:
  struct State;
  explicit Context(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace recoverssm
