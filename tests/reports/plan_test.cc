// Plans and what commit makes of them: which rows are windows, block edges of the prefix cache, tables that end, groups, packed prefills.
#include "recoverssm/plan.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "reports/calls.h"

namespace {

using namespace reports;

PlanTensors empty_plan(const Tensor& source) {
  const std::vector<int> pattern(static_cast<std::size_t>(source.view.shape[0]), -77);
  return {source, dense_i32(pattern), dense_i32(pattern), dense_i32(pattern), dense_i32(pattern)};
}

// ---- B11: a prompt as long as a window ----------------------------------------------------------------------------------------------

// Drafts 3, lens [4,4], computed [0,5], prompt [4,5]: row 0 is a prefill although it is as long as a window. Length alone says nothing.
TEST(Reports, B11_a_prompt_as_long_as_a_window) {
  const auto windows = [](const std::vector<std::int32_t>& drafts, const std::vector<std::uint8_t>& prefilling,
                          const std::vector<std::int32_t>& lengths) {
    return recoverssm::map_windows(drafts, prefilling, lengths);
  };
  EXPECT_EQ(windows({-1, 3}, {1, 0}, {4, 4}).rows, (std::vector<std::int32_t>{1}));
  property(60, [&](Pick& pick) {  // any mixture: every row has 1 + drafts tokens
    std::vector<std::int32_t> drafts, lengths, want;
    std::vector<std::uint8_t> prefilling;
    const int length = pick.between(1, 9);
    for (int r = 0, n = pick.between(1, 6); r < n; ++r) {
      const bool prefill = pick.chance(50);
      drafts.push_back(prefill ? -1 : length - 1);
      prefilling.push_back(prefill);
      lengths.push_back(length);
      if (!prefill) want.push_back(r);
    }
    const recoverssm::WindowMap map = windows(drafts, prefilling, lengths);
    require(map.rows == want, "windows");
    std::vector<std::int32_t> first(want.size());
    std::iota(first.begin(), first.end(), 0);
    require(map.identity == (want == first), "identity");
  });
}

// Such a prefill starts from zero whatever its slot holds, and writes the slot; the window beside it starts from its state.
TEST(Reports, B11_the_prefill_starts_from_zero) {
  for (const Gate gate : {Gate::gdn, Gate::kda}) {
    for (int S = 1; S <= 8; ++S) {
      RuleShape shape = kSmall;
      shape.gate = gate;
      Model m(static_cast<std::uint64_t>(11 + S), shape);
      const RuleTokens tokens = m.tokens(2 * S);
      const RulePool pool = m.pool(3, S), zero = m.copy(pool);
      pool.state.fill(1e3);
      zero.state.fill(0);
      RowSet prefill = rows_on({1}, {S}, 0);
      prefill.initial = {0};
      const Tensor out = m.out(S), expected = m.out(S);
      m.plain(prefill, m.some(tokens, 0, S), pool, out);
      m.verify(rows_on({2}, {S}, S), m.some(tokens, S, 2 * S), pool, m.out(S));
      prefill.initial = {1};
      m.plain(prefill, m.some(tokens, 0, S), zero, expected);
      EXPECT_TRUE(same_bits(out, expected));
      EXPECT_TRUE(same_bits(slice(pool.state, 0, 1), slice(zero.state, 0, 1)));
      for_each(slice(pool.state, 0, 2), [&](const Index& i) { EXPECT_EQ(pool.state.get(2, i[1], i[2], i[3]), 1e3); });
    }
  }
}

// ---- B18: block edges ---------------------------------------------------------------------------------------------------------------

struct AlignRow {
  int computed, length, accepted;
  int source_column;  // -1: the column of the window's last token
};

// Windows of one step in align mode, planned and committed. Every block's state is followed by hand: the final block holds the state
// after the kept tokens, the boundary block the one at the edge, and no other block changes.
void align_step(Pick& pick, int B, int S, const std::vector<AlignRow>& rows) {
  RuleShape shape = kSmall;
  shape.gate = pick.one_of({Gate::gdn, Gate::kda});
  Model m(pick.bits(), shape);
  const int N = static_cast<int>(rows.size());
  int width = 0;
  for (const AlignRow& row : rows) width = std::max(width, (row.computed + row.length) / B + 2);
  std::vector<std::vector<int>> table;
  std::vector<int> source, computed, accepted, lengths;
  for (int i = 0; i < N; ++i) {
    const AlignRow& row = rows[static_cast<std::size_t>(i)];
    table.emplace_back();
    for (int c = 0; c < width; ++c) table.back().push_back(1 + i * width + c);
    const int column = row.source_column >= 0 ? row.source_column : (row.computed + row.length - 1) / B;
    source.push_back(table.back()[static_cast<std::size_t>(column)]);
    computed.push_back(row.computed);
    accepted.push_back(row.accepted);
    lengths.push_back(row.length);
  }
  const RowSet windows = rows_on(source, lengths, S);
  const RuleTokens tokens = m.tokens(windows.tokens);
  const RulePool pool = m.pool(1 + N * width, S), start = m.copy(pool);
  m.verify(windows, tokens, pool, m.out(windows.tokens));
  const Tensor counts = strided_i32(pick, accepted), offsets = strided_i32(pick, windows.offsets), ids = strided_i32(pick, source);
  const Tensor before = strided_i32(pick, computed), blocks = strided_table(pick, table, width);
  const PlanTensors planned = empty_plan(ids);
  must_run(recoverssm::CommitPlanParams{.num_accepted = counts,
                                        .query_start_loc = offsets,
                                        .state_indices = ids,
                                        .window_capacity = S,
                                        .block_table = blocks,
                                        .num_computed = before,
                                        .block_size = B,
                                        .out = planned.outputs()});
  const std::array groups = {planned.group()};
  const std::array layers = {layer_of(m.shape, m.weights, pool)};
  must_run(recoverssm::CommitParams{groups, layers, S, 0}, random_how(pick));

  const RulePool want = m.copy(start);
  for (int i = 0; i < N; ++i) {
    const AlignRow& row = rows[static_cast<std::size_t>(i)];
    const auto u = static_cast<std::size_t>(i);
    const RulePool walk = m.copy(start);  // token by token, in the source block of a pool of its own
    for (int t = 1; t <= std::min(row.accepted, row.length); ++t) {
      const int at = windows.first(i) + t - 1;
      m.plain(rows_on({source[u]}, {1}, 0), m.some(tokens, at, at + 1), walk, m.out(1));
      const int total = row.computed + t;
      const bool edge = total % B == 0 && total / B == row.computed / B + 1, last = t == std::min(row.accepted, row.length);
      if (edge || last)
        copy_bits(slice(walk.state, 0, source[u]), slice(want.state, 0, table[u][static_cast<std::size_t>((total - 1) / B)]));
    }
  }
  require(same_bits(pool.state, want.state), "states of all blocks");
}

TEST(Reports, B18_kept_tokens_at_block_edges) {
  Pick pick(18);
  for (const AlignRow& row : {AlignRow{30, 3, 2, -1}, AlignRow{14, 2, 2, -1}, AlignRow{15, 4, 1, -1}, AlignRow{16, 4, 1, -1},
                              AlignRow{16, 4, 4, -1}, AlignRow{16, 4, 0, -1}}) {
    align_step(pick, 16, 4, {row});
    AlignRow stayed = row;  // the state was not moved ahead: it still lies where the last committed token is
    stayed.source_column = (row.computed - 1) / 16;
    align_step(pick, 16, 4, {stayed});
  }
  align_step(pick, 16, 4, {{30, 3, 2, -1}, {14, 2, 2, -1}, {15, 4, 1, -1}, {16, 4, 3, -1}});
  property(80, [](Pick& p) {
    const int S = p.between(1, 6), B = p.between(S, 18);
    std::vector<AlignRow> rows;
    for (int n = p.between(1, 3); n > 0; --n) {
      const int edge = B * p.between(1, 3), computed = std::max(1, edge - p.between(0, S + 1));
      const int length = p.between(1, S);
      rows.push_back({computed, length, p.between(0, length), p.one_of({-1, (computed - 1) / B, computed / B})});
    }
    align_step(p, B, S, rows);
  });
}

// ---- B20: the end of the block table ------------------------------------------------------------------------------------------------

// A table that ends before the drafts do: the plan is refused where a kept token lies beyond it, whatever stands behind the row in
// memory, and it is made where none does.
TEST(Reports, B20_no_column_beyond_the_table) {
  const auto attempt = [](int B, int width, int columns_in_memory, int computed, int length, int accepted, int junk) {
    const Tensor memory = dense(DType::i32, {1, columns_in_memory});
    memory.fill(junk);
    reference::PlanRow row{accepted, length, length, 40, 0, true, computed, B, {}};
    for (int c = 0; c < width; ++c) {
      memory.set(3 + c, 0, c);
      row.table.push_back(3 + c);
    }
    const Tensor source = dense_i32({40}), counts = dense_i32({accepted}), offsets = dense_i32({0, length}),
                 before = dense_i32({computed});
    const PlanTensors out = empty_plan(source);
    recoverssm::CommitPlanParams p{.num_accepted = counts,
                                   .query_start_loc = offsets,
                                   .state_indices = source,
                                   .window_capacity = length,
                                   .block_table = TensorView(memory.view.data, DType::i32, {1, width}, {columns_in_memory, 1}),
                                   .num_computed = before,
                                   .block_size = B,
                                   .out = out.outputs()};
    const Untouched untouched(
        {{"len", out.commit_len}, {"final", out.final_block}, {"boundary", out.boundary_block}, {"blen", out.boundary_len}});
    const recoverssm::Status status = try_run(p);
    const reference::Plan want = reference::plan(row);
    const std::string where =
        "computed " + std::to_string(computed) + " accepted " + std::to_string(accepted) + " width " + std::to_string(width);
    EXPECT_EQ(status.kind, want.out_of_range ? ErrorKind::out_of_range : ErrorKind::ok) << where << " " << status.message;
    if (want.out_of_range) {
      EXPECT_TRUE(untouched.check()) << where;
      EXPECT_NE(status.message.find("block_table"), std::string::npos) << status.message;
      return;
    }
    EXPECT_EQ(out.commit_len.get(0), want.commit_len) << where;
    EXPECT_EQ(out.final_block.get(0), want.final_block) << where;
    EXPECT_EQ(out.boundary_block.get(0), want.boundary_block) << where;
  };
  for (int accepted = 0; accepted <= 4; ++accepted) attempt(16, 4, 7, 62, 4, accepted, 9);  // max 64, seq 62, drafts 3
  for (int computed = 40; computed <= 70; ++computed) {
    for (int accepted = 0; accepted <= 4; ++accepted) {
      for (const int width : {1, 3, 4, 5}) attempt(16, width, 9, computed, 4, accepted, computed % 2 == 0 ? 9 : -1);
    }
  }
  attempt(1 << 30, 2, 4, (1 << 30) + 5, 4, 4, 9);
  attempt(1 << 30, 1, 4, (1 << 30) - 2, 4, 4, 9);
}

// Extra columns that are null: rows that need one are dead, not an error and not another block.
TEST(Reports, B20_null_columns_for_drafts) {
  for (int accepted = 0; accepted <= 4; ++accepted) {
    const Tensor table = dense_i32({3, 4, 5, 6, 0, 0, 0}), source = dense_i32({6}), counts = dense_i32({accepted}),
                 offsets = dense_i32({0, 4}), before = dense_i32({62});
    const PlanTensors out = empty_plan(source);
    must_run(recoverssm::CommitPlanParams{.num_accepted = counts,
                                          .query_start_loc = offsets,
                                          .state_indices = source,
                                          .window_capacity = 4,
                                          .block_table = TensorView(table.view.data, DType::i32, {1, 7}),
                                          .num_computed = before,
                                          .block_size = 16,
                                          .out = out.outputs()});
    const bool live = accepted == 1 || accepted == 2;
    EXPECT_EQ(out.commit_len.get(0), live ? accepted : 0);
    EXPECT_EQ(out.final_block.get(0), live ? 6 : 0);
    EXPECT_EQ(out.boundary_block.get(0), accepted == 2 ? 6 : 0);
  }
}

// ---- B25: packed prefills -----------------------------------------------------------------------------------------------------------

// Lengths [500,700,900], unit 128: the states at row positions 384, 640, 896 come from flat tokens up to 384, 1140, 2096, each the state of
// that row run alone. A row-local position used as a flat one, or the reverse, is off by whole rows.
void packed_prefill(Pick& pick, const std::vector<int>& lengths, int unit) {
  RuleShape shape = {.gate = pick.one_of({Gate::gdn, Gate::kda}), .H = 1, .HV = 1, .K = 8, .V = 4};
  Model m(pick.bits(), shape);
  std::vector<int> starts = {0};
  for (const int n : lengths) starts.push_back(starts.back() + n);
  const int N = static_cast<int>(lengths.size());
  const RuleTokens tokens = m.tokens(starts.back());
  const RulePool pool = m.pool(N + 1, 0), start = m.copy(pool);
  const Tensor out = m.out(starts.back());
  for (const bool rest : {false, true}) {  // to the last boundary, row by row of the packed tokens; then the rest
    for (int i = 0; i < N; ++i) {
      const auto u = static_cast<std::size_t>(i);
      const int edge = starts[u] + lengths[u] / unit * unit, end = starts[u + 1];
      RowSet row;
      row.offsets = {rest ? edge : starts[u]};
      row.add(rest ? end - edge : edge - starts[u], i + 1);
      row.tokens = row.global_rows = starts.back();
      m.plain(row, tokens, pool, out);
      const RulePool alone = m.copy(start);
      const int length = rest ? lengths[u] : lengths[u] / unit * unit;
      const Tensor alone_out = m.out(length);
      m.plain(rows_on({i + 1}, {length}, 0), m.some(tokens, starts[u], starts[u] + length), alone, alone_out);
      require(same_bits(slice(pool.state, 0, i + 1), slice(alone.state, 0, i + 1)), "state of row " + std::to_string(i));
      require(same_bits(slice(out, 0, starts[u], starts[u] + length), alone_out), "outputs of row " + std::to_string(i));
    }
  }
  const RulePool whole = m.copy(start);  // and all rows in one call
  std::vector<int> blocks(lengths.size());
  std::iota(blocks.begin(), blocks.end(), 1);
  m.plain(rows_on(blocks, lengths, 0), tokens, whole, m.out(starts.back()));
  require(same_bits(whole.state, pool.state), "one call");
}

TEST(Reports, B25_states_inside_packed_prefills) {
  Pick pick(25);
  packed_prefill(pick, {500, 700, 900}, 128);
  property(20, [](Pick& p) {
    const int unit = p.between(1, 12);
    std::vector<int> lengths;
    for (int n = p.between(2, 4); n > 0; --n) lengths.push_back(p.between(1, 40));
    packed_prefill(p, lengths, unit);
  });
}

// ---- B30: layer groups --------------------------------------------------------------------------------------------------------------

// One plan and one commit for all groups and layers equal a plan and a commit for each layer alone. The counts are read only.
void grouped_step(Pick& pick, int G, int layers_per_group, int N, int S) {
  std::vector<Model> models;
  std::vector<RulePool> together, alone;
  std::vector<recoverssm::Layer> layers, single_layers;
  for (int l = 0; l < G * layers_per_group; ++l) {
    RuleShape shape = kSmall;
    shape.gate = pick.one_of({Gate::gdn, Gate::kda});
    models.emplace_back(pick.bits(), shape);
  }
  std::vector<std::vector<int>> ids;
  const int blocks = 3 * N + 8;
  for (int g = 0; g < G; ++g) ids.push_back(pick.distinct(N, 1, blocks - 1));
  if (G == 2 && N == 2) ids = {{3, 4}, {9, 10}};
  std::vector<int> accepted, lengths;
  for (int i = 0; i < N; ++i) {
    lengths.push_back(pick.between(1, S));
    accepted.push_back(pick.between(0, S));
  }
  if (N == 2 && S == 3) lengths = {3, 3}, accepted = {3, 2};
  for (std::size_t l = 0; l < models.size(); ++l) {
    const auto g = static_cast<int>(l) % G;
    Model& m = models[l];
    together.push_back(m.pool(blocks, S));
    const RowSet rows = rows_on(ids[static_cast<std::size_t>(g)], lengths, S);
    m.verify(rows, m.tokens(rows.tokens), together.back(), m.out(rows.tokens));
    alone.push_back(m.copy(together.back()));
    layers.push_back(layer_of(m.shape, m.weights, together.back()));
    layers.back().group = g;
    single_layers.push_back(layer_of(m.shape, m.weights, alone.back()));
  }
  std::vector<int> offsets = {0};
  for (const int n : lengths) offsets.push_back(offsets.back() + n);
  const Tensor counts = strided_i32(pick, accepted), starts = strided_i32(pick, offsets);
  std::vector<PlanTensors> plans, single_plans;
  std::vector<recoverssm::PlanGroup> plan_groups;
  std::vector<recoverssm::CommitGroup> commit_groups;
  for (int g = 0; g < G; ++g) {
    plans.push_back(empty_plan(strided_i32(pick, ids[static_cast<std::size_t>(g)])));
    single_plans.push_back(empty_plan(strided_i32(pick, ids[static_cast<std::size_t>(g)])));
    plan_groups.push_back({plans.back().source, {}, plans.back().outputs()});
    commit_groups.push_back(plans.back().group());
  }
  const Untouched untouched({{"num_accepted", counts}, {"query_start_loc", starts}});
  must_run(recoverssm::CommitPlanGroupsParams{
      .num_accepted = counts, .query_start_loc = starts, .window_capacity = S, .groups = plan_groups});
  must_run(recoverssm::CommitParams{commit_groups, layers, S, 0}, random_how(pick));
  for (std::size_t l = 0; l < models.size(); ++l) {
    const PlanTensors& plan = single_plans[l % static_cast<std::size_t>(G)];
    must_run(recoverssm::CommitPlanParams{.num_accepted = counts,
                                          .query_start_loc = starts,
                                          .state_indices = plan.source,
                                          .window_capacity = S,
                                          .out = plan.outputs()});
    const std::array one_group = {plan.group()};
    const std::array one_layer = {single_layers[l]};
    must_run(recoverssm::CommitParams{one_group, one_layer, S, 0});
    for (int i = 0; i < N; ++i) {
      const auto u = static_cast<std::size_t>(i);
      require(plans[l % static_cast<std::size_t>(G)].commit_len.get(i) == std::min(accepted[u], lengths[u]),
              "every group uses the same counts");
    }
    require(same_bits(together[l].state, alone[l].state), "layer " + std::to_string(l));
  }
  require(untouched.check(), "counts are read only");
}

TEST(Reports, B30_each_group_uses_its_own_table) {
  Pick pick(30);
  for (int replay = 0; replay < 3; ++replay) grouped_step(pick, 2, 3, 2, 3);
  property(30, [](Pick& p) { grouped_step(p, p.between(1, 4), p.between(1, 4), p.between(1, 4), p.between(1, 5)); });
}

// The arrays are read when the call is made: the same Params with other contents use the new ones.
TEST(Reports, B30_contents_are_read_at_every_call) {
  Model m(30, kSmall);
  const RulePool pool = m.pool(12, 3), want = m.copy(pool);
  const Tensor ids = dense_i32({3, 9}), counts = dense_i32({3, 2}), offsets = dense_i32({0, 3, 6});
  const PlanTensors plan = empty_plan(ids);
  const recoverssm::CommitPlanParams plan_params{
      .num_accepted = counts, .query_start_loc = offsets, .state_indices = ids, .window_capacity = 3, .out = plan.outputs()};
  const std::array groups = {plan.group()};
  const std::array layers = {layer_of(m.shape, m.weights, pool)};
  const recoverssm::CommitParams commit_params{groups, layers, 3, 0};
  for (int step = 0; step < 20; ++step) {
    const std::vector<int> now = m.pick.distinct(2, 1, 11);
    const std::vector<int> kept = {m.pick.between(1, 3), m.pick.between(1, 3)};
    for (int i = 0; i < 2; ++i) {
      ids.set(now[static_cast<std::size_t>(i)], i);
      counts.set(kept[static_cast<std::size_t>(i)], i);
    }
    const RuleTokens tokens = m.tokens(6);
    m.verify(rows_on(now, {3, 3}, 3), tokens, pool, m.out(6));
    must_run(plan_params);
    must_run(commit_params);
    for (int i = 0; i < 2; ++i) {
      const int n = kept[static_cast<std::size_t>(i)];
      m.plain(rows_on({now[static_cast<std::size_t>(i)]}, {n}, 0), m.some(tokens, 3 * i, 3 * i + n), want, m.out(n));
    }
    ASSERT_TRUE(same_bits(pool.state, want.state)) << "step " << step;
  }
}

}  // namespace
