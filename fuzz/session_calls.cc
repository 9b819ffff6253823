// Bytes decide a configuration and a sequence of session calls, right and wrong ones, on a tiny model. Beside the session runs a model of
// it: which calls must be accepted, each request's phase and text, who holds how many blocks. After every call:
//   a refused call has changed nothing, and is counted
//   phases, counts and open steps are the model's; every block is free or held; no state has two owners; null blocks are nobody's
// Exported states are compared with a plain run over the same text, to the bit. At the end everything is freed, and all blocks are free.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "session_model.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using namespace fuzz_session;

class Run {
 public:
  explicit Run(Input& input) : input_(input), shape_(shape_of(input)), model_(shape_), session_(config(input)), reference_(shape_) {
    // New pools hold anything: NaN here, which no result may show.
    for (const TensorView* view : tensors(session_)) std::memset(view->data, 0xFF, bytes_of(*view));
    check();
  }

  void call() {
    switch (input_.byte() % 28) {
      case 0:
        return admit();
      case 1:
        return admit_prefix();
      case 2:
        return finish(any_request());
      case 3:
        return finish_and_hold();
      case 4:
        return preempt();
      case 5:
        return abandon(any_step());
      case 6:
        return materialize();
      case 7:
        return fork();
      case 8:
        return hold();
      case 9:
        return release(any(prefixes_));
      case 10:
        return export_checkpoint();
      case 11:
        return restore();
      case 12:
        return look();
      case 13:
        return forward_one();
      case 14:
        return commit(any_step());
      case 15:
      case 16:
      case 17:
      case 18:
        return finish_step(any_step());
      case 19:
      case 20:
      case 21:
        open_step();
        return;
      default:  // a step from end to end
        return finish_step(open_step());
    }
  }

  // Closes and frees everything. Then nothing is held.
  void end() {
    while (!steps_.empty()) {
      const StepId step = steps_.begin()->first;
      if (input_.below(2) == 0) {
        abandon(step);
      } else {
        forward_rest(step);
        commit(step, true);
      }
      demand(!steps_.contains(step), "a step that can't be closed");
    }
    std::vector<RequestId> live;
    for (const auto& [id, request] : requests_) {
      if (request.phase == Phase::live) live.push_back(id);
    }
    for (const RequestId id : live) export_at(id, static_cast<std::int64_t>(requests_.at(id).text.size()));
    while (!prefixes_.empty()) release(prefixes_.begin()->first);
    while (!requests_.empty()) finish(requests_.begin()->first);
    for (std::size_t g = 0; g < groups(); ++g) demand(free_blocks(g) == usable(g), "all blocks are free at the end");
  }

 private:
  // ---- the input ----
  SessionConfig config(Input& input) {
    SessionConfig config = model_.config();
    if (config.groups.size() == 2 && config.groups[1].block_size) {
      *config.groups[1].block_size += static_cast<std::int32_t>(input.below(3));
    }
    return config;
  }
  template <class Map>
  std::uint64_t any(const Map& all) {
    const std::size_t n = input_.below(all.size() + 1);
    if (n == all.size()) return input_.byte() % 32;  // mostly nobody's
    return std::next(all.begin(), static_cast<std::ptrdiff_t>(n))->first;
  }
  RequestId any_request() { return any(requests_); }
  // One that may have a row in a new step, or 0.
  RequestId any_free_request(const std::set<RequestId>& taken) {
    std::vector<RequestId> free;
    for (const auto& [id, request] : requests_) {
      if (request.open_step == 0 && request.phase != Phase::dead && !taken.contains(id)) free.push_back(id);
    }
    return free.empty() ? 0 : free[input_.below(free.size())];
  }
  StepId any_step() { return any(steps_); }

  // ---- looking ----
  std::int32_t layers() const { return static_cast<std::int32_t>(session_.config().layers.size()); }
  std::size_t groups() const { return session_.config().groups.size(); }
  std::int32_t free_blocks(std::size_t group) const { return session_.free_blocks(static_cast<std::int32_t>(group)); }
  std::int32_t usable(std::size_t group) const { return session_.config().groups[group].blocks - shape_.null_block_id - 1; }
  Seen see() const { return fuzz_session::see(session_, requests_, prefixes_); }

