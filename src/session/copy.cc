// States copied from block to block: forks, held prefixes, and requests that start from one.
#include "session/copy.h"

#include <algorithm>

namespace recoverssm {

void move_blocks(SessionState& state, std::size_t group, std::vector<std::int32_t>& from, std::vector<std::int32_t>& to,
                 Context& context) {
  AlignMoveParams params{.layers = state.group_layers[group], .null_block_id = state.config.null_block_id};
  Upload indices;
  indices.add(from, params.from);
  indices.add(to, params.to);
  indices.send(state.slots);
  run_op(state, context, align_move, params);
}

void copy_blocks(SessionState& state, std::span<const std::int32_t> from, std::span<const std::int32_t> to, Context& context) {
  for (std::size_t g = 0; g < state.groups(); ++g) {
    if (from[g] <= state.config.null_block_id || to[g] <= state.config.null_block_id) continue;
    std::vector<std::int32_t> source{from[g]}, target{to[g]};
    move_blocks(state, g, source, target, context);
    ++state.counters.moved_rows;
  }
}

namespace {

// A boundary's block is never written again, whoever holds it: the next token's state lives in the next column.
bool may_be_shared(const SessionState& state, std::size_t group, std::int64_t tokens) {
  const auto& B = state.block_size(group);
  return B && tokens % *B == 0;
}

// A free block in every group whose state must be copied, once the blocks in dropped[group] are given back.
void require_room(const SessionState& state, const char* call, const Source& source,
                  std::vector<std::vector<std::int32_t>>& dropped) {
  for (std::size_t g = 0; g < state.groups(); ++g) {
    if (source.shared[g] || free_after(state.blocks[g], dropped[g]) > 0) continue;
    fail(ErrorKind::bad_state, call, text("groups[", g, "]"), "no free block", "one to copy the state to");
  }
}

// New references to a state: shared blocks get one more holder, others are copied into blocks of their own, for which there is room.
std::vector<std::int32_t> take_state(SessionState& state, const Source& source, RequestId owner, std::int64_t tokens, StepId step,
                                     Context& context) {
  std::vector<std::int32_t> taken(state.groups()), from(state.groups()), to(state.groups());
  for (std::size_t g = 0; g < state.groups(); ++g) {
    if (source.shared[g]) {
      taken[g] = source.blocks[g], from[g] = to[g] = state.config.null_block_id;
      state.blocks[g].share(taken[g]);
    } else {
      taken[g] = to[g] = state.blocks[g].take(owner), from[g] = source.blocks[g];
    }
  }
  try {
    copy_blocks(state, from, to, context);
  } catch (...) {
    for (std::size_t g = 0; g < state.groups(); ++g) state.blocks[g].drop(taken[g]);
    throw;
  }
  for (std::size_t g = 0; g < state.groups(); ++g) {
    if (!source.shared[g]) state.blocks[g].written(taken[g], tokens, step);
  }
  return taken;
}

// Where a folded request's state after `tokens` tokens lies, in these columns. Empty blocks: nowhere.
Source state_after(const SessionState& state, const Request& request, std::span<const Columns> groups, std::int64_t tokens) {
  Source source;
  if (tokens < 1) return source;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Columns& columns = groups[g];
    const bool shared = may_be_shared(state, g, tokens);
    const Column* column = shared ? columns.find(column_after(state.block_size(g), tokens)) : nullptr;
    if (shared && (column == nullptr || !column->boundary)) column = nullptr;
    const bool current = column == nullptr && tokens == request.tokens;
    if (current) column = columns.find(columns.running);
    if (column == nullptr) return {};
    source.blocks.push_back(column->block);
    source.shared.push_back(!current);
  }
  return source;
}

// The same where nothing needs folding: folding could give up a boundary for a later one.
Source folded_state_after(const SessionState& state, const Request& request, std::int64_t tokens) {
  Source source = state_after(state, request, request.groups, tokens);
  const bool boundaries = std::ranges::find(source.shared, false) == source.shared.end();
  return request.records_wait && !boundaries ? Source() : source;
}

void fold_one(SessionState& state, RequestId id, Context& context) {
  if (!fault(Fault::copy_without_fold)) fold(state, {&id, 1}, context);
}

}  // namespace

Source source_of_copy(SessionState& state, const char* call, RequestId id, const Request& request, std::int64_t tokens, Use use,
                      Context& context) {
  std::vector<std::vector<std::int32_t>> dropped(state.groups());
  Source source = folded_state_after(state, request, tokens);
  const bool folds = source.blocks.empty() && request.records_wait;
  if (folds) {
    std::vector<Columns> groups;
    for (std::size_t g = 0; g < state.groups(); ++g) groups.push_back(folded_columns(state, request, g, dropped[g]));
    source = state_after(state, request, groups, tokens);
  }
  if (source.blocks.empty()) {
    fail(ErrorKind::bad_state, call, "tokens", text(tokens, ", after which request ", id, " has no state"), "one of exportable()");
  }
  if (use == Use::copy) require_room(state, call, source, dropped);
  if (folds) fold_one(state, id, context);
  return source;
}

