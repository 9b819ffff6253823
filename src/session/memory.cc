#include "session/memory.h"

#include <cstring>
#include <new>

#include "recoverssm/types.hpp"
#include "session/config.h"

namespace recoverssm {

void FreeMemory::operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{kWorkspaceAlignment}); }

Memory allocate(std::int64_t bytes) {
  return Memory(new (std::align_val_t{kWorkspaceAlignment}) std::byte[static_cast<std::size_t>(bytes)]);
}

void clear_pending(const TensorView& pending, std::int32_t block) {
  if (pending.present()) static_cast<std::int32_t*>(pending.data)[block * pending.stride[0]] = 0;
}

void clear_pending(const TensorView& pending) {
  for (std::int64_t i = 0; pending.present() && i < pending.shape[0]; ++i) clear_pending(pending, static_cast<std::int32_t>(i));
}

namespace {

std::byte* at_block(const TensorView& view, std::int32_t block) {
  return static_cast<std::byte*>(view.data) + block * view.stride[0] * size_of(view.dtype);
}

// Calls copy(in the pool, in the dense bytes, count) for every contiguous piece of a block. Lines may have any strides.
template <class Byte, class Copy>
Byte* walk(const LayerConfig& layer, const LayerPool& pool, std::int32_t block, Byte* dense, Copy copy) {
  if (pool.line.present()) {
    const std::int64_t size = size_of(pool.line.dtype), channels = pool.line.shape[2];
    const bool contiguous = pool.line.stride[2] == 1 || channels == 1;
    const std::int64_t pieces = contiguous ? 1 : channels, bytes = channels / pieces * size;
    for (std::int64_t p = 0; p < history_of(layer); ++p) {
      std::byte* const position = at_block(pool.line, block) + p * pool.line.stride[1] * size;
      for (std::int64_t c = 0; c < pieces; ++c, dense += bytes) copy(position + c * pool.line.stride[2] * size, dense, bytes);
    }
  }
  if (!pool.state.present()) return dense;
  const std::int64_t bytes = std::int64_t{layer.HV} * layer.V * layer.K * size_of(layer.state);
  copy(at_block(pool.state, block), dense, bytes);
  return dense + bytes;
}

}  // namespace

std::byte* copy_from_block(const LayerConfig& layer, const LayerPool& pool, std::int32_t block, std::byte* dense) {
  return walk(layer, pool, block, dense, [](const std::byte* in_pool, std::byte* out, std::int64_t bytes) {
    std::memcpy(out, in_pool, static_cast<std::size_t>(bytes));
  });
}

const std::byte* copy_to_block(const LayerConfig& layer, const LayerPool& pool, std::int32_t block, const std::byte* dense) {
  return walk(layer, pool, block, dense, [](std::byte* in_pool, const std::byte* in, std::int64_t bytes) {
    std::memcpy(in_pool, in, static_cast<std::size_t>(bytes));
  });
}

}  // namespace recoverssm
