// Named ranges of the host's time, for profilers.
#pragma once

namespace recoverssm::cuda {

// From here to the end of the scope, in NVTX's domain "recoverssm", of the calling thread. Costs nanoseconds while no tool is attached; nothing in a
// build without CUDA or without nvtx3.
class Range {
 public:
  // `name` stays as it is for the life of the process.
  explicit Range(const char* name);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace recoverssm::cuda
