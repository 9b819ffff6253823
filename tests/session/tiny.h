// A model of three tiny layers (gdn, kda, short_conv) and the tensors of its forwards: for tests and fuzzers of sessions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <span>
#include <vector>

#include "recoverssm/recoverssm.hpp"

namespace session_tests {

struct TinyShape {
  bool two_groups = false;  // gdn in group 0, kda and short_conv in group 1
  bool short_conv = true;   // false: the first two layers alone
  bool lazy = false;
  recoverssm::LineKind line_kind = recoverssm::LineKind::anchored;
  std::optional<std::int32_t> block_size{};
  std::int32_t S = 3;
  std::int32_t kept_boundaries = 1;
  std::int32_t blocks = 8;
  std::int32_t null_block_id = 0;
  recoverssm::DType activation = recoverssm::DType::f32;  // or bf16
  recoverssm::DType state = recoverssm::DType::f32;
  // Where the session is, and where tensors come from that it reaches.
  recoverssm::Backend backend = recoverssm::Backend::cpu;
  void* stream = nullptr;
  std::pmr::memory_resource* memory = std::pmr::new_delete_resource();
};

class Tiny {
 public:
  explicit Tiny(const TinyShape& shape);
  Tiny(const Tiny&) = delete;
  Tiny& operator=(const Tiny&) = delete;

  static constexpr std::int32_t kLayers = 3;     // with short_conv
  static constexpr std::int32_t kShortConv = 2;  // the layer; the others take DeltaInputs

  // Views of this model's parameters.
  const recoverssm::SessionConfig& config() const { return config_; }

  // Inputs of so many tokens, each made from its seed alone; outputs zeroed. Views of an earlier call are gone.
  void inputs(std::span<const std::uint32_t> seeds);
  void inputs(std::int32_t tokens, std::uint32_t seed);  // seeds: seed, seed + 1, ...
  recoverssm::DeltaInputs delta(std::int32_t layer) const;
  recoverssm::ShortConvInputs short_conv() const;
  // What the layer's forward wrote.
  std::span<const std::byte> output(std::int32_t layer) const;

  // All layers of a step with so many tokens.
  void forward(recoverssm::Session& session, recoverssm::StepId step, std::int32_t tokens, std::uint32_t seed,
               recoverssm::Context& context);

 private:
  using Bytes = std::pmr::vector<std::byte>;
  void add_numbers(Bytes& bytes, std::int64_t count, std::uint32_t seed) const;  // uniform in -1..1, in T
  recoverssm::TensorView view(const Bytes& bytes, std::initializer_list<std::int64_t> shape) const;

  recoverssm::SessionConfig config_;
  std::vector<Bytes> parameters_;
  struct LayerTensors {
    explicit LayerTensors(std::pmr::memory_resource* memory) : x(memory), a(memory), b(memory), out(memory) {}
    Bytes x, a, b, out;
  };
  std::vector<LayerTensors> tensors_;
  std::int32_t tokens_ = 0;
};

}  // namespace session_tests
