#include "device/scene.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "support/convert.h"

namespace device_test {

using recoverssm::Gate;

namespace {

constexpr std::int64_t kAlign = 256;
constexpr std::int32_t kGarbage = 123456;  // no id, no count

std::int64_t aligned(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

TensorView dense_view(DType dtype, const std::vector<std::int64_t>& shape) {
  TensorView view;
  view.dtype = dtype;
  view.dims = static_cast<int>(shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    view.shape[d] = shape[d];
    view.stride[d] = stride;
    stride *= shape[d];
  }
  return view;
}

}  // namespace

std::string LayerShape::text() const {
  if (!has_state()) return std::string("short_conv C") + std::to_string(channels) + " " + name_of(T);
  return std::string(kind == LayerKind::gdn ? "gdn" : "kda") + " H" + std::to_string(H) + " HV" + std::to_string(HV) + " K" +
         std::to_string(K) + " V" + std::to_string(V) + " " + name_of(T) + " state " + name_of(state);
}

TensorView Side::operator()(const Piece& piece) const {
  TensorView view = piece.view;
  if (!piece.present()) return {};
  view.data = piece.paged ? pages + piece.at : apart == nullptr ? plain + piece.at : apart->at(piece.at);
  if (!piece.paged) return view;
  view.shape[0] = blocks;
  view.stride[0] = page_bytes / size_of(view.dtype);
  return view;
}

Piece Scene::take(const std::string& name, DType dtype, std::vector<std::int64_t> shape_, bool paged) {
  Piece piece;
  piece.view = dense_view(dtype, shape_);
  piece.paged = paged;
  piece.name = name;
  std::int64_t& used = paged ? page_used_ : pages_at;
  piece.at = aligned(used, paged ? 32 : kAlign);
  const std::int64_t elements = paged ? piece.view.stride[0] : piece.view.elements();
  used = piece.at + elements * size_of(dtype) + (paged ? 16 : 64);
  all.push_back(piece);
  return piece;
}

Piece Scene::take_ids(const std::string& name, std::vector<std::int64_t> shape_) {
  Piece piece = take(name, DType::i32, std::move(shape_));
  piece.ids = all.back().ids = true;
  return piece;
}

Piece Scene::take_paged(const std::string& name, DType dtype, std::vector<std::int64_t> block_shape) {
  block_shape.insert(block_shape.begin(), 1);
  return take(name, dtype, std::move(block_shape), true);
}

void Scene::add_layer(std::size_t number, const LayerShape& l) {
  const std::string prefix = "layers[" + std::to_string(number) + "].";
  const auto plain_piece = [&](const char* name, DType dtype, std::vector<std::int64_t> s) {
    return take(prefix + name, dtype, std::move(s));
  };
  const auto page_piece = [&](const char* name, DType dtype, std::vector<std::int64_t> s) {
    return take_paged(prefix + name, dtype, std::move(s));
  };
  const std::int64_t n = tokens(), C = l.C(), S = shape.S;
  LayerPieces p;
  p.x = plain_piece("x", l.T, {n, C});
  p.weight = plain_piece("weight", l.T, {C, l.W});
  const std::int64_t columns = l.history() + (shape.line_kind == LineKind::rolled ? S - 1 : S);
  p.line = page_piece("line", l.T, {columns, C});
  if (l.has_state()) {
    const bool gdn = l.kind == LayerKind::gdn;
    if (!shape.in_place) p.conv_out = plain_piece("conv_out", l.T, {n, C});
    p.bias = plain_piece("bias", DType::f32, {C});
    p.a = gdn ? plain_piece("a", l.T, {n, l.HV}) : plain_piece("a", l.T, {n, l.HV, l.K});
    p.b = plain_piece("b", l.T, {n, l.HV});
    p.A_log = plain_piece("A_log", DType::f32, {l.HV});
    p.dt_bias = gdn ? plain_piece("dt_bias", DType::f32, {l.HV}) : plain_piece("dt_bias", DType::f32, {l.HV, l.K});
    p.out = plain_piece("out", l.out, {n, l.HV, l.V});
    if (gdn) {
      p.qkvz = plain_piece("qkvz", l.T, {n, C + std::int64_t{l.HV} * l.V});
      p.ba = plain_piece("ba", l.T, {n, 2 * std::int64_t{l.HV}});
      p.z = plain_piece("z", l.T, {n, l.HV, l.V});
      p.mixed = plain_piece("mixed_qkv", l.T, {n, C});
    }
    p.state = page_piece("state", l.state, {l.HV, l.V, l.K});
    if (gdn) {
      p.packed = page_piece("packed", DType::f32, {l.HV, S, l.V + l.K + 1});
    } else {
      p.corrections = page_piece("corrections", DType::f32, {l.HV, S, l.V});
      p.key_gate = page_piece("key_gate", l.T, {l.HV, S, 2 * std::int64_t{l.K}});
    }
    if (shape.lazy) p.pending = page_piece("pending", DType::i32, {});
  } else {
    p.residual = plain_piece("residual", l.T, {n, C});
    p.outer = plain_piece("outer_residual", l.T, {n, C});
  }
  layers.push_back(p);
}

void Scene::add_rows() {
  const std::int64_t N = shape.rows, S = shape.S;
  WindowPieces& w = windows;
  w.offsets = take("query_start_loc", DType::i32, {N + 1});
  w.ids = take_ids("state_indices", {N});
  w.previous = take("num_accepted of the last window", DType::i32, {N});
  w.start_counts = take("num_accepted of snapshots", DType::i32, {N});
  w.token_index = take("token_index", DType::i32, {window_tokens()});
  w.snapshot_ids = take_ids("state_indices of snapshots", {N, S});
  w.accepted = take("num_accepted of the plan", DType::i32, {N});
  w.request_index = take("request_index", DType::i32, {N});
  w.table = take_ids("block_table", {N, 3});
  w.num_computed = take("num_computed", DType::i32, {N});
  w.running = take("running_column", DType::i32, {N});
  w.counts = take("num_accepted of align_advance", DType::i32, {N});
  w.commit_len = take("commit_len", DType::i32, {N});
  w.final_ids = take_ids("final_indices", {N});
  w.boundary_ids = take_ids("boundary_indices", {N});
  w.boundary_len = take("boundary_len", DType::i32, {N});
  w.move_from = take_ids("align_move from", {N});
  w.move_to = take_ids("align_move to", {N});
  w.list = take_ids("materialize blocks", {N});
  w.list_counts = take("materialize num_accepted", DType::i32, {N});
  const std::int64_t P = shape.plain_rows;
  plain.offsets = take("query_start_loc of plain rows", DType::i32, {P + 1});
  plain.ids = take_ids("state_indices of plain rows", {P});
  plain.initial = take("has_initial_state", DType::boolean, {P});
  plain.previous = take("num_accepted of plain rows", DType::i32, {P});
  plain.token_index = take("token_index of plain rows", DType::i32, {shape.plain_tokens});
}

Scene::Scene(const SceneShape& shape_) : shape(shape_), random_(shape_.seed) {
  add_rows();
  for (std::size_t l = 0; l < shape.layers.size(); ++l) add_layer(l, shape.layers[l]);
  page_bytes = aligned(page_used_, kAlign);
  pages_at = aligned(pages_at, kAlign);
  const int each = shape.blocks_per_row > 0 ? shape.blocks_per_row : std::max(3, shape.S);
  blocks = 1 + each * shape.rows + shape.plain_rows + 2;
  bytes.assign(static_cast<std::size_t>(pages_at + blocks * page_bytes), std::byte{0xff});
  const std::vector<int> order = permutation(blocks - 1);
  for (int i = 0; i < shape.rows; ++i) {
    own_.emplace_back();
    for (int j = 0; j < each; ++j) own_.back().push_back(1 + order[static_cast<std::size_t>(i * each + j)]);
  }
  for (int i = 0; i < shape.plain_rows; ++i) plain_own_.push_back(1 + order[static_cast<std::size_t>(shape.rows * each + i)]);
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const LayerPieces& p = layers[l];
    for (const Piece& weight : {p.weight, p.bias}) fill(weight, -0.5, 0.5);
    for (const Piece& gate : {p.A_log, p.dt_bias}) fill(gate, -1, 1);
    for (const Piece& pool : {p.line, p.state}) fill(pool, -1, 1);
    for (const Piece& output : {p.conv_out, p.out, p.z, p.mixed}) fill(output, -1, 1);
    if (!p.pending.present()) continue;  // records are NaN until a verify writes them
    for (const Piece& records : {p.packed, p.corrections, p.key_gate}) fill(records, -1, 1);
    for (int b = 0; b < blocks; ++b) {
      const std::int32_t waiting = between(0, shape.S);
      std::memcpy(bytes.data() + pages_at + b * page_bytes + p.pending.at, &waiting, sizeof waiting);
    }
  }
  for (const Piece& piece :
       {windows.running, windows.counts, windows.commit_len, windows.final_ids, windows.boundary_ids, windows.boundary_len}) {
    std::memset(bytes.data() + piece.at, 0, static_cast<std::size_t>(piece.bytes()));
  }
  // What is sent anew before a replay.
  const WindowPieces& w = windows;
  inputs = {w.offsets,       w.ids,     w.previous,     w.start_counts, w.token_index,    w.snapshot_ids, w.accepted,
            w.request_index, w.table,   w.num_computed, w.move_from,    w.move_to,        w.list,         w.list_counts,
            plain.offsets,   plain.ids, plain.initial,  plain.previous, plain.token_index};
  for (const LayerPieces& p : layers) {
    for (const Piece& piece : {p.x, p.a, p.b, p.qkvz, p.ba, p.residual, p.outer}) {
      if (piece.present()) inputs.push_back(piece);
    }
  }
  draw_inputs();
  draw_rows({shape.rows, 0});
}

int Scene::between(int low, int high) { return low + static_cast<int>(random_() % static_cast<std::uint64_t>(high - low + 1)); }

std::vector<int> Scene::permutation(int n) {
  std::vector<int> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random_);
  return order;
}