namespace {

// Lets go of a state's blocks if whoever was to hold them can't be entered.
template <class Enter>
void enter_or_drop(SessionState& state, const std::vector<std::int32_t>& blocks, Enter enter) {
  try {
    enter();
  } catch (...) {
    for (std::size_t g = 0; g < state.groups(); ++g) state.blocks[g].drop(blocks[g]);
    throw;
  }
}

PrefixId new_prefix(SessionState& state, RequestId owner, std::int64_t tokens, const std::vector<std::int32_t>& blocks) {
  enter_or_drop(state, blocks, [&] { state.prefixes.emplace(state.last_id + 1, Prefix{owner, tokens, blocks}); });
  return ++state.last_id;
}

Prefix& prefix_of(SessionState& state, const char* call, PrefixId id) {
  const auto at = state.prefixes.find(id);
  if (at == state.prefixes.end()) fail(ErrorKind::bad_state, call, "prefix", text(id, ", which is none"), "a held prefix");
  return at->second;
}

RequestId new_request(SessionState& state, std::int64_t tokens, const std::vector<std::int32_t>& blocks, StepId step) {
  enter_or_drop(state, blocks, [&] {
    Request request{.phase = Phase::live, .tokens = tokens, .written_by = step, .groups = {}};
    for (std::size_t g = 0; g < state.groups(); ++g) {
      const std::int64_t column = column_after(state.block_size(g), tokens);
      request.groups.push_back({.in_use = {{column, blocks[g], may_be_shared(state, g, tokens)}}, .running = column});
    }
    state.requests.emplace(state.last_id + 1, std::move(request));
  });
  return ++state.last_id;
}

}  // namespace

std::vector<std::int64_t> Session::exportable(RequestId id) const {
  const SessionState& state = *state_;
  const Request& request = counted(state.counters, [&]() -> Request& { return request_of(*state_, "exportable", id); });
  if (request.phase != Phase::live || request.open_step != 0) return {};
  std::vector<std::int64_t> counts;
  if (state.align()) {
    for (const Column& column : request.groups[0].in_use) {
      const std::int64_t tokens = (column.column + 1) * *state.block_size(0);
      if (tokens < request.tokens && !folded_state_after(state, request, tokens).blocks.empty()) counts.push_back(tokens);
    }
  }
  if (!folded_state_after(state, request, request.tokens).blocks.empty()) counts.push_back(request.tokens);
  return counts;
}

RequestId Session::fork(RequestId id, Context& context) {
  SessionState& state = *state_;
  return counted(state.counters, [&] {
    require_place(state, "fork", context);
    Request& request = idle_request(state, "fork", id);
    require_live("fork", id, request);
    const Source source = source_of_copy(state, "fork", id, request, request.tokens, Use::copy, context);
    const std::vector<std::int32_t> blocks =
        take_state(state, source, state.last_id + 1, request.tokens, request.written_by, context);
    return new_request(state, request.tokens, blocks, request.written_by);
  });
}

PrefixId Session::hold(RequestId id, std::int64_t tokens, Context& context) {
  SessionState& state = *state_;
  return counted(state.counters, [&] {
    require_place(state, "hold", context);
    Request& request = idle_request(state, "hold", id);
    require_live("hold", id, request);
    const Source source = source_of_copy(state, "hold", id, request, tokens, Use::copy, context);
    return new_prefix(state, id, tokens, take_state(state, source, id, tokens, request.written_by, context));
  });
}

PrefixId Session::finish_and_hold(RequestId id, Context& context) {
  SessionState& state = *state_;
  return counted(state.counters, [&] {
    require_place(state, "finish_and_hold", context);
    Request& request = idle_request(state, "finish_and_hold", id);
    require_live("finish_and_hold", id, request);
    fold_one(state, id, context);
    std::vector<std::int32_t> blocks;
    for (const Columns& columns : request.groups) blocks.push_back(columns.running_block(state.config.null_block_id));
    for (std::size_t g = 0; g < state.groups(); ++g) state.blocks[g].share(blocks[g]);
    const PrefixId prefix = new_prefix(state, id, request.tokens, blocks);
    drop_state(state, id, request, Phase::empty);
    state.requests.erase(id);
    return prefix;
  });
}

RequestId Session::admit(PrefixId id, Context& context) {
  SessionState& state = *state_;
  return counted(state.counters, [&] {
    require_place(state, "admit", context);
    const Prefix& prefix = prefix_of(state, "admit", id);
    Source source{prefix.blocks, {}};
    for (std::size_t g = 0; g < state.groups(); ++g) source.shared.push_back(may_be_shared(state, g, prefix.tokens));
    std::vector<std::vector<std::int32_t>> dropped(state.groups());
    require_room(state, "admit", source, dropped);
    const StepId step = state.blocks[0].tag(prefix.blocks[0]).step;
    const std::vector<std::int32_t> blocks = take_state(state, source, state.last_id + 1, prefix.tokens, step, context);
    return new_request(state, prefix.tokens, blocks, step);
  });
}

void Session::release(PrefixId id) {
  SessionState& state = *state_;
  counted(state.counters, [&] {
    const Prefix& prefix = prefix_of(state, "release", id);
    for (std::size_t g = 0; g < state.groups(); ++g) state.blocks[g].drop(prefix.blocks[g]);
    state.prefixes.erase(id);
  });
}

std::int64_t Session::tokens(PrefixId id) const {
  return counted(state_->counters, [&] { return prefix_of(*state_, "tokens", id).tokens; });
}

}  // namespace recoverssm
