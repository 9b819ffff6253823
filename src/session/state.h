// What a Session knows, and the parts of its functions that several files use.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "contract/check.h"
#include "cuda/range.h"
#include "recoverssm/recoverssm.hpp"
#include "session/block_pool.h"
#include "session/columns.h"
#include "session/faults.h"
#include "session/memory.h"
#include "session/upload.h"

namespace recoverssm {

// A restored request has no more. Nobody decodes as many, so that sums with the tokens of a step or a block stay within 64 bits.
constexpr std::int64_t kMostTokens = std::int64_t{1} << 62;

struct Request {
  Phase phase = Phase::empty;
  std::int64_t tokens = 0;
  StepId open_step = 0;
  StepId written_by = 0;      // the step that last changed the state
  bool records_wait = false;  // lazy: the last window has not been folded
  std::int32_t waiting = 0;   // kept tokens of that window, 0..S
  std::vector<Columns> groups;
};

struct Prefix {
  RequestId owner = 0;
  std::int64_t tokens = 0;
  std::vector<std::int32_t> blocks;  // per group
};

// A row of an open step: the caller's, and what was true when the step was opened.
struct OpenRow {
  StepRow given{};
  std::int32_t start = 0;               // its first token in the step
  std::int64_t computed = 0;            // committed tokens before it
  bool freed = false;                   // its request was finished or preempted since
  std::vector<std::int64_t> running{};  // per group: column of the state before it was moved for the row
  bool live() const { return given.request != 0 && !freed; }
  bool plain() const { return given.kind != RowKind::window; }
};

// Consecutive rows of one kind, plain or windows: one call of each operation. All vectors per row, but for offsets (rows + 1).
struct Part {
  bool plain = true;
  std::vector<std::int32_t> offsets;              // in the step's tokens
  std::vector<std::vector<std::int32_t>> blocks;  // per group
  std::vector<std::int32_t> counts;               // lazy: kept tokens of the windows that wait
  std::vector<std::uint8_t> has_state;            // plain
  // The same where the operations read it.
  struct Views {
    TensorView offsets, counts, has_state;
    std::vector<TensorView> blocks;
  } views;
};

struct OpenStep {
  std::vector<OpenRow> rows;
  std::vector<Part> parts;
  Upload indices;  // of the parts
  std::int32_t tokens = 0;
  std::vector<bool> ran;  // per layer
  std::int32_t layers_left = 0;
  bool touched = false;                                             // a forward has written
  std::vector<std::pair<std::int32_t, std::int32_t>> freed_blocks;  // (group, block): free once the step is closed
};

struct SessionState {
  explicit SessionState(SessionConfig config_)
      : config(std::move(config_)), place{config.backend, config.stream}, slots(place), planner(1) {}
  SessionState(const SessionState&) = delete;
  SessionState& operator=(const SessionState&) = delete;
  ~SessionState();

  SessionConfig config;
  MemoryPlace place;
  UploadSlots slots;
  // On a device: plans and advances, whose inputs the host has and whose results it needs, run on the host.
  Context planner;
  Memory flag;                 // on a device: a DeviceFlag that both sides see
  std::vector<Memory> memory;  // of pools of its own
  std::vector<LayerPool> pools;
  std::vector<Layer> layers;                     // as commit takes them
  std::vector<std::vector<Layer>> group_layers;  // per group, for calls with one list of blocks
  std::vector<std::string> layouts;              // per group
  bool has_short_conv = false;
  bool one_block_size = true;  // all groups plan alike
  Memory conv_out;             // outputs of the convolution before the rule, grown by open_step
  std::int64_t conv_out_bytes = 0;
  std::int64_t conv_bytes_per_token = 0;  // of the widest layer

  std::vector<BlockPool> blocks;  // per group
  std::uint64_t last_id = 0;      // of requests, steps and prefixes
  std::unordered_map<RequestId, Request> requests;
  std::map<StepId, OpenStep> steps;
  std::unordered_map<PrefixId, Prefix> prefixes;
  mutable SessionCounters counters;

