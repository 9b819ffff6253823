// align_move and align_advance: what happens to blocks and counts around a step of a prefix-caching engine.
#pragma once

#include "device/align.h"
#include "sycl/kernels/report.h"

namespace recoverssm::sycl_backend {

constexpr std::int64_t kMoveItems = 128;        // of a work-group
constexpr std::int64_t kMoveBytes = 64 * 1024;  // of a state, by one work-group

struct alignas(16) Bytes16 {
  std::uint32_t words[4];
};

constexpr std::int64_t state_shares(const device::MoveLayer& layer) { return (layer.state_bytes + kMoveBytes - 1) / kMoveBytes; }
constexpr std::int64_t line_shares(const device::MoveLayer& layer) { return (layer.channels + kMoveItems - 1) / kMoveItems; }

template <class Bits>
void copy_range(std::byte* to, const std::byte* from, std::int64_t begin, std::int64_t end, std::int64_t id) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(Bits));
  for (std::int64_t b = begin + kSize * id; b < end; b += kSize * kMoveItems)
    *reinterpret_cast<Bits*>(to + b) = *reinterpret_cast<const Bits*>(from + b);
}

// Copies the work-group's share of `bytes` bytes; 16 at a time where both ends allow it. Every dtype has a multiple of two.
inline void copy_share(std::byte* to, const std::byte* from, std::int64_t bytes, std::int64_t share, std::int64_t id) {
  const std::int64_t begin = share * kMoveBytes, end = min64(begin + kMoveBytes, bytes);
  const auto bits =
      reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from) | static_cast<std::uintptr_t>(bytes);
  if (bits % sizeof(Bytes16) == 0) return copy_range<Bytes16>(to, from, begin, end, id);
  copy_range<std::uint16_t>(to, from, begin, end, id);
}

inline std::byte* line_at(const device::MoveLayer& layer, std::int64_t block, std::int64_t position, std::int64_t channel) {
  return layer.line +
         (block * layer.line_stride[0] + position * layer.line_stride[1] + channel * layer.line_stride[2]) * layer.line_size;
}

// Range: layers, rows, shares of a block's bytes. No row's destination is another row's source or destination.
inline void move_body(const ::sycl::nd_item<3>& item, const device::MoveArgs& args) {
  const device::MoveLayer& layer = args.layers[item.get_group(0)];
  const auto i = static_cast<std::int64_t>(item.get_group(1)), share = static_cast<std::int64_t>(item.get_group(2));
  const auto id = static_cast<std::int64_t>(item.get_local_id(2));
  const std::int64_t states = state_shares(layer);
  const device::Move move = device::move_row(args, layer, i);
  if (id == 0) report(args.reporter, move.found, i, layer.index);
  if (!move.moves) return;
  // Nobody else of this launch reads the destination's count: the row owns the block.
  if (share == 0 && id == 0 && layer.pending != nullptr) layer.pending[move.to * layer.pending_stride] = 0;
  if (share < states) {
    return copy_share(layer.state + move.to * layer.state_block, layer.state + move.from * layer.state_block, layer.state_bytes,
                      share, id);
  }
  const std::int64_t channel = (share - states) * kMoveItems + id;
  if (channel >= layer.channels) return;
  for (int p = 0; p < layer.history; ++p)
    device::copy_element(line_at(layer, move.to, p, channel), line_at(layer, move.from, p, channel), layer.line_size);
}

inline void advance_body(const ::sycl::nd_item<3>& item, const device::AdvanceArgs& args) {
  const auto i = static_cast<std::int64_t>(item.get_global_id(2));
  if (i < args.rows) report(args.reporter, device::advance_row(args, i), i);
}

}  // namespace recoverssm::sycl_backend

#define RSSM_ALIGN_KERNELS(KERNEL)                                                \
  KERNEL(move, recoverssm::device::MoveArgs, recoverssm::sycl_backend::move_body) \
  KERNEL(advance, recoverssm::device::AdvanceArgs, recoverssm::sycl_backend::advance_body)
#if defined(RSSM_AT_RUN_TIME)
RSSM_ALIGN_KERNELS(RSSM_KERNEL)
#endif
