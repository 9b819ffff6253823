// Steps: what one operation leaves, the next one takes over. Verify against single updates, replay at commit, window sizes, nothing kept,
// stray commits, copies of blocks with waiting records.
#include <gtest/gtest.h>

#include <cmath>

#include "reports/calls.h"
#include "support/conv.h"
#include "support/convert.h"

namespace {

using namespace reports;

constexpr Gate kGates[] = {Gate::gdn, Gate::kda};

// ---- B03: a step without drafts -----------------------------------------------------------------------------------------------------

// Steps of a row on columns 4, 5, 6, ...: each starts behind what the step before kept, also where it has no drafts (a window of one,
// or a plain convolution with the count). States and outputs are those of the kept tokens one by one.
void steps_with_and_without_drafts(Pick& pick, int S, const std::vector<std::array<int, 2>>& steps) {
  Model m(pick.bits(), {.gate = pick.one_of({Gate::gdn, Gate::kda}), .H = 1, .HV = 2, .K = 12, .V = 5});
  std::vector<int> columns;
  for (int t = 0; t < S; ++t) columns.push_back(4 + t);
  const RulePool pool = m.pool(4 + S, 0), single = m.copy(pool);
  ConvShape conv;
  conv.C = 5;
  conv.S = S;
  conv.columns = conv.W - 1 + S;
  ConvShape plain = conv;
  plain.S = 0;
  const ConvWeights weights = random_conv_weights(pick, conv);
  const Tensor line = random_conv_data(pick, conv, rows_on({4}, {1}, S)).line, single_line = another_layout(pick, line, 0);
  int kept = 1;
  for (const auto& [length, accepted] : steps) {
    const RuleTokens tokens = m.tokens(length);
    const Tensor out = m.out(length);
    m.snapshots(snapshot_rows({columns}, {length}, {kept}), tokens, pool, out);
    RowSet rows = rows_on({4}, {length}, S);
    rows.counted = true;
    rows.accepted = {kept};
    ConvData data = random_conv_data(pick, conv, rows);
    data.line = line;
    const bool as_plain = length == 1 && pick.chance(50);  // afterwards the history stands in front: the count is 1
    if (as_plain) rows.capacity = 0;
    require(try_conv(pick, as_plain ? plain : conv, weights, rows, data, {}).ok(), "convolution");
    for (int t = 0; t < accepted; ++t) {
      const Tensor one = m.out(1);
      m.plain(rows_on({4}, {1}, 0), m.some(tokens, t, t + 1), single, one);
      require(same_bits(slice(out, 0, t, t + 1), one), "output of token " + std::to_string(t));
      ConvData token = random_conv_data(pick, plain, rows_on({4}, {1}, 0));
      token.line = single_line;
      copy_bits(slice(data.x, 0, t, t + 1), token.x);
      require(try_conv(pick, plain, weights, rows_on({4}, {1}, 0), token, {}).ok(), "plain convolution");
      require(same_bits(slice(data.out, 0, t, t + 1), token.out), "convolution of token " + std::to_string(t));
    }
    require(same_bits(slice(pool.state, 0, 3 + accepted), slice(single.state, 0, 4)), "state");
    kept = accepted;
  }
}

TEST(Reports, B03_steps_without_drafts_keep_the_count) {
  Pick pick(3);
  for (int variant = 0; variant < 4; ++variant) steps_with_and_without_drafts(pick, 3, {{3, 3}, {1, 1}, {2, 1}});
  property(40, [](Pick& p) {
    const int S = p.between(1, 5);
    std::vector<std::array<int, 2>> steps;
    for (int n = p.between(2, 6); n > 0; --n) {
      const int length = p.chance(40) ? 1 : p.between(1, S);
      steps.push_back({length, p.between(1, length)});
    }
    steps_with_and_without_drafts(p, S, steps);
  });
}

// ---- B38: one state layout ----------------------------------------------------------------------------------------------------------

enum class Way { plain, snapshots, eager, lazy, kCount };

// Runs the tokens on block 1 of a pool of S + 2 blocks; its state is the one after the last token.
void advance(Model& m, Way way, const RuleTokens& tokens, const RulePool& pool, const Tensor& out) {
  const int n = tokens.count;
  if (way == Way::plain) {
    m.plain(one_row(n, 0), tokens, pool, out);
  } else if (way == Way::snapshots) {
    std::vector<int> columns;
    for (int t = 1; t < n; ++t) columns.push_back(1 + t);
    columns.push_back(1);  // starts from and ends in block 1
    m.snapshots(snapshot_rows({columns}, {n}, {n}), tokens, pool, out);
  } else if (way == Way::eager) {
    m.verify(one_row(n, pool.capacity), tokens, pool, out);
    m.commit(1, n, pool);
  } else {
    RowSet rows = one_row(n, pool.capacity);
    rows.counted = true;
    rows.accepted = {0};
    require(m.try_verify(rows, tokens, pool, out, true).ok(), "lazy verify");
    require(m.try_materialize({1}, {n}, pool).ok(), "materialize");
  }
}

TEST(Reports, B38_every_operation_has_one_state_layout) {
  for (const Gate gate : kGates) {
    for (const auto& [K, V] : {std::pair{64, 128}, std::pair{8, 8}}) {
      Model m(38, {.gate = gate, .H = 1, .HV = 2, .K = K, .V = V});
      const RuleTokens tokens = m.tokens(8);
      const RulePool start = m.pool(10, 8);
      if (K == V)
        for_each(start.state, [&](const Index& i) { start.state.set_at(static_cast<double>(i[2] + 100 * i[3]) / 100, i); });
      const RulePool whole = m.copy(start);
      const Tensor expected = m.out(8);
      m.plain(one_row(8, 0), tokens, whole, expected);
      for (int first = 0; first < static_cast<int>(Way::kCount); ++first) {
        for (int second = 0; second < static_cast<int>(Way::kCount); ++second) {
          for (const int split : K == V ? std::vector{1, 2, 3, 4, 5, 6, 7} : std::vector{5}) {
            const RulePool pool = m.copy(start);
            const Tensor head = m.out(split), tail = m.out(8 - split);
            advance(m, static_cast<Way>(first), m.some(tokens, 0, split), pool, head);
            advance(m, static_cast<Way>(second), m.some(tokens, split, 8), pool, tail);
            const std::string what = std::to_string(first) + " then " + std::to_string(second) + " at " + std::to_string(split);
            EXPECT_TRUE(same_bits(slice(expected, 0, 0, split), head)) << what;
            EXPECT_TRUE(same_bits(slice(expected, 0, split, 8), tail)) << what;
            EXPECT_TRUE(same_bits(slice(whole.state, 0, 1), slice(pool.state, 0, 1))) << what;
          }
        }
      }
    }
  }
}

// Which index is which, by value: state [v][k] = v + 100 k, the query is one key lane, nothing decays and nothing is written.
TEST(Reports, B38_rows_are_values_columns_are_keys) {
  for (const Gate gate : kGates) {
    Model m(38, {.gate = gate, .H = 1, .HV = 1, .K = 8, .V = 8, .l2norm = false, .scale = 1.0F});
    m.weights.dt_bias.fill(0);
    const RuleTokens tokens = m.tokens(8);
    tokens.k.fill(0);
    tokens.q.fill(0);
    tokens.a.fill(-100);
    for (int t = 0; t < 8; ++t) tokens.q.set(1, t, 0, t);
    const RulePool start = m.pool(10, 8);
    for_each(start.state, [&](const Index& i) { start.state.set_at(static_cast<double>(i[2] + 100 * i[3]), i); });
    for (int way = 0; way < static_cast<int>(Way::kCount); ++way) {
      const Tensor out = m.out(8);
      advance(m, static_cast<Way>(way), tokens, m.copy(start), out);
      for (int t = 0; t < 8; ++t) {
        for (int v = 0; v < 8; ++v) EXPECT_EQ(out.get(t, 0, v), v + 100 * t) << way;
      }
    }
  }
}

// [.., K, V] in place of [.., V, K] is refused by its shape.
TEST(Reports, B38_the_other_order_is_refused) {
  for (const Gate gate : kGates) {
    for (int V = 60; V <= 70; ++V) {
      if (V == 64) continue;
      Model m(38, {.gate = gate, .H = 1, .HV = 2, .K = 64, .V = V});
      RulePool pool = m.pool(2, 3);
      const RuleTokens tokens = m.tokens(3);
      const Tensor out = m.out(3);
      pool.state = dense(DType::f32, {2, 2, 64, V});
      EXPECT_EQ(m.try_plain(one_row(3, 0), tokens, pool, out).kind, ErrorKind::invalid_argument);
      EXPECT_EQ(m.try_verify(one_row(3, 3), tokens, pool, out).kind, ErrorKind::invalid_argument);
      EXPECT_EQ(m.try_snapshots(snapshot_rows({{1, 1, 1}}, {1}, {1}), tokens, pool, out).kind, ErrorKind::invalid_argument);
    }
  }
}

// Lines in both memory orders, filled by one convolution and read by another.
TEST(Reports, B38_lines_of_both_orders) {
  for (const LineKind kind : {LineKind::rolled, LineKind::anchored}) {
    for (const bool channels_outside : {false, true}) {
      for (int split = 1; split <= 7; ++split) {
        Pick pick(38);
        ConvShape plain;
        plain.C = 7;
        plain.kind = kind;
        plain.columns = 12;
        ConvShape window = plain;
        window.S = 8;
        const ConvWeights weights = random_conv_weights(pick, plain);
        const auto line = [&](bool outside) {
          Tensor t = dense(DType::f32, outside ? Shape{2, 7, 12} : Shape{2, 12, 7});
          if (outside) {
            std::swap(t.view.shape[1], t.view.shape[2]);
            std::swap(t.view.stride[1], t.view.stride[2]);
          }
          for_each(t, [&](const Index& i) { t.set_at(static_cast<double>(i[1] * 7 + i[2]) / 8, i); });
          return t;
        };
        ConvData whole = random_conv_data(pick, plain, one_row(8, 0)), parts = whole;
        whole.line = line(false);
        parts.line = line(channels_outside);
        parts.out = dense(DType::f32, {8, 7});
        ASSERT_TRUE(try_conv(pick, plain, weights, one_row(8, 0), whole, {}).ok());
        const auto part = [&](int begin, int end) {
          ConvData d = parts;
          d.x.view = slice(parts.x, 0, begin, end);
          d.out.view = slice(parts.out, 0, begin, end);
          return d;
        };
        ASSERT_TRUE(try_conv(pick, plain, weights, one_row(split, 0), part(0, split), {}).ok());
        ASSERT_TRUE(try_conv(pick, window, weights, one_row(8 - split, 8), part(split, 8), {}).ok());
        EXPECT_TRUE(same_bits(whole.out, parts.out)) << "split " << split;
      }
    }
  }
}

// ---- B50: kda replay ----------------------------------------------------------------------------------------------------------------

// KDA recomputes key and gate at commit: the state after the replay is the one the op held, over many rounds and all of A_log's range.
TEST(Reports, B50_kda_replay_uses_the_same_formula) {
  for (int variant = 0; variant < 4; ++variant) {
    RuleShape shape = {.gate = Gate::kda, .H = 1, .HV = 2, .K = 24, .V = 6, .T = DType::bf16};
    if (variant == 1) shape.lower_bound = -5.0F;
    if (variant == 2) shape.l2norm = false;
    if (variant == 3) shape.softplus_beta = 2.0F, shape.softplus_threshold = 3.0F;
    Model m(50, shape);
    const RulePool updates = m.pool(2, 7), windows = m.copy(updates);
    for (int round = 0; round < 100; ++round) {
      for (int j = 0; j < 2; ++j) m.weights.A_log.set(-8 + 13.3 * round / 99, j);
      const int kept = 1 + round % 7;
      const RuleTokens tokens = m.tokens(7);
      m.verify(one_row(7, 7), tokens, windows, m.out(7));
      m.commit(1, kept, windows);
      m.plain(one_row(kept, 0), m.some(tokens, 0, kept), updates, m.out(kept));
      ASSERT_TRUE(same_bits(updates.state, windows.state)) << "round " << round << " variant " << variant;
    }
  }
}

// ---- B53: verify against single steps -----------------------------------------------------------------------------------------------

int different(const TensorView& a, const TensorView& b) {
  int count = 0;
  for_each(a, [&](const Index& i) { count += raw_bits(a.dtype, element(a, i)) == raw_bits(b.dtype, element(b, i)) ? 0 : 1; });
  return count;
}

// 1000 random heads: T tokens in one verify, in one snapshots call, and one by one. Unequal outputs and states: none.
TEST(Reports, B53_one_window_equals_single_steps) {
  for (const Gate gate : kGates) {
    for (int T = 1; T <= 8; ++T) {
      Model m(static_cast<std::uint64_t>(53 + T),
              {.gate = gate, .H = 500, .HV = 1000, .K = 16, .V = 4, .T = DType::bf16, .out = DType::bf16});
      const RuleTokens tokens = m.tokens(T);
      const RulePool windows = m.pool(2 + T, T), single = m.copy(windows), snapshots = m.copy(windows);
      const Tensor out = m.out(T), out_snapshots = m.out(T);
      m.verify(one_row(T, T), tokens, windows, out);
      m.commit(1, T, windows);
      advance(m, Way::snapshots, tokens, snapshots, out_snapshots);
      int unequal = 0;
      for (int t = 0; t < T; ++t) {
        const Tensor one = m.out(1);
        m.plain(one_row(1, 0), m.some(tokens, t, t + 1), single, one);
        unequal += different(slice(out, 0, t, t + 1), one) + different(slice(out_snapshots, 0, t, t + 1), one);
      }
      unequal += different(slice(windows.state, 0, 1), slice(single.state, 0, 1));
      unequal += different(slice(snapshots.state, 0, 1), slice(single.state, 0, 1));
      EXPECT_EQ(unequal, 0) << "T " << T;
    }
  }
}

TEST(Reports, B53_one_convolution_window_equals_single_steps) {
  for (const LineKind kind : {LineKind::rolled, LineKind::anchored}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      for (int T = 1; T <= 8; ++T) {
        Pick pick(static_cast<std::uint64_t>(T));
        ConvShape shape;
        shape.C = 300;
        shape.T = dtype;
        shape.silu = true;
        shape.kind = kind;
        shape.S = T;
        shape.columns = 3 + T;
        ConvShape plain = shape;
        plain.S = 0;
        const ConvWeights weights = random_conv_weights(pick, shape);
        const ConvData windows = random_conv_data(pick, shape, one_row(T, T)), single = another_conv_data(pick, shape, windows);
        ASSERT_TRUE(try_conv(pick, shape, weights, one_row(T, T), windows, random_how(pick)).ok());
        for (int t = 0; t < T; ++t) {
          ConvData token = single;
          token.x.view = slice(single.x, 0, t, t + 1);
          token.out.view = slice(single.out, 0, t, t + 1);
          ASSERT_TRUE(try_conv(pick, plain, weights, one_row(1, 0), token, random_how(pick)).ok());
        }
        EXPECT_EQ(different(windows.out, single.out), 0) << "T " << T;
      }
    }
  }
}

