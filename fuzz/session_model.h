// What session_calls.cc holds beside the session: requests, steps and checkpoints as they should be, and what a text leaves.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "session/checkpoint_format.h"
#include "session/tiny.h"

namespace fuzz_session {

using namespace recoverssm;
using session_tests::Tiny;
using session_tests::TinyShape;
using Bytes = std::vector<std::byte>;
using Text = std::vector<std::uint32_t>;  // a token is its seed

// What a failure is reported with.
inline std::string last_call;

inline void demand(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s, after: %s\n", what, last_call.c_str());
  std::abort();
}

// Bytes of an input, zeros behind its end.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  std::uint8_t byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  std::size_t below(std::size_t n) { return n == 0 ? 0 : byte() % n; }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

// The layers' parts of a checkpoint: all but header and checksum.
inline std::span<const std::byte> payload(const Bytes& checkpoint) {
  const std::size_t layers = static_cast<std::size_t>(inspect_checkpoint(checkpoint).layers);
  const std::size_t front = sizeof(CheckpointHeader) + layers * sizeof(CheckpointLayer);
  return std::span(checkpoint).subspan(front, checkpoint.size() - front - sizeof(std::uint64_t));
}

// What a text leaves, in one prefill of an eager session without groups or align mode.
class Reference {
 public:
  explicit Reference(const TinyShape& shape)
      : model_({.short_conv = shape.short_conv, .blocks = 2, .activation = shape.activation}),
        session_(model_.config()),
        request_(session_.admit()) {}

  bool is_state_of(std::span<const std::uint32_t> text, const Bytes& checkpoint) {
    const auto tokens = static_cast<std::int32_t>(text.size());
    const StepRow row{request_, RowKind::prefill, tokens, 0};
    const StepId step = session_.open_step({&row, 1}, context_);
    model_.inputs(text);
    for (std::int32_t layer = 0; layer < Tiny::kShortConv; ++layer) session_.forward(step, layer, model_.delta(layer), context_);
    if (session_.config().layers.size() > Tiny::kShortConv) session_.forward(step, Tiny::kShortConv, model_.short_conv(), context_);
    session_.commit(step, {}, context_);
    const Bytes expected = session_.export_checkpoint(request_, tokens, 0, context_);
    session_.preempt(request_);
    return std::ranges::equal(payload(expected), payload(checkpoint));
  }

 private:
  Tiny model_;
  Session session_;
  RequestId request_;
  Context context_;
};

struct ModelRequest {
  Phase phase = Phase::empty;
  Text text;
  StepId open_step = 0;
};
struct ModelRow {
  StepRow given{};
  Text tokens;
  bool freed = false;
};
struct ModelStep {
  std::vector<ModelRow> rows;
  Text tokens;  // of all rows
  std::set<std::int32_t> ran;
  bool touched = false;
};
struct Checkpoint {
  Bytes bytes;
  Text text;
};

inline TinyShape shape_of(Input& input) {
  const std::uint8_t flags = input.byte();
  TinyShape shape;
  shape.two_groups = (flags & 1) != 0;
  shape.lazy = (flags & 2) != 0;
  shape.line_kind = (flags & 4) != 0 ? LineKind::rolled : LineKind::anchored;
  shape.short_conv = (flags & 32) == 0;
  shape.activation = (flags & 8) != 0 ? DType::bf16 : DType::f32;
  shape.null_block_id = (flags & 64) != 0 ? -1 : (flags & 128) != 0 ? 2 : 0;
  shape.S = 1 + static_cast<std::int32_t>(input.below(4));
  if ((flags & 16) != 0) shape.block_size = shape.S + static_cast<std::int32_t>(input.below(4));
  shape.kept_boundaries = static_cast<std::int32_t>(input.below(3));
  shape.blocks = shape.null_block_id + 2 + static_cast<std::int32_t>(input.below(9));
  return shape;
}

// All float tensors of a session's pools.
inline std::vector<const TensorView*> tensors(const Session& session) {
  std::vector<const TensorView*> all;
  for (std::size_t layer = 0; layer < session.config().layers.size(); ++layer) {
    const LayerPool& pool = session.pool(static_cast<std::int32_t>(layer));
    for (const TensorView* view :
         {&pool.line, &pool.state, &pool.records.packed, &pool.records.corrections, &pool.records.key_gate}) {
      if (view->present()) all.push_back(view);
    }
  }
  return all;
}
inline std::size_t bytes_of(const TensorView& view) { return static_cast<std::size_t>(view.elements() * size_of(view.dtype)); }

// What must not change in a refused call.
struct Seen {
  std::vector<std::int64_t> numbers;
  Bytes pools;
  std::int64_t refused = 0;
  bool operator==(const Seen&) const = default;
};
inline Seen see(const Session& session, const std::map<RequestId, ModelRequest>& requests,
                const std::map<PrefixId, Text>& prefixes) {
  Seen seen;
  const auto add = [&](auto... n) { (seen.numbers.push_back(static_cast<std::int64_t>(n)), ...); };
  for (const auto& [id, request] : requests) {
    const RequestInfo info = session.info(id);
    add(info.phase, info.tokens, info.waiting, info.open_step);
    for (const std::int32_t block : info.blocks) add(block);
  }
  for (const auto& [id, text] : prefixes) add(session.tokens(id));
  for (std::size_t g = 0; g < session.config().groups.size(); ++g) {
    const auto group = static_cast<std::int32_t>(g);
    add(session.free_blocks(group));
    for (std::int32_t block = 0; block < session.config().groups[g].blocks; ++block) {
      const BlockTag tag = session.block_tag(group, block);
      add(tag.owner, tag.tokens, tag.step, tag.references);
    }
  }
  add(session.requests(), session.open_steps(), session.prefixes());
  const SessionCounters& c = session.counters();
  add(c.steps_opened, c.steps_committed, c.steps_abandoned, c.prefill_rows, c.window_rows, c.kept_tokens, c.dead_rows);
  std::vector<const TensorView*> all = tensors(session);
  for (std::size_t layer = 0; layer < session.config().layers.size(); ++layer) {
    const TensorView& pending = session.pool(static_cast<std::int32_t>(layer)).pending;
    if (pending.present()) all.push_back(&pending);
  }
  for (const TensorView* view : all) {
    const auto* const data = static_cast<const std::byte*>(view->data);
    seen.pools.insert(seen.pools.end(), data, data + bytes_of(*view));
  }
  seen.refused = c.refused_calls;
  return seen;
}

}  // namespace fuzz_session
