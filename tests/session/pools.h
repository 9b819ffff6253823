// Pools of a caller: one page a block and layer, in which line, state and records lie one behind the other with gaps between, as engines
// keep them. All bytes start as a pattern that reads as NaN; those that belong to no tensor must keep it.
#pragma once

#include <functional>
#include <vector>

#include "session/model.h"

namespace session_tests {

class Pages {
 public:
  // `more_blocks`: pages beyond those the configuration asks for.
  explicit Pages(const recoverssm::SessionConfig& config, std::int32_t more_blocks = 0);
  std::vector<recoverssm::LayerPool> pools;

  // Every element of every fp32 state and line, in all blocks or in those of which (group, block) is true.
  void fill(float value) const;
  void fill_free(float value, const std::function<bool(std::int32_t, std::int32_t)>& which) const;
  // Gaps, and pages that no block id may name (the null block's included), have kept their bytes.
  ::testing::AssertionResult gaps_intact() const;
  // All bytes of a block, over all layers of its group.
  Bytes block(std::int32_t group, std::int32_t block) const;

 private:
  struct Page {
    support::Bytes memory{support::memory_of_calls()};
    std::int64_t bytes = 0;    // of one page
    std::vector<bool> tensor;  // per byte of memory: belongs to a tensor of a usable block
  };
  recoverssm::SessionConfig config_;
  std::vector<Page> pages_;  // per layer
};

}  // namespace session_tests