  std::size_t groups() const { return config.groups.size(); }
  bool align() const { return config.groups[0].block_size.has_value(); }
  const std::optional<std::int32_t>& block_size(std::size_t group) const { return config.groups[group].block_size; }
};

// The text of an error, as in contract/check.h: "session.open_step: rows[1].tokens: 9, expected at most window_capacity = 4".
[[noreturn]] void fail(ErrorKind kind, const char* call, const std::string& argument, const std::string& got,
                       const std::string& expected);
// The context is of the session's backend and stream, and its device has found nothing wrong so far.
void require_place(const SessionState& state, const char* call, const Context& context);
// The second half of it.
void require_no_finding(const SessionState& state, const char* call);

// A call's range in a profiler's timeline.
class CallRange {
 public:
  CallRange(const SessionState& state, const char* name) {
    if (state.place.backend == Backend::cuda) range_.emplace(name);
  }

 private:
  std::optional<cuda::Range> range_;
};

// Runs one call of the session and counts it if it is refused.
template <class Body>
auto counted(SessionCounters& counters, Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    ++counters.refused_calls;
    ++counters.refused_by_kind[static_cast<std::size_t>(error.kind())];
    counters.last_refusal = error.what();
    throw;
  }
}

void add(Counters& sum, const Counters& more);

// Runs an operation, counting it and, on the CPU, its traffic. What a device finds wrong goes to the session's flag unless the caller has one.
template <class Params>
void run_op(SessionState& state, Context& context, void (*op)(const Params&, Context&), const Params& params) {
  if (state.place.on_device()) {
    DeviceFlag* const callers = context.flag;
    if (callers == nullptr) context.flag = reinterpret_cast<DeviceFlag*>(state.flag.get());
    try {
      op(params, context);
    } catch (...) {
      context.flag = callers;
      throw;
    }
    context.flag = callers;
    ++state.counters.library_calls;
    return;
  }
  Counters traffic;
  Counters* const callers = std::exchange(context.counters, &traffic);
  try {
    op(params, context);
  } catch (...) {
    context.counters = callers;
    throw;
  }
  context.counters = callers;
  ++state.counters.library_calls;
  add(state.counters.traffic, traffic);
  if (callers != nullptr) add(*callers, traffic);
}

// ---- requests.cc ----
Request& request_of(SessionState& state, const char* call, RequestId id);
// The same, and it must have no row in an open step.
Request& idle_request(SessionState& state, const char* call, RequestId id);
void require_live(const char* call, RequestId id, const Request& request);
// Gives back all blocks of a request, to an open step's list if it has a row there, and leaves it empty or dead.
void drop_state(SessionState& state, RequestId id, Request& request, Phase phase);
// Gives back the blocks a request no longer needs, in every group.
void prune(SessionState& state, Request& request);
// Marks the running column as a boundary where it is one, and tags the running blocks.
void state_is_real(SessionState& state, Request& request, StepId step);
// Lazy: the running blocks hold the state after `folded` tokens, and records.
void state_waits(SessionState& state, Request& request, std::int64_t folded, StepId step);

// ---- fold.cc ----
void fold(SessionState& state, std::span<const RequestId> requests, Context& context);
// A request's columns as they will be once its records are folded; the blocks it will give back are added to `dropped`.
Columns folded_columns(const SessionState& state, const Request& request, std::size_t g, std::vector<std::int32_t>& dropped);
// How many blocks are free once every holder in `dropped` has let go of its block.
std::int64_t free_after(const BlockPool& blocks, std::vector<std::int32_t>& dropped);

// ---- copy.cc ----
// States and line histories of one group, from[i] to to[i] (align_move).
void move_blocks(SessionState& state, std::size_t group, std::vector<std::int32_t>& from, std::vector<std::int32_t>& to,
                 Context& context);
// Copies states and line histories in every group from block to block: from[g], to[g], null ids where nothing is copied.
void copy_blocks(SessionState& state, std::span<const std::int32_t> from, std::span<const std::int32_t> to, Context& context);

// Of what the host reads itself.
inline TensorView ints(std::vector<std::int32_t>& values) {
  return {values.data(), DType::i32, {static_cast<std::int64_t>(values.size())}};
}

}  // namespace recoverssm
