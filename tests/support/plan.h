// Plan arrays as plain numbers, and as what commit takes.
#pragma once

#include <vector>

#include "recoverssm/commit.hpp"
#include "recoverssm/plan.hpp"
#include "support/layout.h"

namespace support {

constexpr int kNoBlock = -1000000;  // below every null id the tests use

struct PlanArrays {
  std::vector<int> source, commit_len, final_block, boundary_block, boundary_len;

  // A window that keeps `length` tokens in its own block (none mode).
  void add(int source_block, int length) { add(source_block, length, source_block, kNoBlock, 0); }
  void add(int source_block, int length, int final_id, int boundary_id, int boundary_length) {
    source.push_back(source_block);
    commit_len.push_back(length);
    final_block.push_back(final_id);
    boundary_block.push_back(boundary_id);
    boundary_len.push_back(boundary_length);
  }
};

struct PlanTensors {
  Tensor source, commit_len, final_block, boundary_block, boundary_len;

  recoverssm::CommitGroup group() const { return {source, commit_len, final_block, boundary_block, boundary_len}; }
  recoverssm::PlanOutputs outputs() const { return {commit_len, final_block, boundary_block, boundary_len}; }
};

inline PlanTensors plan_tensors(Pick& pick, const PlanArrays& arrays) {
  return {strided_i32(pick, arrays.source), strided_i32(pick, arrays.commit_len), strided_i32(pick, arrays.final_block),
          strided_i32(pick, arrays.boundary_block), strided_i32(pick, arrays.boundary_len)};
}

}  // namespace support
