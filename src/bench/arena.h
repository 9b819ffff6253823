// The memory of the data sets: one mapping, backed by huge pages where the system gives them, written once before anything is measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "recoverssm/types.hpp"

namespace recoverssm::bench {

class Arena {
 public:
  Arena() = default;                  // only measures: hands out views nobody may read, and counts their bytes
  explicit Arena(std::size_t bytes);  // throws Error(device_error) if the system refuses
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

  std::size_t used() const { return used_; }
  void clear() { used_ = 0; }

 private:
  void* take(std::size_t bytes);  // aligned to 64 bytes; an address of nothing where the arena only measures

  std::byte* base_ = nullptr;
  std::size_t size_ = 0, used_ = 0;
};

}  // namespace recoverssm::bench
