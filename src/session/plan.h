// Planning and committing windows, for commit (eager) and for folding (lazy, outside a forward).
#pragma once

#include <span>

#include "session/state.h"

namespace recoverssm {

struct CommitRow {
  Request* request = nullptr;
  std::int64_t computed = 0;  // tokens before the window
  std::int32_t length = 0;    // L
  std::int32_t accepted = 0;
  StepId step = 0;  // of the window, for the tags of the blocks it writes
};

// Plans, commits and advances: states, lines, running columns and boundaries; not the requests' counts.
void commit_rows(SessionState& state, std::span<const CommitRow> rows, Context& context);

}  // namespace recoverssm
