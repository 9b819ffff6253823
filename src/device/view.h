// Strided views in kernels, and elements between their dtypes and fp32, by bits (arithmetic/rounding.h). Scalar code for any device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arithmetic/rounding.h"
#include "recoverssm/types.hpp"

namespace recoverssm::device {

// A TensorView without its shape: what a kernel needs to find an element. Sizes travel beside it. Strides count bytes, so that no kernel
// asks a dtype for its size to find an element.
struct View {
  std::byte* data = nullptr;
  std::int64_t stride[kMaxDims] = {};
  DType dtype = DType::f32;
  bool present = false;
};

inline View view_of(const TensorView& t) {
  View v;
  v.data = static_cast<std::byte*>(t.data);
  for (int d = 0; d < kMaxDims; ++d) v.stride[d] = t.stride[static_cast<std::size_t>(d)] * size_of(t.dtype);
  v.dtype = t.dtype;
  v.present = t.present();
  return v;
}

// Address of element (i), (i, j), ...: 64-bit throughout.
template <class... Index>
RSSM_HOST_DEVICE std::byte* at(const View& view, Index... index) {
  std::int64_t offset = 0;
  int d = 0;
  ((offset += static_cast<std::int64_t>(index) * view.stride[d++]), ...);
  return view.data + offset;
}

template <class... Index>
RSSM_HOST_DEVICE std::int32_t i32_at(const View& view, Index... index) {
  return *reinterpret_cast<const std::int32_t*>(at(view, index...));
}

template <class... Index>
RSSM_HOST_DEVICE void store_i32(const View& view, std::int32_t value, Index... index) {
  *reinterpret_cast<std::int32_t*>(at(view, index...)) = value;
}

RSSM_HOST_DEVICE bool bool_at(const View& view, std::int64_t i) { return *reinterpret_cast<const std::uint8_t*>(at(view, i)) != 0; }

// Bytes of an activation, state or parameter.
RSSM_HOST_DEVICE int float_size(DType dtype) { return dtype == DType::f32 ? 4 : 2; }

// An element type as memory has it, widened exactly and narrowed to nearest even.
struct F32 {
  using Bits = float;
  static RSSM_HOST_DEVICE float widen(float x) { return x; }
  static RSSM_HOST_DEVICE float narrow(float x) { return x; }
};
struct BF16 {
  using Bits = std::uint16_t;
  static RSSM_HOST_DEVICE float widen(std::uint16_t x) { return arithmetic::from_bf16(x); }
  static RSSM_HOST_DEVICE std::uint16_t narrow(float x) { return arithmetic::to_bf16(x); }
};
struct F16 {
  using Bits = std::uint16_t;
  static RSSM_HOST_DEVICE float widen(std::uint16_t x) { return arithmetic::from_f16(x); }
  static RSSM_HOST_DEVICE std::uint16_t narrow(float x) { return arithmetic::to_f16(x); }
};

// Calls f with the element type of a dtype that is known only now: one branch around a loop, in place of one an element.
template <class F>
RSSM_HOST_DEVICE void with_element(DType dtype, F&& f) {
  if (dtype == DType::f32) {
    f(F32{});
  } else if (dtype == DType::bf16) {
    f(BF16{});
  } else {
    f(F16{});
  }
}

template <class T>
RSSM_HOST_DEVICE float load_as(const std::byte* p, std::int64_t i) {
  return T::widen(reinterpret_cast<const typename T::Bits*>(p)[i]);
}
template <class T>
RSSM_HOST_DEVICE void store_as(std::byte* p, std::int64_t i, float x) {
  reinterpret_cast<typename T::Bits*>(p)[i] = T::narrow(x);
}

// One element of a dtype that is known only now; the branch is the same for a whole launch.
RSSM_HOST_DEVICE float load_float(const std::byte* p, DType dtype) {
  if (dtype == DType::f32) return load_as<F32>(p, 0);
  return dtype == DType::bf16 ? load_as<BF16>(p, 0) : load_as<F16>(p, 0);
}

RSSM_HOST_DEVICE void store_float(std::byte* p, DType dtype, float x) {
  if (dtype == DType::f32) return store_as<F32>(p, 0, x);
  return dtype == DType::bf16 ? store_as<BF16>(p, 0, x) : store_as<F16>(p, 0, x);
}

// Moves one element of 2 or 4 bytes, bit by bit.
RSSM_HOST_DEVICE void copy_element(std::byte* to, const std::byte* from, int size) {
  if (size == 4) {
    *reinterpret_cast<std::uint32_t*>(to) = *reinterpret_cast<const std::uint32_t*>(from);
  } else {
    *reinterpret_cast<std::uint16_t*>(to) = *reinterpret_cast<const std::uint16_t*>(from);
  }
}

RSSM_HOST_DEVICE void clear_element(std::byte* to, int size) {
  if (size == 4) {
    *reinterpret_cast<std::uint32_t*>(to) = 0;
  } else {
    *reinterpret_cast<std::uint16_t*>(to) = 0;
  }
}

// A [N] int32 view.
struct Column {
  std::int32_t* data = nullptr;
  std::int64_t stride = 0;
};

inline Column column_of(const TensorView& view) { return {static_cast<std::int32_t*>(view.data), view.stride[0]}; }
RSSM_HOST_DEVICE std::int32_t& value_at(const Column& column, std::int64_t i) { return column.data[i * column.stride]; }

}  // namespace recoverssm::device