// Values from a table of a few thousand: quick enough for millions of elements.
void Scene::fill_run(std::byte* to, DType dtype, std::int64_t count, double low, double high) {
  constexpr std::size_t kValues = 4096;
  const auto size = static_cast<std::size_t>(size_of(dtype));
  std::vector<std::byte> values(kValues * size);
  std::uniform_real_distribution<double> uniform(low, high);
  for (std::size_t i = 0; i < kValues; ++i) support::encode(dtype, uniform(random_), values.data() + i * size);
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(to + static_cast<std::size_t>(i) * size, values.data() + random_() % kValues * size, size);
  }
}

void Scene::fill(const Piece& piece, double low, double high) {
  if (!piece.present()) return;
  if (!piece.paged) return fill_run(bytes.data() + piece.at, piece.view.dtype, piece.view.elements(), low, high);
  for (int b = 0; b < blocks; ++b) {
    fill_run(bytes.data() + pages_at + b * page_bytes + piece.at, piece.view.dtype, piece.view.stride[0], low, high);
  }
}

void Scene::draw_inputs() {
  for (const LayerPieces& p : layers) {
    for (const Piece& piece : {p.x, p.qkvz, p.residual, p.outer}) fill(piece, -1, 1);
    for (const Piece& piece : {p.a, p.b, p.ba}) fill(piece, -2, 2);
  }
}

