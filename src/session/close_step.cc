// commit and abandon: what becomes of a step's requests.
#include <algorithm>

#include "session/plan.h"

namespace recoverssm {
namespace {

OpenStep& step_to_close(SessionState& state, const char* call, StepId id) {
  const auto at = state.steps.find(id);
  if (at != state.steps.end()) return at->second;
  fail(ErrorKind::bad_state, call, "step", text(id, ", which is not open"), "a step that was neither committed nor abandoned");
}

// Each row's kept tokens, from counts given by request. -1: none given.
std::vector<std::int32_t> counts_by_row(const OpenStep& step, std::span<const Accepted> accepted) {
  std::vector<std::pair<RequestId, std::size_t>> row_of;
  for (std::size_t i = 0; i < step.rows.size(); ++i) row_of.emplace_back(step.rows[i].given.request, i);
  std::ranges::sort(row_of);
  std::vector<std::int32_t> counts(step.rows.size(), -1);
  for (std::size_t i = 0; i < accepted.size(); ++i) {
    const RequestId request = accepted[i].request;
    const auto at = std::ranges::lower_bound(row_of, request, {}, &std::pair<RequestId, std::size_t>::first);
    if (request == 0 || at == row_of.end() || at->first != request) {
      fail(ErrorKind::bad_state, "commit", text("accepted[", i, "].request"), text(request, ", which has no row in this step"),
           "a request of the step");
    }
    if (counts[at->second] >= 0) {
      fail(ErrorKind::invalid_argument, "commit", text("accepted[", i, "].request"), text("a second count of request ", request),
           "one count a request");
    }
    const std::size_t from = fault(Fault::counts_mixed_up) ? accepted.size() - 1 - i : i;
    counts[at->second] = std::max(accepted[from].count, 0);
  }
  for (std::size_t i = 0; i < step.rows.size(); ++i) {
    const OpenRow& row = step.rows[i];
    if (!row.live() || row.plain() || row.given.tokens == 0 || counts[i] >= 0) continue;
    fail(ErrorKind::invalid_argument, "commit", "accepted", text("no count of request ", row.given.request),
         "a count for every window with tokens");
  }
  return counts;
}

void close(SessionState& state, StepId id) {
  for (const auto& [group, block] : state.steps.at(id).freed_blocks) state.blocks[static_cast<std::size_t>(group)].drop(block);
  state.steps.erase(id);
}

void count_row(SessionCounters& counters, const OpenRow& row, std::int32_t kept) {
  switch (row.given.kind) {
    case RowKind::prefill:
      ++counters.prefill_rows;
      counters.prefill_tokens += row.given.tokens;
      return;
    case RowKind::decode:
      ++counters.decode_rows;
      counters.decode_tokens += row.given.tokens;
      return;
    case RowKind::window:
      ++counters.window_rows;
      counters.verified_tokens += row.given.tokens;
      counters.kept_tokens += kept;
      return;
  }
}

// Nothing came of a row: the state is still where it was before the step, and the block it was moved to is given up by the next prune.
void stay(const OpenRow& row, Request& request) {
  for (std::size_t g = 0; g < request.groups.size(); ++g) request.groups[g].running = row.running[g];
}

// A live row with tokens, after its state was advanced (or, lazy, its count recorded).
void close_row(SessionState& state, const OpenRow& row, std::int32_t kept, StepId step) {
  Request& request = state.requests.at(row.given.request);
  request.open_step = 0;
  count_row(state.counters, row, kept);
  if (row.given.tokens == 0) return;
  if (row.plain()) {
    request.phase = Phase::live;
    if (!fault(Fault::plain_counts_late)) request.tokens += row.given.tokens;
    if (!fault(Fault::records_stay)) request.records_wait = false, request.waiting = 0;
  } else if (kept == 0 && state.config.line_kind == LineKind::rolled && !fault(Fault::dead_lives)) {
    return drop_state(state, row.given.request, request, Phase::dead);  // its oldest history entry is gone
  } else {
    request.tokens += kept;
    request.records_wait = state.config.lazy;
    request.waiting = state.config.lazy ? kept : 0;
    if (kept == 0 && !state.config.lazy) stay(row, request);
  }
  if (request.records_wait) {
    state_waits(state, request, row.computed, step);
  } else {
    state_is_real(state, request, row.plain() || kept > 0 ? step : request.written_by);
  }
  prune(state, request);
}

}  // namespace

void Session::commit(StepId id, std::span<const Accepted> accepted, Context& context) {
  SessionState& state = *state_;
  counted(state.counters, [&] {
    const CallRange range(state, "session.commit");
    require_place(state, "commit", context);
    OpenStep& step = step_to_close(state, "commit", id);
    if (step.layers_left > 0) {
      fail(ErrorKind::bad_state, "commit", "step", text(step.layers_left, " layers have not run"), "all layers to have run");
    }
    const std::vector<std::int32_t> counts = counts_by_row(step, accepted);
    std::vector<std::int32_t> kept(step.rows.size());
    std::vector<CommitRow> rows;
    for (std::size_t i = 0; i < step.rows.size(); ++i) {
      const OpenRow& row = step.rows[i];
      if (!row.live() || row.plain() || row.given.tokens == 0) continue;
      kept[i] = static_cast<std::int32_t>(plan_commit_len(counts[i], row.given.tokens, state.config.window_capacity));
      rows.push_back({&state.requests.at(row.given.request), row.computed, row.given.tokens, counts[i], id});
    }
    if (!state.config.lazy) commit_rows(state, rows, context);
    for (std::size_t i = 0; i < step.rows.size(); ++i) {
      if (step.rows[i].live()) close_row(state, step.rows[i], kept[i], id);
    }
    close(state, id);
    ++state.counters.steps_committed;
  });
}

void Session::abandon(StepId id) {
  SessionState& state = *state_;
  counted(state.counters, [&] {
    const OpenStep& step = step_to_close(state, "abandon", id);
    const bool windows_survive = !state.config.lazy && state.config.line_kind == LineKind::anchored;
    for (const OpenRow& row : step.rows) {
      if (!row.live()) continue;
      Request& request = state.requests.at(row.given.request);
      request.open_step = 0;
      if (row.given.tokens == 0) continue;
      if (!step.touched || (!row.plain() && windows_survive)) {
        stay(row, request);
        if (request.phase == Phase::empty) {
          drop_state(state, row.given.request, request, Phase::empty);
        } else if (request.records_wait) {
          state_waits(state, request, request.tokens - request.waiting, request.written_by);
        } else {
          state_is_real(state, request, request.written_by);
          prune(state, request);
        }
        continue;
      }
      drop_state(state, row.given.request, request, Phase::dead);
    }
    close(state, id);
    ++state.counters.steps_abandoned;
  });
}

}  // namespace recoverssm
