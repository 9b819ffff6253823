// Steps: opened with any mix of rows, run layer by layer, committed in any order.
#include <algorithm>

#include "simulate/round.h"

namespace recoverssm::simulate {

namespace {

const char* name_of(RowKind kind) { return kind == RowKind::prefill ? "prefill" : kind == RowKind::decode ? "decode" : "window"; }

}  // namespace

// What the request does next; nothing if it has no state to go on from.
std::optional<Row> Round::row_for(Request& request) {
  Row row{.request = request.id, .kind = RowKind::prefill, .keys = {}};
  std::vector<Key> text = request.text;
  const auto extend = [&](std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      row.keys.push_back(next_key(text));
      text.push_back(row.keys.back());
    }
  };
  if (request.phase == Phase::dead) return std::nullopt;
  if (request.to_prefill() > 0) {
    std::int64_t chunk = random_.between(1, static_cast<int>(std::min<std::int64_t>(request.to_prefill(), 40)));
    if (setup_.align() && chance(40)) {
      // Ends on a boundary, so that it can be reused.
      const std::int64_t B = *setup_.session.groups[0].block_size;
      chunk = std::min(request.to_prefill(), B - request.tokens() % B);
    }
    if (chance(2)) chunk = 0;
    const auto first = request.prompt.begin() + request.tokens();
    row.keys.assign(first, first + chunk);
    return row;
  }
  if (chance(4)) {
    extend(random_.between(1, 6));  // more prompt: a tool's answer, a next turn
  } else if (chance(25)) {
    row.kind = RowKind::decode;
    extend(1);
  } else {
    row.kind = RowKind::window;
    extend(chance(6) ? 0 : random_.between(1, setup_.session.window_capacity));
  }
  return row;
}

void Round::open() {
  while (static_cast<int>(requests_.size()) < setup_.concurrency && chance(70)) admit();
  std::vector<Request*> ready = requests([](const Request& r) { return r.idle() && r.phase != Phase::dead; });
  std::vector<Row> rows;
  // In any order, and not everybody in every step.
  while (!ready.empty()) {
    const std::size_t i = below(ready.size());
    if (chance(80) || rows.empty()) {
      if (std::optional<Row> row = row_for(*ready[i])) rows.push_back(std::move(*row));
    }
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (rows.empty() && !chance(5)) {
    if (Request* const request = any([](const Request& r) { return r.idle() && r.phase == Phase::dead; })) return revive(*request);
    if (static_cast<int>(requests_.size()) >= setup_.concurrency && steps_.empty()) make_room();
    return;
  }
  while (chance(12)) {
    // Padding, as captured graphs and idle ranks have it.
    Row padding{.request = 0, .kind = chance(50) ? RowKind::window : RowKind::prefill, .keys = {}};
    padding.keys.resize(static_cast<std::size_t>(random_.between(0, std::min(3, setup_.session.window_capacity))));
    rows.insert(rows.begin() + static_cast<std::ptrdiff_t>(below(rows.size() + 1)), std::move(padding));
  }
  open_rows(std::move(rows));
}

std::vector<StepRow> Round::step_rows(const std::vector<Row>& rows) {
  std::vector<StepRow> given;
  for (const Row& row : rows) {
    const Request* const request = find(row.request);
    given.push_back({.request = row.request,
                     .kind = row.kind,
                     .tokens = static_cast<std::int32_t>(row.keys.size()),
                     .num_computed = request != nullptr && chance(50) ? request->tokens() : -1});
  }
  return given;
}

void Round::open_rows(std::vector<Row> rows) {
  while (true) {
    const std::vector<StepRow> given = step_rows(rows);
    const bool fits = session_->fits(given);
    std::int64_t with_tokens = 0;
    for (const Row& row : rows) with_tokens += row.request != 0 && !row.keys.empty();
    bool plenty = true;
    for (std::size_t g = 0; g < setup_.session.groups.size(); ++g) {
      plenty = plenty && session_->free_blocks(static_cast<std::int32_t>(g)) >= 2 * with_tokens;
    }
    expect(fits || !plenty, "fits: no, with two free blocks a row");
    if (fits) {
      auto step = std::make_unique<Step>();
      step->id = session_->open_step(given, context_);
      for (Row& row : rows) {
        row.start = static_cast<std::int64_t>(step->keys.size());
        step->keys.insert(step->keys.end(), row.keys.begin(), row.keys.end());
        if (Request* const request = find(row.request)) {
          request->step = step->id;
          say("open ", step->id, ": request ", row.request, " at ", request->tokens(), ", ", name_of(row.kind), " of ",
              row.keys.size());
        } else {
          say("open ", step->id, ": padding of ", row.keys.size());
        }
      }
      step->rows = std::move(rows);
      for (std::size_t l = 0; l < setup_.layers.size(); ++l) {
        step->layers.insert(step->layers.begin() + static_cast<std::ptrdiff_t>(below(l + 1)), static_cast<std::int32_t>(l));
      }
      step->outs.resize(setup_.layers.size());
      steps_.push_back(std::move(step));
      ++counts_.steps_opened;
      return;
    }
    // Too many rows for the free blocks. The call itself says so too (unless it finds some by folding).
    if (setup_.faults && !setup_.session.lazy && chance(20))
      refused("open_step without blocks", [&] { session_->open_step(given, context_); });
    if (rows.size() <= 1) break;
    rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(below(rows.size())));
  }
  if (steps_.empty()) make_room();
}