Mix Scene::random_mix() {
  const int live = between(0, shape.rows);
  return {live, between(0, shape.rows - live), between(0, 1) == 1};
}

void Scene::draw_rows(const Mix& mix_) {
  if (mix_.live < 0 || mix_.null < 0 || mix_.live + mix_.null > shape.rows)
    throw std::logic_error("a mix of other rows than the scene has");
  mix = mix_;
  row_kinds.assign(static_cast<std::size_t>(shape.rows), 'e');
  std::fill_n(row_kinds.begin(), mix.live, 'l');
  std::fill_n(row_kinds.begin() + mix.live, mix.null, 'n');
  if (!mix.pads_last) std::shuffle(row_kinds.begin(), row_kinds.end(), random_);
  draw_windows();
  draw_lists();
  draw_plain();
}

void Scene::draw_windows() {
  const WindowPieces& w = windows;
  const int S = shape.S;
  const std::vector<int> request = permutation(shape.rows);
  std::int32_t at = between(0, 3);
  for (int i = 0; i < shape.rows; ++i) {
    const std::vector<int>& own = own_[static_cast<std::size_t>(i)];
    const char kind = row_kinds[static_cast<std::size_t>(i)];
    const bool live = kind == 'l';
    const int r = request[static_cast<std::size_t>(i)], length = kind == 'e' ? 0 : between(1, S);
    i32(w.offsets)[i] = at;
    at += length;
    const std::int32_t null = between(0, 1) == 0 ? 0 : -1;
    const std::int32_t stale[] = {kGarbage, own_[static_cast<std::size_t>(between(0, shape.rows - 1))][0], -7};
    i32(w.ids)[i] = live ? own[static_cast<std::size_t>(between(0, 2))] : kind == 'n' ? null : stale[between(0, 2)];
    i32(w.previous)[i] = live ? between(0, S) : kGarbage;
    i32(w.start_counts)[i] = kind == 'e' ? kGarbage : between(0, S);
    i32(w.request_index)[i] = r;
    i32(w.accepted)[r] = live ? between(0, S + 1) : kGarbage;
    i32(w.num_computed)[r] = live ? between(0, std::max(2 * shape.block_size - 1, 0)) : -5;
    for (int j = 0; j < 3; ++j) {
      i32(w.table)[3 * r + j] = !live ? kGarbage : between(0, 9) == 0 ? 0 : own[static_cast<std::size_t>(j)];
    }
    const int start = std::max(i32(w.start_counts)[i] - 1, 0);
    for (int j = 0; j < S; ++j) {
      const bool given = live && (j == start || between(0, 5) > 0) && static_cast<std::size_t>(j) < own.size();
      const std::int32_t column = given ? own[static_cast<std::size_t>(j)] : null;
      i32(w.snapshot_ids)[i * S + j] = kind == 'e' ? kGarbage : column;
    }
  }
  i32(w.offsets)[shape.rows] = at;
}

