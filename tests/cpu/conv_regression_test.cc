// causal_conv1d and causal_conv1d_window: faults other systems had, one test a kind, with the smallest input that shows it. Numbers
// (B26, ...) are rows of the project's list of public reports.
#include <sys/mman.h>

#include "cpu/conv_case.h"

namespace {

using namespace conv_case;
using support::property;
using support::require;
using support::same_bits;
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

Tensor line_of(DType T, int blocks, int cols, int C, bool channels_outside) {
  Tensor line = support::dense(T, channels_outside ? support::Shape{blocks, C, cols} : support::Shape{blocks, cols, C});
  if (channels_outside) {
    std::swap(line.view.shape[1], line.view.shape[2]);
    std::swap(line.view.stride[1], line.view.stride[2]);
  }
  return line;
}

// One position of block 1.
void slice_fill(const Tensor& line, int position, double value) {
  Tensor part = line;
  part.view = slice(slice(line, 0, 1), 1, position);
  part.fill(value);
}

// B26: the shift inside one block, where source and destination overlap, in both memory orders, many times over. Positions hold
// their own number: a history of accepted-1, accepted, accepted+1 is accepted, accepted+1, 100 one token later; what is behind it
// stays.
TEST(ConvRegression, OverlappingShift) {
  constexpr int kW = 4, kS = 4, kCols = 6, kC = 8192, kRepeats = 40;
  RowSet rows;
  rows.add(1, 1);
  rows.counted = true;
  rows.tokens = rows.global_rows = 1;
  const Tensor x = support::dense(DType::bf16, {1, kC});
  x.fill(100.0);
  for (const bool window : {false, true}) {
    for (const bool channels_outside : {false, true}) {
      const Tensor start = line_of(DType::bf16, 2, kCols, kC, channels_outside);
      support::for_each(start, [&](const support::Index& i) { start.set_at(static_cast<double>(i[1]), i); });
      for (const int accepted : {2, 3, 4}) {
        rows.accepted = {accepted};
        rows.capacity = window ? kS : 0;
        const Tensor want = clone(start), want_out = support::dense(DType::bf16, {1, kC});
        want_out.fill(accepted - 1);
        slice_fill(want, 0, accepted);
        slice_fill(want, 1, accepted + 1);
        slice_fill(want, 2, 100);
        for (int repeat = 0; repeat < kRepeats; ++repeat) {
          Conv conv = oldest_tap(DType::bf16, kW, kC, clone(start), x, rows);
          conv.window = window;
          conv.run({.threads = repeat % 2 == 0 ? 1 : 4});
          ASSERT_TRUE(conv.line.memory->all() == want.memory->all()) << same_memory(conv.line, want).message();
          ASSERT_TRUE(conv.out.memory->all() == want_out.memory->all()) << same_memory(conv.out, want_out).message();
        }
      }
    }
  }
}

// B15: index arrays are columns of wider tables. B14, B57: a speculative convolution with S blocks a row uses the block of column 0
// and no other, whatever the row's length.
TEST(ConvRegression, StridedIndicesReadColumnZero) {
  constexpr int kS = 4, kW = 4, kC = 3;
  const Tensor table = support::dense(DType::i32, {3, kS});
  for (int i = 0; i < 12; ++i) table.set(10 + i, i / kS, i % kS);
  const Tensor counts = support::dense(DType::i32, {3, 2});
  for (int i = 0; i < 3; ++i) counts.set(i + 1, i, 0), counts.set(77, i, 1);

  RowSet rows;
  for (const int i : {0, 1, 2}) rows.add(std::vector<int>{4, 2, 3}[static_cast<std::size_t>(i)], 10 + kS * i);
  rows.counted = true;
  rows.accepted = {1, 2, 3};
  rows.capacity = kS;
  rows.tokens = rows.global_rows = 9;
  Pick pick(7);
  const Tensor line = support::dense(DType::f32, {22, kW - 1 + kS - 1, kC}), x = support::dense(DType::f32, {9, kC});
  fill_normal(pick, line);
  fill_normal(pick, x);
  Conv conv = oldest_tap(DType::f32, kW, kC, line, x, rows);
  conv.window = true;
  conv.tensors.state_indices = table;
  conv.tensors.state_indices.view = {table.view.data, DType::i32, {3}, {kS}};
  conv.tensors.num_accepted.view = {counts.view.data, DType::i32, {3}, {2}};
  conv.tensors.num_accepted.memory = counts.memory;
  const Expected want = expected(conv);
  conv.run();
  EXPECT_TRUE(same_memory(conv.line, want.line));  // blocks 11..13, 15..17, 19..21 among the untouched
  EXPECT_TRUE(same_memory(conv.out, want.out));
}

// B43: a line longer than W-1 keeps its history at the front; later positions are neither read nor moved. Every width.
TEST(ConvRegression, LongLineKeepsHistoryInFront) {
  for (int W = 2; W <= 8; ++W) {
    const Tensor line = support::dense(DType::f32, {2, 12, 1}), x = support::dense(DType::f32, {1, 1});
    for (int p = 0; p < 12; ++p) line.set(p, 1, p, 0);
    x.set(50, 0, 0);
    RowSet rows;
    rows.add(1, 1);
    rows.tokens = rows.global_rows = 1;
    Conv conv = oldest_tap(DType::f32, W, 1, line, x, rows);
    conv.run();
    EXPECT_EQ(conv.out.get(0, 0), 0) << W;
    for (int p = 0; p < 12; ++p) EXPECT_EQ(line.get(1, p, 0), p < W - 2 ? p + 1 : p == W - 2 ? 50 : p) << W << " position " << p;
  }
}

// B07, B10, B09, B17: padding. Null rows give zeros (in place too) and touch nothing, stale ids of empty rows are not read, and
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

// B61: a row without initial state starts from zeros by selection: a reused block full of NaN does not leak, and its line is
// written.
TEST(ConvRegression, NoInitialStateIsSelection) {
  const Tensor line = support::dense(DType::bf16, {2, 3, 5}), x = support::dense(DType::bf16, {2, 5});
  line.fill(std::nan(""));
  x.fill(2.0);
  RowSet rows;
  rows.add(2, 1);
  rows.initial = {0};
  rows.tokens = rows.global_rows = 2;
  Conv conv = oldest_tap(DType::bf16, 4, 5, line, x, rows);
  support::for_each(conv.weight, [&](const support::Index& i) { conv.weight.set_at(1.0, i); });
  conv.run();
  for (int c = 0; c < 5; ++c) {
    EXPECT_EQ(conv.out.get(0, c), 2.0);
    EXPECT_EQ(conv.out.get(1, c), 4.0);
    EXPECT_EQ(support::raw_bits(DType::bf16, line.at(1, 0, c)), 0U);
    EXPECT_EQ(line.get(1, 1, c), 2.0);
    EXPECT_EQ(line.get(1, 2, c), 2.0);
  }
}

// B35: token strides beyond 32 bits of elements. The memory is reserved, not used: only the touched pages exist.
TEST(ConvRegression, HugeTokenStrides) {
  for (const std::int64_t stride : {(std::int64_t{1} << 30) + 8, (std::int64_t{1} << 31) + 8}) {
    constexpr int kC = 5, kTokens = 3;
    const auto bytes = static_cast<std::size_t>((stride * (kTokens - 1) + kC) * 2 + 4096);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) GTEST_SKIP() << "cannot reserve " << bytes << " bytes";
    RowSet rows;
    rows.add(kTokens, 1);
    rows.tokens = rows.global_rows = kTokens;
    Pick pick(5);
    const Tensor x = support::dense(DType::bf16, {kTokens, kC}), line = support::dense(DType::bf16, {2, 3, kC});
    fill_normal(pick, x);
    fill_normal(pick, line);
    Conv packed = oldest_tap(DType::bf16, 4, kC, clone(line), x, rows);
    fill_normal(pick, packed.weight);
    Conv huge = packed;
    huge.line = clone(line);
    huge.x.view = huge.out.view = {memory, DType::bf16, {kTokens, kC}, {stride, 1}};
    support::copy_bits(x, huge.x);
    packed.run();
    huge.run();
    EXPECT_TRUE(same_bits(huge.out, packed.out));
    EXPECT_TRUE(same_memory(huge.line, packed.line));
    munmap(memory, bytes);
  }
}

// A workspace goes from call to call with whatever the last one left in it, here the widened weights of another layer.
TEST(ConvRegression, WorkspaceContentsMeanNothing) {
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
