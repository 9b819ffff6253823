// Which kernel a call runs and how its work is cut: pure functions of shapes and dtypes, the same for every SIMD target. No choice made here
// changes a bit of a result.
#pragma once

#include <cstdint>

#include "recoverssm/types.hpp"

namespace recoverssm::cpu {

// Row stride of the fp32 scratch matrices over K: K rounded up to the 32 leaves of the canonical dot.
constexpr int padded_k(int K) { return (K + 31) / 32 * 32; }

// State rows a delta kernel handles at once; every target's lane count divides it.
constexpr int kStateRows = 16;

// A key size so common that its kernels know it when compiled.
constexpr int kCommonK = 128;

// How the delta kernel goes over a tile of state rows.
struct DeltaChoice {
  bool common_k = false;      // compiled for kCommonK; otherwise K is a number like any other
  bool whole_blocks = false;  // K is a multiple of 32: no lane is ever left out of a dot
  bool from_state = false;    // the first token reads the state where it lies; otherwise rows are widened into scratch before

  bool operator==(const DeltaChoice&) const = default;
};

// K <= 256; rows <= kStateRows of the tile; has_state: the tile starts from a stored state, not from one that is in scratch already.
// A tile with fewer rows goes through scratch, where the missing ones can be read.
constexpr DeltaChoice select_delta(int K, int rows, bool has_state) {
  const bool whole_blocks = K % 32 == 0;
  return {.common_k = K == kCommonK, .whole_blocks = whole_blocks, .from_state = has_state && whole_blocks && rows == kStateRows};
}

// Whether replay goes from state to state in registers. Otherwise a row is widened into scratch, replayed and rounded back.
constexpr bool select_direct_replay(int K, DType state) { return state == DType::f32 && K % 32 == 0; }

// Pieces of consecutive tasks handed to workers: enough to even out unequal tasks, few enough that a worker mostly walks through
// memory in order.
constexpr std::int64_t kPiecesPerWorker = 16;
constexpr std::int64_t pieces_of(std::int64_t tasks, int workers) {
  return tasks < kPiecesPerWorker * workers ? tasks : kPiecesPerWorker * workers;
}

// Where piece `piece` of `pieces` begins. Without the product tasks * piece, which may not fit.
constexpr std::int64_t share_of(std::int64_t tasks, std::int64_t piece, std::int64_t pieces) {
  return tasks / pieces * piece + (piece < tasks % pieces ? piece : tasks % pieces);
}

}  // namespace recoverssm::cpu
