// One round: a seeded scheduler drives one session and holds everything that comes out of it against the plain run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "recoverssm/recoverssm.hpp"
#include "recoverssm/session.hpp"
#include "simulate/counts.h"
#include "simulate/device.h"
#include "simulate/float64.h"
#include "simulate/plain.h"
#include "simulate/pools.h"
#include "simulate/setup.h"

namespace recoverssm::simulate {

struct RoundResult {
  Counts counts;
  std::string difference;  // the first one, which ends the round; empty: none
};

// `log`: optional, called with a line for everything that is done.
RoundResult run_round(const Setup& setup, const std::function<void(const std::string&)>& log = {});

// Thrown where session and plain run differ.
struct DifferenceFound {
  std::string what;
};

// A request as it must be.
struct Request {
  RequestId id = 0;
  std::vector<Key> text;    // committed
  std::vector<Key> prompt;  // prefilled up to here: a prompt, or the text that a preempted request had
  std::int64_t goal = 0;    // finished once its text is that long
  Phase phase = Phase::empty;
  StepId step = 0;
  bool preempted = false;     // to be resumed
  bool records_wait = false;  // lazy: its last window has not been folded, as far as is known
  std::int32_t waiting = 0;   // kept tokens of that window
  Memory memory;              // of the plain run, after text
  std::optional<Float64Run> exact;
  // Align mode: token counts at block boundaries that a state was written for, per group, ascending, and those states.
  std::vector<std::vector<std::int64_t>> boundaries;
  std::map<std::int64_t, std::shared_ptr<const Memory>> snapshots;

  std::int64_t tokens() const { return static_cast<std::int64_t>(text.size()); }
  std::int64_t to_prefill() const { return static_cast<std::int64_t>(prompt.size()) - tokens(); }
  bool idle() const { return step == 0; }
};

struct Row {
  RequestId request = 0;  // 0: padding
  RowKind kind = RowKind::prefill;
  std::vector<Key> keys;
  std::int64_t start = 0;  // in the step's tokens
  bool freed = false;      // its request was finished or preempted since
};

struct Step {
  StepId id = 0;
  std::vector<Row> rows;
  std::vector<Key> keys;             // of all rows
  std::vector<std::int32_t> layers;  // still to run, in this order from the back
  std::vector<TokenRows> outs;       // per layer
  bool touched = false;              // a layer has run
};

// A state that somebody kept: a prefix in the session, or a checkpoint.
struct Kept {
  PrefixId prefix = 0;
  std::vector<std::byte> checkpoint;
  std::uint64_t tag = 0;
  std::vector<Key> text;
  Memory memory;

  std::int64_t tokens() const { return static_cast<std::int64_t>(text.size()); }
};

class Round {
 public:
  Round(const Setup& setup, const std::function<void(const std::string&)>& log);

  // Throws DifferenceFound.
  void run();
  const Counts& counts() const { return counts_; }

 private:
  // ---- round.cc: the scheduler, and the lives of requests ----
  void act();
  void life();
  void drain();
  Request& admit();
  void finish(RequestId id);
  void preempt(RequestId id);
  void revive(Request& request);
  void abort_in_step();
  void forget(Request& request);  // its state is gone: back to an empty plain run
  void freed_in_step(const Request& request);
  void make_room();

  // ---- steps.cc ----
  void open();
  std::optional<Row> row_for(Request& request);
  void open_rows(std::vector<Row> rows);
  void advance_step();
  void forward(Step& step);
  // Inputs of a layer and room for its outputs.
  void fill(const Step& step, std::int32_t index, LayerTokens& in, TokenRows& out);
  void call_forward(StepId step, std::int32_t index, const LayerTokens& in, const TokenRows& out);
  void commit(Step& step);
  void abandon(std::size_t index);
  void committed(Request& request, const Row& row, const Step& step, std::int32_t kept);
  void compare_outputs(const Row& row, const Step& step, std::int64_t count, const char* what);
  std::int32_t sampled(std::size_t length);
  std::vector<StepRow> step_rows(const std::vector<Row>& rows);

  // ---- states.cc: forks, prefixes, checkpoints ----
  void fork();
  void hold();
  void admit_prefix();
  void release();
  void materialize();
  void export_one();
  void keep_checkpoint(Request& request, std::int64_t tokens);
  bool restore(Request& request);
  void folded(Request& request);
  // The fold was perhaps done: asks the session.
  void perhaps_folded(Request& request);
  // The state after `tokens` tokens was held or exported: folded first if it is the current one.
  void looked_at(Request& request, std::int64_t tokens);
  void add_boundary(Request& request, std::size_t group, std::int64_t tokens, const Memory& memory);
  void start_from(Request& request, const std::vector<Key>& text, const Memory& memory);
  Kept take_checkpoint(Request& request, std::int64_t tokens, const Memory& memory);
  const Memory& state_of(const Request& request, std::int64_t tokens) const;
  // One of the token counts whose state can be had, the current one often; folds now and then.
  std::int64_t some_tokens(Request& request);
  // Whether a call that needs a block may be refused.
  bool scarce() const;
  // Runs a good call that may lack blocks. Whether it went through.
  bool unless_scarce(const char* what, const std::function<void()>& call);

  // ---- compare.cc ----
  template <class... Args>
  static void expect(bool holds, const Args&... what) {
    if (!holds) throw DifferenceFound{said(what...)};
  }
  bool same(std::span<const std::byte> got, std::span<const std::byte> want);
  void compare_info(const Request& request);
  void compare_state(const Request& request);
  void compare_exportable(const Request& request);
  void compare_pool(const Session& session, const Device& device, const std::vector<std::int32_t>& blocks, const Memory& memory,
                    const std::string& what);
  void compare_checkpoint(const Kept& kept, const std::string& what);
  void compare_counters();
  void compare_end();

  // ---- bad_calls.cc ----
  void bad_call();
  void refused(const std::string& what, const std::function<void()>& call);
  void bad_step_call();
  void bad_rows();
  void bad_request_call();
  void bad_restore();
  std::vector<std::byte> fingerprint() const;

  std::vector<Request*> requests(const std::function<bool(const Request&)>& which);
  Request* any(const std::function<bool(const Request&)>& which);
  Step& step_at(std::size_t index) { return *steps_[index]; }
  Request* find(RequestId id);
  bool chance(int percent) { return random_.between(0, 99) < percent; }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_.between(0, static_cast<int>(n) - 1)); }
  Key next_key(const std::vector<Key>& text);
  template <class... Args>
  void say(const Args&... args) const {
    if (log_) log_(said(args...));
  }
  template <class... Args>
  static std::string said(const Args&... args);

  const Setup& setup_;
  const std::function<void(const std::string&)>& log_;
  Random random_;
  Counts counts_;
  std::int64_t comparisons_ = 0;
  Device device_;
  Context context_, host_{1};  // of the session, and of the viewer
  PlainRun plain_;
  std::optional<GivenPools> pools_;
  std::unique_ptr<Session> session_, viewer_;  // viewer_: another session, on the CPU, that checkpoints are looked at in
  RequestId viewer_request_ = 0;
  std::vector<std::unique_ptr<Request>> requests_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<Kept> prefixes_, checkpoints_;
  std::vector<RequestId> gone_;  // finished requests, closed steps, released prefixes
  std::vector<StepId> closed_;
  std::vector<PrefixId> released_;
};

template <class... Args>
std::string Round::said(const Args&... args) {
  std::ostringstream text;
  (text << ... << args);
  return text.str();
}

}  // namespace recoverssm::simulate
