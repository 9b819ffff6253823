// A scene: everything that a step of a few layers touches, in one piece of memory, so that "all bytes are the same" is one comparison. The
// host's copy is what the CPU works on; a Twin (twin.h) is the same bytes on a device.
//
// Plain tensors come first, each followed by a gap; behind them pages, one a block, and in each page the block's state, line, records and
// pending count of all layers: strides are those of engines that keep whole pages. Gaps are 0xff, NaN in every float.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "recoverssm/recoverssm.hpp"

namespace device_test {

using recoverssm::DType;
using recoverssm::LayerKind;
using recoverssm::LineKind;
using recoverssm::TensorView;

struct LayerShape {
  LayerKind kind = LayerKind::gdn;
  int H = 2, HV = 4, K = 128, V = 128, W = 4;
  int channels = 512, dilation = 2;  // short_conv; of the others 2*H*K + HV*V, 1
  DType T = DType::bf16, state = DType::f32, out = DType::bf16;

  bool has_state() const { return kind != LayerKind::short_conv; }
  int C() const { return has_state() ? 2 * H * K + HV * V : channels; }
  int history() const { return has_state() ? W - 1 : (W - 1) * dilation; }
  std::string text() const;
};

struct SceneShape {
  std::vector<LayerShape> layers = {LayerShape{}};
  int rows = 8;           // windows
  int plain_rows = 3;     // of the plain part
  int plain_tokens = 24;  // of all plain rows
  int S = 4;
  LineKind line_kind = LineKind::rolled;
  bool lazy = false;       // layers have pending
  int block_size = 6;      // of the prefix cache, at least S; 0: no prefix cache
  bool in_place = false;   // convolutions write over x
  int blocks_per_row = 0;  // at least 3, for snapshots at least S; 0: the larger of them
  std::uint64_t seed = 1;
};

// A tensor's place: `at` is from the start of the plain part, or of a page.
struct Piece {
  TensorView view{};
  std::int64_t at = -1;
  bool paged = false;
  bool ids = false;  // block ids
  std::string name;

  bool present() const { return at >= 0; }
  std::int64_t bytes() const { return view.elements() * size_of(view.dtype); }  // of a plain one
};

// Where a scene's bytes are.
struct Side {
  std::byte* plain = nullptr;
  std::byte* pages = nullptr;
  std::int64_t blocks = 0;
  std::int64_t page_bytes = 0;
  int rows = 0;                                               // windows that calls name: the scene's, or the first few
  const std::map<std::int64_t, std::byte*>* apart = nullptr;  // plain tensors each in memory of its own, by Piece::at

  TensorView operator()(const Piece& piece) const;
};

struct LayerPieces {
  Piece x, conv_out, a, b, weight, bias, A_log, dt_bias, out;  // out [tokens, HV, V]
  Piece qkvz, ba, z;                                           // gdn
  Piece mixed;                                                 // [tokens, C], where split_projections puts qkv
  Piece residual, outer;                                       // short_conv
  Piece line, state, packed, corrections, key_gate, pending;
};

// Windows. Accepted counts are the previous window's (`previous`, [N], valid for live rows, and for null ones of snapshots) and this
// one's (`accepted`, [R], as a sampler gives them).
struct WindowPieces {
  Piece offsets, ids, previous, start_counts, token_index, snapshot_ids;
  Piece accepted, request_index, table, num_computed, running, counts;  // [R]
  Piece commit_len, final_ids, boundary_ids, boundary_len;
  Piece move_from, move_to, list, list_counts;  // align_move, materialize
};

struct PlainPieces {
  Piece offsets, ids, initial, previous, token_index;
};

// What the rows of a step are. Live rows come first where `pads_last`, as in a captured batch of a fixed size.
struct Mix {
  int live = 0, null = 0;  // the others are empty
  bool pads_last = true;
};

class Scene {
 public:
  explicit Scene(const SceneShape& shape);

  const SceneShape shape;
  std::vector<LayerPieces> layers;
  WindowPieces windows;
  PlainPieces plain;

  Side side() { return {bytes.data(), bytes.data() + pages_at, blocks, page_bytes, shape.rows}; }
  int window_tokens() const { return shape.rows * shape.S + 3; }
  int tokens() const { return window_tokens() + shape.plain_tokens; }

  // New activations.
  void draw_inputs();
  // New rows: offsets, ids, counts, tables, lists.
  void draw_rows(const Mix& mix);
  Mix random_mix();
  Mix mix;                      // of the rows now
  std::vector<char> row_kinds;  // 'l', 'n', 'e'

  std::vector<std::byte> bytes;  // on the host
  std::int64_t pages_at = 0;     // bytes of the plain part
  std::int64_t page_bytes = 0;
  int blocks = 0;
  std::vector<Piece> all;     // every piece, for names
  std::vector<Piece> inputs;  // what draw_inputs and draw_rows write: what an engine sends before a replay

  std::int32_t* i32(const Piece& piece) { return reinterpret_cast<std::int32_t*>(bytes.data() + piece.at); }
  std::string where(std::int64_t byte) const;  // the tensor that a byte of the scene is in

  int between(int low, int high);  // both included

 private:
  Piece take(const std::string& name, DType dtype, std::vector<std::int64_t> shape, bool paged = false);
  Piece take_ids(const std::string& name, std::vector<std::int64_t> shape);
  Piece take_paged(const std::string& name, DType dtype, std::vector<std::int64_t> block_shape);
  void add_layer(std::size_t number, const LayerShape& layer);
  void add_rows();
  void fill_run(std::byte* to, DType dtype, std::int64_t count, double low, double high);
  void fill(const Piece& piece, double low, double high);
  std::vector<int> permutation(int n);
  void draw_windows();
  void draw_lists();
  void draw_plain();

  std::mt19937_64 random_;
  std::int64_t page_used_ = 0;
  std::vector<std::vector<int>> own_;  // blocks of each window row
  std::vector<int> plain_own_;
};

}  // namespace device_test
