// Where a request's states lie, for whoever copies or exports them.
#pragma once

#include "session/state.h"

namespace recoverssm {

// Blocks that together hold one state: per group either one that may be shared or one that must be copied.
struct Source {
  std::vector<std::int32_t> blocks;
  std::vector<bool> shared;
};

// What the caller will do with a state. To copy it takes a free block in every group where it is not shared.
enum class Use : std::uint8_t { read, copy };

// Where a request's state after `tokens` tokens lies, folded first if it is among what waits. Refused, with nothing folded, if it is
// nowhere or there is no room: folding gives up boundaries, so a refusal after it would be seen.
Source source_of_copy(SessionState& state, const char* call, RequestId id, const Request& request, std::int64_t tokens, Use use,
                      Context& context);

}  // namespace recoverssm
