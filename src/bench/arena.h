// The memory of the data sets, written before anything is measured: one mapping, backed by huge pages where the system gives them, or one
// allocation on a device. The same calls give the same contents at the same places in both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "bench/device.h"
#include "recoverssm/types.hpp"

namespace recoverssm::bench {

class Arena {
 public:
  Arena() = default;                  // only measures: hands out views nobody may read, and counts their bytes
  explicit Arena(std::size_t bytes);  // throws Error(device_error) if the system refuses
  Arena(std::size_t bytes, Device& device);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Elements in [low, high), the same in every run; f32, bf16 or f16.
  TensorView values(DType dtype, std::initializer_list<std::int64_t> shape, float low = -1, float high = 1);
  TensorView ints(const std::vector<std::int32_t>& values);  // [n] int32
  TensorView ints(std::int64_t rows, std::int64_t columns, const std::vector<std::int32_t>& values);
  TensorView ints(std::int64_t n, std::int32_t value) {
    return ints(std::vector<std::int32_t>(static_cast<std::size_t>(n), value));
  }

  // Uninitialised, and in no region.
  void* scratch(std::size_t bytes) { return take(bytes); }

  // What was handed out since the last clear, in order; scratch apart.
  struct Region {
    std::size_t offset, bytes;
  };
  const std::vector<Region>& regions() const { return regions_; }
  const std::byte* base() const { return base_; }

  std::size_t used() const { return used_; }
  void clear() {
    used_ = 0;
    regions_.clear();
  }

 private:
  void* take(std::size_t bytes);  // aligned to 64 bytes; an address of nothing where the arena only measures

  void* region(std::size_t bytes);

  Device* device_ = nullptr;
  std::byte* base_ = nullptr;
  std::size_t size_ = 0, used_ = 0;
  std::vector<Region> regions_;
};

}  // namespace recoverssm::bench
