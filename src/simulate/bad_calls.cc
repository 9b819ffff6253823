// Calls that a session must refuse, with nothing changed.
#include <algorithm>

#include "simulate/round.h"

namespace recoverssm::simulate {

namespace {

void append(std::vector<std::byte>& bytes, const void* data, std::size_t size) {
  const auto* const from = static_cast<const std::byte*>(data);
  bytes.insert(bytes.end(), from, from + size);
}

template <class... Numbers>
void append_numbers(std::vector<std::byte>& bytes, Numbers... numbers) {
  for (const std::int64_t number : {static_cast<std::int64_t>(numbers)...}) append(bytes, &number, sizeof number);
}

constexpr std::uint64_t kNobody = std::uint64_t{1} << 60;  // never a handle

}  // namespace

// All that a later call could see of the session: requests, blocks, steps, counters, every byte of the pools.
std::vector<std::byte> Round::fingerprint() const {
  std::vector<std::byte> bytes;
  for (const auto& request : requests_) {
    const RequestInfo info = session_->info(request->id);
    append_numbers(bytes, info.phase, info.tokens, info.waiting, info.open_step);
    append(bytes, info.blocks.data(), info.blocks.size() * sizeof info.blocks[0]);
    for (const std::int64_t tokens : session_->exportable(request->id)) append_numbers(bytes, tokens);
  }
  append_numbers(bytes, session_->requests(), session_->open_steps(), session_->prefixes());
  for (std::size_t g = 0; g < setup_.session.groups.size(); ++g) {
    append_numbers(bytes, session_->free_blocks(static_cast<std::int32_t>(g)));
    for (std::int32_t b = 0; b < setup_.session.groups[g].blocks; ++b) {
      const BlockTag tag = session_->block_tag(static_cast<std::int32_t>(g), b);
      append_numbers(bytes, tag.owner, tag.tokens, tag.step, tag.references);
    }
  }
  const SessionCounters& c = session_->counters();
  append_numbers(bytes, c.steps_opened, c.steps_committed, c.steps_abandoned, c.prefill_rows, c.decode_rows, c.window_rows,
                 c.prefill_tokens, c.decode_tokens, c.verified_tokens, c.kept_tokens, c.grouped_calls, c.per_group_calls,
                 c.folded_rows, c.moved_rows, c.dead_rows);
  if (pools_) {
    pools_->append_to(bytes);
    return bytes;
  }
  for (std::size_t l = 0; l < setup_.layers.size(); ++l) {
    const LayerPool& pool = session_->pool(static_cast<std::int32_t>(l));
    for (const TensorView* v :
         {&pool.line, &pool.state, &pool.records.packed, &pool.records.corrections, &pool.records.key_gate, &pool.pending}) {
      if (!v->present()) continue;
      Bytes copy;
      append(bytes, device_.read(*v, copy).data, static_cast<std::size_t>(v->elements() * size_of(v->dtype)));
    }
  }
  return bytes;
}

void Round::refused(const std::string& what, const std::function<void()>& call) {
  say("bad call: ", what);
  const std::vector<std::byte> before = fingerprint();
  bool threw = false;
  try {
    call();
  } catch (const Error& error) {
    threw = true;
    say("  refused: ", error.what());
    expect(std::string_view(error.what()).size() > 0, what + ": refused without a word");
  }
  expect(threw, what + ": was not refused");
  expect(fingerprint() == before, what + ": was refused, but something changed");
  ++counts_.refused;
}

void Round::bad_call() {
  switch (random_.between(0, 3)) {
    case 0:
      return bad_step_call();
    case 1:
      return bad_rows();
    case 2:
      return bad_request_call();
    default:
      return bad_restore();
  }
}

void Round::bad_step_call() {
  const StepId closed = closed_.empty() || chance(30) ? kNobody : closed_[below(closed_.size())];
  const int which = random_.between(0, 11);
  if (which == 0) return refused("commit of a closed step", [&] { session_->commit(closed, {}, context_); });
  if (which == 1) return refused("abandon of a closed step", [&] { session_->abandon(closed); });
  if (steps_.empty()) return;
  Step& step = step_at(below(steps_.size()));
  LayerTokens in;
  TokenRows out;
  const auto layer = static_cast<std::int32_t>(below(setup_.layers.size()));
  fill(step, layer, in, out);
  const bool ran = std::ranges::find(step.layers, layer) == step.layers.end();
  // Counts as commit wants them, but for what is spoilt below.
  std::vector<Accepted> counts;
  for (const Row& row : step.rows) {
    if (row.request != 0 && !row.freed && row.kind == RowKind::window && !row.keys.empty()) counts.push_back({row.request, 1});
  }
  const auto commit = [&] { session_->commit(step.id, counts, context_); };
  if (which == 2) return refused("forward of a closed step", [&] { call_forward(closed, layer, in, out); });
  if (which == 3 && ran) return refused("a layer twice", [&] { call_forward(step.id, layer, in, out); });
  if (which == 4) {
    const std::int32_t wrong = chance(50) ? -1 : static_cast<std::int32_t>(setup_.layers.size());
    return refused("a layer that is none", [&] { session_->forward(step.id, wrong, DeltaInputs{.x = in.x.view()}, context_); });
  }
  if (which == 5) {
    return refused("inputs of another kind of layer", [&] {
      if (setup_.layers[static_cast<std::size_t>(layer)].rule()) {
        session_->forward(step.id, layer, ShortConvInputs{.x = in.x.view(), .residual = in.x.view()}, context_);
      } else {
        session_->forward(step.id, layer, DeltaInputs{.x = in.x.view(), .a = in.x.view(), .b = in.x.view(), .out = out.view()},
                          context_);
      }
    });
  }
  if (which == 6 && !ran && !step.keys.empty()) {
    return refused("fewer tokens than the step has", [&] {
      LayerTokens less;
      less.fill(setup_.layers[static_cast<std::size_t>(layer)], std::span(step.keys).first(step.keys.size() - 1), 0, 0);
      call_forward(step.id, layer, less, out);
    });
  }
  if (which == 7 && !step.layers.empty()) return refused("commit before all layers have run", commit);
  if (which < 8) return;
  while (!step.layers.empty()) forward(step);
  if (which == 8) {
    counts.push_back({kNobody, 1});
    return refused("a count of nobody", commit);
  }
  if (which == 9) {
    const Request* const other =
        any([&](const Request& r) { return std::ranges::find(step.rows, r.id, &Row::request) == step.rows.end(); });
    if (other == nullptr) return;
    counts.insert(counts.begin(), {other->id, 1});
    return refused("a count of a request of no row", commit);
  }
  if (counts.empty()) return;
  if (which == 10) {
    counts.erase(counts.begin() + static_cast<std::ptrdiff_t>(below(counts.size())));
    return refused("a window without a count", commit);
  }
  counts.push_back(counts[below(counts.size())]);
  refused("two counts of a request", commit);
}

void Round::bad_rows() {
  // Good rows with a bad one among them.
  std::vector<StepRow> rows;
  std::vector<RequestId> good;
  for (Request* request : requests([](const Request& r) { return r.idle() && r.phase != Phase::dead; })) {
    if (rows.size() == 3) break;
    const std::optional<Row> row = row_for(*request);
    rows.push_back({request->id, row->kind, static_cast<std::int32_t>(row->keys.size())});
    good.push_back(request->id);
  }
  const auto with = [&](StepRow bad, const char* what) {
    std::erase_if(rows, [&](const StepRow& row) { return row.request == bad.request; });
    rows.insert(rows.begin() + static_cast<std::ptrdiff_t>(below(rows.size() + 1)), bad);
    refused(what, [&] { session_->open_step(rows, context_); });
  };
  const std::int32_t S = setup_.session.window_capacity;
  const RequestId somebody = good.empty() ? 0 : good[below(good.size())];
  const Request* const request = find(somebody);
  switch (random_.between(0, 8)) {
    case 0:
      return with({somebody, RowKind::window, S + random_.between(1, 3)}, "a window longer than S");
    case 1:
      return with({somebody, chance(50) ? RowKind::window : RowKind::prefill, -1}, "a negative number of tokens");
    case 2:
      return with({somebody, RowKind::decode, chance(50) ? 0 : 2}, "a decode row of other than one token");
    case 3:
      return with({gone_.empty() ? kNobody : gone_[below(gone_.size())], RowKind::prefill, 1}, "a row of a request that is gone");
    case 4:
      if (Request* const empty = any([](const Request& r) { return r.idle() && r.phase == Phase::empty; })) {
        with({empty->id, chance(50) ? RowKind::decode : RowKind::window, 1}, "a request without state decodes");
      }
      return;
    case 5:
      if (Request* const dead = any([](const Request& r) { return r.phase == Phase::dead; })) {
        with({dead->id, chance(30) ? RowKind::prefill : RowKind::window, 1}, "a row of a dead request");
      }
      return;
    case 6:
      if (rows.empty()) return;
      rows.push_back(rows[below(rows.size())]);
      return refused("two rows of a request", [&] { session_->open_step(rows, context_); });
    case 7:
      if (Request* const busy = any([](const Request& r) { return !r.idle(); })) {
        with({busy->id, RowKind::prefill, 1}, "a request with a row in another open step");
      }
      return;
    default:
      if (request == nullptr) return;
      return with({somebody, RowKind::prefill, 1, request->tokens() + (request->tokens() > 0 && chance(50) ? -1 : 1)},
                  "another num_computed");
  }
}

void Round::bad_request_call() {
  const RequestId gone = gone_.empty() || chance(20) ? kNobody : gone_[below(gone_.size())];
  const PrefixId released = released_.empty() ? kNobody : released_[below(released_.size())];
  Request* const idle = any([](const Request& r) { return r.idle() && r.phase == Phase::live; });
  Request* const unfit = any([](const Request& r) { return !r.idle() || r.phase != Phase::live; });
  const RequestId bad = unfit == nullptr ? gone : unfit->id;
  switch (random_.between(0, 11)) {
    case 0:
      return refused("finish of a request that is gone", [&] { session_->finish(gone); });
    case 1:
      return refused("preempt of a request that is gone", [&] { session_->preempt(gone); });
    case 2:
      return refused("info of a request that is gone", [&] { (void)session_->info(gone); });
    case 3:
      return refused("fork without a state at rest", [&] { session_->fork(bad, context_); });
    case 4:
      return refused("materialize without a state at rest", [&] { session_->materialize({&bad, 1}, context_); });
    case 5:
      return refused("finish_and_hold without a state at rest", [&] { session_->finish_and_hold(bad, context_); });
    case 6:
      return refused("export without a state at rest", [&] { session_->export_checkpoint(bad, 1, 0, context_); });
    case 7:
      return refused("admit with a prefix that is gone", [&] { session_->admit(released, context_); });
    case 8:
      return refused("release of a prefix that is gone", [&] { session_->release(released); });
    case 9:
      return refused("a block that is none", [&] { (void)session_->block_tag(0, setup_.session.groups[0].blocks); });
    default: {
      if (idle == nullptr) return;
      // No state there: ahead of the text, before it, or between boundaries. For the last two it's folded first: what waits has states.
      std::int64_t tokens = idle->tokens() + random_.between(1, 9);
      if (chance(60)) {
        session_->materialize({&idle->id, 1}, context_);
        folded(*idle);
        const std::vector<std::int64_t> counts = session_->exportable(idle->id);
        tokens = random_.between(-1, static_cast<int>(idle->tokens()));
        while (std::ranges::find(counts, tokens) != counts.end()) --tokens;
      }
      if (chance(50)) return refused("hold where there is no state", [&] { session_->hold(idle->id, tokens, context_); });
      return refused("export where there is no state", [&] { session_->export_checkpoint(idle->id, tokens, 0, context_); });
    }
  }
}

void Round::bad_restore() {
  if (checkpoints_.empty()) return;
  const Kept& kept = checkpoints_[below(checkpoints_.size())];
  std::vector<std::byte> bytes = kept.checkpoint;
  const auto restore = [&](const Request& request, std::int64_t tokens, std::uint64_t tag, const char* what) {
    refused(what, [&] { session_->restore(request.id, bytes, tokens, tag); });
  };
  if (chance(25)) {
    const Request* const request = any([](const Request& r) { return r.phase == Phase::live || !r.idle(); });
    if (request != nullptr) restore(*request, kept.tokens(), kept.tag, "restore over a state");
    return;
  }
  const Request* const request = any([](const Request& r) { return r.idle() && r.phase != Phase::live; });
  if (request == nullptr) return;
  switch (random_.between(0, 4)) {
    case 0:
      return restore(*request, kept.tokens() + (chance(50) ? 1 : -1), kept.tag, "a checkpoint of another count");
    case 1:
      return restore(*request, kept.tokens(), kept.tag ^ (std::uint64_t{1} << random_.between(0, 63)),
                     "a checkpoint of another text");
    case 2:
      bytes.resize(below(bytes.size()));
      return restore(*request, kept.tokens(), kept.tag, "a truncated checkpoint");
    case 3:
      bytes[below(bytes.size())] ^= static_cast<std::byte>(1 << random_.between(0, 7));
      return restore(*request, kept.tokens(), kept.tag, "a damaged checkpoint");
    default:
      bytes.resize(bytes.size() + 1 + below(16));
      return restore(*request, kept.tokens(), kept.tag, "a checkpoint with more behind it");
  }
}

}  // namespace recoverssm::simulate