  enum class Expect : std::uint8_t { accepted, refused, either };
  // Makes a call. Returns whether it was accepted.
  bool made(const std::string& call, Expect expected, const std::function<void()>& body) {
    last_call = call;
    const Seen before = see();
    bool accepted = true;
    try {
      body();
    } catch (const Error& error) {
      accepted = false;
      last_call += ": ";
      last_call += error.what();
      demand(error.kind() != ErrorKind::ok && error.what()[0] != '\0', "a refusal has a kind and a text");
    }
    if (accepted) {
      demand(expected != Expect::refused, "a wrong call was accepted");
      demand(session_.counters().refused_calls == before.refused, "an accepted call counts as refused");
      return true;
    }
    demand(expected != Expect::accepted, "a right call was refused");
    Seen after = see();
    demand(after.refused == before.refused + 1, "a refused call is counted once");
    after.refused = before.refused;
    demand(after == before, "a refused call has changed something");
    return false;
  }
  static Expect right(bool is) { return is ? Expect::accepted : Expect::refused; }

  void check() const {
    demand(session_.requests() == static_cast<std::int32_t>(requests_.size()), "number of requests");
    demand(session_.open_steps() == static_cast<std::int32_t>(steps_.size()), "number of open steps");
    demand(session_.prefixes() == static_cast<std::int32_t>(prefixes_.size()), "number of prefixes");
    const std::int32_t null = shape_.null_block_id;
    std::vector<std::map<std::int32_t, std::int32_t>> running(groups());
    std::vector<std::set<std::int32_t>> written(groups());
    for (const auto& [id, request] : requests_) {
      const RequestInfo info = session_.info(id);
      demand(info.phase == request.phase, "phase of a request");
      demand(info.tokens == static_cast<std::int64_t>(request.text.size()), "tokens of a request");
      demand(info.open_step == request.open_step, "open step of a request");
      demand(info.waiting >= 0 && info.waiting <= shape_.S && info.waiting <= info.tokens, "waiting tokens of a request");
      demand(shape_.lazy || info.waiting == 0, "waiting tokens of an eager request");
      demand(info.blocks.size() == groups(), "blocks of a request");
      for (std::size_t g = 0; g < groups(); ++g) {
        const std::int32_t block = info.blocks[g];
        demand(block == null || (block > null && block < session_.config().groups[g].blocks), "a block out of range");
        demand(block != null || request.phase != Phase::live, "a live request without a block");
        demand(block == null || request.phase == Phase::live || request.open_step != 0, "a request without state has a block");
        if (block == null) continue;
        ++running[g][block];
        if (request.open_step == 0) continue;
        for (const ModelRow& row : steps_.at(request.open_step).rows) {
          if (row.given.request == id && !row.tokens.empty()) written[g].insert(block);
        }
      }
      const auto counts = session_.exportable(id);
      demand(std::ranges::is_sorted(counts), "exportable counts ascend");
      demand(counts.empty() || (counts.front() > 0 && counts.back() <= info.tokens), "exportable counts are of this text");
      demand(counts.empty() || (request.phase == Phase::live && request.open_step == 0), "exportable without a state");
    }
    for (std::size_t g = 0; g < groups(); ++g) {
      std::int32_t held = 0;
      for (std::int32_t block = 0; block < session_.config().groups[g].blocks; ++block) {
        const BlockTag tag = session_.block_tag(static_cast<std::int32_t>(g), block);
        const auto at = running[g].find(block);
        const std::int32_t users = at == running[g].end() ? 0 : at->second;
        demand(block > null || (tag.references == 0 && tag.owner == 0 && users == 0), "a null block was handed out");
        demand(tag.references >= users, "a block has more users than references");
        held += tag.references > 0 ? 1 : 0;
        if (users > 1 || (users == 1 && tag.references > 1)) {
          const auto& B = session_.config().groups[g].block_size;
          demand(B && tag.tokens > 0 && tag.tokens % *B == 0, "a state that is no boundary has two owners");
        }
        demand(!written[g].contains(block) || tag.references == 1, "a step writes a block that others hold");
      }
      demand(held + free_blocks(g) == usable(g), "a block is neither free nor held");
    }
  }

