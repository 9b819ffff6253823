// Session: the keeper of blocks, steps and checkpoints for engines that have no bookkeeping of their own. It stands on the operations
// (docs/operations.md) and computes nothing itself. How to use it: docs/sessions.md, examples/serve_loop.cpp.
//
//   Session session(config);
//   RequestId r = session.admit();
//   StepId step = session.open_step(rows, context);             // any mix of prefill, decode and windows
//   for (every layer) session.forward(step, layer, inputs, context);
//   session.commit(step, accepted, context);                    // kept tokens per request
//   session.finish(r);
//
// Every function throws Error, and std::bad_alloc where memory runs out. After an Error nothing has changed: no block, count, step or
// byte of a request's state, and what waited still waits. One thread at a time. On a device (SessionConfig::backend) contexts are of the
// session's backend and stream, and calls return before the device is done: docs/sessions.md, "On a device".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "recoverssm/checkpoint.hpp"
#include "recoverssm/context.hpp"
#include "recoverssm/session_config.hpp"

namespace recoverssm {

// Handles. Never 0, never reused within a session: a stale one is refused, it can't name someone else's request.
using RequestId = std::uint64_t;
using StepId = std::uint64_t;
using PrefixId = std::uint64_t;

enum class RowKind : std::uint8_t {
  prefill,  // a chunk of a prompt, any length; starts from zero if the request has no tokens yet
  decode,   // one token, kept for certain
  window,   // the last sampled token, then the drafts: 0..S tokens, of which a prefix is kept. A decode without drafts in an engine
            // that speculates is a window of one
};

// One row of a step. Its tokens follow those of the row before it, in every tensor of the forward.
struct StepRow {
  RequestId request = 0;  // 0: padding, a row of no request; its outputs are 0
  RowKind kind = RowKind::prefill;
  std::int32_t tokens = 0;
  // The caller's own count of tokens before this row, if it has one: another count than the session's is refused (-1: not compared).
  std::int64_t num_computed = -1;
};

// Kept tokens of a request's window, the first token included; what the caller emits, where that is less than what it sampled (a stop
// token inside the window). Clamped to 0..L. Negative counts as 0.
struct Accepted {
  RequestId request = 0;
  std::int32_t count = 0;
};

// Tensors of one layer's forward, rows in step order: n >= the step's tokens; token strides free.
struct DeltaInputs {  // gdn, kda
  TensorView x{};     // [n, 2*H*K + HV*V] T: q | k | v before the convolution (W = 0: as they enter the rule)
  TensorView a{};     // gdn [n, HV] T, kda [n, HV, K] T
  TensorView b{};     // [n, HV] T
  TensorView out{};   // [n, HV, V] T or f32, written
};
struct ShortConvInputs {
  TensorView x{};               // [n, C] T
  TensorView residual{};        // [n, C] T, written
  TensorView outer_residual{};  // optional [n, C] T
};

enum class Phase : std::uint8_t {
  empty,  // no state: admitted or preempted. Next: a prefill row, or restore
  live,   // a state after `tokens` tokens
  dead,   // the state is lost (a rolled line with nothing kept, an abandoned step). Next: preempt, restore or finish
};

struct RequestInfo {
  Phase phase = Phase::empty;
  std::int64_t tokens = 0;           // committed, waiting ones included
  std::int32_t waiting = 0;          // lazy: kept tokens whose records wait in the block
  StepId open_step = 0;              // 0: none
  std::vector<std::int32_t> blocks;  // per group: block of the running state, null_block_id where there is none
};

// What a block holds.
struct BlockTag {
  RequestId owner = 0;          // who wrote it last; 0: never used
  std::int64_t tokens = 0;      // tokens in its state; -1: being written by an open step, or scratch
  StepId step = 0;              // the step that wrote it last; 0: none (restored, copied)
  std::int32_t references = 0;  // requests and prefixes that hold it; 0: free
  std::string layout;  // record layout ids of the group's layers, "gdn_f32", "kda_act", "gdn_f32+kda_act" or "" (short_conv only)
};

// What happened since the session was made.
struct SessionCounters {
  std::int64_t steps_opened = 0, steps_committed = 0, steps_abandoned = 0;
  // Rows and tokens of committed steps, without padding and without rows of requests freed meanwhile.
  std::int64_t prefill_rows = 0, decode_rows = 0, window_rows = 0;
  std::int64_t prefill_tokens = 0, decode_tokens = 0;
  std::int64_t verified_tokens = 0;               // of windows
  std::int64_t kept_tokens = 0;                   // of windows
  std::int64_t library_calls = 0;                 // operations run
  std::int64_t grouped_calls = 0;                 // commits whose groups were planned and advanced by one set of calls
  std::int64_t per_group_calls = 0;               // commits planned and advanced group by group
  std::string per_group_reason;                   // why, of the last one
  std::int64_t folded_rows = 0;                   // rows whose waiting records were folded outside a forward
  std::int64_t moved_rows = 0;                    // states copied from block to block: align mode, forks, prefixes
  std::int64_t dead_rows = 0;                     // requests that lost their state
  std::int64_t refused_calls = 0;                 // calls of the session that threw Error
  std::array<std::int64_t, 6> refused_by_kind{};  // index: ErrorKind
  std::string last_refusal;
  Counters traffic{};  // bytes, of all operations; on a device, which does not count, nothing
};

struct SessionState;  // src/session/state.h

class Session {
 public:
  // With pools of its own, or with the caller's: one LayerPool a layer, which must outlive the session. Pending counts are set to 0.
  explicit Session(SessionConfig config);
  Session(SessionConfig config, std::span<const LayerPool> pools);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const SessionConfig& config() const;

