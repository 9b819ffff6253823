// Packed projection rows taken apart: a thread works out once where its elements lie and then goes through tokens.
#pragma once

#include <cstdint>

#include "cuda/lanes.cuh"
#include "cuda/packed.cuh"

namespace recoverssm::cuda {

constexpr int kMoveAhead = 4;  // tokens whose loads are in flight

// Elements that a thread moves, of every token.
struct Run {
  const std::byte* from;          // of global row 0
  std::byte* to;                  // of row 0
  std::int64_t from_row, to_row;  // bytes from row to row
  bool to_global;                 // `to` counts global rows, otherwise tokens
};

// From element `e` of a token's z on, heads one after the other.
template <int kSize>
__device__ __forceinline__ Run z_run(const PackedSizes& s, const View& qkvz, const View& z, std::int64_t e) {
  const std::int64_t j = e / s.V, v = e % s.V;
  return {at(qkvz, 0, z_column(s, j, v)), at(z, 0, j, v), qkvz.stride[0] * kSize, z.stride[0] * kSize, true};
}

// Element `e` of a token's b and a: all of b, then all of a.
template <int kSize>
__device__ __forceinline__ Run gate_run(const PackedSizes& s, const View& ba, const View& b, const View& a, std::int64_t e) {
  const bool is_b = e < s.HV;
  const std::int64_t j = is_b ? e : e - s.HV;
  const View& to = is_b ? b : a;
  return {at(ba, 0, is_b ? b_column(s, j) : a_column(s, j)), at(to, 0, j), ba.stride[0] * kSize, to.stride[0] * kSize, false};
}

// Tokens begin..end-1. row_of(token): its global row; -1: nothing of it moves. All threads ask for it, those without a run too.
template <class Bits, class RowOf>
__device__ __forceinline__ void move_tokens(const Run& run, bool active, std::int64_t begin, std::int64_t end, RowOf&& row_of) {
  for (std::int64_t t = begin; t < end; t += kMoveAhead) {
    Bits bits[kMoveAhead];
    std::int64_t row[kMoveAhead];
#pragma unroll
    for (int i = 0; i < kMoveAhead; ++i) {
      row[i] = t + i < end ? row_of(t + i) : -1;
      if (row[i] >= 0 && active) bits[i] = load_bits<Bits>(run.from + row[i] * run.from_row);
    }
#pragma unroll
    for (int i = 0; i < kMoveAhead; ++i) {
      if (row[i] >= 0 && active) store_bits(run.to + (run.to_global ? row[i] : t + i) * run.to_row, bits[i]);
    }
  }
}

}  // namespace recoverssm::cuda