  // ---- requests ----
  void admit() {
    RequestId id = 0;
    made("admit", Expect::accepted, [&] { id = session_.admit(); });
    added(id, {});
    check();
  }
  void added(std::uint64_t id, ModelRequest request) {
    demand(id != 0 && seen_ids_.insert(id).second, "a handle that was there before");
    requests_[id] = std::move(request);
  }
  void admit_prefix() {
    const auto prefix = any(prefixes_);
    RequestId id = 0;
    const Expect expected = prefixes_.contains(prefix) ? Expect::either : Expect::refused;
    if (made("admit prefix " + std::to_string(prefix), expected, [&] { id = session_.admit(prefix, context_); })) {
      added(id, {Phase::live, prefixes_.at(prefix), 0});
    }
    check();
  }
  void freed(RequestId id) {
    const StepId step = requests_.at(id).open_step;
    if (step == 0) return;
    for (ModelRow& row : steps_.at(step).rows) row.freed = row.freed || row.given.request == id;
  }
  void finish(RequestId id) {
    if (made("finish " + std::to_string(id), right(requests_.contains(id)), [&] { session_.finish(id); })) {
      freed(id);
      requests_.erase(id);
    }
    check();
  }
  bool idle_and_live(RequestId id) const {
    const auto at = requests_.find(id);
    return at != requests_.end() && at->second.phase == Phase::live && at->second.open_step == 0;
  }
  void finish_and_hold() {
    const RequestId id = any_request();
    PrefixId prefix = 0;
    if (made("finish_and_hold " + std::to_string(id), right(idle_and_live(id)),
             [&] { prefix = session_.finish_and_hold(id, context_); })) {
      held(prefix, requests_.at(id).text);
      requests_.erase(id);
    }
    check();
  }
  void held(PrefixId prefix, Text text) {
    demand(prefix != 0 && seen_ids_.insert(prefix).second, "a prefix handle that was there before");
    demand(session_.tokens(prefix) == static_cast<std::int64_t>(text.size()), "tokens of a prefix");
    prefixes_[prefix] = std::move(text);
  }
  void preempt() {
    const RequestId id = any_request();
    if (made("preempt " + std::to_string(id), right(requests_.contains(id)), [&] { session_.preempt(id); })) {
      freed(id);
      requests_.at(id) = {};
    }
    check();
  }

  // ---- steps ----
  bool right_row(const ModelRow& row, const std::set<RequestId>& before) const {
    const StepRow& given = row.given;
    if (given.kind > RowKind::window || given.tokens < 0) return false;
    if (given.kind == RowKind::decode && given.tokens != 1) return false;
    if (given.kind == RowKind::window && given.tokens > shape_.S) return false;
    if (given.request == 0) return true;
    const auto at = requests_.find(given.request);
    if (at == requests_.end() || at->second.open_step != 0 || before.contains(given.request)) return false;
    const ModelRequest& request = at->second;
    if (request.phase == Phase::dead || (request.phase == Phase::empty && given.kind != RowKind::prefill)) return false;
    return given.num_computed < 0 || given.num_computed == static_cast<std::int64_t>(request.text.size());
  }

