// The bytes of a checkpoint, little-endian, no padding (docs/sessions.md#checkpoints):
//
//   header    "RSSMCKPT", version u32, layers u32, bytes u64 (of all), tokens i64, tag u64, owner u64, step u64
//   layers    per layer: kind u32, dtype of the line u32, dtype of the state u32, 0 u32, history, channels, HV, V, K i64, layout id char[8]
//   payload   per layer: history [history, channels], oldest first, then state [HV, V, K]
//   checksum  u64 over everything before
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "recoverssm/checkpoint.hpp"
#include "recoverssm/session_config.hpp"

namespace recoverssm {

constexpr char kCheckpointMagic[8] = {'R', 'S', 'S', 'M', 'C', 'K', 'P', 'T'};

struct CheckpointHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t layers;
  std::uint64_t bytes;
  std::int64_t tokens;
  std::uint64_t tag;
  std::uint64_t owner;
  std::uint64_t step;
};
static_assert(sizeof(CheckpointHeader) == 56 && std::has_unique_object_representations_v<CheckpointHeader>);

struct CheckpointLayer {
  std::uint32_t kind, activation, state, reserved;
  std::int64_t history, channels, HV, V, K;
  char layout[8];

  bool operator==(const CheckpointLayer&) const = default;
};
static_assert(sizeof(CheckpointLayer) == 64 && std::has_unique_object_representations_v<CheckpointLayer>);

CheckpointLayer checkpoint_layer(const LayerConfig& layer);

std::uint64_t checkpoint_checksum(std::span<const std::byte> bytes);

// The header of a checkpoint of `size` bytes, given at least so many of its first ones as a header has, or all. Refuses what the header
// alone tells is none.
CheckpointHeader checkpoint_header(std::span<const std::byte> begin, std::int64_t size);

// Of bytes that inspect_checkpoint accepts.
template <class T>
T read_at(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <class T>
void write_at(std::span<std::byte> bytes, std::size_t at, const T& value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

}  // namespace recoverssm
