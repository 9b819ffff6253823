// What a session keeps: the layers of a model, their cache groups, and the memory that takes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "recoverssm/rows.hpp"

namespace recoverssm {

enum class LayerKind : std::uint8_t { gdn, kda, short_conv };

// One layer. The tensors below are its parameters, owned by the caller and alive as long as the session; memory of its backend. Sizes need none of them, a
// session needs A_log and dt_bias of kda layers (commit reads them), a forward needs all.
struct LayerConfig {
  LayerKind kind = LayerKind::gdn;
  std::int32_t group = 0;
  std::int32_t H = 0, HV = 0, K = 0, V = 0;  // gdn, kda
  std::int32_t W = 0;                        // conv taps; gdn, kda: 0 for a layer without convolution; short_conv: Kc
  std::int32_t channels = 0;                 // short_conv: C. gdn, kda: 0, it is 2*H*K + HV*V
  std::int32_t dilation = 1;                 // short_conv
  DType activation = DType::bf16;            // T
  DType state = DType::f32;

  TensorView weight{};  // [C, W] T or f32
  TensorView bias{};    // optional [C] T or f32; gdn, kda
  Activation conv_activation = Activation::silu;
  TensorView A_log{};    // [HV] T or f32
  TensorView dt_bias{};  // gdn [HV], kda [HV, K]; T or f32
  std::optional<float> lower_bound{};
  std::optional<float> scale{};
  bool l2norm = true;
  float softplus_beta = 1.0F;
  float softplus_threshold = 20.0F;
};

// Layers that share block ids.
struct GroupConfig {
  std::int32_t blocks = 0;                   // of the pool, ids 0..blocks-1; those <= null_block_id are never handed out
  std::optional<std::int32_t> block_size{};  // align mode: B >= S tokens a block of the prefix cache. In all groups or in none
};

struct SessionConfig {
  std::vector<LayerConfig> layers;
  std::vector<GroupConfig> groups;
  std::int32_t window_capacity = 1;         // S = 1 + the most drafts
  LineKind line_kind = LineKind::anchored;  // anchored: a window can be undone; rolled: one position shorter
  bool lazy = false;                        // commit only records counts, the next step folds (docs/operations.md, lazy commit)
  std::int32_t null_block_id = 0;
  std::int32_t kept_boundaries = 1;  // align mode: prefix boundaries a request keeps behind its running block, the latest ones
  // Where the pools are, and the tensors of every forward. cuda: memory of the device that is current when the session is made and in all of its
  // calls; everything is put on this stream (a cudaStream_t; null: the default stream), which must outlive the session.
  Backend backend = Backend::cpu;
  void* stream = nullptr;
};

// The tensors of one layer, as the operations take them. line: [blocks, cols, C], W > 0; state: [blocks, HV, V, K]; records; pending:
// [blocks] int32, lazy. Strides as the operations allow: pools may be interleaved.
struct LayerPool {
  TensorView line{};
  TensorView state{};
  Records records{};
  TensorView pending{};
};

// Bytes, but for blocks_per_request.
struct SessionSizes {
  struct Layer {
    std::int64_t state = 0, line = 0, records = 0, pending = 0;  // of one block
    std::int64_t block() const { return state + line + records + pending; }
  };
  std::vector<Layer> layers;
  std::vector<std::int64_t> block;      // per group: all its layers
  std::int32_t blocks_per_request = 1;  // at most, in every group: 1, or in align mode 2 + kept_boundaries
  std::int64_t request = 0;             // at most, over all groups
  std::int64_t pools = 0;               // all blocks of all groups
  std::int64_t checkpoint = 0;          // an exported request
};

// Throws Error(invalid_argument) for a configuration that no session accepts. The one source of the figures that Session allocates by.
SessionSizes session_sizes(const SessionConfig& config);

}  // namespace recoverssm