  // Returns the step, or 0.
  StepId open_step() {
    ModelStep step;
    std::vector<StepRow> rows;
    std::set<RequestId> before;
    bool all_right = true;
    std::string text = "open_step";
    for (std::size_t n = 1 + input_.below(4); n > 0; --n) {
      ModelRow row;
      const std::uint8_t how = input_.byte();
      const bool wrong = how >= 240;  // perhaps; all others are right
      row.given.request = how % 8 == 0 ? 0 : wrong ? any_request() : any_free_request(before);
      const auto at = requests_.find(row.given.request);
      const bool first = at != requests_.end() && at->second.phase == Phase::empty;
      row.given.kind = static_cast<RowKind>(first && !wrong ? 0 : std::array{0, 1, 2, 2}[how / 16 % 4]);
      const std::size_t most = row.given.kind == RowKind::prefill ? 11 : static_cast<std::size_t>(shape_.S);
      row.given.tokens = static_cast<std::int32_t>(input_.below(most + (wrong ? 2 : 1)));
      if (row.given.kind == RowKind::decode && !wrong) row.given.tokens = 1;
      if (how / 64 == 1) row.given.num_computed = at == requests_.end() ? 1 : static_cast<std::int64_t>(at->second.text.size());
      if (how == 255) row.given.kind = static_cast<RowKind>(77);
      if (how == 254) row.given.tokens = -1;
      if (how == 253) ++row.given.num_computed;
      for (std::int32_t t = 0; t < row.given.tokens; ++t) row.tokens.push_back(input_.byte() % 16U);
      all_right = all_right && right_row(row, before);
      if (row.given.request != 0) before.insert(row.given.request);
      step.tokens.insert(step.tokens.end(), row.tokens.begin(), row.tokens.end());
      text += " [" + std::to_string(row.given.request) + " " + std::to_string(static_cast<int>(row.given.kind)) + " " +
              std::to_string(row.given.tokens) + "]";
      rows.push_back(row.given);
      step.rows.push_back(std::move(row));
    }
    bool fits = false;
    made("fits for " + text, right(all_right), [&] { fits = session_.fits(rows); });
    StepId id = 0;
    if (made(text, right(all_right && fits), [&] { id = session_.open_step(rows, context_); })) {
      demand(id != 0 && seen_ids_.insert(id).second, "a step handle that was there before");
      for (const StepRow& row : rows) {
        if (row.request != 0) requests_.at(row.request).open_step = id;
      }
      steps_[id] = std::move(step);
    }
    check();
    return id;
  }

  void forward(StepId id, std::int32_t layer, bool as_short_conv) {
    const auto step = steps_.find(id);
    model_.inputs(step == steps_.end() ? Text(3) : step->second.tokens);
    as_short_conv = as_short_conv && layers() > Tiny::kShortConv;
    const bool is = step != steps_.end() && layer >= 0 && layer < layers() && !step->second.ran.contains(layer) &&
                    (layer == Tiny::kShortConv) == as_short_conv;
    const std::string text = "forward " + std::to_string(id) + ", layer " + std::to_string(layer);
    if (made(text, right(is), [&] {
          if (as_short_conv) {
            session_.forward(id, layer, model_.short_conv(), context_);
          } else {
            session_.forward(id, layer, model_.delta(std::clamp(layer, 0, 1)), context_);
          }
        })) {
      step->second.ran.insert(layer);
      step->second.touched = true;
    }
  }
  void forward_one() {
    const StepId id = any_step();
    const std::uint8_t how = input_.byte();
    const std::int32_t layer = how % 4 == 3 ? how - 128 : how % 4;
    forward(id, layer, (layer == Tiny::kShortConv) != (how >= 224));
    check();
  }
  void forward_rest(StepId id) {
    for (std::int32_t layer = 0; layer < layers(); ++layer) {
      if (!steps_.at(id).ran.contains(layer)) forward(id, layer, layer == Tiny::kShortConv);
    }
  }

  void finish_step(StepId id) {
    if (!steps_.contains(id)) return;
    forward_rest(id);
    commit(id);
  }

