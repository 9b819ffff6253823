// Where a request's states lie, for whoever copies or exports them.
#pragma once

#include "session/state.h"

namespace recoverssm {

// Blocks that together hold one state: per group either one that may be shared or one that must be copied.
struct Source {
  std::vector<std::int32_t> blocks;
  std::vector<bool> shared;
};

// Where a request's state after `tokens` tokens lies, folded first if it is among what waits. Refused, with nothing folded, if nowhere.
Source source_of_copy(SessionState& state, const char* call, RequestId id, Request& request, std::int64_t tokens, Context& context);

}  // namespace recoverssm
