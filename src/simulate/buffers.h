// Memory of a layer's calls: rows of tokens, and single elements of the three float dtypes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "arithmetic/rounding.h"
#include "recoverssm/types.hpp"

namespace recoverssm::simulate {

using Bytes = std::vector<std::byte>;

// Every byte of memory that nobody has written yet: NaN in every float dtype, so that reading it shows.
constexpr std::byte kUnwritten{0xff};

inline float load_float(DType dtype, const std::byte* at) {
  if (dtype == DType::f32) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return dtype == DType::bf16 ? arithmetic::from_bf16(bits) : arithmetic::from_f16(bits);
}

inline void store_float(DType dtype, std::byte* at, float value) {
  if (dtype == DType::f32) {
    std::memcpy(at, &value, sizeof value);
    return;
  }
  const std::uint16_t bits = dtype == DType::bf16 ? arithmetic::to_bf16(value) : arithmetic::to_f16(value);
  std::memcpy(at, &bits, sizeof bits);
}

// [n, width], rows `stride` elements apart; what lies between rows belongs to nobody.
class TokenRows {
 public:
  // Forgets what was there.
  void reset(DType dtype, std::int64_t rows, std::int64_t width, std::int64_t gap) {
    dtype_ = dtype, rows_ = rows, width_ = width, stride_ = width + gap;
    bytes_.assign(static_cast<std::size_t>(rows * stride_ * size_of(dtype)), kUnwritten);
  }

  std::int64_t rows() const { return rows_; }
  std::byte* row(std::int64_t i) { return bytes_.data() + i * stride_ * size_of(dtype_); }
  std::span<const std::byte> row(std::int64_t i) const {
    return {bytes_.data() + i * stride_ * size_of(dtype_), static_cast<std::size_t>(width_ * size_of(dtype_))};
  }
  // Whether nothing between the rows, and nothing from row `first` on, has been written.
  bool untouched_beside(std::int64_t first) const {
    const std::int64_t size = size_of(dtype_);
    for (std::int64_t i = 0; i < rows_; ++i) {
      const std::byte* const at = bytes_.data() + (i * stride_ + (i < first ? width_ : 0)) * size;
      const std::byte* const end = bytes_.data() + (i + 1) * stride_ * size;
      if (!std::all_of(at, end, [](std::byte b) { return b == kUnwritten; })) return false;
    }
    return true;
  }

  // All of it, what lies between the rows included.
  std::span<std::byte> all() const { return {data(), bytes_.size()}; }

  TensorView view() const { return {data(), dtype_, {rows_, width_}, {stride_, 1}}; }
  // Columns first.. as [n, heads, size].
  TensorView view(std::int64_t first, std::int64_t heads, std::int64_t size) const {
    return {data() + first * size_of(dtype_), dtype_, {rows_, heads, size}, {stride_, size, 1}};
  }

 private:
  std::byte* data() const { return const_cast<std::byte*>(bytes_.data()); }

  DType dtype_ = DType::f32;
  std::int64_t rows_ = 0, width_ = 0, stride_ = 0;
  Bytes bytes_;
};

}  // namespace recoverssm::simulate