  void commit(StepId id, bool rightly = false) {
    const auto at = steps_.find(id);
    std::vector<Accepted> accepted;
    std::map<RequestId, std::int32_t> counts;
    bool is = at != steps_.end() && static_cast<std::int32_t>(at->second.ran.size()) == layers();
    if (at != steps_.end()) {
      const std::uint8_t how =
          static_cast<std::uint8_t>(input_.byte() % (rightly ? 64 : 256));  // the largest make one of them wrong
      for (const ModelRow& row : at->second.rows) {
        if (row.given.request == 0 || (row.given.kind != RowKind::window && how % 4 != 0)) continue;
        accepted.push_back({row.given.request, static_cast<std::int32_t>(input_.below(7)) - 1});
      }
      if (how == 255 && !accepted.empty()) accepted.push_back(accepted[0]);
      if (how == 254 && !accepted.empty()) accepted.pop_back();
      if (how == 253) accepted.push_back({0, 1});
      if (how == 252) accepted.push_back({999, 1});
      if (how % 8 == 1) std::ranges::reverse(accepted);
      for (const Accepted& a : accepted) {
        const bool known =
            std::ranges::any_of(at->second.rows, [&](const ModelRow& row) { return row.given.request == a.request; }) &&
            a.request != 0;
        is = is && known && counts.emplace(a.request, a.count).second;
      }
      for (const ModelRow& row : at->second.rows) {
        const bool needed = row.given.request != 0 && !row.freed && row.given.kind == RowKind::window && !row.tokens.empty();
        is = is && (!needed || counts.contains(row.given.request));
      }
    }
    if (made("commit " + std::to_string(id), right(is), [&] { session_.commit(id, accepted, context_); })) {
      for (const ModelRow& row : at->second.rows) {
        if (row.given.request == 0 || row.freed) continue;
        ModelRequest& request = requests_.at(row.given.request);
        request.open_step = 0;
        if (row.tokens.empty()) continue;
        std::size_t kept = row.tokens.size();
        if (row.given.kind == RowKind::window) {
          kept = std::min(kept, static_cast<std::size_t>(std::max(counts.at(row.given.request), 0)));
          if (kept == 0 && shape_.line_kind == LineKind::rolled) {
            request = {Phase::dead, {}, 0};
            continue;
          }
        }
        request.phase = Phase::live;
        request.text.insert(request.text.end(), row.tokens.begin(), row.tokens.begin() + static_cast<std::ptrdiff_t>(kept));
      }
      steps_.erase(at);
    }
    check();
  }

  void abandon(StepId id) {
    const auto at = steps_.find(id);
    if (made("abandon " + std::to_string(id), right(at != steps_.end()), [&] { session_.abandon(id); })) {
      for (const ModelRow& row : at->second.rows) {
        if (row.given.request == 0 || row.freed) continue;
        ModelRequest& request = requests_.at(row.given.request);
        request.open_step = 0;
        if (row.tokens.empty() || !at->second.touched) continue;
        const bool survives = row.given.kind == RowKind::window && !shape_.lazy && shape_.line_kind == LineKind::anchored;
        if (!survives) request = {Phase::dead, {}, 0};
      }
      steps_.erase(at);
    }
    check();
  }