// One layer of some step, or all that are left and the commit.
void Round::advance_step() {
  if (steps_.empty()) return;
  const std::size_t index = below(steps_.size());
  Step& step = step_at(index);
  do {
    if (step.layers.empty()) {
      commit(step);
      closed_.push_back(step.id);
      steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(index));
      return;
    }
    forward(step);
  } while (chance(80));
}

void Round::fill(const Step& step, std::int32_t index, LayerTokens& in, TokenRows& out) {
  const LayerModel& layer = setup_.layers[static_cast<std::size_t>(index)];
  in.fill(layer, step.keys, random_.between(0, 2), random_.between(0, 1) * random_.between(0, 9));
  if (layer.outer_residual) {
    out = in.inner;
  } else {
    out.reset(layer.out_dtype(), in.x.rows(), layer.out_width(), random_.between(0, 3));
  }
}

void Round::call_forward(StepId step, std::int32_t index, const LayerTokens& in, const TokenRows& out) {
  const LayerModel& layer = setup_.layers[static_cast<std::size_t>(index)];
  constexpr std::size_t kOut = 0;
  const auto up = [&](std::size_t piece, const TokenRows& rows, const TensorView& view) {
    return device_.up(piece, rows.all(), view);
  };
  if (layer.rule()) {
    const LayerConfig& c = layer.config;
    session_->forward(step, index,
                      DeltaInputs{.x = up(1, in.x, in.x.view()),
                                  .a = up(2, in.a, layer.kda() ? in.a.view(0, c.HV, c.K) : in.a.view()),
                                  .b = up(3, in.b, in.b.view()),
                                  .out = up(kOut, out, out.view(0, c.HV, c.V))},
                      context_);
  } else {
    session_->forward(step, index,
                      ShortConvInputs{.x = up(1, in.x, in.x.view()),
                                      .residual = up(kOut, out, out.view()),
                                      .outer_residual = layer.outer_residual ? up(2, in.outer, in.outer.view()) : TensorView()},
                      context_);
  }
  if (device_.elsewhere()) device_.down(kOut, out.all());
}

