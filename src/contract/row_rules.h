// How a device takes the rows of a call: what the host's contents checks refuse (contract/contents_*.cc) becomes here, row by row, a null
// row or a row that writes nothing, and a finding for the caller's flag. Scalar code for device kernels, one copy for all of them; the
// caller reads the index data and passes it in, in the order in which the contract allows it to be read.
#pragma once

#include <cstdint>

#include "contract/rules.h"

namespace recoverssm {

enum class DeviceRowKind : std::uint8_t {
  skip,  // nothing is written: no tokens, or offsets that make no sense
  null,  // its tokens' outputs become 0, nothing else is touched
  live,
};

struct DeviceRow {
  std::int64_t begin = 0;   // first local token
  std::int64_t length = 0;  // 0 for skip
  std::int32_t block = 0;   // of a live row
  DeviceRowKind kind = DeviceRowKind::skip;
  ErrorKind found = ErrorKind::ok;  // what to raise
};

// From two offsets. `tokens`: local tokens the call's tensors have room for. What comes back is skip, or null until its block is known.
RSSM_HOST_DEVICE constexpr DeviceRow row_of_offsets(std::int64_t begin, std::int64_t end, std::int64_t tokens) {
  DeviceRow row;
  if (begin < 0 || end < begin || end > tokens) {
    row.found = ErrorKind::out_of_range;
    return row;
  }
  if (begin == end) return row;
  row.begin = begin;
  row.length = end - begin;
  row.kind = DeviceRowKind::null;
  return row;
}

// A row that the contract makes null because of what was found in it.
RSSM_HOST_DEVICE constexpr void make_null(DeviceRow& row, ErrorKind found) {
  row.kind = DeviceRowKind::null;
  row.found = found;
}

// Gives a row its block. `capacity` is S of windows, 0 for plain rows; `blocks` the pool's.
RSSM_HOST_DEVICE constexpr void give_block(DeviceRow& row, std::int32_t block, std::int32_t null_block_id, std::int64_t capacity,
                                           std::int64_t blocks) {
  row.block = block;
  if (capacity > 0 && row.length > capacity) return make_null(row, ErrorKind::out_of_range);
  if (is_null(block, null_block_id)) return;
  if (block < 0 || block >= blocks) return make_null(row, ErrorKind::out_of_range);
  row.kind = DeviceRowKind::live;
}

// Waiting records of a lazy row: the count of kept tokens at most S, the pending count 0..S.
RSSM_HOST_DEVICE constexpr bool waiting_in_range(std::int64_t num_accepted, std::int64_t pending, std::int64_t capacity) {
  return num_accepted <= capacity && pending >= 0 && pending <= capacity;
}

}  // namespace recoverssm
