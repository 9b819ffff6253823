// Drives a session with a small model's tokens and compares all it gives with what plain runs know: outputs of kept tokens and of padding,
// token counts, states and histories. 32-bit states to the bit; 16-bit ones too, against the same grouping of tokens into calls.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "session/model.h"
#include "session/place.h"

namespace session_tests {

using recoverssm::Accepted;
using recoverssm::ErrorKind;
using recoverssm::Phase;
using recoverssm::PrefixId;
using recoverssm::RequestId;
using recoverssm::RowKind;
using recoverssm::StepId;

// A row to run. Of a window the first `kept` tokens are the text's, the others wrong drafts; the count that commit is given is `kept`.
struct Row {
  RequestId request = 0;
  RowKind kind = RowKind::prefill;
  std::int32_t tokens = 0;
  std::int32_t kept = 0;
};
inline Row prefill(RequestId request, std::int32_t tokens) { return {request, RowKind::prefill, tokens, tokens}; }
inline Row decode(RequestId request) { return {request, RowKind::decode, 1, 1}; }
inline Row window(RequestId request, std::int32_t tokens, std::int32_t kept) { return {request, RowKind::window, tokens, kept}; }
inline Row padding(std::int32_t tokens, RowKind kind = RowKind::window) { return {0, kind, tokens, 0}; }

struct Step {
  StepId id = 0;
  std::vector<Row> rows;
  std::vector<Key> keys;
  std::vector<std::int32_t> start;  // of each row in keys
  std::vector<LayerIo> io;          // of the layers that have run; others without out
};

class Driver {
 public:
  explicit Driver(const Shape& shape);
  // On pools of the caller.
  Driver(const Shape& shape, std::span<const recoverssm::LayerPool> pools);

  Model model;
  recoverssm::Context context = context_of_calls();
  recoverssm::Session session;

  // ---- the session's calls, remembered ----
  RequestId admit(std::uint64_t text);
  RequestId admit(std::uint64_t text, PrefixId prefix);  // tokens of `text` up to the prefix are those of the request that was held
  RequestId fork(RequestId request, std::uint64_t text);
  PrefixId hold(RequestId request, std::int64_t tokens);
  PrefixId finish_and_hold(RequestId request);
  void finish(RequestId request);
  void preempt(RequestId request);

  std::vector<recoverssm::StepRow> step_rows(const std::vector<Row>& rows) const;
  Step open(const std::vector<Row>& rows);
  // The same; `afterwards` gets the array the call was given as soon as it returns.
  Step open_with(const std::vector<Row>& rows, const std::function<void(std::vector<recoverssm::StepRow>&)>& afterwards);
  void forward(Step& step, std::int32_t layer);
  void forward(Step& step);                        // all layers
  std::vector<Accepted> counts(const Step& step);  // of its windows, as the rows say
  void commit(Step& step);
  void commit(Step& step, std::span<const Accepted> accepted);  // other counts of the same meaning
  void committed(Step& step);                                   // after the test has called the session's commit itself
  void abandon(Step& step);
  void run(const std::vector<Row>& rows);  // open, forward, commit

  // ---- comparing; failures are gtest's ----
  bool knows(RequestId request) const { return histories_.contains(request); }
  std::vector<RequestId> requests() const;
  std::int64_t tokens(RequestId request) const { return histories_.at(request).tokens(); }
  // The count; the state and history in the blocks unless records wait there.
  void check(RequestId request);
  void check_all();  // those without an open step
  // History and state of all layers in the request's running blocks.
  Bytes memory(RequestId request) const;
  // The same from an exported checkpoint, after `tokens` tokens (-1: the current count). Folds. Returns it.
  Bytes check_export(RequestId request, std::int64_t tokens = -1);
  // A text as it went through the session.
  struct History {
    std::uint64_t text = 0;
    std::vector<std::vector<Key>> calls;  // kept tokens of each row
    bool waits = false;                   // records may wait
    StepId open = 0;
    std::int64_t tokens() const;
    History until(std::int64_t tokens) const;
  };
  // For calls of the session that the test makes itself: what a request's text is, that another request has taken it over, and that a
  // request's records have been folded.
  History snapshot(RequestId request) const { return histories_.at(request); }
  void restored(RequestId request, const History& history) { histories_[request] = history.until(history.tokens()); }
  void folded(RequestId request) { histories_.at(request).waits = false; }

 private:
  const Known& known(const History& history);
  void expect_outputs(const Step& step, std::size_t row, const Known& before, std::span<const Key> kept);
  void expect_padding(const Step& step, std::size_t row);

  std::unordered_map<RequestId, History> histories_;
  std::unordered_map<PrefixId, History> prefixes_;
};

// A request with a state after `tokens` tokens.
RequestId started(Driver& driver, std::uint64_t text, std::int32_t tokens);

// Runs a body for every combination of line kind, eager or lazy, none or align mode, one group or two.
void for_all_shapes(std::int32_t block_size, const std::function<void(const Shape&)>& body);

// What a call throws: its kind, and a message that begins with `begin` and has all of `parts`, among them what was expected.
::testing::AssertionResult refuses(ErrorKind kind, const std::string& message_begin, const std::vector<std::string>& parts,
                                   const std::function<void()>& call);

// Everything about a session that an error must leave alone: requests, blocks, steps, prefixes, counters but those of refusals, tags, and
// all bytes of its pools.
class Unchanged {
 public:
  Unchanged(const recoverssm::Session& session, std::vector<RequestId> requests);
  ::testing::AssertionResult check() const;

 private:
  std::string describe() const;
  std::vector<Bytes> pool_bytes() const;

  const recoverssm::Session& session_;
  std::vector<RequestId> requests_;
  std::string description_;
  std::vector<Bytes> bytes_;
};

}  // namespace session_tests
