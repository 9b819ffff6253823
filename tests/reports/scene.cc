#include "reports/scene.h"

#include <algorithm>

#include "recoverssm/conv.hpp"
#include "recoverssm/short_conv.hpp"

namespace reports {

namespace {

constexpr int kTaps = 4, kChannels = 9, kDilation = 2, kShortTaps = 3, kStale = 9999;

bool is_kda(Op op) { return op == Op::kda_rule || op == Op::kda_snapshots || op == Op::kda_verify; }
bool is_short(Op op) { return op == Op::short_conv || op == Op::short_window; }
bool is_verify(Op op) { return op == Op::verify || op == Op::kda_verify || op == Op::lazy_verify; }
bool is_plain_rule(Op op) { return op == Op::rule || op == Op::kda_rule; }

LineKind line_kind(Op op) {
  if (op == Op::short_conv) return LineKind::plain;
  return op == Op::anchored_window ? LineKind::anchored : LineKind::rolled;
}

int history(Op op) { return is_short(op) ? (kShortTaps - 1) * kDilation : kTaps - 1; }

void fill_normal(Pick& pick, const Tensor& tensor, double size = 1.0) {
  for_each(tensor, [&](const Index& i) { tensor.set_at(pick.normal() * size, i); });
}

// Each row gets S blocks of its own, the start block where its count points.
void add_columns(RowSet& rows) {
  rows.snapshots = rows.counted = true;
  rows.accepted.resize(rows.blocks.size(), 1);
  rows.columns.clear();
  int next = rows.pool_blocks;
  for (int i = 0; i < rows.rows(); ++i) {
    const auto u = static_cast<std::size_t>(i);
    if (!rows.live(i)) {
      rows.columns.emplace_back(static_cast<std::size_t>(rows.capacity), rows.block(i));
      if (rows.null(i)) rows.accepted[u] = 1;
      continue;
    }
    std::vector<int> columns;
    for (int t = 0; t < rows.capacity; ++t) columns.push_back(next++);
    columns[static_cast<std::size_t>(std::max(rows.count(i) - 1, 0))] = rows.block(i);
    rows.columns.push_back(columns);
  }
  rows.pool_blocks = next;
}

template <class Params>
Params conv_params(const Scene& s, const recoverssm::Rows& rows) {
  Params p;
  p.x = s.x;
  p.weight = s.weight;
  p.out = s.out;
  p.line = s.line;
  p.line_kind = line_kind(s.op);
  p.rows = rows;
  return p;
}

}  // namespace

const char* name_of(Op op) {
  constexpr const char* kNames[] = {"conv",       "rolled window", "anchored window", "rule",
                                    "kda rule",   "snapshots",     "kda snapshots",   "verify",
                                    "kda verify", "lazy verify",   "short conv",      "short window"};
  return kNames[static_cast<int>(op)];
}

bool is_snapshots(Op op) { return op == Op::snapshots || op == Op::kda_snapshots; }
bool is_rule(Op op) { return is_plain_rule(op) || is_verify(op) || is_snapshots(op); }
bool is_window(Op op) {
  return is_verify(op) || is_snapshots(op) || op == Op::rolled_window || op == Op::anchored_window || op == Op::short_window;
}
bool is_counted(Op op) { return is_window(op) && (!is_verify(op) || op == Op::lazy_verify); }

RowSet random_scene_rows(Pick& pick, Op op, RowOptions options) {
  options.capacity = is_window(op) ? kCapacity : 0;
  options.accepted = is_counted(op);
  options.initial = !is_window(op);
  RowSet rows = random_rows(pick, options);
  if (is_snapshots(op)) add_columns(rows);
  return rows;
}

RowSet scene_rows(Op op, const std::vector<int>& blocks, const std::vector<int>& lengths, int null_id) {
  RowSet rows;
  rows.capacity = is_window(op) ? kCapacity : 0;
  rows.null_id = null_id;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    rows.add(lengths[i], blocks[i]);
    if (lengths[i] > 0) rows.pool_blocks = std::max(rows.pool_blocks, blocks[i] + 1);
  }
  rows.pool_blocks = std::max(rows.pool_blocks, null_id + 2);
  rows.tokens = rows.global_rows = rows.offsets.back();
  rows.counted = is_counted(op);
  if (rows.counted) rows.accepted.assign(blocks.size(), 1);
  if (is_snapshots(op)) add_columns(rows);
  return rows;
}

std::vector<Tensor> Scene::pools() const {
  if (!is_rule(op)) return {line};
  std::vector<Tensor> parts = {pool.state};
  for (const Tensor& part : {pool.packed, pool.corrections, pool.key_gate, pool.pending}) {
    if (part.present() && part.view.dims > 0) parts.push_back(part);
  }
  return parts;
}

std::vector<Untouched::Watch> Scene::watches() const {
  std::vector<Untouched::Watch> list = {{"out", out}};
  for (const Tensor& part : pools()) list.push_back({"pool", part});
  return list;
}