// ---- B57: window sizes --------------------------------------------------------------------------------------------------------------

// Sizes past what kernels were cut for: each equals a plain call over the same tokens, in every windowed op, two rows at once.
TEST(Reports, B57_window_sizes) {
  for (const Gate gate : kGates) {
    for (const int S : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33}) {
      Model m(static_cast<std::uint64_t>(S),
              {.gate = gate, .H = 1, .HV = 2, .K = 20, .V = 5, .T = DType::bf16, .out = DType::bf16});
      const RuleTokens tokens = m.tokens(2 * S);
      const RulePool pool = m.pool(3 + 2 * S, S), plain_pool = m.copy(pool), snapshot_pool = m.copy(pool);
      const Tensor expected = m.out(2 * S), out = m.out(2 * S), snapshot_out = m.out(2 * S);
      m.plain(rows_on({2, 1}, {S, S}, 0), tokens, plain_pool, expected);
      m.verify(rows_on({2, 1}, {S, S}, S), tokens, pool, out);
      EXPECT_TRUE(same_bits(expected, out)) << "verify, S " << S;
      const Tensor accepted = dense_i32({S, S}), offsets = dense_i32({0, S, 2 * S}), source = dense_i32({2, 1});
      const PlanTensors planned{source, dense_i32({-9, -9}), dense_i32({-9, -9}), dense_i32({-9, -9}), dense_i32({-9, -9})};
      recoverssm::CommitPlanParams plan;
      plan.num_accepted = accepted;
      plan.query_start_loc = offsets;
      plan.state_indices = source;
      plan.window_capacity = S;
      plan.out = planned.outputs();
      must_run(plan);
      const std::array groups = {planned.group()};
      const std::array layers = {layer_of(m.shape, m.weights, pool)};
      must_run(recoverssm::CommitParams{groups, layers, S, 0}, random_how(m.pick));
      EXPECT_TRUE(same_bits(pool.state, plain_pool.state)) << "commit, S " << S;
      std::vector<std::vector<int>> columns;
      for (int i = 0; i < 2; ++i) {
        columns.push_back({2 - i});
        for (int t = 1; t < S; ++t) columns.back().push_back(3 + i * S + t);
      }
      m.snapshots(snapshot_rows(columns, {S, S}, {1, 1}), tokens, snapshot_pool, snapshot_out);
      EXPECT_TRUE(same_bits(expected, snapshot_out)) << "snapshots, S " << S;
      for (int i = 0; i < 2; ++i) {
        EXPECT_TRUE(same_bits(slice(plain_pool.state, 0, 2 - i),
                              slice(snapshot_pool.state, 0, columns[static_cast<std::size_t>(i)].back())));
      }
      ConvShape conv;
      conv.C = 9;
      conv.S = S;
      conv.columns = conv.W - 1 + S - 1;
      ConvShape conv_plain = conv;
      conv_plain.S = 0;
      const ConvWeights weights = random_conv_weights(m.pick, conv);
      const ConvData data = random_conv_data(m.pick, conv, rows_on({2, 1}, {S, S}, S));
      const ConvData a = run_conv(m.pick, conv, weights, rows_on({2, 1}, {S, S}, S), data, random_how(m.pick));
      const ConvData b = run_conv(m.pick, conv_plain, weights, rows_on({2, 1}, {S, S}, 0), data, random_how(m.pick));
      EXPECT_TRUE(same_bits(a.out, b.out)) << "convolution, S " << S;
    }
  }
}

