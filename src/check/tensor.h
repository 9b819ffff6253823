// Memory of the checks' own calls: a dense tensor, and numbers to fill it with that are the same everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "arithmetic/rounding.h"
#include "recoverssm/types.hpp"

namespace recoverssm::check {

// Integers from a seed (splitmix64), and floats made of them by exact operations only.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  int between(int low, int high) { return low + static_cast<int>(next() % static_cast<std::uint64_t>(high - low + 1)); }
  // A multiple of 2^-11 in [-1, 1), times `scale`, a power of two: nothing is rounded.
  float uniform(float scale = 1.0F) { return static_cast<float>(between(-2048, 2047)) * 0x1p-11F * scale; }
  // A float with a random 24-bit significand and an exponent in low..high.
  float wide(int low, int high) {
    const auto sign = static_cast<std::uint32_t>(next() & 1U) << 31;
    const auto exponent = static_cast<std::uint32_t>(between(low, high) + 127) << 23;
    return arithmetic::float_of(sign | exponent | static_cast<std::uint32_t>(next() & 0x7fffffU));
  }

 private:
  std::uint64_t state_;
};

class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, std::vector<std::int64_t> shape) : dtype_(dtype), shape_(std::move(shape)) {
    bytes_.resize(static_cast<std::size_t>(elements() * size_of(dtype)));
  }
  static Tensor ints(const std::vector<std::int32_t>& values) {
    Tensor tensor(DType::i32, {static_cast<std::int64_t>(values.size())});
    if (!values.empty()) std::memcpy(tensor.bytes_.data(), values.data(), tensor.bytes_.size());
    return tensor;
  }
  static Tensor floats(std::vector<std::int64_t> shape, const std::vector<float>& values) {
    Tensor tensor(DType::f32, std::move(shape));
    for (std::size_t i = 0; i < values.size(); ++i) tensor.set(static_cast<std::int64_t>(i), values[i]);
    return tensor;
  }
  static Tensor filled(DType dtype, std::vector<std::int64_t> shape, float value) {
    Tensor tensor(dtype, std::move(shape));
    for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, value);
    return tensor;
  }
  static Tensor random(DType dtype, std::vector<std::int64_t> shape, Random& random, float scale = 1.0F) {
    Tensor tensor(dtype, std::move(shape));
    for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, random.uniform(scale));
    return tensor;
  }

  DType dtype() const { return dtype_; }
  std::int64_t elements() const {
    std::int64_t n = 1;
    for (const std::int64_t d : shape_) n *= d;
    return n;
  }
  std::span<std::byte> bytes() { return bytes_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  // Elements first..first+count-1.
  std::span<std::byte> slice(std::int64_t first, std::int64_t count) {
    return bytes().subspan(static_cast<std::size_t>(first * size_of(dtype_)), static_cast<std::size_t>(count * size_of(dtype_)));
  }

  // Rounded to the dtype.
  void set(std::int64_t i, float value) {
    std::byte* at = bytes_.data() + i * size_of(dtype_);
    if (dtype_ == DType::f32) {
      std::memcpy(at, &value, sizeof value);
    } else {
      const std::uint16_t bits = dtype_ == DType::bf16 ? arithmetic::to_bf16(value) : arithmetic::to_f16(value);
      std::memcpy(at, &bits, sizeof bits);
    }
  }
  void set_bits(std::int64_t i, std::uint16_t bits) { std::memcpy(bytes_.data() + 2 * i, &bits, sizeof bits); }

  // The view operations take; they write through it where the contract says so.
  operator TensorView() const {  // NOLINT(google-explicit-constructor)
    TensorView view;
    view.data = const_cast<std::byte*>(bytes_.data());
    view.dtype = dtype_;
    view.dims = static_cast<int>(shape_.size());
    std::int64_t stride = 1;
    for (std::size_t d = shape_.size(); d-- > 0;) {
      view.shape[d] = shape_[d];
      view.stride[d] = stride;
      stride *= shape_[d];
    }
    return view;
  }
  // Columns first..first+heads*size-1 of a matrix, as [rows, heads, size].
  TensorView heads(std::int64_t first, std::int64_t heads, std::int64_t size) const {
    TensorView view = *this;
    view.data = static_cast<std::byte*>(view.data) + first * size_of(dtype_);
    view.dims = 3;
    view.shape = {shape_[0], heads, size};
    view.stride = {shape_[1], size, 1};
    return view;
  }

 private:
  DType dtype_ = DType::f32;
  std::vector<std::int64_t> shape_;
  std::vector<std::byte> bytes_;
};

}  // namespace recoverssm::check
