#include "session/block_pool.h"

namespace recoverssm {

BlockPool::BlockPool(std::int32_t blocks, std::int32_t null_block_id) : slots_(static_cast<std::size_t>(blocks)) {
  free_.reserve(slots_.size());
  for (std::int32_t block = blocks - 1; block > null_block_id; --block) free_.push_back(block);  // low ids are taken first
}

std::int32_t BlockPool::take(RequestId owner) {
  const std::int32_t block = free_.back();
  free_.pop_back();
  slot(block) = {.owner = owner, .tokens = -1, .references = 1};
  return block;
}

void BlockPool::drop(std::int32_t block) {
  if (--slot(block).references == 0) free_.push_back(block);  // reserved in full: cannot throw
}

void BlockPool::written(std::int32_t block, std::int64_t tokens, StepId step) {
  slot(block).tokens = tokens;
  slot(block).step = step;
}

BlockTag BlockPool::tag(std::int32_t block) const {
  const Slot& slot = slots_[static_cast<std::size_t>(block)];
  return {.owner = slot.owner, .tokens = slot.tokens, .step = slot.step, .references = slot.references, .layout = {}};
}

}  // namespace recoverssm