void Round::forward(Step& step) {
  const std::int32_t index = step.layers.back();
  const LayerModel& layer = setup_.layers[static_cast<std::size_t>(index)];
  TokenRows& out = step.outs[static_cast<std::size_t>(index)];
  const auto n = static_cast<std::int64_t>(step.keys.size());
  LayerTokens in;
  fill(step, index, in, out);
  say("forward ", step.id, ", layer ", index);
  call_forward(step.id, index, in, out);
  step.layers.pop_back();
  step.touched = true;
  if (!layer.outer_residual) expect(out.untouched_beside(n), "layer ", index, ": written beside the outputs of the step's tokens");
  for (const Row& row : step.rows) {
    if (row.request != 0) continue;
    for (std::int64_t t = row.start; t < row.start + static_cast<std::int64_t>(row.keys.size()); ++t) {
      expect(std::ranges::all_of(std::as_const(out).row(t), [](std::byte b) { return b == std::byte{0}; }), "layer ", index,
             ": the output of a padding token is not 0");
    }
  }
}

// How many of a window's tokens the sampler keeps. Nothing at all where that can be undone, or, rarely, where the request must die of it.
std::int32_t Round::sampled(std::size_t length) {
  const bool anchored = setup_.session.line_kind == LineKind::anchored;
  if (length == 0 || chance(anchored ? 8 : setup_.faults ? 2 : 0)) return 0;
  std::int32_t kept = 1;
  while (kept < static_cast<std::int32_t>(length) && chance(setup_.acceptance)) ++kept;
  return kept;
}

void Round::commit(Step& step) {
  std::vector<Accepted> accepted;
  std::vector<std::int32_t> kept(step.rows.size());
  std::vector<RequestId> stopped;
  for (std::size_t i = 0; i < step.rows.size(); ++i) {
    const Row& row = step.rows[i];
    const auto length = static_cast<std::int32_t>(row.keys.size());
    if (row.request == 0) continue;
    kept[i] = row.kind == RowKind::window ? sampled(row.keys.size()) : length;
    std::int32_t given = kept[i];
    if (row.kind == RowKind::window && kept[i] > 1 && chance(5)) {
      // A stop token inside the window: less is emitted than was sampled, and that is what counts.
      kept[i] = given = random_.between(1, kept[i] - 1);
      ++counts_.stopped_inside;
      if (!row.freed) stopped.push_back(row.request);
    } else if (kept[i] == length && chance(10)) {
      given += random_.between(0, 3);  // a sampler that counts past the window
    } else if (kept[i] == 0) {
      given = -random_.between(0, 2);
    }
    const bool needed = row.kind == RowKind::window && length > 0 && !row.freed;
    // Counts of plain rows, empty windows and dead rows mean nothing.
    if (!needed && chance(60)) continue;
    if (!needed) given = random_.between(-1, 7);
    accepted.insert(accepted.begin() + static_cast<std::ptrdiff_t>(below(accepted.size() + 1)), {row.request, given});
  }
  say("commit ", step.id);
  session_->commit(step.id, accepted, context_);
  ++counts_.steps_committed;
  for (std::size_t i = 0; i < step.rows.size(); ++i) {
    const Row& row = step.rows[i];
    if (row.request == 0 || row.freed) continue;
    Request& request = *find(row.request);
    request.step = 0;
    committed(request, row, step, kept[i]);
    const bool done = request.phase == Phase::live && request.to_prefill() <= 0 &&
                      (request.tokens() >= request.goal || std::ranges::find(stopped, row.request) != stopped.end());
    if (done && chance(80)) finish(request.id);
  }
}

