// States beyond a request's own steps: forks, prefixes, checkpoints.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "simulate/round.h"

namespace recoverssm::simulate {

namespace {

constexpr std::size_t kMostKept = 4;        // prefixes, and checkpoints
constexpr std::size_t kMostSnapshots = 16;  // boundaries of a request, more than a session keeps

bool live(const Request& request) { return request.idle() && request.phase == Phase::live; }

std::string checkpoint_path() {
  return (std::filesystem::temp_directory_path() / ("recoverssm-simulate-" + std::to_string(::getpid()))).string();
}

// The file goes whatever happens.
struct TemporaryFile {
  std::string path = checkpoint_path();
  TemporaryFile() = default;
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
};

std::vector<std::byte> through_a_file(const std::vector<std::byte>& bytes) {
  const TemporaryFile file;
  write_checkpoint(file.path, bytes);
  return read_checkpoint(file.path);
}

}  // namespace

bool Round::scarce() const {
  for (std::size_t g = 0; g < setup_.session.groups.size(); ++g) {
    if (session_->free_blocks(static_cast<std::int32_t>(g)) < 2) return true;
  }
  return false;
}

bool Round::unless_scarce(const char* what, const std::function<void()>& call) {
  try {
    call();
    return true;
  } catch (const Error& error) {
    expect(scarce(), what, " was refused with blocks to spare: ", error.what());
    ++counts_.refused_for_blocks;
    say("  no block");
    return false;
  }
}

void Round::add_boundary(Request& request, std::size_t group, std::int64_t tokens, const Memory& memory) {
  auto& list = request.boundaries[group];
  if (list.empty() || list.back() < tokens) list.push_back(tokens);
  auto& snapshot = request.snapshots[tokens];
  if (!snapshot) snapshot = std::make_shared<const Memory>(memory);
  if (request.snapshots.size() <= kMostSnapshots) return;
  const std::int64_t oldest = request.snapshots.begin()->first;
  request.snapshots.erase(request.snapshots.begin());
  for (auto& each : request.boundaries) std::erase(each, oldest);
}

void Round::start_from(Request& request, const std::vector<Key>& text, const Memory& memory) {
  forget(request);
  request.exact.reset();  // it follows a request from its first token
  request.text = request.prompt = text;
  request.goal = std::max<std::int64_t>(request.goal, request.tokens() + random_.between(1, 40));
  request.memory = memory;
  request.phase = Phase::live;
  for (std::size_t g = 0; setup_.align() && g < setup_.session.groups.size(); ++g) {
    if (request.tokens() % *setup_.session.groups[g].block_size == 0) add_boundary(request, g, request.tokens(), memory);
  }
}

const Memory& Round::state_of(const Request& request, std::int64_t tokens) const {
  if (tokens == request.tokens()) return request.memory;
  const auto at = request.snapshots.find(tokens);
  expect(at != request.snapshots.end(), "request ", request.id, ": a state after ", tokens, " tokens, where none was written");
  return *at->second;
}

void Round::folded(Request& request) {
  request.records_wait = false, request.waiting = 0;
  compare_info(request);
  compare_state(request);
}

void Round::perhaps_folded(Request& request) {
  if (!request.records_wait) return;
  const std::vector<std::int64_t> counts = session_->exportable(request.id);
  if (std::ranges::find(counts, request.tokens()) != counts.end()) folded(request);
}

void Round::looked_at(Request& request, std::int64_t tokens) {
  if (tokens == request.tokens()) return folded(request);
  perhaps_folded(request);  // a boundary lies behind the records
  compare_info(request);
}

std::int64_t Round::some_tokens(Request& request) {
  if (request.records_wait && chance(50)) {
    session_->materialize({&request.id, 1}, context_);
    folded(request);
  }
  compare_exportable(request);
  const std::vector<std::int64_t> counts = session_->exportable(request.id);
  return counts.empty() || chance(40) ? request.tokens() : counts[below(counts.size())];
}

void Round::fork() {
  Request* const parent = any(live);
  if (parent == nullptr || static_cast<int>(requests_.size()) > 2 * setup_.concurrency) return;
  say("fork ", parent->id, " at ", parent->tokens());
  auto copy = std::make_unique<Request>();
  const bool done = unless_scarce("fork", [&] { copy->id = session_->fork(parent->id, context_); });
  if (!done) return perhaps_folded(*parent);
  folded(*parent);
  copy->goal = setup_.longest_text;
  start_from(*copy, parent->text, parent->memory);
  copy->exact = parent->exact;
  ++counts_.forks;
  requests_.push_back(std::move(copy));
  compare_info(*requests_.back());
  compare_state(*requests_.back());
  compare_exportable(*requests_.back());
}

void Round::hold() {
  Request* const request = any(live);
  if (request == nullptr || prefixes_.size() >= kMostKept) return;
  const std::int64_t tokens = some_tokens(*request);
  say("hold ", request->id, " at ", tokens);
  Kept kept;
  kept.text.assign(request->text.begin(), request->text.begin() + tokens);
  kept.memory = state_of(*request, tokens);
  const bool done = unless_scarce("hold", [&] { kept.prefix = session_->hold(request->id, tokens, context_); });
  if (!done) return perhaps_folded(*request);
  looked_at(*request, tokens);
  expect(session_->tokens(kept.prefix) == tokens, "tokens of prefix ", kept.prefix);
  ++counts_.prefixes_held;
  prefixes_.push_back(std::move(kept));
}

void Round::admit_prefix() {
  if (prefixes_.empty() || static_cast<int>(requests_.size()) > 2 * setup_.concurrency) return;
  const Kept& kept = prefixes_[below(prefixes_.size())];
  say("admit with prefix ", kept.prefix, " of ", kept.tokens());
  auto request = std::make_unique<Request>();
  if (!unless_scarce("admit", [&] { request->id = session_->admit(kept.prefix, context_); })) return;
  start_from(*request, kept.text, kept.memory);
  ++counts_.prefix_hits, ++counts_.admitted;
  requests_.push_back(std::move(request));
  compare_info(*requests_.back());
  compare_state(*requests_.back());
  compare_exportable(*requests_.back());
}

void Round::release() {
  if (prefixes_.empty()) return;
  const std::size_t i = below(prefixes_.size());
  say("release ", prefixes_[i].prefix);
  session_->release(prefixes_[i].prefix);
  released_.push_back(prefixes_[i].prefix);
  prefixes_.erase(prefixes_.begin() + static_cast<std::ptrdiff_t>(i));
}

void Round::materialize() {
  std::vector<Request*> some = requests(live);
  std::vector<RequestId> ids;
  std::erase_if(some, [&](const Request*) { return chance(40); });
  for (const Request* request : some) ids.push_back(request->id);
  session_->materialize(ids, context_);
  for (Request* request : some) {
    say("materialize ", request->id);
    folded(*request);
    compare_exportable(*request);
  }
  counts_.materialized += static_cast<std::int64_t>(some.size());
}

Kept Round::take_checkpoint(Request& request, std::int64_t tokens, const Memory& memory) {
  Kept kept;
  kept.tag = random_.next();
  kept.text.assign(request.text.begin(), request.text.begin() + tokens);
  kept.memory = memory;
  kept.checkpoint = session_->export_checkpoint(request.id, tokens, kept.tag, context_);
  ++counts_.exports;
  const CheckpointInfo info = inspect_checkpoint(kept.checkpoint);
  expect(info.owner == request.id, "a checkpoint of request ", request.id, " says it is of ", info.owner);
  looked_at(request, tokens);
  return kept;
}

void Round::export_one() {
  Request* const request = any(live);
  if (request == nullptr) return;
  keep_checkpoint(*request, some_tokens(*request));
}

void Round::keep_checkpoint(Request& request, std::int64_t tokens) {
  say("export ", request.id, " at ", tokens);
  const Memory memory = state_of(request, tokens);
  Kept kept = take_checkpoint(request, tokens, memory);
  compare_checkpoint(kept, said("checkpoint of request ", request.id, " after ", tokens, " tokens"));
  if (checkpoints_.size() < kMostKept) {
    checkpoints_.push_back(std::move(kept));
  } else {
    checkpoints_[below(kMostKept)] = std::move(kept);
  }
}

bool Round::restore(Request& request) {
  const Kept& kept = checkpoints_[below(checkpoints_.size())];
  const bool file = chance(25), elsewhere = chance(25);
  say("restore ", request.id, " at ", kept.tokens(), file ? ", from a file" : "", elsewhere ? ", by way of another session" : "");
  std::vector<std::byte> bytes = file ? through_a_file(kept.checkpoint) : kept.checkpoint;
  if (elsewhere) {
    viewer_->restore(viewer_request_, bytes, kept.tokens(), kept.tag);
    bytes = viewer_->export_checkpoint(viewer_request_, kept.tokens(), kept.tag, host_);
    viewer_->preempt(viewer_request_);
  }
  if (!unless_scarce("restore", [&] { session_->restore(request.id, bytes, kept.tokens(), kept.tag); })) return false;
  start_from(request, kept.text, kept.memory);
  ++counts_.restored;
  request.preempted = false;
  counts_.restored_from_file += file;
  counts_.restored_elsewhere += elsewhere;
  compare_info(request);
  compare_state(request);
  compare_exportable(request);
  return true;
}

}  // namespace recoverssm::simulate
