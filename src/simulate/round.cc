#include "simulate/round.h"

#include <algorithm>

namespace recoverssm::simulate {

namespace {

// Where checkpoints are looked at: the same layers in a session that has nothing else in common with the one under test.
SessionConfig viewer_config(const SessionConfig& config) {
  SessionConfig viewer;
  viewer.layers = config.layers;
  for (LayerConfig& layer : viewer.layers) layer.group = 0;
  viewer.groups = {{.blocks = 2, .block_size = {}}};
  return viewer;
}

}  // namespace

Round::Round(const Setup& setup, const std::function<void(const std::string&)>& log)
    : setup_(setup),
      log_(log),
      random_(mix(setup.seed, 0x5c4ed)),
      device_(setup.backend),
      context_(device_.context(setup.threads)),
      plain_(setup.layers, setup.plain_target) {
  const SessionConfig config = device_.placed(setup.session, setup.layers);
  if (setup.given_pools) {
    pools_.emplace(random_, setup.session, setup.layers, device_);
    session_ = std::make_unique<Session>(config, pools_->pools());
  } else {
    session_ = std::make_unique<Session>(config);
  }
  viewer_ = std::make_unique<Session>(viewer_config(setup.session));
  viewer_request_ = viewer_->admit();
  counts_.rounds = 1;
}

void Round::run() {
  while (counts_.steps_opened < setup_.steps) act();
  drain();
  compare_counters();
  compare_end();
}

// Most of the time steps are opened, run and committed; now and then something happens to a request or a state.
void Round::act() {
  if (chance(8)) return life();
  if (setup_.faults) {
    if (chance(5)) return bad_call();
    if (chance(2)) return abort_in_step();
    if (!steps_.empty() && chance(2)) return abandon(below(steps_.size()));
  }
  const auto depth = static_cast<std::size_t>(setup_.depth);
  if (steps_.size() < depth && (steps_.empty() || chance(40))) return open();
  advance_step();
}

void Round::life() {
  switch (random_.between(0, 8)) {
    case 0:
      return fork();
    case 1:
      return hold();
    case 2:
      return admit_prefix();
    case 3:
      if (chance(40)) release();
      return;
    case 4:
      return materialize();
    case 5:
    case 6:
      return export_one();
    case 7:
      if (Request* const request = any([](const Request& r) { return r.idle() && r.phase == Phase::live; });
          request != nullptr && setup_.faults && chance(60)) {
        const RequestId id = request->id;
        if (chance(50)) keep_checkpoint(*request, request->tokens());  // offloaded: to be restored, now or later
        preempt(id);
        if (!checkpoints_.empty() && chance(50)) restore(*find(id));
      }
      return;
    default:
      if (Request* const request = any([](const Request& r) { return r.idle() && r.phase != Phase::live; })) revive(*request);
      return;
  }
}

// A request that has no state: it starts over, from a checkpoint if there is one, or ends.
void Round::revive(Request& request) {
  if (request.phase == Phase::dead && chance(10)) return finish(request.id);
  if (!checkpoints_.empty() && chance(60) && restore(request)) return;
  if (request.phase == Phase::dead) preempt(request.id);
}

Request& Round::admit() {
  auto request = std::make_unique<Request>();
  request->id = session_->admit();
  const int length = random_.between(1, chance(25) ? 1 : setup_.longest_prompt);
  for (int i = 0; i < length; ++i) request->prompt.push_back(next_key(request->prompt));
  request->goal = random_.between(length, setup_.longest_text);
  requests_.push_back(std::move(request));
  Request& added = *requests_.back();
  forget(added);
  ++counts_.admitted;
  say("admit ", added.id, ", prompt ", length);
  return added;
}

void Round::forget(Request& request) {
  request.text.clear();
  request.phase = Phase::empty;
  request.step = 0;
  request.records_wait = false, request.waiting = 0;
  request.memory = plain_.empty();
  request.exact.reset();
  if (chance(setup_.float64_share)) request.exact.emplace(setup_.layers);
  request.boundaries.assign(setup_.session.groups.size(), {});
  request.snapshots.clear();
}

void Round::freed_in_step(const Request& request) {
  if (request.idle()) return;
  ++counts_.aborted_in_step;
  for (const auto& step : steps_) {
    if (step->id != request.step) continue;
    for (Row& row : step->rows) row.freed = row.freed || row.request == request.id;
  }
}

void Round::finish(RequestId id) {
  Request& request = *find(id);
  if (request.idle() && request.phase == Phase::live) {
    compare_exportable(request);
    if (request.records_wait && chance(15)) {
      session_->materialize({&id, 1}, context_);  // its last state, which nobody would have seen
      folded(request);
    }
    if (chance(20) && prefixes_.size() < 4) {
      // Kept for a next turn.
      say("finish_and_hold ", id);
      Kept kept{.prefix = 0, .checkpoint = {}, .tag = 0, .text = request.text, .memory = request.memory};
      if (unless_scarce("finish_and_hold", [&] { kept.prefix = session_->finish_and_hold(id, context_); })) {
        ++counts_.prefixes_held, ++counts_.finished;
        expect(session_->tokens(kept.prefix) == kept.tokens(), "tokens of prefix ", kept.prefix);
        prefixes_.push_back(std::move(kept));
        gone_.push_back(id);
        std::erase_if(requests_, [&](const auto& r) { return r->id == id; });
        return;
      }
    }
  }
  say("finish ", id, request.idle() ? "" : ", its row in a step is dead");
  freed_in_step(request);
  session_->finish(id);
  ++counts_.finished;
  gone_.push_back(id);
  std::erase_if(requests_, [&](const auto& r) { return r->id == id; });
}

void Round::preempt(RequestId id) {
  Request& request = *find(id);
  say("preempt ", id, request.idle() ? "" : ", its row in a step is dead");
  freed_in_step(request);
  session_->preempt(id);
  ++counts_.preempted;
  request.preempted = true;
  if (request.tokens() > static_cast<std::int64_t>(request.prompt.size())) request.prompt = request.text;
  forget(request);
  compare_info(request);
}

void Round::abort_in_step() {
  Request* const request = any([](const Request& r) { return !r.idle(); });
  if (request == nullptr) return;
  if (chance(50)) return finish(request->id);
  preempt(request->id);
}

// Nothing fits: somebody has to give up blocks.
void Round::make_room() {
  if (!prefixes_.empty() && chance(50)) return release();
  if (Request* const request = any([](const Request& r) { return r.idle() && r.phase == Phase::live; })) preempt(request->id);
}

void Round::drain() {
  while (!steps_.empty()) advance_step();
  while (!requests_.empty()) finish(requests_.back()->id);
  while (!prefixes_.empty()) release();
}

std::vector<Request*> Round::requests(const std::function<bool(const Request&)>& which) {
  std::vector<Request*> found;
  for (const auto& request : requests_) {
    if (which(*request)) found.push_back(request.get());
  }
  return found;
}

Request* Round::any(const std::function<bool(const Request&)>& which) {
  const std::vector<Request*> found = requests(which);
  return found.empty() ? nullptr : found[below(found.size())];
}

Request* Round::find(RequestId id) {
  const auto at = std::ranges::find(requests_, id, [](const auto& r) { return r->id; });
  return at == requests_.end() ? nullptr : at->get();
}

Key Round::next_key(const std::vector<Key>& text) { return mix(text.empty() ? setup_.seed : text.back(), random_.next()) | 1U; }

RoundResult run_round(const Setup& setup, const std::function<void(const std::string&)>& log) {
  RoundResult result;
  try {
    Round round(setup, log);
    try {
      round.run();
    } catch (const DifferenceFound& found) {
      result.difference = found.what;
    } catch (const Error& error) {
      result.difference = std::string("a good call was refused: ") + error.what();
    }
    result.counts = round.counts();
  } catch (const Error& error) {
    result.difference = std::string("the session was refused: ") + error.what();
  }
  return result;
}

}  // namespace recoverssm::simulate