void Round::committed(Request& request, const Row& row, const Step& step, std::int32_t kept) {
  const SessionConfig& config = setup_.session;
  const bool window = row.kind == RowKind::window;
  const auto length = static_cast<std::int64_t>(row.keys.size());
  if (window) ++counts_.window_rows, counts_.verified_tokens += length, counts_.kept_tokens += kept;
  if (row.kind == RowKind::prefill) ++counts_.prefill_rows, counts_.prefill_tokens += length;
  if (row.kind == RowKind::decode) ++counts_.decode_rows, counts_.decode_tokens += length;
  if (window) say("  request ", request.id, " keeps ", kept, " of ", length);
  if (length == 0) return compare_info(request);
  if (window && kept == 0 && config.line_kind == LineKind::rolled) {
    ++counts_.died;
    if (request.tokens() > static_cast<std::int64_t>(request.prompt.size())) request.prompt = request.text;
    forget(request);
    request.phase = Phase::dead;
    return compare_info(request);
  }
  const std::int64_t computed = request.tokens();
  if (request.preempted) ++counts_.resumed_from_scratch, request.preempted = false;
  if (length > kept && chance(15)) {
    // What the refused drafts gave must be right as well: the sampler looks at it.
    Memory memory = request.memory;
    plain_.advance(memory, row.keys);
    compare_outputs(row, step, length, "of a window, refused drafts included");
  }
  const std::span<const Key> keys = std::span(row.keys).first(static_cast<std::size_t>(kept));
  for (std::size_t g = 0; setup_.align() && g < config.groups.size() && kept > 0; ++g) {
    const std::int64_t B = *config.groups[g].block_size, next = (computed / B + 1) * B;
    if (!window || next >= computed + kept) continue;
    Memory memory = request.memory;  // a boundary inside the window: a copy, rounded there
    plain_.advance(memory, keys.first(static_cast<std::size_t>(next - computed)));
    add_boundary(request, g, next, memory);
  }
  const std::optional<Memory> before = request.exact ? std::optional(request.memory) : std::nullopt;
  plain_.advance(request.memory, keys);
  compare_outputs(row, step, kept, "of a committed token");
  if (request.exact && kept > 0) {
    const std::string off = request.exact->advance(*before, plain_, request.memory);
    expect(off.empty(), "request ", request.id, ", float64: ", off);
    counts_.float64_tokens += kept;
    counts_.float64_worst = std::max(counts_.float64_worst, request.exact->worst());
  }
  request.text.insert(request.text.end(), keys.begin(), keys.end());
  request.phase = Phase::live;
  request.records_wait = config.lazy && window;
  request.waiting = request.records_wait ? kept : 0;
  for (std::size_t g = 0; setup_.align() && g < config.groups.size() && kept > 0; ++g) {
    if (request.tokens() % *config.groups[g].block_size == 0) add_boundary(request, g, request.tokens(), request.memory);
  }
  compare_info(request);
  compare_state(request);
  if (chance(10)) compare_exportable(request);
}

void Round::compare_outputs(const Row& row, const Step& step, std::int64_t count, const char* what) {
  for (std::size_t l = 0; l < setup_.layers.size(); ++l) {
    for (std::int64_t t = 0; t < count; ++t) {
      expect(same(step.outs[l].row(row.start + t), plain_.last(l).out.row(t)), "layer ", l, ", request ", row.request, ", ",
             name_of(row.kind), ": output ", t, " ", what);
    }
    counts_.outputs_compared += count;
  }
}

void Round::abandon(std::size_t index) {
  Step& step = step_at(index);
  if (chance(50) && !step.layers.empty()) forward(step);
  say("abandon ", step.id, step.touched ? "" : ", untouched");
  session_->abandon(step.id);
  ++counts_.steps_abandoned;
  const bool windows_survive = !setup_.session.lazy && setup_.session.line_kind == LineKind::anchored;
  for (const Row& row : step.rows) {
    if (row.request == 0 || row.freed) continue;
    Request& request = *find(row.request);
    request.step = 0;
    if (step.touched && !row.keys.empty() && !(row.kind == RowKind::window && windows_survive)) {
      ++counts_.died;
      if (request.tokens() > static_cast<std::int64_t>(request.prompt.size())) request.prompt = request.text;
      forget(request);
      request.phase = Phase::dead;
      compare_info(request);
      continue;
    }
    perhaps_folded(request);
    compare_info(request);
    compare_state(request);
    compare_exportable(request);
  }
  closed_.push_back(step.id);
  steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(index));
}

}  // namespace recoverssm::simulate
