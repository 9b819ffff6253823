// The blocks of one cache group: which are free, who holds the others, what their states are.
#pragma once

#include <cstdint>
#include <vector>

#include "recoverssm/session.hpp"

namespace recoverssm {

class BlockPool {
 public:
  BlockPool(std::int32_t blocks, std::int32_t null_block_id);

  std::int32_t free_count() const { return static_cast<std::int32_t>(free_.size()); }
  // The caller has seen that one is free.
  std::int32_t take(RequestId owner);
  void share(std::int32_t block) { ++slot(block).references; }
  void drop(std::int32_t block);
  // A state of so many tokens has been written.
  void written(std::int32_t block, std::int64_t tokens, StepId step);
  // A step is writing it.
  void writing(std::int32_t block) { slot(block).tokens = -1; }

  std::int32_t size() const { return static_cast<std::int32_t>(slots_.size()); }
  BlockTag tag(std::int32_t block) const;  // without layout

 private:
  struct Slot {
    RequestId owner = 0;
    std::int64_t tokens = 0;
    StepId step = 0;
    std::int32_t references = 0;
  };
  Slot& slot(std::int32_t block) { return slots_[static_cast<std::size_t>(block)]; }

  std::vector<Slot> slots_;
  std::vector<std::int32_t> free_;  // the last one is taken next
};

}  // namespace recoverssm