  // ---- requests ----

  RequestId admit();
  // Continues from a held state. Takes blocks where the state must be copied (a prefix that ends inside a block).
  RequestId admit(PrefixId prefix, Context& context);
  // Frees everything of the request. Its row in an open step becomes dead; its blocks are free once that step is closed.
  void finish(RequestId request);
  // The same, and keeps its final state, folded, as a prefix: for a next turn.
  PrefixId finish_and_hold(RequestId request, Context& context);
  // Frees the state and keeps the request, empty. To resume: prefill from the first token, or restore.
  void preempt(RequestId request);
  RequestInfo info(RequestId request) const;

  // ---- steps ----
  // A step owns its index data. Several may be open at once and are closed (committed or abandoned) in any order; a request has a row in
  // at most one.

  // Whether open_step would find the blocks it needs.
  bool fits(std::span<const StepRow> rows) const;
  StepId open_step(std::span<const StepRow> rows, Context& context);
  // Each layer once a step, in any order.
  void forward(StepId step, std::int32_t layer, const DeltaInputs& inputs, Context& context);
  void forward(StepId step, std::int32_t layer, const ShortConvInputs& inputs, Context& context);
  // One count for every window with tokens, in any order; counts of other requests of this step are not read. Requests finished or
  // preempted since are dead, with or without a count. Every layer must have run.
  void commit(StepId step, std::span<const Accepted> accepted, Context& context);
  // Closes a step without keeping anything. If no layer has run, all requests are as before. Else so are eager windows on anchored
  // lines; all others (plain tokens, rolled lines, lazy windows) become dead.
  void abandon(StepId step);

  // ---- states ----

  // Lazy: folds the waiting records of these requests now. Eager: nothing to do.
  void materialize(std::span<const RequestId> requests, Context& context);
  // Token counts whose state exists in every group, ascending: the current count and, in align mode, the kept boundaries. Empty for a
  // request without state or with a row in an open step. While records wait, neither the current count nor a boundary inside them is listed.
  std::vector<std::int64_t> exportable(RequestId request) const;
  // A second request with the same state and count. Folds first.
  RequestId fork(RequestId request, Context& context);
  // Keeps the state after `tokens` tokens, one of exportable() after folding, beyond the request's life. A boundary is shared, any other
  // state copied.
  PrefixId hold(RequestId request, std::int64_t tokens, Context& context);
  void release(PrefixId prefix);
  std::int64_t tokens(PrefixId prefix) const;

  // The state after `tokens` tokens as bytes (checkpoint.hpp). `tag` is the caller's, a hash of the text for instance. Folds first.
  std::vector<std::byte> export_checkpoint(RequestId request, std::int64_t tokens, std::uint64_t tag, Context& context);
  // Gives an empty or dead request the state of a checkpoint. Refused unless count and tag are the expected ones.
  void restore(RequestId request, std::span<const std::byte> checkpoint, std::int64_t tokens, std::uint64_t tag);

  // ---- looking ----

  std::int32_t free_blocks(std::int32_t group) const;
  std::int32_t requests() const;
  std::int32_t open_steps() const;
  std::int32_t prefixes() const;
  BlockTag block_tag(std::int32_t group, std::int32_t block) const;
  // The layer's tensors, memory of the session's backend: for tests, and for engines that look into their own pools.
  const LayerPool& pool(std::int32_t layer) const;
  const SessionCounters& counters() const;

 private:
  std::unique_ptr<SessionState> state_;
};

// The longest prefix that may be used: at most attention_tokens, and in every group's list of token counts that have a real state. 0 if
// there is none.
std::int64_t prefix_hit(std::int64_t attention_tokens, std::span<const std::vector<std::int64_t>> groups);

}  // namespace recoverssm
