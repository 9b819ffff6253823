// causal_conv1d and causal_conv1d_window: padding rows also in place, workspaces with old contents, counters. Faults of the project's list
// of public reports are in tests/reports.
#include "cpu/conv_case.h"

namespace {

using namespace conv_case;
using support::slice;

// A call with weights that pick the oldest tap (1, 0, 0, ...), so that an output shows which input it read.
Conv oldest_tap(DType T, int W, int C, const Tensor& line, const Tensor& x, const RowSet& rows) {
  Conv conv;
  conv.rows = rows;
  Pick pick(1);
  conv.tensors = support::row_tensors(pick, rows);
  conv.line = line;
  conv.x = x;
  conv.out = support::dense(T, {x.view.shape[0], C});
  conv.weight = support::dense(T, {C, W});
  conv.weight.fill(0.0);
  for (int c = 0; c < C; ++c) conv.weight.set(1.0, c, 0);
  return conv;
}

// Padding. Null rows give zeros (in place too) and touch nothing, stale ids of empty rows are not read, and
// with null id -1 block 0 is a block like any other.
TEST(ConvRegression, PaddingRows) {
  for (const bool in_place : {false, true}) {
    for (const bool window : {false, true}) {
      for (const int null_id : {0, -1}) {
        RowSet rows;
        rows.add(2, null_id);
        rows.add(0, 1234567);
        rows.add(2, null_id + 1);
        rows.add(1, null_id - 3);
        rows.null_id = null_id;
        rows.capacity = window ? 2 : 0;
        rows.tokens = rows.global_rows = 6;  // the last token is in no row
        const Tensor line = support::dense(DType::bf16, {3, 5, 4}), x = support::dense(DType::bf16, {6, 4});
        Pick pick(3);
        fill_normal(pick, line);
        fill_normal(pick, x);
        for (int c = 0; c < 4; ++c) x.set(std::nan(""), 0, c), x.set(std::nan(""), 4, c);  // null rows hold NaN
        Conv conv = oldest_tap(DType::bf16, 4, 4, line, x, rows);
        conv.window = window;
        if (in_place) conv.out = conv.x;
        const Expected want = expected(conv);
        conv.run();
        EXPECT_TRUE(same_memory(conv.out, want.out));
        EXPECT_TRUE(same_memory(conv.line, want.line));
        EXPECT_TRUE(support::all_zero_bits(slice(conv.out, 0, 0, 2)));
        EXPECT_TRUE(support::all_zero_bits(slice(conv.out, 0, 4, 5)));
      }
    }
  }
}

// A workspace goes from call to call with whatever the last one left in it, here the widened weights of another layer.
TEST(ConvRegression, WorkspaceContentsMeanNothing) {
  RECOVERSSM_CPU_ONLY("its workspace is no device memory; every other call finds its workspace full of NaN");
  RowSet rows;
  rows.add(2, 1);
  rows.tokens = rows.global_rows = 2;
  const Tensor x = support::dense(DType::bf16, {2, 5}), line = support::dense(DType::bf16, {2, 3, 5});
  x.fill(2.0);
  line.fill(1.0);
  alignas(recoverssm::kWorkspaceAlignment) static std::byte memory[1 << 18];
  recoverssm::Launch launch;
  launch.workspace = {memory, sizeof memory};
  for (const double weight : {1.0, 3.0, -1.0}) {
    Conv conv = oldest_tap(DType::bf16, 4, 5, clone(line), x, rows);
    conv.weight.fill(weight);
    const auto params = conv.params<CausalConv1dParams>();
    ASSERT_LE(recoverssm::workspace_size(params, launch), sizeof memory);
    ASSERT_TRUE(recoverssm::run(params, launch).ok());
    for (int c = 0; c < 5; ++c) {
      EXPECT_EQ(conv.out.get(0, c), 5 * weight);
      EXPECT_EQ(conv.out.get(1, c), 6 * weight);
    }
  }
}

// Traffic of the rows really processed: a live row, an empty one, a null one.
TEST(ConvCounters, CountLiveRows) {
  RECOVERSSM_CPU_ONLY("counters, which only the CPU keeps");
  constexpr int kW = 4, kC = 600, kPosition = kC * 2;
  const auto counted = [&](bool window, LineKind kind, int accepted, bool initial) {
    RowSet rows;
    rows.add(3, 1);
    rows.add(0, 2);
    rows.add(2, 0);
    rows.capacity = window ? 4 : 0;
    rows.tokens = rows.global_rows = 5;
    rows.counted = accepted >= 0;
    if (rows.counted) rows.accepted = {accepted, 0, 0};
    if (!window) rows.initial = {initial ? 1 : 0, 1, 1};
    const Tensor line = support::dense(DType::bf16, {3, 7, kC}), x = support::dense(DType::bf16, {5, kC});
    line.fill(1.0);
    x.fill(1.0);
    Conv conv = oldest_tap(DType::bf16, kW, kC, line, x, rows);
    conv.window = window;
    conv.kind = kind;
    recoverssm::Counters counters;
    conv.run({.counters = &counters});
    EXPECT_EQ(counters.rows, 1);
    EXPECT_EQ(counters.tokens, 3);
    EXPECT_EQ(counters.activation_read, 3 * kPosition);
    EXPECT_EQ(counters.activation_written, 3 * kPosition);
    EXPECT_EQ(counters.total(), 2 * 3 * kPosition + counters.line_read + counters.line_written);
    return std::pair(counters.line_read / kPosition, counters.line_written / kPosition);
  };
  EXPECT_EQ(counted(false, LineKind::rolled, -1, true), std::pair(std::int64_t{3}, std::int64_t{3}));
  EXPECT_EQ(counted(false, LineKind::rolled, -1, false), std::pair(std::int64_t{0}, std::int64_t{3}));
  EXPECT_EQ(counted(true, LineKind::rolled, 1, true), std::pair(std::int64_t{3}, std::int64_t{5}));    // 2 rolled, 3 inputs
  EXPECT_EQ(counted(true, LineKind::anchored, 0, true), std::pair(std::int64_t{3}, std::int64_t{3}));  // the history stays
  EXPECT_EQ(counted(true, LineKind::anchored, 2, true), std::pair(std::int64_t{3}, std::int64_t{6}));
}

}  // namespace
