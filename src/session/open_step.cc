// open_step: checks the rows, folds and moves what must be folded and moved, gives every row its block.
#include <algorithm>

#include "session/config.h"
#include "session/state.h"

namespace recoverssm {
namespace {

constexpr const char* kCall = "open_step";

std::string row_field(std::size_t row, const char* field) { return text("rows[", row, "].", field); }

void check_row(SessionState& state, std::size_t index, const StepRow& row) {
  const auto& config = state.config;
  if (row.kind != RowKind::prefill && row.kind != RowKind::decode && row.kind != RowKind::window) {
    fail(ErrorKind::invalid_argument, kCall, row_field(index, "kind"), text("value ", static_cast<int>(row.kind)),
         "prefill, decode or window");
  }
  if (row.tokens < 0) fail(ErrorKind::out_of_range, kCall, row_field(index, "tokens"), text(row.tokens), "at least 0");
  if (row.kind == RowKind::decode && row.tokens != 1) {
    fail(ErrorKind::out_of_range, kCall, row_field(index, "tokens"), text(row.tokens), "1 for a decode row");
  }
  if (row.kind == RowKind::window && row.tokens > config.window_capacity) {
    fail(ErrorKind::out_of_range, kCall, row_field(index, "tokens"), text(row.tokens),
         text("at most window_capacity = ", config.window_capacity));
  }
  if (row.request == 0) return;
  const Request& request = idle_request(state, kCall, row.request);
  if (row.kind != RowKind::prefill || request.phase == Phase::dead) require_live(kCall, row.request, request);
  if (row.num_computed >= 0 && row.num_computed != request.tokens) {
    fail(ErrorKind::bad_state, kCall, row_field(index, "num_computed"), text(row.num_computed),
         text(request.tokens, ", the tokens of request ", row.request));
  }
}

void check_rows(SessionState& state, std::span<const StepRow> rows) {
  std::int64_t tokens = 0;
  std::vector<RequestId> seen;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    check_row(state, i, rows[i]);
    tokens += rows[i].tokens;
    if (rows[i].request != 0) seen.push_back(rows[i].request);
  }
  if (tokens > INT32_MAX) fail(ErrorKind::out_of_range, kCall, "rows", text(tokens, " tokens"), "fewer than 2^31");
  std::ranges::sort(seen);
  const auto twice = std::ranges::adjacent_find(seen);
  if (twice != seen.end()) {
    fail(ErrorKind::bad_state, kCall, "rows", text("two rows of request ", *twice), "at most one row a request");
  }
}

// The block table columns that a row with tokens reads or writes in one group.
struct RowColumns {
  std::int64_t first = 0;   // a window's commit may end or cross a boundary here
  std::int64_t source = 0;  // where the row runs: the column of its last token
};

RowColumns columns_of_row(const std::optional<std::int32_t>& B, const StepRow& row, std::int64_t computed) {
  const std::int64_t source = column_after(B, computed + row.tokens);
  const bool spans = B && row.kind == RowKind::window;
  return {spans ? column_after(B, computed + 1) : source, source};
}

// Calls body(column) for the columns a row needs and `columns` lacks.
template <class Body>
void for_missing_columns(const std::optional<std::int32_t>& B, const Columns& columns, const StepRow& row, std::int64_t computed,
                         Body body) {
  const RowColumns needed = columns_of_row(B, row, computed);
  for (const std::int64_t column : {needed.first, needed.source}) {
    if (columns.find(column) == nullptr) body(column);
    if (needed.first == needed.source) return;
  }
}

bool has_tokens(const StepRow& row) { return row.request != 0 && row.tokens > 0; }

// Whether the next forward can't fold this request's records where they wait.
bool must_fold_first(const SessionState& state, const StepRow& row, const Request& request) {
  if (!request.records_wait || row.tokens == 0) return false;
  // A plain short_conv row knows no count; its line must be compacted.
  if (state.has_short_conv && row.kind != RowKind::window) return true;
  for (std::size_t g = 0; state.align() && g < state.groups(); ++g) {
    const std::int64_t B = *state.block_size(g);
    const bool crossed = request.tokens / B != (request.tokens - request.waiting) / B;
    const bool moves = columns_of_row(B, row, request.tokens).source != request.groups[g].running;
    if (crossed || moves) return true;
  }
  return false;
}

// A request's columns as they will be once its records are folded; the blocks it will give back are added to `dropped`.
Columns folded_columns(const SessionState& state, const Request& request, std::size_t g, std::vector<std::int32_t>& dropped) {
  Columns columns = request.groups[g];
  const auto mark = [&](std::int64_t column) {
    if (Column* const found = columns.find(column)) found->boundary = true;
  };
  if (const auto& B = state.block_size(g); B && request.waiting > 0) {
    const AlignedPlan plan = aligned_plan(request.tokens - request.waiting, request.waiting, *B);
    columns.running = plan.final_column;
    mark(plan.boundary_column);
  }
  prune(state.config, columns, dropped);
  return columns;
}

// How many blocks are free once every holder in `dropped` has let go of its block.
std::int64_t free_after(const BlockPool& blocks, std::vector<std::int32_t>& dropped) {
  std::ranges::sort(dropped);
  std::int64_t free = blocks.free_count();
  for (auto at = dropped.begin(); at != dropped.end();) {
    const auto next = std::upper_bound(at, dropped.end(), *at);
    free += next - at == blocks.tag(*at).references ? 1 : 0;
    at = next;
  }
  return free;
}

// Blocks of one group that a step will take, and those that will be free then: after what must be folded first.
struct Room {
  std::int64_t missing = 0, free = 0;
};

Room room_for(const SessionState& state, std::size_t g, std::span<const StepRow> rows) {
  Room room;
  std::vector<std::int32_t> dropped;
  for (const StepRow& row : rows) {
    if (!has_tokens(row)) continue;
    const Request& request = state.requests.at(row.request);
    const bool folds = must_fold_first(state, row, request);
    const Columns columns = folds ? folded_columns(state, request, g, dropped) : request.groups[g];
    for_missing_columns(state.block_size(g), columns, row, request.tokens, [&](std::int64_t) { ++room.missing; });
  }
  room.free = free_after(state.blocks[g], dropped);
  return room;
}

// Blocks taken and states moved for a step that is being opened; given back if that fails.
class Placement {
 public:
  explicit Placement(SessionState& state) : state_(state) {}
  ~Placement() {
    for (const Taken& t : taken_) state_.blocks[t.group].drop(t.column.block);
  }

