// Test memory and tensors in it. Every allocation lies between guard zones and starts out filled with a pattern that reads as NaN in
// every float dtype and as an impossible id in int32, so that a stray read poisons a result and a stray write is seen.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "recoverssm/types.hpp"
#include "support/backend.h"

namespace support {

using recoverssm::DType;
using recoverssm::TensorView;
using Index = std::array<std::int64_t, recoverssm::kMaxDims>;
using Shape = std::vector<std::int64_t>;

class Memory {
 public:
  static constexpr std::size_t kGuard = 512;

  explicit Memory(std::size_t bytes);
  Memory(const Memory& other) : bytes_(other.bytes_, memory_of_calls()) {}
  Memory& operator=(const Memory&) = delete;
  std::byte* data() { return bytes_.data() + kGuard; }
  Bytes& all() { return bytes_; }  // guards included

 private:
  Bytes bytes_;
};

// Address of an element.
std::byte* element(const TensorView& view, const Index& index);

// Calls f(index) for every element, last dimension fastest.
void for_each(const TensorView& view, const std::function<void(const Index&)>& f);

// The part of a view with begin <= index[dim] < end. Slices of slices name any box of elements.
TensorView slice(const TensorView& view, int dim, std::int64_t begin, std::int64_t end);
inline TensorView slice(const TensorView& view, int dim, std::int64_t at) { return slice(view, dim, at, at + 1); }

// A view and the memory it lies in. A default one is absent. Copies share the memory.
struct Tensor {
  std::shared_ptr<Memory> memory;
  TensorView view;

  operator const TensorView&() const { return view; }  // NOLINT: a tensor is used wherever a view is
  bool present() const { return view.present(); }
  DType dtype() const { return view.dtype; }

  template <class... I>
  std::byte* at(I... i) const {
    return element(view, Index{static_cast<std::int64_t>(i)...});
  }
  template <class... I>
  double get(I... i) const {
    return get_at(Index{static_cast<std::int64_t>(i)...});
  }
  template <class... I>
  void set(double value, I... i) const {
    set_at(value, Index{static_cast<std::int64_t>(i)...});
  }
  double get_at(const Index& index) const;
  void set_at(double value, const Index& index) const;
  void fill(double value) const;
};

// A dense tensor, last dimension fastest.
Tensor dense(DType dtype, const Shape& shape);
Tensor dense_i32(const std::vector<int>& values);
Tensor dense_bool(const std::vector<int>& values);

// Copies bits between views of one shape and dtype.
void copy_bits(const TensorView& from, const TensorView& to);

// Every element has the same bits. Where `nan_is_nan`, two NaNs are the same whatever their payload and sign (the contract promises
// neither for a computed NaN). The message shows the first difference.
::testing::AssertionResult same_bits(const TensorView& a, const TensorView& b, bool nan_is_nan = false);

// Every element is +0: all bits clear.
::testing::AssertionResult all_zero_bits(const TensorView& view);

// Remembers memory before a call; afterwards says whether anything changed outside the places the call may write.
//
//   Untouched untouched{{"state", state}, {"out", out}};
//   untouched.except(slice(state, 0, block));
//   ... the call ...
//   require(untouched.check());
class Untouched {
 public:
  struct Watch {
    std::string name;
    Tensor tensor;  // absent ones are skipped
  };
  explicit Untouched(std::vector<Watch> watches);
  void except(const TensorView& written);
  ::testing::AssertionResult check() const;

 private:
  struct Region {
    std::string name;
    std::shared_ptr<Memory> memory;
    std::vector<std::byte> before;
    std::vector<bool> writable;
  };
  std::vector<Region> regions_;
};

}  // namespace support