// ---- B58: nothing kept the step before ----------------------------------------------------------------------------------------------

// A window behind one of which nothing was kept equals the window on a block that never saw the other, for any number of tokens, in the
// eager and in the lazy form; nothing outside the window's own records and its pending count is touched.
TEST(Reports, B58_nothing_kept_the_step_before) {
  for (const Gate gate : kGates) {
    for (const int T : {2, 3, 4, 5, 1, 6, 7, 8, 9, 16, 17, 33}) {
      for (const bool lazy : {false, true}) {
        Model m(static_cast<std::uint64_t>(58 * T), {.gate = gate, .H = 1, .HV = 2, .K = 20, .V = 5, .T = DType::bf16});
        const RuleTokens dropped = m.tokens(2 * T), tokens = m.tokens(2 * T);
        const RulePool pool = m.pool(3, T), fresh = m.copy(pool), start = m.copy(pool);
        RowSet rows = rows_on({2, 1}, {T, T}, T);
        rows.counted = lazy;
        if (lazy) rows.accepted = {0, 0};
        const Tensor out = m.out(2 * T), expected = m.out(2 * T), plain = m.out(2 * T);
        ASSERT_TRUE(m.try_verify(rows, dropped, pool, m.out(2 * T), lazy).ok());
        PlanArrays nothing;
        nothing.add(2, 0);
        nothing.add(1, 0);
        if (!lazy) m.commit(nothing, pool);
        Untouched untouched(pool.watches());
        for (const int block : {1, 2}) {
          for (const TensorView& part : pool.record_slices(block, 0, T)) untouched.except(part);
          if (lazy) untouched.except(slice(pool.pending, 0, block));
        }
        ASSERT_TRUE(m.try_verify(rows, tokens, pool, out, lazy).ok());
        EXPECT_TRUE(untouched.check()) << "T " << T;
        ASSERT_TRUE(m.try_verify(rows, tokens, fresh, expected, lazy).ok());
        m.plain(rows_on({2, 1}, {T, T}, 0), tokens, m.copy(start), plain);
        EXPECT_TRUE(same_bits(out, expected)) << "T " << T;
        EXPECT_TRUE(same_bits(out, plain)) << "T " << T;
        EXPECT_TRUE(same_bits(pool.state, start.state)) << "T " << T;
        for (const int block : {1, 2}) {
          const std::vector<TensorView> a = pool.record_slices(block, 0, T), b = fresh.record_slices(block, 0, T);
          for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(same_bits(a[i], b[i])) << "T " << T;
        }
      }
    }
  }
}

