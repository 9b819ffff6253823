// Which delta kernel a call runs and how its work is cut: pure functions of shapes and of a few properties of the device. No choice made here
// changes a bit of a result.
#pragma once

#include <algorithm>
#include <cstdint>

namespace recoverssm::sycl_backend {

// Sizes kernels are written for, the preferred one first: a row of 32 partial sums is two registers of an AVX-512 machine, and of Xe.
constexpr int kSubGroupSizes[] = {16, 8, 32};

struct DeviceTraits {
  int sub_group = 16;  // of the kernels that use sub-groups
  int compute_units = 1;
  bool cpu = true;
};

// K in chunks of 32, rounded up, and whether it is that many. Sizes out of the ordinary share two ways.
struct DeltaShape {
  int chunks = 4;
  bool whole = true;

  bool operator==(const DeltaShape&) const = default;
};

constexpr DeltaShape select_shape(std::int64_t K) {
  if (K == 64 || K == 128 || K == 256) return {static_cast<int>(K / 32), true};
  return {K <= 128 ? 4 : 8, false};
}

constexpr DeltaShape kDeltaShapes[] = {{2, true}, {4, true}, {8, true}, {4, false}, {8, false}};  // all there are

// A work-group is one sub-group on a CPU: a work-group is a task of its threads, and nothing is shared in one. On a GPU several keep an
// execution unit busy.
constexpr int sub_groups_of(const DeviceTraits& traits) { return traits.cpu ? 1 : 4; }

// Tasks a compute unit should have, so that none waits for the last one.
constexpr std::int64_t kTasksPerUnit = 8;
constexpr int kRowsAtOnce = 4;         // state rows in registers
constexpr int kLocalFloats = 4096;     // of a sub-group: four fit a GPU's 64 KiB, one a CPU's first-level cache
constexpr int kParameterFloats = 512;  // of these, for the kernel's parameters, copied: at most what an Intel GPU takes
constexpr int kMostTokensPrepared = 16;

// Value rows of a task, where the call has `heads` heads (of all rows and layers). together: one task a head.
constexpr int select_task_rows(std::int64_t heads, std::int64_t V, bool together, const DeviceTraits& traits) {
  const std::int64_t wanted = kTasksPerUnit * traits.compute_units, pieces = (V + kRowsAtOnce - 1) / kRowsAtOnce;
  const std::int64_t tiles = together || heads <= 0 ? 1 : std::clamp<std::int64_t>((wanted + heads - 1) / heads, 1, pieces);
  return static_cast<int>((pieces + tiles - 1) / tiles * kRowsAtOnce);
}

// Floats of local memory that a sub-group has for prepared tokens, and for a state row on its way.
constexpr int token_floats(const DeltaShape& shape, bool kda) { return 32 * shape.chunks * (kda ? 3 : 2) + 4; }
constexpr int stage_floats(const DeltaShape& shape) { return 32 * shape.chunks; }

// Tokens whose keys, queries and decays are prepared at once.
constexpr int select_token_chunk(const DeltaShape& shape, bool kda, std::int64_t wanted) {
  const int room = kLocalFloats - kParameterFloats - stage_floats(shape);
  const std::int64_t most = std::min<std::int64_t>(room / token_floats(shape, kda), kMostTokensPrepared);
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, most));
}

}  // namespace recoverssm::sycl_backend
