// The only place where a session touches bytes of a pool itself; everything else goes through operations. A backend with pools elsewhere
// has its own versions of these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "recoverssm/session_config.hpp"

namespace recoverssm {

// 64-byte aligned memory, not initialised: pages of a pool that are never touched cost nothing.
struct FreeMemory {
  void operator()(std::byte* memory) const;
};
using Memory = std::unique_ptr<std::byte[], FreeMemory>;
Memory allocate(std::int64_t bytes);

// No records wait in any block; in one block.
void clear_pending(const TensorView& pending);
void clear_pending(const TensorView& pending, std::int32_t block);

// One block's history and state, dense: [history, channels], oldest first, then [HV, V, K]. Return where the next layer's begin.
std::byte* copy_from_block(const LayerConfig& layer, const LayerPool& pool, std::int32_t block, std::byte* dense);
const std::byte* copy_to_block(const LayerConfig& layer, const LayerPool& pool, std::int32_t block, const std::byte* dense);

}  // namespace recoverssm
