#include "session/memory.h"

#include <new>
#include <string>

#include "recoverssm/types.hpp"
#include "session/config.h"

namespace recoverssm {

void FreeMemory::operator()(std::byte* memory) const {
  const BackendMemory& of = place.memory();
  (staging ? of.release_staging : of.release)(memory, place.stream);
}

namespace {

Memory owned(const MemoryPlace& place, void* memory, std::int64_t bytes, bool staging) {
  if (memory != nullptr) return Memory(static_cast<std::byte*>(memory), {place, staging});
  if (!place.on_device()) throw std::bad_alloc();
  throw Error({ErrorKind::device_error, std::string("session: no ") + (staging ? "pinned host" : "device") + " memory for " +
                                            std::to_string(bytes) + " bytes"});
}

}  // namespace

Memory allocate(const MemoryPlace& place, std::int64_t bytes) {
  return owned(place, place.memory().allocate(static_cast<std::size_t>(bytes), place.stream), bytes, false);
}

Memory allocate_staging(const MemoryPlace& place, std::int64_t bytes) {
  return owned(place, place.memory().allocate_staging(static_cast<std::size_t>(bytes), place.stream), bytes, true);
}

void must(Status status) {
  if (!status.ok()) throw Error(std::move(status));
}

namespace {

std::byte* at_block(const TensorView& view, std::int64_t block) {
  return static_cast<std::byte*>(view.data) + block * view.stride[0] * size_of(view.dtype);
}

void clear(const MemoryPlace& place, const TensorView& pending, std::int64_t first, std::int64_t count) {
  const std::int64_t size = size_of(pending.dtype);
  must(place.memory().fill(at_block(pending, first), pending.stride[0] * size, std::byte{0}, size, count, place.stream));
}

// Calls copy(in the pool, its pitch, in the dense bytes, width, rows) for every piece of a block that one copy can take. Lines may have
// any strides.
template <class Byte, class Copy>
Byte* walk(const LayerConfig& layer, const LayerPool& pool, std::int32_t block, Byte* dense, Copy copy) {
  if (pool.line.present()) {
    const std::int64_t size = size_of(pool.line.dtype), channels = pool.line.shape[2], history = history_of(layer);
    const std::int64_t position = pool.line.stride[1] * size, channel = pool.line.stride[2] * size;
    if (channel == size || channels == 1) {
      copy(at_block(pool.line, block), position, dense, channels * size, history);
    } else {
      for (std::int64_t p = 0; p < history; ++p) {
        copy(at_block(pool.line, block) + p * position, channel, dense + p * channels * size, size, channels);
      }
    }
    dense += history * channels * size;
  }
  if (!pool.state.present()) return dense;
  const std::int64_t bytes = std::int64_t{layer.HV} * layer.V * layer.K * size_of(layer.state);
  copy(at_block(pool.state, block), bytes, dense, bytes, 1);
  return dense + bytes;
}

}  // namespace

void clear_pending(const MemoryPlace& place, const TensorView& pending, std::int32_t block) {
  if (pending.present()) clear(place, pending, block, 1);
}

void clear_pending(const MemoryPlace& place, const TensorView& pending) {
  if (pending.present()) clear(place, pending, 0, pending.shape[0]);
}

std::byte* copy_from_block(const MemoryPlace& place, const LayerConfig& layer, const LayerPool& pool, std::int32_t block,
                           std::byte* dense) {
  return walk(layer, pool, block, dense,
              [&](std::byte* in_pool, std::int64_t pitch, std::byte* out, std::int64_t width, std::int64_t rows) {
                const RowCopy copy{
                    .to = out, .to_pitch = width, .from = in_pool, .from_pitch = pitch, .width = width, .rows = rows};
                must(place.memory().copy(copy, place.stream));
              });
}

const std::byte* copy_to_block(const MemoryPlace& place, const LayerConfig& layer, const LayerPool& pool, std::int32_t block,
                               const std::byte* dense) {
  return walk(layer, pool, block, dense,
              [&](std::byte* in_pool, std::int64_t pitch, const std::byte* in, std::int64_t width, std::int64_t rows) {
                const RowCopy copy{.to = in_pool, .to_pitch = pitch, .from = in, .from_pitch = width, .width = width, .rows = rows};
                must(place.memory().copy(copy, place.stream));
              });
}

}  // namespace recoverssm
