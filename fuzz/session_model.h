// What session_calls.cc holds beside the session: requests, steps and checkpoints as they should be, and what a text leaves.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
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
  const std::size_t front = sizeof(CheckpointHeader) + Tiny::kLayers * sizeof(CheckpointLayer);
  return std::span(checkpoint).subspan(front, checkpoint.size() - front - sizeof(std::uint64_t));
}

// What a text leaves, in one prefill of an eager session without groups or align mode.
class Reference {
 public:
  explicit Reference(DType activation)
      : model_({.blocks = 2, .activation = activation}), session_(model_.config()), request_(session_.admit()) {}

  bool is_state_of(std::span<const std::uint32_t> text, const Bytes& checkpoint) {
    const auto tokens = static_cast<std::int32_t>(text.size());
    const StepRow row{request_, RowKind::prefill, tokens, 0};
    const StepId step = session_.open_step({&row, 1}, context_);
    model_.inputs(text);
    for (std::int32_t layer = 0; layer < Tiny::kShortConv; ++layer) session_.forward(step, layer, model_.delta(layer), context_);
    session_.forward(step, Tiny::kShortConv, model_.short_conv(), context_);
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
  shape.activation = (flags & 8) != 0 ? DType::bf16 : DType::f32;
  shape.null_block_id = (flags & 64) != 0 ? -1 : (flags & 128) != 0 ? 2 : 0;
  shape.S = 1 + static_cast<std::int32_t>(input.below(4));
  if ((flags & 16) != 0) shape.block_size = shape.S + static_cast<std::int32_t>(input.below(4));
  shape.kept_boundaries = static_cast<std::int32_t>(input.below(3));
  shape.blocks = shape.null_block_id + 2 + static_cast<std::int32_t>(input.below(9));
  return shape;
}

}  // namespace fuzz_session
