// What a simulation did and compared.
#pragma once

#include <algorithm>
#include <cstdint>

namespace recoverssm::simulate {

struct Counts {
  std::int64_t rounds = 0;
  std::int64_t steps_opened = 0, steps_committed = 0, steps_abandoned = 0;
  // Of committed steps, without padding and rows of requests freed meanwhile.
  std::int64_t prefill_rows = 0, decode_rows = 0, window_rows = 0;
  std::int64_t prefill_tokens = 0, decode_tokens = 0, verified_tokens = 0, kept_tokens = 0;
  std::int64_t admitted = 0, finished = 0, stopped_inside = 0, preempted = 0, aborted_in_step = 0, died = 0;
  std::int64_t resumed_from_scratch = 0, restored = 0, restored_from_file = 0, restored_elsewhere = 0;
  std::int64_t forks = 0, prefixes_held = 0, prefix_hits = 0, exports = 0, materialized = 0;
  std::int64_t refused = 0;             // bad calls, each refused and without effect
  std::int64_t refused_for_blocks = 0;  // good calls that found no free block
  std::int64_t outputs_compared = 0;    // of a token and a layer
  std::int64_t states_compared = 0;     // of a request and a layer, with the conv history
  std::int64_t float64_tokens = 0;      // tokens held against float64, all layers
  double float64_worst = 0;             // largest error there, as a share of what is allowed
  std::int64_t grouped_commits = 0, per_group_commits = 0;

  std::int64_t committed_tokens() const { return prefill_tokens + decode_tokens + kept_tokens; }
};

struct CountName {
  const char* name;  // in the JSON report
  const char* text;  // for people
  std::int64_t Counts::*count;
};

constexpr CountName kCounts[] = {
    {"rounds", "rounds, each a configuration of its own", &Counts::rounds},
    {"steps_opened", "steps opened", &Counts::steps_opened},
    {"steps_committed", "  committed", &Counts::steps_committed},
    {"steps_abandoned", "  abandoned", &Counts::steps_abandoned},
    {"prefill_rows", "prefill rows", &Counts::prefill_rows},
    {"decode_rows", "decode rows", &Counts::decode_rows},
    {"window_rows", "windows", &Counts::window_rows},
    {"prefill_tokens", "tokens prefilled", &Counts::prefill_tokens},
    {"decode_tokens", "tokens decoded", &Counts::decode_tokens},
    {"verified_tokens", "tokens verified", &Counts::verified_tokens},
    {"kept_tokens", "  kept", &Counts::kept_tokens},
    {"admitted", "requests admitted", &Counts::admitted},
    {"finished", "  finished", &Counts::finished},
    {"stopped_inside", "  stopped inside a window", &Counts::stopped_inside},
    {"preempted", "  preempted", &Counts::preempted},
    {"aborted_in_step", "  finished or preempted with a row in an open step", &Counts::aborted_in_step},
    {"died", "  lost their state, as they must", &Counts::died},
    {"resumed_from_scratch", "  resumed from scratch", &Counts::resumed_from_scratch},
    {"restored", "  resumed from a checkpoint", &Counts::restored},
    {"restored_from_file", "    that was a file", &Counts::restored_from_file},
    {"restored_elsewhere", "    that another session exported", &Counts::restored_elsewhere},
    {"forks", "forks", &Counts::forks},
    {"prefixes_held", "prefixes held", &Counts::prefixes_held},
    {"prefix_hits", "  started from", &Counts::prefix_hits},
    {"exports", "checkpoints exported", &Counts::exports},
    {"materialized", "requests materialized", &Counts::materialized},
    {"grouped_commits", "commits of all groups at once", &Counts::grouped_commits},
    {"per_group_commits", "commits planned group by group", &Counts::per_group_commits},
    {"refused", "bad calls, all refused without effect", &Counts::refused},
    {"refused_for_blocks", "calls that found no free block", &Counts::refused_for_blocks},
    {"outputs_compared", "outputs compared, bitwise", &Counts::outputs_compared},
    {"states_compared", "states compared, bitwise", &Counts::states_compared},
    {"float64_tokens", "tokens held against float64", &Counts::float64_tokens},
};

inline void add(Counts& sum, const Counts& more) {
  for (const CountName& each : kCounts) sum.*each.count += more.*each.count;
  sum.float64_worst = std::max(sum.float64_worst, more.float64_worst);
}

}  // namespace recoverssm::simulate
