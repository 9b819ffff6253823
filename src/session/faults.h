// Deliberate faults, to show that `recoverssm simulate` would find them. Compiled in by the tests alone (RECOVERSSM_SESSION_FAULTS);
// everywhere else fault() is false and the compiler drops it.
#pragma once

#include <cstdint>

namespace recoverssm {

enum class Fault : std::uint8_t {
  none,
  counts_mixed_up,       // accepted counts are those of other requests of the step
  plain_counts_late,     // a plain row's tokens are not counted
  stale_state,           // a new request starts from what its block holds
  freed_block_early,     // a block is free again while a step is open on it
  records_stay,          // lazy: after a plain row the last window's records still count as waiting
  waiting_count_lost,    // lazy: the next window folds one record less
  boundary_not_reached,  // align: a column counts as a boundary although no state was written there
  move_skipped,          // align: a state is not moved to its next block
  copy_without_fold,     // a fork copies the checkpoint and leaves the waiting records behind
  dead_lives,            // a rolled line with nothing kept goes on
};

#ifdef RECOVERSSM_SESSION_FAULTS
extern Fault active_fault;
inline bool fault(Fault which) { return active_fault == which; }
#else
constexpr bool fault(Fault) { return false; }
#endif

}  // namespace recoverssm
