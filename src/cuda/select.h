// How calls are cut for a launch: pure functions of shapes, strides and addresses, compiled for the host alone. No choice made here changes
// a bit of a result.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace recoverssm::cuda {

// Blocks that keep the GPUs in use busy: two for each of 132 multiprocessors.
constexpr std::int64_t kFullGrid = 264;
constexpr std::int64_t kMaxGridY = 65535;

constexpr std::int64_t blocks_for(std::int64_t work, std::int64_t a_block) { return (work + a_block - 1) / a_block; }

// Whether `lanes` neighbouring elements of a view can be moved as one value, wherever a multiple of `lanes` in its last dimension is.
// Strides of the outer dimensions, in elements.
inline bool lanes_fit(const void* data, std::int64_t element_size, std::int64_t last_stride,
                      std::initializer_list<std::int64_t> strides, int lanes) {
  if (last_stride != 1 || reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(lanes * element_size) != 0)
    return false;
  for (const std::int64_t stride : strides) {
    if (stride % lanes != 0) return false;
  }
  return true;
}

// Channels of a convolution.
constexpr int kConvThreads = 128;
constexpr int kConvLanes = 4;

constexpr std::int64_t conv_tiles(std::int64_t channels, int lanes) {
  return blocks_for(channels, std::int64_t{kConvThreads} * lanes);
}

// Whether threads take kConvLanes channels each. Fewer, wider threads only where enough of them are left. `items`: rows and segments.
constexpr bool wide_conv(bool fits, std::int64_t channels, std::int64_t items) {
  return fits && channels % kConvLanes == 0 && conv_tiles(channels, kConvLanes) * items >= kFullGrid;
}

// Long plain rows are cut into segments of this many tokens, counted from the row's first. More than any W-1.
constexpr std::int64_t kConvSegment = 64;
constexpr std::int64_t kShortConvSegment = 32;

// A call's grid is made before its rows are known: beside the first segment of each row it has room for `extra` later ones. Item e of them
// is the segment, of the row around local token (e+1)*segment, whose first token is the next one at or after that token; as segments are
// `segment` tokens apart, each is found once. Not cut (extra 0, a segment is a row) where no row can be long, if none is empty.
struct Segments {
  std::int64_t segment = INT64_MAX;
  std::int64_t extra = 0;

  bool operator==(const Segments&) const = default;
};

constexpr Segments cut_rows(std::int64_t tokens, std::int64_t rows, std::int64_t segment) {
  if (tokens - rows < segment) return {};
  return {segment, (tokens - 1) / segment};
}

// Local token that extra item e is found by.
constexpr std::int64_t mark_of(std::int64_t e, std::int64_t segment) { return (e + 1) * segment; }

// Segment of a row from token `begin` on which a mark inside the row stands for: 1 or later.
constexpr std::int64_t segment_of_mark(std::int64_t mark, std::int64_t begin, std::int64_t segment) {
  return blocks_for(mark - begin, segment);
}

// Extra item that stands for segment 1 of a row from token `begin` on.
constexpr std::int64_t item_of_second(std::int64_t begin, std::int64_t segment) { return begin / segment; }

// split_projections, and gdn_attention's first launch: tokens that a thread moves one after the other, having worked out once what its columns are.
constexpr int kSplitThreads = 128;
constexpr std::int64_t kSplitTokens = 8;

constexpr std::int64_t split_tokens(std::int64_t tiles, std::int64_t tokens) {
  return tiles * blocks_for(tokens, kSplitTokens) >= kFullGrid ? kSplitTokens : 1;
}

}  // namespace recoverssm::cuda