void Scene::draw_lists() {
  const WindowPieces& w = windows;
  for (int i = 0; i < shape.rows; ++i) {
    const std::vector<int>& own = own_[static_cast<std::size_t>(i)];
    const bool live = row_kinds[static_cast<std::size_t>(i)] == 'l';
    i32(w.move_from)[i] = live ? own[0] : 0;
    i32(w.move_to)[i] = live ? own[between(0, 3) == 0 ? 0 : 1] : own[1];
    i32(w.list)[i] = live ? own[static_cast<std::size_t>(between(0, 2))] : -1;
    i32(w.list_counts)[i] = live ? between(0, shape.S) : kGarbage;
  }
}

void Scene::draw_plain() {
  const int P = shape.plain_rows;
  const int unused = std::min(2, shape.plain_tokens / 4);  // before the first row or behind the last one
  int left = shape.plain_tokens - unused;
  std::int32_t at = between(0, unused);
  for (int i = 0; i < P; ++i) {
    const int length = i + 1 == P ? left : std::min(left, between(0, std::max(left - 2 * (P - i), 1)));
    left -= length;
    i32(plain.offsets)[i] = at;
    at += length;
    i32(plain.ids)[i] = between(0, 7) == 0 ? 0 : plain_own_[static_cast<std::size_t>(i)];
    *(bytes.data() + plain.initial.at + i) = static_cast<std::byte>(between(0, 2) > 0 ? 1 : 0);
    i32(plain.previous)[i] = between(0, shape.S);
  }
  if (P > 0) i32(plain.offsets)[P] = at;
  // Both parts' tokens in one numbering of global rows.
  const std::vector<int> order = permutation(tokens());
  for (int t = 0; t < window_tokens(); ++t) i32(windows.token_index)[t] = order[static_cast<std::size_t>(t)];
  for (int t = 0; t < shape.plain_tokens; ++t) i32(plain.token_index)[t] = order[static_cast<std::size_t>(window_tokens() + t)];
}

std::string Scene::where(std::int64_t byte) const {
  const bool paged = byte >= pages_at;
  const std::int64_t at = paged ? (byte - pages_at) % page_bytes : byte;
  for (const Piece& piece : all) {
    const std::int64_t size = (paged ? piece.view.stride[0] : piece.view.elements()) * size_of(piece.view.dtype);
    if (piece.paged != paged || at < piece.at || at >= piece.at + size) continue;
    return piece.name + (paged ? " of block " + std::to_string((byte - pages_at) / page_bytes) : "") + ", element " +
           std::to_string((at - piece.at) / size_of(piece.view.dtype));
  }
  return "a gap between tensors, byte " + std::to_string(byte);
}

}  // namespace device_test