// ---- B65: a replay is applied once --------------------------------------------------------------------------------------------------

// Verify T, commit a part, plain steps, then a commit nobody verified for: with pending it is a no-op, or bad_state where it would
// have to move a state.
TEST(Reports, B65_a_stray_commit_changes_nothing) {
  for (const Gate gate : kGates) {
    for (int T = 1; T <= 5; ++T) {
      for (int kept = 1; kept <= T; ++kept) {
        RuleShape shape = kSmall;
        shape.gate = gate;
        Model m(static_cast<std::uint64_t>(T * 8 + kept), shape);
        const RuleTokens tokens = m.tokens(T), later = m.tokens(3);
        const RulePool pool = m.pool(3, T), plain = m.copy(pool);
        RowSet rows = one_row(T, T);
        rows.counted = true;
        rows.accepted = {0};
        ASSERT_TRUE(m.try_verify(rows, tokens, pool, m.out(T), true).ok());
        PlanArrays once;
        once.add(1, kept);
        ASSERT_TRUE(m.try_commit(once, pool, true).ok());
        EXPECT_EQ(pool.pending.get(1), 0);
        m.plain(one_row(kept, 0), m.some(tokens, 0, kept), plain, m.out(kept));
        EXPECT_TRUE(same_bits(slice(pool.state, 0, 1), slice(plain.state, 0, 1)));
        for (int t = 0; t < 3; ++t) {
          RowSet decode = one_row(1, 0);
          decode.counted = true;
          decode.accepted = {T};  // a stale count: nothing waits
          ASSERT_TRUE(m.try_plain(decode, m.some(later, t, t + 1), pool, m.out(1), true).ok());
          m.plain(one_row(1, 0), m.some(later, t, t + 1), plain, m.out(1));
        }
        ASSERT_TRUE(m.try_commit(once, pool, true).ok());
        ASSERT_TRUE(m.try_materialize({1}, {kept}, pool).ok());
        EXPECT_TRUE(same_bits(slice(pool.state, 0, 1), slice(plain.state, 0, 1))) << "T " << T << " kept " << kept;
        const Untouched untouched(pool.watches());
        PlanArrays move;
        move.add(1, kept, 2, kNoBlock, 0);
        EXPECT_EQ(m.try_commit(move, pool, true).kind, ErrorKind::bad_state);
        EXPECT_TRUE(untouched.check());
      }
    }
  }
}