  // ---- states ----
  void materialize() {
    std::vector<RequestId> all;
    bool is = true;
    for (std::size_t n = input_.below(4); n > 0; --n) {
      all.push_back(any_request());
      is = is && idle_and_live(all.back());
    }
    if (made("materialize", right(is), [&] { session_.materialize(all, context_); })) {
      for (const RequestId id : all) {
        demand(session_.info(id).waiting == 0, "nothing waits after materialize");
        demand(session_.exportable(id).back() == session_.info(id).tokens, "after materialize the count is exportable");
      }
    }
    check();
  }
  void fork() {
    const RequestId id = any_request();
    RequestId copy = 0;
    if (made("fork " + std::to_string(id), idle_and_live(id) ? Expect::either : Expect::refused,
             [&] { copy = session_.fork(id, context_); })) {
      added(copy, requests_.at(id));
    }
    check();
  }
  std::int64_t any_count(RequestId id) {
    if (!requests_.contains(id)) return 1;
    const auto counts = session_.exportable(id);
    const std::size_t n = input_.below(counts.size() + 1);
    return n < counts.size() ? counts[n] : input_.byte() % 24 - 1;
  }
  void hold() {
    const RequestId id = any_request();
    const std::int64_t tokens = any_count(id);
    PrefixId prefix = 0;
    if (made("hold " + std::to_string(id) + " at " + std::to_string(tokens), idle_and_live(id) ? Expect::either : Expect::refused,
             [&] { prefix = session_.hold(id, tokens, context_); })) {
      const Text& text = requests_.at(id).text;
      demand(tokens > 0 && tokens <= static_cast<std::int64_t>(text.size()), "a held count is of this text");
      held(prefix, Text(text.begin(), text.begin() + tokens));
    }
    check();
  }
  void release(PrefixId id) {
    if (made("release " + std::to_string(id), right(prefixes_.contains(id)), [&] { session_.release(id); })) prefixes_.erase(id);
    check();
  }
  void export_checkpoint() {
    const RequestId id = any_request();
    export_at(id, any_count(id));
  }
  void export_at(RequestId id, std::int64_t tokens) {
    Expect expected = Expect::refused;
    if (idle_and_live(id)) {
      const auto counts = session_.exportable(id);
      const bool listed = std::ranges::find(counts, tokens) != counts.end();
      const bool current = tokens == static_cast<std::int64_t>(requests_.at(id).text.size());
      expected = listed || current ? Expect::accepted : Expect::either;  // a boundary may come with the fold
    }
    Bytes bytes;
    if (made("export " + std::to_string(id) + " at " + std::to_string(tokens), expected,
             [&] { bytes = session_.export_checkpoint(id, tokens, 5, context_); })) {
      const CheckpointInfo info = inspect_checkpoint(bytes);
      demand(info.tokens == tokens && info.tag == 5 && info.owner == id, "what a checkpoint says");
      const Text& all = requests_.at(id).text;
      demand(tokens > 0 && tokens <= static_cast<std::int64_t>(all.size()), "an exported count is of this text");
      Text text(all.begin(), all.begin() + tokens);
      demand(reference_.is_state_of(text, bytes), "an exported state is that of its text");
      if (checkpoints_.size() < 4) checkpoints_.push_back({std::move(bytes), std::move(text)});
    }
    check();
  }
  void restore() {
    if (checkpoints_.empty()) return;
    const Checkpoint& from = checkpoints_[input_.below(checkpoints_.size())];
    const RequestId id = any_request();
    const std::uint8_t how = input_.byte();
    const auto tokens = static_cast<std::int64_t>(from.text.size()) + (how == 255 ? 1 : 0);
    const std::uint64_t tag = how == 254 ? 6 : 5;
    const auto at = requests_.find(id);
    bool is = at != requests_.end() && at->second.phase != Phase::live && at->second.open_step == 0 && how < 254;
    for (std::size_t g = 0; g < groups(); ++g) is = is && free_blocks(g) > 0;
    if (made("restore " + std::to_string(id), right(is), [&] { session_.restore(id, from.bytes, tokens, tag); })) {
      at->second = {Phase::live, from.text, 0};
    }
    check();
  }
  // Calls that only look, with arguments that may be wrong.
  void look() {
    const RequestId id = any_request();
    made("info", right(requests_.contains(id)), [&] { (void)session_.info(id); });
    made("exportable", right(requests_.contains(id)), [&] { (void)session_.exportable(id); });
    const PrefixId prefix = any(prefixes_);
    made("tokens", right(prefixes_.contains(prefix)), [&] { (void)session_.tokens(prefix); });
    const std::int32_t index = input_.byte() - 8;
    const bool group = index >= 0 && index < static_cast<std::int32_t>(groups());
    made("free_blocks", right(group), [&] { (void)session_.free_blocks(index); });
    const bool block = index >= 0 && index < session_.config().groups[0].blocks;
    made("block_tag", right(block), [&] { (void)session_.block_tag(0, index); });
    made("block_tag of a group", right(group), [&] { (void)session_.block_tag(index, 0); });
    made("pool", right(index >= 0 && index < layers()), [&] { (void)session_.pool(index); });
    const SessionCounters& c = session_.counters();
    demand(c.steps_opened == c.steps_committed + c.steps_abandoned + static_cast<std::int64_t>(steps_.size()), "steps are counted");
    demand(c.kept_tokens <= c.verified_tokens, "kept tokens are counted");
  }

  Input& input_;
  TinyShape shape_;
  Tiny model_;
  Session session_;
  Context context_;
  Reference reference_;
  std::map<RequestId, ModelRequest> requests_;
  std::map<StepId, ModelStep> steps_;
  std::map<PrefixId, Text> prefixes_;
  std::set<std::uint64_t> seen_ids_;
  std::vector<Checkpoint> checkpoints_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  Run run(input);
  for (int i = 0; i < 60 && !input.empty(); ++i) run.call();
  run.end();
  return 0;
}

// Most of what can go wrong takes a request's whole life, and libFuzzer begins with a few bytes: a short input is often made long.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed) {
  const std::size_t length = std::min<std::size_t>(max_size, 100 + seed % 400);
  if (seed % 4 == 0 && size < length) {
    std::minstd_rand random(seed);
    for (; size < length; ++size) data[size] = static_cast<std::uint8_t>(random() >> 8U);
    return size;
  }
  return LLVMFuzzerMutate(data, size, max_size);
}
