// Requests: admitted, freed, looked up; and the blocks they hold.
#include <algorithm>

#include "session/state.h"

namespace recoverssm {

void fail(ErrorKind kind, const char* call, const std::string& argument, const std::string& got, const std::string& expected) {
  throw Error({kind, std::string("session.") + call + ": " + argument + ": " + got + ", expected " + expected});
}

void require_no_finding(const SessionState& state, const char* call) {
  if (!state.place.on_device()) return;
  const auto* const flag = reinterpret_cast<const volatile DeviceFlag*>(state.flag.get());
  if (const std::int32_t code = flag->code; code != 0) {
    fail(static_cast<ErrorKind>(code), call, "device",
         text(name_of(static_cast<ErrorKind>(code)), " in ", name_of(static_cast<Operation>(std::int32_t{flag->op})), ", layer ",
              std::int32_t{flag->layer}, ", row ", std::int32_t{flag->row}),
         "nothing wrong in index data of earlier calls");
  }
}

void require_place(const SessionState& state, const char* call, const Context& context) {
  if (context.backend() != state.place.backend) {
    fail(ErrorKind::unsupported, call, "context", name_of(context.backend()),
         text(name_of(state.place.backend), ", where this session's pools are"));
  }
  if (state.place.on_device() && context.launch().stream != state.place.stream) {
    fail(ErrorKind::invalid_argument, call, "context.stream", "another stream", "the one in the session's configuration");
  }
  require_no_finding(state, call);
}

void add(Counters& sum, const Counters& more) {
  sum.rows += more.rows, sum.tokens += more.tokens;
  sum.state_read += more.state_read, sum.state_written += more.state_written;
  sum.record_read += more.record_read, sum.record_written += more.record_written;
  sum.line_read += more.line_read, sum.line_written += more.line_written;
  sum.activation_read += more.activation_read, sum.activation_written += more.activation_written;
}

Request& request_of(SessionState& state, const char* call, RequestId id) {
  const auto at = state.requests.find(id);
  if (at == state.requests.end()) fail(ErrorKind::bad_state, call, "request", text(id, ", which is none"), "an admitted request");
  return at->second;
}

Request& idle_request(SessionState& state, const char* call, RequestId id) {
  Request& request = request_of(state, call, id);
  if (request.open_step != 0) {
    fail(ErrorKind::bad_state, call, "request", text(id, " has a row in open step ", request.open_step),
         "a request without an open step");
  }
  return request;
}

void require_live(const char* call, RequestId id, const Request& request) {
  if (request.phase == Phase::empty) {
    fail(ErrorKind::bad_state, call, "request", text(id, " has no state"), "a request that was prefilled or restored");
  }
  if (request.phase == Phase::dead) {
    fail(ErrorKind::bad_state, call, "request", text(id, " has lost its state"), "it to be preempted or restored first");
  }
}

void drop_state(SessionState& state, RequestId id, Request& request, Phase phase) {
  const auto step = state.steps.find(request.open_step);
  OpenStep* const open = step == state.steps.end() ? nullptr : &step->second;
  for (std::size_t g = 0; g < request.groups.size(); ++g) {
    for (const Column& column : request.groups[g].in_use) {
      if (open == nullptr || fault(Fault::freed_block_early)) {
        state.blocks[g].drop(column.block);
      } else {
        open->freed_blocks.emplace_back(static_cast<std::int32_t>(g), column.block);  // reserved by open_step
      }
    }
    request.groups[g] = {};
  }
  if (open != nullptr) {
    const auto row = std::ranges::find(open->rows, id, [](const OpenRow& r) { return r.freed ? 0 : r.given.request; });
    if (row != open->rows.end()) row->freed = true;
  }
  if (phase == Phase::dead) ++state.counters.dead_rows;
  std::vector<Columns> groups = std::move(request.groups);
  request = {.phase = phase, .groups = std::move(groups)};
}

void prune(SessionState& state, Request& request) {
  if (request.records_wait) return;  // folding will need the columns its window spans
  for (std::size_t g = 0; g < request.groups.size(); ++g) {
    prune(state.config, request.groups[g], [&](std::int32_t block) { state.blocks[g].drop(block); });
  }
}

void state_is_real(SessionState& state, Request& request, StepId step) {
  request.written_by = step;
  for (std::size_t g = 0; g < request.groups.size(); ++g) {
    Columns& columns = request.groups[g];
    Column* const running = columns.find(columns.running);
    if (running == nullptr) continue;
    state.blocks[g].written(running->block, request.tokens, step);
    const auto& B = state.block_size(g);
    if (!B) continue;
    // Lazy: a window that kept nothing may have left the state in the column after its own.
    const bool in_its_column = columns.running == column_after(B, request.tokens);
    if ((request.tokens % *B == 0 && in_its_column) || fault(Fault::boundary_not_reached)) running->boundary = true;
  }
}

void state_waits(SessionState& state, Request& request, std::int64_t folded, StepId step) {
  request.written_by = step;
  for (std::size_t g = 0; g < request.groups.size(); ++g) {
    state.blocks[g].written(request.groups[g].running_block(state.config.null_block_id), folded, step);
  }
}

RequestId Session::admit() {
  SessionState& state = *state_;
  Request request;
  request.groups.resize(state.groups());
  state.requests.emplace(state.last_id + 1, std::move(request));
  return ++state.last_id;
}

void Session::finish(RequestId id) {
  SessionState& state = *state_;
  counted(state.counters, [&] {
    Request& request = request_of(state, "finish", id);
    drop_state(state, id, request, Phase::empty);
    state.requests.erase(id);
  });
}

void Session::preempt(RequestId id) {
  SessionState& state = *state_;
  counted(state.counters, [&] { drop_state(state, id, request_of(state, "preempt", id), Phase::empty); });
}

RequestInfo Session::info(RequestId id) const {
  const Request& request = counted(state_->counters, [&]() -> Request& { return request_of(*state_, "info", id); });
  RequestInfo info{.phase = request.phase,
                   .tokens = request.tokens,
                   .waiting = request.records_wait ? request.waiting : 0,
                   .open_step = request.open_step,
                   .blocks = {}};
  for (const Columns& columns : request.groups) info.blocks.push_back(columns.running_block(state_->config.null_block_id));
  return info;
}

}  // namespace recoverssm
