// Rows and ids: padding, empty rows, ids past the pool, ragged windows. Each kind is tried on every operation
// that runs rows (scene.h).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reports/scene.h"
#include "support/conv.h"

namespace {

using namespace reports;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int kMaxId = std::numeric_limits<int>::max();

void fill_tokens(const Scene& s, const RowSet& rows, int i, double value) {
  for (int t = rows.first(i); t < rows.first(i) + rows.length(i); ++t) {
    const auto fill = [&](const Tensor& tensor, int at) {
      Tensor part = tensor;
      part.view = slice(tensor, 0, at);
      part.fill(value);
    };
    if (!is_rule(s.op)) {
      fill(s.x, rows.global(t));
      continue;
    }
    for (const Tensor* tensor : {&s.tokens.q, &s.tokens.k, &s.tokens.v, &s.tokens.a, &s.tokens.b}) fill(*tensor, t);
  }
}

// Runs the rows with blocks at and below the null id full of `poison`, and with null rows whose inputs are NaN; then with zeros in
// both places. Live rows see no difference, null rows give zero, nothing else changes.
void padding_is_harmless(Pick& pick, Op op, const RowSet& rows, double poison) {
  const Scene scene = random_scene(pick, op, rows);
  const Scene clean = another_scene(pick, scene);
  for (int b = 0; b <= rows.null_id; ++b) {
    poison_block(scene, b, poison);
    poison_block(clean, b, 0);
  }
  Untouched untouched(scene.watches());
  for (int i = 0; i < rows.rows(); ++i) {
    for (int t = 0; t < rows.length(i); ++t) untouched.except(slice(scene.out, 0, rows.global(rows.first(i) + t)));
    for (const int b : blocks_of(rows, i)) {
      for (const Tensor& part : scene.pools()) untouched.except(slice(part, 0, b));
    }
    if (rows.null(i)) fill_tokens(scene, rows, i, 0);
  }
  run_scene(pick, clean, rows);
  for (int i = 0; i < rows.rows(); ++i) {
    if (rows.null(i)) fill_tokens(scene, rows, i, std::nan(""));
  }
  run_scene(pick, scene, rows);
  require(untouched.check(), name_of(op));
  for (int i = 0; i < rows.rows(); ++i) {
    for (int t = 0; t < rows.length(i) && rows.null(i); ++t) {
      require(all_zero_bits(slice(scene.out, 0, rows.global(rows.first(i) + t))), std::string(name_of(op)) + ": null row");
    }
    if (rows.live(i)) same_row(scene, rows, i, clean, rows, i, name_of(op));
  }
}

// Refused with this kind, and nothing has changed.
void refused(Pick& pick, const Scene& scene, const RowSet& rows, ErrorKind kind, const std::string& mentions) {
  const Untouched untouched(scene.watches());
  const recoverssm::Status status = try_scene(pick, scene, rows);
  EXPECT_EQ(recoverssm::name_of(status.kind), recoverssm::name_of(kind)) << name_of(scene.op) << " " << status.message;
  EXPECT_NE(status.message.find(mentions), std::string::npos) << status.message << " lacks " << mentions;
  EXPECT_TRUE(untouched.check()) << name_of(scene.op);
}

// Every live row of the call is the row run alone on the same pools.
void rows_stand_alone(Pick& pick, Op op, const RowSet& rows) {
  const Scene scene = random_scene(pick, op, rows);
  const Scene start = another_scene(pick, scene);
  run_scene(pick, scene, rows);
  for (int i = 0; i < rows.rows(); ++i) {
    if (!rows.live(i)) continue;
    const Scene alone = another_scene(pick, start);
    const RowSet one = only_row(rows, i);
    run_scene(pick, alone, one);
    same_row(scene, rows, i, alone, one, 0, std::string(name_of(op)) + " row " + std::to_string(i));
  }
}

TEST(Reports, B07_null_block_id_is_an_argument) {
  for (const Op op : kOps) {
    Pick pick(7);
    // null 0: idx = [5,7,0,0], slot 0 full of NaN; the third row is a live row's length on the null id: a null row too.
    padding_is_harmless(pick, op, scene_rows(op, {5, 7, 0, 0}, {3, 2, 1, 3}), std::nan(""));
    // null -1: block 0 is a block like any other: the same as block 1 with the same contents under null 0.
    const RowSet zero = scene_rows(op, {0, 2}, {3, 1}, -1), one = scene_rows(op, {1, 2}, {3, 1}, 0);
    const Scene a = random_scene(pick, op, zero.pool_blocks > one.pool_blocks ? zero : one);
    for (const Tensor& part : a.pools()) copy_bits(slice(part, 0, 0), slice(part, 0, 1));
    const Scene b = another_scene(pick, a);
    run_scene(pick, a, zero);
    run_scene(pick, b, one);
    same_row(a, zero, 0, b, one, 0, name_of(op));
    EXPECT_FALSE(all_zero_bits(slice(a.out, 0, 0))) << name_of(op);
  }
}

TEST(Reports, B07_null_rows_of_any_call) {
  property(25, [](Pick& pick) {
    for (const Op op : kOps) padding_is_harmless(pick, op, random_scene_rows(pick, op, {.max_rows = 6}), std::nan(""));
  });
}

// A pad id clamped to 0, folded by a modulo (6947 mod 26 = 5) or mapped to the last row hits a live slot.
TEST(Reports, B09_pad_ids_are_never_folded) {
  for (const Op op : kOps) {
    Pick pick(9);
    // a: slot 0 is live under null -1 and moves exactly once, by row 0.
    const RowSet padded = scene_rows(op, {0, -1, -1}, {2, 2, 2}, -1);
    const Scene scene = random_scene(pick, op, padded), alone = another_scene(pick, scene);
    run_scene(pick, scene, padded);
    const RowSet one = only_row(padded, 0);
    run_scene(pick, alone, one);
    same_row(scene, padded, 0, alone, one, 0, name_of(op));
    // b, c, and every id near a multiple of the pool's size: refused wherever it stands.
    RowSet pool_of_26 = scene_rows(op, {5, 25}, {1, 1});
    for (const int id : {26, 27, 31, 51, 52, 53, 78, 6947, 1 << 16, 1 << 24, kMaxId - 1, kMaxId}) {
      for (const int at : {0, 1}) {
        RowSet rows = pool_of_26;
        rows.blocks[static_cast<std::size_t>(at)] = id;
        Scene s = random_scene(pick, op, rows);
        for (Tensor* part : {&s.line, &s.pool.state, &s.pool.packed, &s.pool.corrections, &s.pool.key_gate, &s.pool.pending}) {
          if (part->present()) part->view.shape[0] = std::min<std::int64_t>(part->view.shape[0], 26);
        }
        if (rows.snapshots) {
          for (auto& columns : rows.columns) std::fill(columns.begin(), columns.end(), 0);
          rows.columns[static_cast<std::size_t>(at)][0] = id;
          rows.columns[static_cast<std::size_t>(1 - at)][0] = 5;
        }
        refused(pick, s, rows, ErrorKind::out_of_range, std::to_string(id));
      }
    }
  }
}

// The same for the operations that take plans and lists of blocks.
TEST(Reports, B09_ids_past_the_pool_in_commit_and_moves) {
  Model m(9, kSmall);
  const RulePool pool = m.pool(26, 3);
  for (const int id : {26, 27, 52, 6947, kMaxId}) {
    const Untouched untouched(pool.watches());
    for (int field = 0; field < 3; ++field) {
      PlanArrays plan;
      plan.add(1, 2);
      plan.add(field == 0 ? id : 2, 2, field == 1 ? id : 3, field == 2 ? id : kNoBlock, 1);
      EXPECT_EQ(m.try_commit(plan, pool).kind, ErrorKind::out_of_range) << "field " << field << " id " << id;
    }
    EXPECT_EQ(m.try_materialize({3, id}, {1, 1}, pool).kind, ErrorKind::out_of_range);
    for (const bool from : {false, true}) {
      const Tensor a = dense_i32({from ? id : 4}), b = dense_i32({from ? 4 : id});
      const std::array layers = {layer_of(m.shape, m.weights, pool, true)};
      EXPECT_EQ(try_run(recoverssm::AlignMoveParams{a, b, layers, 0}).kind, ErrorKind::out_of_range);
    }
    EXPECT_TRUE(untouched.check());
  }
}

// Skipped rows give zeros over an uninitialised buffer, and their records stay: idx = [-1, 2], x of row 0 NaN, out NaN.
TEST(Reports, B10_skipped_rows_give_zeros) {
  for (const Op op : kOps) {
    Pick pick(10);
    padding_is_harmless(pick, op, scene_rows(op, {-1, 2}, {2, 2}), 0);
    padding_is_harmless(pick, op, scene_rows(op, {-1, 2}, {2, 2}, -1), 0);
  }
  property(25, [](Pick& pick) {
    for (const Op op : kOps) {
      RowSet rows = scene_rows(op, {1, 2, 3, 4}, {2, 1, 3, 2});
      const int dead = pick.between(0, 3);
      rows.blocks[static_cast<std::size_t>(dead)] = -pick.between(0, 9);
      if (rows.snapshots) rows.columns[static_cast<std::size_t>(dead)].assign(kCapacity, rows.block(dead));
      padding_is_harmless(pick, op, rows, kInf);
    }
  });
}

// Lengths come from the offsets, never from the width of the index table: a row equals the same row under a table as wide as it is long.
void ragged_windows(Pick& pick, Gate gate, int S, const std::vector<int>& lengths) {
  RuleShape shape = kSmall;
  shape.gate = gate;
  Model m(pick.bits(), shape);
  const int N = static_cast<int>(lengths.size());
  std::vector<std::vector<int>> columns;
  std::vector<int> ids;
  for (int i = 0; i < N; ++i) {
    columns.emplace_back();
    for (int t = 0; t < S; ++t) columns.back().push_back(1 + i * S + t);
    ids.push_back(1 + i * S);
  }
  const RowSet snapshots = snapshot_rows(columns, lengths, std::vector<int>(lengths.size(), 1)), windows = rows_on(ids, lengths, S);
  const RuleTokens tokens = m.tokens(windows.tokens);
  const RulePool start = m.pool(1 + N * S, S), pool = m.copy(start), verify_pool = m.copy(start);
  const Tensor out = m.out(windows.tokens), verify_out = m.out(windows.tokens);
  Untouched untouched(pool.watches()), verify_untouched(verify_pool.watches());
  for (int i = 0; i < N; ++i) {
    const int n = lengths[static_cast<std::size_t>(i)];
    for (int t = 0; t < n; ++t)
      untouched.except(slice(pool.state, 0, columns[static_cast<std::size_t>(i)][static_cast<std::size_t>(t)]));
    for (const TensorView& part : verify_pool.record_slices(ids[static_cast<std::size_t>(i)], 0, n)) verify_untouched.except(part);
  }
  m.snapshots(snapshots, tokens, pool, out);
  m.verify(windows, tokens, verify_pool, verify_out);
  require(untouched.check(), "snapshots: columns past a row's length");
  require(verify_untouched.check(), "verify: records past a row's length");
  for (int i = 0; i < N; ++i) {
    const int n = lengths[static_cast<std::size_t>(i)];
    if (n == 0) continue;
    const auto u = static_cast<std::size_t>(i);
    const RuleTokens own = m.some(tokens, windows.first(i), windows.first(i) + n);
    const RulePool narrow = m.copy(start);
    const Tensor alone = m.out(n);
    m.snapshots(snapshot_rows({{columns[u].begin(), columns[u].begin() + n}}, {n}, {1}), own, narrow, alone);
    for (const Tensor* o : {&out, &verify_out}) {
      require(same_bits(slice(*o, 0, windows.first(i), windows.first(i) + n), alone), "row " + std::to_string(i));
    }
    for (int t = 0; t < n; ++t) {
      const int block = columns[u][static_cast<std::size_t>(t)];
      require(same_bits(slice(pool.state, 0, block), slice(narrow.state, 0, block)), "state after token " + std::to_string(t));
    }
  }
}

TEST(Reports, B14_lengths_come_from_offsets) {
  Pick pick(14);
  for (const Gate gate : {Gate::gdn, Gate::kda}) {
    ragged_windows(pick, gate, 4, {4, 2, 3});  // spec_qsl = [0,4,6,9], idx [3,4]
    ragged_windows(pick, gate, 4, {2, 4, 3});
  }
  property(30, [](Pick& p) {
    const int S = p.between(1, 9);
    std::vector<int> lengths;
    for (int i = p.between(1, 4); i > 0; --i) lengths.push_back(p.between(0, S));
    if (std::count(lengths.begin(), lengths.end(), 0) == static_cast<std::ptrdiff_t>(lengths.size())) lengths[0] = S;
    ragged_windows(p, p.one_of({Gate::gdn, Gate::kda}), S, lengths);
  });
}

// In a convolution: positions behind a short row's inputs stay, and the row equals the row run alone under S = its length.
TEST(Reports, B14_convolutions_of_uneven_lengths) {
  property(40, [](Pick& pick) {
    const int S = pick.between(2, 6);
    ConvShape shape = random_conv_shape(pick, S);
    shape.in_place = false;
    const std::vector<int> lengths = pick.chance(30) ? std::vector{std::min(S, 4), 2, std::min(S, 3)}
                                                     : std::vector{pick.between(1, S), pick.between(1, S), pick.between(1, S)};
    const RowSet rows = rows_on({1, 2, 3}, lengths, S);
    const ConvWeights weights = random_conv_weights(pick, shape);
    const ConvData start = random_conv_data(pick, shape, rows);
    const ConvData wide = run_conv(pick, shape, weights, rows, start, random_how(pick));
    const int first_input = shape.kind == LineKind::anchored ? shape.W - 1 : shape.W - 2;
    for (int i = 0; i < 3; ++i) {
      ConvShape narrow_shape = shape;
      RowSet one = only_row(rows, i);
      narrow_shape.S = one.capacity = rows.length(i);
      const ConvData narrow = run_conv(pick, narrow_shape, weights, one, start, random_how(pick));
      require(same_bits(slice(wide.line, 0, i + 1), slice(narrow.line, 0, i + 1)), "line");
      require(same_bits(slice(wide.out, 0, rows.first(i), rows.first(i) + rows.length(i)),
                        slice(narrow.out, 0, rows.first(i), rows.first(i) + rows.length(i))),
              "out");
      const int behind = first_input + rows.length(i);
      require(same_bits(slice(slice(wide.line, 0, i + 1), 1, behind, shape.columns),
                        slice(slice(start.line, 0, i + 1), 1, behind, shape.columns)),
              "positions behind the inputs");
    }
  });
}

// Rows of no tokens keep their blocks, and their stale ids are not read.
TEST(Reports, B17_rows_without_tokens) {
  for (const Op op : kOps) {
    Pick pick(17);
    rows_stand_alone(pick, op, scene_rows(op, {3, 9999, 1}, {2, 0, 3}));  // a: qsl = [0,2,2,5]
    padding_is_harmless(pick, op, scene_rows(op, {3, 9999, 1}, {2, 0, 3}), 0);
    padding_is_harmless(pick, op, scene_rows(op, {9999}, {0}), 0);           // b: qsl = [0,0]
    padding_is_harmless(pick, op, scene_rows(op, {}, {}), 0);                // c: B = 0
    padding_is_harmless(pick, op, scene_rows(op, {3, 9, 9}, {1, 0, 0}), 0);  // d: stale ids, also twice
  }
  // Rows without tokens among any others change nothing: a call without them gives the same bits.
  property(25, [](Pick& pick) {
    for (const Op op : kOps) {
      const RowSet rows = random_scene_rows(pick, op, {.min_rows = 1, .empties = false});
      RowSet longer = rows;
      for (int n = pick.between(1, 3); n > 0; --n) {
        const int at = pick.between(0, longer.rows());
        const auto u = static_cast<std::size_t>(at);
        longer.offsets.insert(longer.offsets.begin() + at, longer.offsets[u]);
        longer.blocks.insert(longer.blocks.begin() + at, pick.one_of({9999, 1, -77, kMaxId}));
        if (!rows.initial.empty()) longer.initial.insert(longer.initial.begin() + at, 0);
        if (rows.counted) longer.accepted.insert(longer.accepted.begin() + at, 9999);
        if (rows.snapshots) longer.columns.insert(longer.columns.begin() + at, std::vector<int>(kCapacity, 9999));
      }
      const Scene a = random_scene(pick, op, rows), b = another_scene(pick, a);
      run_scene(pick, a, rows);
      run_scene(pick, b, longer);
      require(same_bits(a.out, b.out), name_of(op));
      for (std::size_t p = 0; p < a.pools().size(); ++p) require(same_bits(a.pools()[p], b.pools()[p]), name_of(op));
    }
  });
}

// No rows at all and null data pointers: success, nothing read.
TEST(Reports, B17_empty_calls_take_null_pointers) {
  Model m(17, kSmall);
  const RulePool pool = m.pool(3, 3);
  std::int32_t zeros[2] = {0, 0}, stale = 9;
  for (const std::int64_t n : {0, 1}) {
    recoverssm::GatedDeltaRuleVerifyParams p;
    p.inputs = inputs_of(kSmall, m.weights, m.tokens(1));
    p.inputs.q = p.inputs.k = TensorView(nullptr, DType::f32, {0, 1, 16});
    p.inputs.v = p.out = TensorView(nullptr, DType::f32, {0, 2, 8});
    p.inputs.a = p.inputs.b = TensorView(nullptr, DType::f32, {0, 2});
    p.state = pool.state;
    p.records = pool.records();
    p.rows.query_start_loc = TensorView(zeros, DType::i32, {n + 1});
    p.rows.state_indices = TensorView(n == 0 ? nullptr : &stale, DType::i32, {n});
    p.rows.window_capacity = 3;
    const Untouched untouched(pool.watches());
    const recoverssm::Status status = try_run(p);
    EXPECT_TRUE(status.ok()) << status.message;
    EXPECT_TRUE(untouched.check());
  }
  PlanArrays none;
  EXPECT_TRUE(m.try_commit(none, pool).ok());
  EXPECT_TRUE(m.try_materialize({}, {}, pool).ok());
}

// Without graphs: the null slot holds NaN and Inf, live rows give the bits they give beside a zeroed one.
TEST(Reports, B29_null_slot_full_of_nan_and_inf) {
  for (const Op op : kOps) {
    Pick pick(29);
    for (const double poison : {std::nan(""), kInf, -kInf}) {
      padding_is_harmless(pick, op, scene_rows(op, {3, 0, 0}, {2, 1, 2}), poison);
      padding_is_harmless(pick, op, scene_rows(op, {3, 2, 1, 4}, {2, 1, 2, 1}, 2), poison);  // blocks 0..2 are null
    }
  }
}

}  // namespace