Scene random_scene(Pick& pick, Op op, const RowSet& rows) {
  Scene s;
  s.op = op;
  const DType T = pick.one_of({DType::f32, DType::bf16, DType::f16});
  if (!is_rule(op)) {
    const int columns = history(op) + (is_window(op) ? kCapacity : 0);
    s.x = strided(pick, T, {rows.global_rows, kChannels}, 1);
    s.weight = strided(pick, T, {kChannels, is_short(op) ? kShortTaps : kTaps}, 0);
    s.line = strided(pick, T, {rows.pool_blocks, columns, kChannels}, 0);
    s.out = strided(pick, T, {rows.global_rows, kChannels}, 1);
    for (const Tensor& t : {s.x, s.weight, s.line}) fill_normal(pick, t);
    return s;
  }
  s.shape = {.gate = is_kda(op) ? Gate::kda : Gate::gdn, .H = 1, .HV = 2, .K = 20, .V = 6, .T = T};
  s.shape.state = pick.one_of({DType::f32, DType::bf16, DType::f16});
  s.shape.out = pick.one_of({DType::f32, T});
  s.weights = random_weights(pick, s.shape);
  s.tokens = random_tokens(pick, s.shape, rows.tokens);
  s.pool = random_pool(pick, s.shape, rows.pool_blocks, is_verify(op) ? kCapacity : 0);
  if (op == Op::lazy_verify) {  // windows that wait: records of size 1 or less, between 0 and S of them
    fill_normal(pick, s.pool.packed, 0.3);
    for (int b = 0; b < rows.pool_blocks; ++b) s.pool.pending.set(pick.between(0, kCapacity), b);
  }
  s.out = random_out(pick, s.shape, rows.global_rows);
  return s;
}

Scene another_scene(Pick& pick, const Scene& scene) {
  Scene s = scene;
  if (is_rule(s.op)) {
    s.pool = another_pool(pick, scene.pool);
    s.out = random_out(pick, s.shape, static_cast<int>(scene.out.view.shape[0]));
    copy_bits(scene.out, s.out);
  } else {
    s.line = another_layout(pick, scene.line, 0);
    s.out = another_layout(pick, scene.out, 1);
  }
  return s;
}

recoverssm::Status try_scene(Pick& pick, const Scene& s, const RowSet& set, const EditRows& edit) {
  const RowTensors index = row_tensors(pick, set);
  recoverssm::Rows rows = rows_of(set, index);
  if (edit) edit(rows);
  const How how = random_how(pick);
  if (s.op == Op::conv) return try_run(conv_params<recoverssm::CausalConv1dParams>(s, rows), how);
  if (s.op == Op::rolled_window || s.op == Op::anchored_window) {
    return try_run(conv_params<recoverssm::CausalConv1dWindowParams>(s, rows), how);
  }
  if (is_short(s.op)) {
    return try_run(recoverssm::ShortConvParams{s.x, s.weight, kDilation, s.out, {}, s.line, line_kind(s.op), rows}, how);
  }
  const recoverssm::RuleInputs inputs = inputs_of(s.shape, s.weights, s.tokens);
  if (is_plain_rule(s.op)) return try_run(recoverssm::GatedDeltaRuleParams{inputs, s.pool.state, s.out, rows, {}, {}}, how);
  if (is_snapshots(s.op)) return try_run(recoverssm::GatedDeltaRuleSnapshotsParams{inputs, s.pool.state, s.out, rows}, how);
  recoverssm::GatedDeltaRuleVerifyParams p{inputs, s.pool.state, s.out, s.pool.records(), rows, {}};
  if (s.op == Op::lazy_verify) p.pending = s.pool.pending;
  return try_run(p, how);
}

void run_scene(Pick& pick, const Scene& scene, const RowSet& rows, const EditRows& edit) {
  const recoverssm::Status status = try_scene(pick, scene, rows, edit);
  require(status.ok(), std::string(name_of(scene.op)) + ": " + status.message);
}

std::vector<int> blocks_of(const RowSet& rows, int i) {
  if (!rows.live(i)) return {};
  std::vector<int> blocks = {rows.block(i)};
  for (int t = 0; rows.snapshots && t < rows.length(i); ++t) {
    blocks.push_back(rows.columns[static_cast<std::size_t>(i)][static_cast<std::size_t>(t)]);
  }
  return blocks;
}

void poison_block(const Scene& scene, int id, double value) {
  for (const Tensor& part : scene.pools()) {
    if (id < 0 || id >= part.view.shape[0]) continue;
    Tensor block = part;
    block.view = slice(part, 0, id);
    if (block.dtype() == DType::i32) {
      block.fill(77);  // pending: an impossible count
    } else {
      block.fill(value);
    }
  }
}

void same_row(const Scene& a, const RowSet& rows_a, int i, const Scene& b, const RowSet& rows_b, int j, const std::string& what) {
  for (int t = 0; t < rows_a.length(i); ++t) {
    require(same_bits(slice(a.out, 0, rows_a.global(rows_a.first(i) + t)), slice(b.out, 0, rows_b.global(rows_b.first(j) + t))),
            what + ": output of token " + std::to_string(t));
  }
  const std::vector<int> mine = blocks_of(rows_a, i), theirs = blocks_of(rows_b, j);
  require(mine.size() == theirs.size(), what);
  const std::vector<Tensor> parts_a = a.pools(), parts_b = b.pools();
  for (std::size_t p = 0; p < parts_a.size(); ++p) {
    for (std::size_t n = 0; n < mine.size(); ++n) {
      require(same_bits(slice(parts_a[p], 0, mine[n]), slice(parts_b[p], 0, theirs[n])), what + ": block");
    }
  }
}

}  // namespace reports
