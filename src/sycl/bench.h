// What `recoverssm bench` needs of the device beside the operations (src/bench/device.h): figures, ways to fill memory, and kernels for the
// ceilings. In the module; a queue is a sycl::queue*, in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "recoverssm/types.hpp"

namespace recoverssm::sycl_backend {

struct BenchHardware {
  std::string name, driver;
  int compute_units = 0;
  bool cpu = false;  // the device is the host's processor
  std::size_t cache_bytes = 0, memory_bytes = 0;
};

struct BenchCalls {
  BenchHardware (*hardware)(void* queue) = nullptr;
  // to[i] = pattern[i % pattern_bytes], both on the device.
  Status (*repeat)(void* queue, void* to, std::size_t bytes, const void* pattern, std::size_t pattern_bytes) = nullptr;
  Status (*set_words)(void* queue, void* to, std::int32_t value, std::int64_t count) = nullptr;
  Status (*read)(void* queue, const void* from, std::size_t bytes, void* sink) = nullptr;  // sums go to one float
  Status (*copy)(void* queue, void* to, const void* from, std::size_t bytes) = nullptr;
  Status (*runtime_copy)(void* queue, void* to, const void* from, std::size_t bytes) = nullptr;
  Status (*multiply_add)(void* queue, void* sink, std::int64_t* issued) = nullptr;
  Status (*empty)(void* queue) = nullptr;
};

// Only where the backend is available.
const BenchCalls& bench_calls();

}  // namespace recoverssm::sycl_backend