  // Gives every row the columns it needs.
  void take(std::span<const StepRow> rows) {
    for (const StepRow& row : rows) {
      if (!has_tokens(row)) continue;
      for (std::size_t g = 0; g < state_.groups(); ++g) {
        const Request& request = state_.requests.at(row.request);
        for_missing_columns(state_.block_size(g), request.groups[g], row, request.tokens, [&](std::int64_t column) {
          taken_.push_back({row.request, g, {column, state_.blocks[g].take(row.request), false}});
        });
      }
    }
  }

  // Moves states to the columns their rows run in (docs/operations.md#align_move).
  void move(std::span<const StepRow> rows, Context& context) {
    for (std::size_t g = 0; state_.align() && g < state_.groups(); ++g) {
      std::vector<std::int32_t> from, to;
      for (const StepRow& row : rows) {
        if (!has_tokens(row)) continue;
        const Request& request = state_.requests.at(row.request);
        const std::int64_t source = columns_of_row(state_.block_size(g), row, request.tokens).source;
        if (request.phase != Phase::live || source == request.groups[g].running) continue;
        from.push_back(request.groups[g].running_block(state_.config.null_block_id));
        to.push_back(block_of(row.request, g, source));
      }
      if (from.empty() || fault(Fault::move_skipped)) continue;
      run_op(
          state_, context, align_move,
          AlignMoveParams{
              .from = ints(from), .to = ints(to), .layers = state_.group_layers[g], .null_block_id = state_.config.null_block_id});
      state_.counters.moved_rows += static_cast<std::int64_t>(from.size());
    }
  }

  // From here on the blocks are the requests'.
  void keep() {
    for (const Taken& t : taken_) state_.requests.at(t.request).groups[t.group].add(t.column);
    taken_.clear();
  }

 private:
  struct Taken {
    RequestId request;
    std::size_t group;
    Column column;
  };

  std::int32_t block_of(RequestId request, std::size_t group, std::int64_t column) const {
    for (const Taken& t : taken_) {
      if (t.request == request && t.group == group && t.column.column == column) return t.column.block;
    }
    return state_.requests.at(request).groups[group].find(column)->block;
  }

