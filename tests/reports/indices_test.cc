// B15: index arrays with strides.
#include <gtest/gtest.h>

#include "reports/scene.h"

namespace {

using namespace reports;

// The i-th id as element [i, 0] of a table of this stride, with other ids (live ones) in between.
Tensor as_column(const std::vector<int>& values, int stride, int junk) {
  Tensor table = dense(DType::i32, {static_cast<std::int64_t>(values.size()), stride});
  table.fill(junk);
  for (std::size_t i = 0; i < values.size(); ++i) table.set(values[i], i, 0);
  table.view = {table.view.data, DType::i32, {static_cast<std::int64_t>(values.size())}, {stride}};
  return table;
}

// Index arrays are columns of wider tables: rows read 10, 14, 18 and not 10, 11, 12. Every op, every index array, strides 2 to 9.
TEST(Reports, B15_index_arrays_with_strides) {
  for (const Op op : kOps) {
    for (int stride = 2; stride <= 9; ++stride) {
      Pick pick(static_cast<std::uint64_t>(stride));
      const RowSet rows = scene_rows(op, {10, 14, 18}, {1, 2, 1});
      const Scene packed = random_scene(pick, op, rows), wide = another_scene(pick, packed);
      const Tensor ids = as_column(rows.blocks, stride, 11), offsets = as_column(rows.offsets, stride, 1);
      const Tensor packed_ids = dense_i32(rows.blocks), packed_offsets = dense_i32(rows.offsets);
      Tensor table, packed_table, counts, packed_counts;
      if (rows.counted) {
        counts = as_column(rows.accepted, stride, 2);
        packed_counts = dense_i32(rows.accepted);
      }
      if (rows.snapshots) {
        packed_table = dense(DType::i32, {3, kCapacity});
        table = dense(DType::i32, {3, stride + kCapacity});
        table.fill(9);
        for (int i = 0; i < 3; ++i) {
          for (int t = 0; t < kCapacity; ++t) {
            const int id = rows.columns[static_cast<std::size_t>(i)][static_cast<std::size_t>(t)];
            packed_table.set(id, i, t);
            table.set(id, i, t);
          }
        }
        table.view.shape[1] = kCapacity;
      }
      run_scene(pick, packed, rows, [&](recoverssm::Rows& r) {
        r.query_start_loc = packed_offsets;
        r.state_indices = rows.snapshots ? packed_table : packed_ids;
        if (rows.counted) r.num_accepted = packed_counts;
      });
      run_scene(pick, wide, rows, [&](recoverssm::Rows& r) {
        r.query_start_loc = offsets;
        r.state_indices = rows.snapshots ? table : ids;
        if (rows.counted) r.num_accepted = counts;
      });
      for (int i = 0; i < 3; ++i) same_row(packed, rows, i, wide, rows, i, name_of(op));
      for (std::size_t p = 0; p < packed.pools().size(); ++p) {
        ASSERT_TRUE(same_bits(packed.pools()[p], wide.pools()[p])) << name_of(op) << " stride " << stride;
      }
    }
  }
}

// table[:, :2] of a 4-wide buffer, and the five arrays of a plan as columns of one table.
TEST(Reports, B15_narrow_tables_and_plans) {
  Model m(15, kSmall);
  const RowSet rows = snapshot_rows({{10, 11}, {14, 15}, {18, 19}}, {1, 2, 1}, {1, 2, 1});
  const RuleTokens tokens = m.tokens(4);
  const RulePool a = m.pool(22, 2), b = m.copy(a);
  const Tensor out = m.out(4), expected = m.out(4), table = dense(DType::i32, {3, 4});
  for (int i = 0; i < 12; ++i) table.set(10 + i, i / 4, i % 4);
  m.snapshots(rows, tokens, a, expected);
  const RowTensors index = row_tensors(m.pick, rows);
  recoverssm::Rows narrow = rows_of(rows, index);
  narrow.state_indices = TensorView(table.view.data, DType::i32, {3, 2}, {4, 1});
  must_run(recoverssm::GatedDeltaRuleSnapshotsParams{inputs_of(kSmall, m.weights, tokens), b.state, out, narrow});
  EXPECT_TRUE(same_bits(out, expected));
  EXPECT_TRUE(same_bits(a.state, b.state));

  for (int columns = 5; columns <= 9; ++columns) {
    const RulePool packed = m.pool(22, 2), wide = m.copy(packed);
    for (const RulePool* p : {&packed, &wide}) m.verify(rows_on({10, 14, 18}, {1, 2, 1}, 2), tokens, *p, m.out(4));
    copy_bits(packed.packed, wide.packed);
    PlanArrays plan;
    plan.add(10, 1);
    plan.add(14, 2, 3, 15, 1);
    plan.add(18, 1, 4, kNoBlock, 0);
    m.commit(plan, packed);
    const Tensor plans = dense(DType::i32, {3, columns});
    plans.fill(19);
    const std::vector<int>* arrays[] = {&plan.source, &plan.commit_len, &plan.final_block, &plan.boundary_block,
                                        &plan.boundary_len};
    std::array<TensorView, 5> views;
    for (int k = 0; k < 5; ++k) {
      for (int i = 0; i < 3; ++i) plans.set((*arrays[k])[static_cast<std::size_t>(i)], i, k);
      views[static_cast<std::size_t>(k)] = TensorView(plans.at(0, k), DType::i32, {3}, {columns});
    }
    const std::array groups = {recoverssm::CommitGroup{views[0], views[1], views[2], views[3], views[4]}};
    const std::array layers = {layer_of(kSmall, m.weights, wide)};
    must_run(recoverssm::CommitParams{groups, layers, 2, 0});
    EXPECT_TRUE(same_bits(packed.state, wide.state)) << columns;
  }
}

}  // namespace
