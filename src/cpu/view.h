// Addressing of strided views on the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "recoverssm/types.hpp"

namespace recoverssm::cpu {

// Address of element (i), (i, j), ...: 64-bit, in bytes. Computed on integers, because a view's base may be null (no elements) or lie
// outside what its elements cover (negative strides).
template <class... Index>
std::byte* at(const TensorView& view, Index... index) {
  const std::int64_t indices[] = {static_cast<std::int64_t>(index)...};
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < sizeof...(Index); ++d) offset += indices[d] * view.stride[d];
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(view.data) +
                                      static_cast<std::uintptr_t>(offset * size_of(view.dtype)));
}

template <class... Index>
std::int32_t i32_at(const TensorView& view, Index... index) {
  return *reinterpret_cast<const std::int32_t*>(at(view, index...));
}

template <class... Index>
void store_i32(const TensorView& view, std::int32_t value, Index... index) {
  *reinterpret_cast<std::int32_t*>(at(view, index...)) = value;
}

inline bool bool_at(const TensorView& view, std::int64_t i) { return *reinterpret_cast<const std::uint8_t*>(at(view, i)) != 0; }

// Asks for memory that is about to be read, or written over.
inline void prefetch_read(const std::byte* data, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(data + i, 0);
}
inline void prefetch_write(std::byte* data, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(data + i, 1);
}

// Global row of local token t.
inline std::int64_t global_row(const TensorView& token_index, std::int64_t t) {
  return token_index.present() ? i32_at(token_index, t) : t;
}

}  // namespace recoverssm::cpu