  SessionState& state_;
  std::vector<Taken> taken_;
};

// The rows' blocks and counts, one part for every run of rows of one kind.
void add_to_parts(const SessionState& state, OpenStep& step, const OpenRow& row, const Request* request) {
  if (step.parts.empty() || step.parts.back().plain != row.plain()) {
    step.parts.push_back({.plain = row.plain(), .offsets = {row.start}, .blocks = {}, .counts = {}, .has_state = {}});
    step.parts.back().blocks.resize(state.groups());
  }
  Part& part = step.parts.back();
  part.offsets.push_back(row.start + row.given.tokens);
  for (std::size_t g = 0; g < state.groups(); ++g) {
    const std::int32_t null = state.config.null_block_id;
    part.blocks[g].push_back(request == nullptr ? null : request->groups[g].running_block(null));
  }
  std::int32_t count = request != nullptr && request->records_wait ? request->waiting : 0;
  if (fault(Fault::waiting_count_lost) && count > 0) --count;
  part.counts.push_back(count);
  part.has_state.push_back(request == nullptr || request->phase == Phase::live || fault(Fault::stale_state) ? 1 : 0);
}

// Everything that can throw is done before the session changes.
OpenStep make_step(const SessionState& state, std::span<const StepRow> rows) {
  OpenStep step;
  for (const StepRow& given : rows) {
    OpenRow row{.given = given, .start = step.tokens};
    if (given.request != 0) {
      const Request& request = state.requests.at(given.request);
      row.computed = request.tokens;
      for (const Columns& columns : request.groups) row.running.push_back(columns.running);
    }
    step.rows.push_back(std::move(row));
    step.tokens += given.tokens;
  }
  step.ran.resize(state.layers.size());
  step.layers_left = static_cast<std::int32_t>(state.layers.size());
  return step;
}

}  // namespace

bool Session::fits(std::span<const StepRow> rows) const {
  SessionState& state = *state_;
  return counted(state.counters, [&] {
    check_rows(state, rows);
    for (std::size_t g = 0; g < state.groups(); ++g) {
      const Room room = room_for(state, g, rows);
      if (room.missing > room.free) return false;
    }
    return true;
  });
}

StepId Session::open_step(std::span<const StepRow> rows, Context& context) {
  SessionState& state = *state_;
  return counted(state.counters, [&] {
    check_rows(state, rows);
    for (std::size_t g = 0; g < state.groups(); ++g) {
      const Room room = room_for(state, g, rows);
      if (room.missing <= room.free) continue;
      fail(ErrorKind::bad_state, kCall, text("groups[", g, "]"), text(room.free, " free blocks"), text("at least ", room.missing));
    }
    std::vector<RequestId> folds;
    for (const StepRow& row : rows) {
      if (row.request != 0 && must_fold_first(state, row, state.requests.at(row.request))) folds.push_back(row.request);
    }
    fold(state, folds, context);
    OpenStep step = make_step(state, rows);
    if (const std::int64_t bytes = state.conv_bytes_per_token * step.tokens; bytes > state.conv_out_bytes) {
      state.conv_out = allocate(bytes);
      state.conv_out_bytes = bytes;
    }
    const StepId id = state.last_id + 1;
    OpenStep& open = state.steps.emplace(id, std::move(step)).first->second;
    try {
      Placement placement(state);
      placement.take(rows);
      placement.move(rows, context);
      placement.keep();
    } catch (...) {
      state.steps.erase(id);
      throw;
    }
    ++state.last_id;
    std::size_t held = 0;
    for (const OpenRow& row : open.rows) {
      Request* request = row.given.request == 0 ? nullptr : &state.requests.at(row.given.request);
      for (std::size_t g = 0; request != nullptr && g < state.groups(); ++g) {
        Columns& columns = request->groups[g];
        if (row.given.tokens > 0) columns.running = columns_of_row(state.block_size(g), row.given, row.computed).source;
        if (row.given.tokens > 0 && row.plain()) state.blocks[g].writing(columns.running_block(state.config.null_block_id));
        held += columns.in_use.size();
      }
      add_to_parts(state, open, row, request);
      if (request != nullptr) request->open_step = id;
    }
    open.freed_blocks.reserve(held);
    ++state.counters.steps_opened;
    return id;
  });
}

}  // namespace recoverssm
