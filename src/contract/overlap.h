// The rule that a view which is written neither overlaps itself nor shares an element with another view of the call. Views may
// interleave: whether two of them share an element is a question about bounded integer solutions of a linear equation, answered by an
// exact search with a budget. What the budget does not settle is accepted, for a validator refuses only what it can prove.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "contract/check.h"

namespace recoverssm {

// Whether two views are proven to share an element.
bool proven_overlap(const TensorView& a, const TensorView& b);

// Whether two different indices of the view are proven to reach the same bytes.
bool proven_self_overlap(const TensorView& view);

// Whether blocks lie in the same pages: two pools (dimension 0 counts blocks) with the same block stride, in which block i of one reaches
// no block of the other but its block i. Then they share no element as long as they are used under different block ids.
bool in_same_pages(const TensorView& a, const TensorView& b);

// The same memory read as the same tensor: base, dtype and strides agree where they matter. Numbers of rows may differ.
bool same_memory(const TensorView& a, const TensorView& b);

// One view of a call, as far as this rule is concerned.
struct Operand {
  Name name = "";
  const TensorView* view = nullptr;  // null or absent: nothing to check
  bool written = false;
  std::int32_t cache_group = -1;  // of a pool: two pools of different groups may lie in the same pages
};

// Where a view's elements can be, kept for the quick answer: a range of addresses, and for a pool the range of offsets in a page.
struct Footprint {
  std::uint64_t low = 0, high = 0;     // byte addresses, high exclusive; empty: low = high
  std::uint64_t period = 0;            // bytes from block to block; 0: the view is not a pool
  std::uint64_t phase = 0, inner = 0;  // a block takes bytes phase .. phase + inner - 1, modulo the period
  bool empty() const { return low == high; }
};

Footprint footprint_of(const TensorView& view);
bool surely_disjoint(const Footprint& a, const Footprint& b);

void check_alone(Check& check, const Operand& operand);
void check_pair(Check& check, const Operand& a, const Operand& b);

// Checks operands at(0) .. at(count-1). Footprints are made once per chunk of operands, so that the many views of a commit (a few for
// each layer, possibly all interleaved in the same pages) cost a few comparisons a pair, without allocating.
template <class At>
void check_overlap(Check& check, std::int64_t count, At&& at) {
  constexpr std::int64_t kChunk = 64;
  struct Entry {
    Operand operand;
    Footprint footprint;
  };
  struct Chunk {
    std::array<Entry, kChunk> entries;
    std::int64_t size = 0;
  };
  const auto load = [&](Chunk& chunk, std::int64_t begin) {
    chunk.size = 0;
    for (std::int64_t i = begin; i < count && i < begin + kChunk; ++i) {
      const Operand operand = at(i);
      if (operand.view == nullptr || operand.view->empty()) continue;
      chunk.entries[static_cast<std::size_t>(chunk.size++)] = {operand, footprint_of(*operand.view)};
    }
  };
  const auto compare = [&](const Entry& a, const Entry& b) {
    if (!a.operand.written && !b.operand.written) return;
    if (!surely_disjoint(a.footprint, b.footprint)) check_pair(check, a.operand, b.operand);
  };
  Chunk left, right;
  for (std::int64_t l = 0; l < count && check.ok(); l += kChunk) {
    load(left, l);
    for (std::int64_t i = 0; i < left.size; ++i) {
      const Entry& entry = left.entries[static_cast<std::size_t>(i)];
      if (entry.operand.written) check_alone(check, entry.operand);
      for (std::int64_t j = 0; j < i; ++j) compare(left.entries[static_cast<std::size_t>(j)], entry);
    }
    for (std::int64_t r = l + kChunk; r < count && check.ok(); r += kChunk) {
      load(right, r);
      for (std::int64_t i = 0; i < left.size; ++i) {
        for (std::int64_t j = 0; j < right.size; ++j) {
          compare(left.entries[static_cast<std::size_t>(i)], right.entries[static_cast<std::size_t>(j)]);
        }
      }
    }
  }
}

inline void check_overlap(Check& check, std::initializer_list<Operand> operands) {
  if (!check.ok()) return;  // views that broke a rule may not be measurable
  check_overlap(check, static_cast<std::int64_t>(operands.size()), [&](std::int64_t i) { return operands.begin()[i]; });
}

}  // namespace recoverssm
