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
  if (row.num_computed < -1) {
    fail(ErrorKind::out_of_range, kCall, row_field(index, "num_computed"), text(row.num_computed), "at least 0, or -1");
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
  if (times(state.conv_bytes_per_token, tokens) == INT64_MAX) {
    fail(ErrorKind::out_of_range, kCall, "rows", text(tokens, " tokens"), "convolution outputs that fit in 64 bits");
  }
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

// What a row gets in one group: the block it runs in and columns that are new to its request.
struct Place {
  std::int32_t block = 0;
  std::int64_t running = -1;
  std::vector<Column> added;
};

// The places of all rows of a step that is being opened, [row][group]; new blocks go back if it fails.
class Placement {
 public:
  Placement(SessionState& state, std::span<const StepRow> rows) : state_(state), rows_(rows), places_(rows.size()) {}
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;
  ~Placement() {
    for (const auto& row : places_) {
      for (std::size_t g = 0; g < row.size(); ++g) {
        for (const Column& column : row[g].added) state_.blocks[g].drop(column.block);
      }
    }
  }

  void take() {
    for (std::size_t i = 0; i < rows_.size(); ++i) place(i);
  }

  const Place& at(std::size_t row, std::size_t group) const { return places_[row][group]; }

  // Moves states to the columns their rows run in (docs/operations.md#align_move).
  void move(Context& context) {
    for (std::size_t g = 0; state_.align() && g < state_.groups(); ++g) {
      std::vector<std::int32_t> from, to;
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        if (!has_tokens(rows_[i])) continue;
        const Request& request = state_.requests.at(rows_[i].request);
        const Columns& columns = request.groups[g];
        if (request.phase != Phase::live || columns.running == at(i, g).running) continue;
        from.push_back(columns.running_block(state_.config.null_block_id));
        to.push_back(at(i, g).block);
      }
      if (from.empty() || fault(Fault::move_skipped)) continue;
      move_blocks(state_, g, from, to, context);
      state_.counters.moved_rows += static_cast<std::int64_t>(from.size());
    }
  }

  // From here on the blocks are the requests'.
  void keep(StepId step) noexcept {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i].request == 0) continue;
      Request& request = state_.requests.at(rows_[i].request);
      request.open_step = step;
      for (std::size_t g = 0; g < state_.groups(); ++g) {
        Place& place = places_[i][g];
        for (const Column& column : place.added) request.groups[g].add(column);  // place() has reserved room
        place.added.clear();
        request.groups[g].running = place.running;
        if (has_tokens(rows_[i]) && rows_[i].kind != RowKind::window) state_.blocks[g].writing(place.block);
      }
    }
  }

 private:
  void place(std::size_t i) {
    const StepRow& row = rows_[i];
    places_[i].resize(state_.groups(), {.block = state_.config.null_block_id, .added = {}});
    if (row.request == 0) return;
    Request& request = state_.requests.at(row.request);
    for (std::size_t g = 0; g < state_.groups(); ++g) {
      Place& place = places_[i][g];
      Columns& columns = request.groups[g];
      if (has_tokens(row)) {
        place.added.reserve(2);
        columns.in_use.reserve(columns.in_use.size() + 2);
        for_missing_columns(state_.block_size(g), columns, row, request.tokens, [&](std::int64_t column) {
          place.added.push_back({column, state_.blocks[g].take(row.request), false});
        });
        place.running = columns_of_row(state_.block_size(g), row, request.tokens).source;
      } else {
        place.running = columns.running;
      }
      const auto added = std::ranges::find(place.added, place.running, &Column::column);
      const Column* const had = columns.find(place.running);
      if (added != place.added.end()) {
        place.block = added->block;
      } else if (had != nullptr) {
        place.block = had->block;
      }
    }
  }

  SessionState& state_;
  std::span<const StepRow> rows_;
  std::vector<std::vector<Place>> places_;
};

// The row's block and counts go into the last part, or into a new one where plain rows and windows meet.
void add_to_parts(const SessionState& state, OpenStep& step, const OpenRow& row, const std::vector<std::int32_t>& blocks) {
  if (step.parts.empty() || step.parts.back().plain != row.plain()) {
    step.parts.push_back({.plain = row.plain(), .offsets = {row.start}, .blocks = {}, .counts = {}, .has_state = {}, .views = {}});
    step.parts.back().blocks.resize(state.groups());
  }
  Part& part = step.parts.back();
  part.offsets.push_back(row.start + row.given.tokens);
  for (std::size_t g = 0; g < state.groups(); ++g) part.blocks[g].push_back(blocks[g]);
  const Request* const request = row.given.request == 0 ? nullptr : &state.requests.at(row.given.request);
  std::int32_t count = request != nullptr && request->records_wait ? request->waiting : 0;
  if (fault(Fault::waiting_count_lost) && count > 0) --count;
  part.counts.push_back(count);
  part.has_state.push_back(request == nullptr || request->phase == Phase::live || fault(Fault::stale_state) ? 1 : 0);
}

OpenStep make_step(const SessionState& state, std::span<const StepRow> rows, const Placement& placement) {
  OpenStep step;
  std::size_t columns = 0;
  std::vector<std::int32_t> blocks(state.groups());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Request* const request = rows[i].request == 0 ? nullptr : &state.requests.at(rows[i].request);
    OpenRow row{.given = rows[i], .start = step.tokens, .computed = request == nullptr ? 0 : request->tokens};
    for (std::size_t g = 0; g < state.groups(); ++g) {
      blocks[g] = placement.at(i, g).block;
      if (request == nullptr) continue;
      row.running.push_back(request->groups[g].running);
      columns += request->groups[g].in_use.size() + placement.at(i, g).added.size();
    }
    add_to_parts(state, step, row, blocks);
    step.rows.push_back(std::move(row));
    step.tokens += rows[i].tokens;
  }
  step.ran.resize(state.layers.size());
  step.layers_left = static_cast<std::int32_t>(state.layers.size());
  step.freed_blocks.reserve(columns);
  return step;
}

void send_indices(SessionState& state, OpenStep& step) {
  for (Part& part : step.parts) {
    part.views.blocks.resize(state.groups());
    step.indices.add(part.offsets, part.views.offsets);
    if (state.config.lazy) step.indices.add(part.counts, part.views.counts);
    if (part.plain) step.indices.add_flags(part.has_state, part.views.has_state);
    for (std::size_t g = 0; g < state.groups(); ++g) step.indices.add(part.blocks[g], part.views.blocks[g]);
  }
  step.indices.send(state.slots);
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
    const CallRange range(state, "session.open_step");
    require_place(state, "open_step", context);
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
    Placement placement(state, rows);
    placement.take();
    OpenStep step = make_step(state, rows, placement);
    if (const std::int64_t bytes = state.conv_bytes_per_token * step.tokens; bytes > state.conv_out_bytes) {
      state.conv_out = allocate(state.place, bytes);
      state.conv_out_bytes = bytes;
    }
    send_indices(state, step);
    placement.move(context);
    const StepId id = state.last_id + 1;
    state.steps.emplace(id, std::move(step));
    // Everything that can throw is done.
    ++state.last_id;
    placement.keep(id);
    ++state.counters.steps_opened;
    return id;
  });
}

}  // namespace recoverssm