// ---- B66: copies of blocks with waiting records -------------------------------------------------------------------------------------

// The next lazy window on `block`, of whose last one `kept` tokens stay.
Tensor next_window(Model& m, const RulePool& pool, int block, int kept, const RuleTokens& tokens) {
  RowSet rows = rows_on({block}, {tokens.count}, pool.capacity);
  rows.counted = true;
  rows.accepted = {kept};
  const Tensor out = m.out(tokens.count);
  const recoverssm::Status status = m.try_verify(rows, tokens, pool, out, true);
  require(status.ok(), status.message);
  return out;
}

// A move of a block whose records wait is refused; after materialize, or with records and count copied along, both blocks go on alike.
TEST(Reports, B66_waiting_records_go_along) {
  for (const Gate gate : kGates) {
    for (const auto& [from, to] : {std::pair{2, 5}, std::pair{42, 17}}) {
      for (int waiting = 1; waiting <= 4; ++waiting) {
        for (int kept = 0; kept <= waiting; ++kept) {
          RuleShape shape = kSmall;
          shape.gate = gate;
          Model m(static_cast<std::uint64_t>(66 + 8 * waiting + kept), shape);
          const RulePool pool = m.pool(43, 4);
          next_window(m, pool, from, 0, m.tokens(waiting));
          ASSERT_EQ(pool.pending.get(from), waiting);
          const RulePool copied = m.copy(pool);
          const Tensor source = dense_i32({from}), target = dense_i32({to});
          const std::array layers = {layer_of(m.shape, m.weights, pool, true)};
          const recoverssm::AlignMoveParams move{source, target, layers, 0};
          const Untouched untouched(pool.watches());
          EXPECT_EQ(try_run(move).kind, ErrorKind::bad_state);
          EXPECT_TRUE(untouched.check());
          ASSERT_TRUE(m.try_materialize({from}, {kept}, pool).ok());
          must_run(move);
          EXPECT_EQ(pool.pending.get(to), 0);
          copy_block(copied, from, copied, to);  // state, records and pending
          const RuleTokens tokens = m.tokens(3);
          const Tensor a = next_window(m, pool, from, 0, tokens), b = next_window(m, pool, to, 0, tokens);
          const Tensor c = next_window(m, copied, from, kept, tokens), d = next_window(m, copied, to, kept, tokens);
          EXPECT_TRUE(same_bits(a, b)) << "moved";
          EXPECT_TRUE(same_bits(c, d)) << "copied";
          EXPECT_TRUE(same_bits(a, c)) << "folded before or in the next window";
          EXPECT_TRUE(same_bits(slice(pool.state, 0, to), slice(copied.state, 0, from)));
        }
      }
    }
  }
}

}  // namespace
