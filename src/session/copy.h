// Where a request's states lie, for whoever copies or exports them.
#pragma once

#include "session/state.h"

namespace recoverssm {

// Blocks that together hold one state: per group either one that may be shared or one that must be copied.
struct Source {
  std::vector<std::int32_t> blocks;
  std::vector<bool> shared;
};

// Where a folded request's state after `tokens` tokens lies. Refused if nowhere.
Source require_state_after(const SessionState& state, const char* call, RequestId id, const Request& request, std::int64_t tokens);

}  // namespace recoverssm
