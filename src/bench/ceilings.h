// The fastest this machine reads, copies, updates and multiplies on the cores that the operations then run on.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/limits.h"
#include "bench/options.h"
#include "bench/pinned_pool.h"

namespace recoverssm::bench {

struct Sample {
  std::string kernel;  // "read avx512, 4 streams, prefetch 1024"
  double rate = 0;     // bytes a second, or multiply-add slots a second; the best pass
};

// Of one number of threads and one size.
struct Ceilings {
  int threads = 1;
  Size size = Size::beyond_cache;
  std::size_t bytes = 0;  // of memory that is read; a copy reads half of it and writes the other half
  Sample read, copy, memcpy_, update;
  std::map<Target, double> issue;  // slots a second
  double device_issue = 0;         // the same of a device
  double launch_seconds = 0;       // a device: of a kernel that does nothing, in a graph
  std::vector<Sample> all;         // every kernel measured
};

// beyond: memory to work on, 4096-byte aligned, written before. `bytes` of it are used.
Ceilings measure_ceilings(PinnedPool& pool, Size size, float* memory, std::size_t bytes, const std::vector<Target>& targets);

Limits limits_of(const Ceilings& ceilings, Target target);

}  // namespace recoverssm::bench
