// A small random model for tests of the session layer, and what it computes token by token through the plain operations, in blocks of
// its own that no session knows.
//
// A token is a number; what enters a layer at that token follows from the two alone. A text is a sequence of such numbers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "recoverssm/recoverssm.hpp"
#include "support/tensor.h"

namespace session_tests {

using recoverssm::DType;
using recoverssm::LineKind;
using Key = std::uint64_t;  // of a token
using Bytes = std::vector<std::byte>;

struct Shape {
  LineKind line = LineKind::anchored;
  bool lazy = false;
  std::vector<std::optional<std::int32_t>> block_sizes{std::nullopt};  // one a group
  DType T = DType::f32, state = DType::f32;
  std::int32_t S = 4;
  std::int32_t blocks = 24;  // of every group
  std::int32_t null_block_id = 0;
  std::int32_t kept_boundaries = 1;
  bool short_conv = true;
  std::uint64_t seed = 1;  // of the weights

  bool align() const { return block_sizes[0].has_value(); }
  bool rolled() const { return line == LineKind::rolled; }
  std::string text() const;
};

// All combinations of line kind, eager or lazy, none or align mode (B), one group or two.
std::vector<Shape> all_shapes(std::int32_t block_size);

// Bits that follow from numbers: the same on every machine.
std::uint64_t mixed(std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0);

// A token of a text; `salt` > 0: a wrong draft in its place.
inline Key token(std::uint64_t text, std::int64_t position, std::uint64_t salt = 0) {
  return mixed(text, static_cast<std::uint64_t>(position), salt);
}

// Tensors of one layer's forward for a row of tokens.
struct LayerIo {
  support::Tensor x, a, b, out;  // short_conv: b is the outer residual, out the residual
  recoverssm::DeltaInputs delta() const { return {x, a, b, out}; }
  recoverssm::ShortConvInputs conv() const { return {x, out, b}; }
  Bytes output(std::int64_t first, std::int64_t count) const;
};

// What is known after a text.
struct Known {
  std::int64_t tokens = 0;
  std::vector<Bytes> memory;  // per layer: history, then state, as in a checkpoint
  std::vector<Bytes> out;     // per layer, of the tokens of the call that led here
  std::map<std::vector<Key>, std::unique_ptr<Known>> next;
};

class Model {
 public:
  explicit Model(const Shape& shape);
  Model(const Model&) = delete;

  const Shape& shape() const { return shape_; }
  const recoverssm::SessionConfig& config() const { return config_; }
  std::int32_t layers() const { return static_cast<std::int32_t>(config_.layers.size()); }
  bool is_conv(std::int32_t layer) const;

  LayerIo io(std::int32_t layer, std::span<const Key> keys) const;
  std::int64_t history(std::int32_t layer) const;  // positions
  std::int64_t memory_bytes(std::int32_t layer) const;
  // History and state in a block, in the form of Known::memory.
  Bytes memory(std::int32_t layer, const recoverssm::LayerPool& pool, std::int32_t block) const;

  // fp32 states: token by token. 16-bit states: as one call, since those round once a call. `out`, if given, gets each layer's outputs.
  const Known& after(const Known& from, std::span<const Key> keys, std::vector<Bytes>* out = nullptr);
  const Known& start() const { return start_; }

 private:
  const Known& edge(const Known& from, std::span<const Key> keys);
  void run(std::int32_t layer, const Known& from, std::span<const Key> keys, Known& to);

  Shape shape_;
  recoverssm::SessionConfig config_;
  std::vector<support::Tensor> weights_;  // keeps the configuration's views alive
  std::vector<recoverssm::LayerPool> own_;
  std::vector<support::Tensor> own_memory_;
  Known start_;
  recoverssm::Context context_{1};
};

}  // namespace session_tests
