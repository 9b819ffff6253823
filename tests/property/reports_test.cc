// Faults that other systems had (public reports, rows B01..B58), each as its whole kind. Rows whose kind is a property of its own:
//   B01  kept-count 0: Conv.WindowsMatchTheReference and RuleReference.Snapshots (counts -1..S), Commit.NothingKeptChangesNothing
//   B10  skipped rows leave outputs as they were: RuleReference.*, Conv.*, ShortConv.* (null rows are +0 over a NaN pattern)
//   B14  lengths come from the offsets, not from the table's width: RuleReference.Snapshots, .Verify (ragged, untouched columns)
//   B40  pools interleaved with other data: every pool of these tests (support/layout.h), gap bytes by Untouched
//   B41  gates and q, k, v as slices of one row, odd starts: every RuleTokens of these tests
//   B53  verify against single steps: Steps.Float32StatesDoNotSeeTheGrouping
//   B58  nothing kept the step before, any number of drafts: Lazy.NothingKeptRollsBack (gdn and kda)
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "support/call.h"
#include "support/conv.h"
#include "support/convert.h"
#include "support/plan.h"
#include "support/rule.h"

namespace {

using namespace support;
using recoverssm::ErrorKind;
using recoverssm::LineKind;

// A rule with everything a report needs, all blocks and tokens random.
struct Model {
  Pick pick;
  RuleShape shape;
  RuleWeights weights;
  RulePool pool;

  Model(std::uint64_t seed, const RuleShape& s, int blocks, int S)
      : pick(seed), shape(s), weights(random_weights(pick, s)), pool(random_pool(pick, s, blocks, S)) {}

  recoverssm::Status plain(const RowSet& rows, const RuleTokens& tokens, const Tensor& out, const RulePool& p) {
    const RowTensors index = row_tensors(pick, rows);
    return try_run(recoverssm::GatedDeltaRuleParams{inputs_of(shape, weights, tokens), p.state, out, rows_of(rows, index), {}, {}},
                   random_how(pick));
  }
  recoverssm::Status verify(const RowSet& rows, const RuleTokens& tokens, const Tensor& out, const RulePool& p) {
    const RowTensors index = row_tensors(pick, rows);
    return try_run(
        recoverssm::GatedDeltaRuleVerifyParams{
            inputs_of(shape, weights, tokens), p.state, out, p.records(), rows_of(rows, index), {}},
        random_how(pick));
  }
  void commit(const PlanArrays& plan, const RulePool& p, int null_id = 0) {
    const PlanTensors tensors = plan_tensors(pick, plan);
    const std::array groups = {tensors.group()};
    const std::array layers = {layer_of(shape, weights, p)};
    must_run(recoverssm::CommitParams{groups, layers, p.capacity, null_id}, random_how(pick));
  }
};

RowSet rows_on(const std::vector<int>& blocks, const std::vector<int>& lengths, int capacity) {
  RowSet rows;
  rows.capacity = capacity;
  for (std::size_t i = 0; i < blocks.size(); ++i) rows.add(lengths[i], blocks[i]);
  rows.tokens = rows.global_rows = rows.offsets.back();
  return rows;
}

constexpr RuleShape kSmall = {.H = 1, .HV = 2, .K = 16, .V = 8};

// Conv line and state must describe the same number of tokens after every step, also where everything or a part was refused.
TEST(Reports, B06_LineAndStateKeepTheSameTokens) {
  for (const LineKind kind : {LineKind::anchored, LineKind::rolled}) {
    Model m(6, kSmall, 3, 4);
    ConvShape conv;
    conv.C = 6;
    conv.S = 4;
    conv.kind = kind;
    conv.columns = 7;
    const ConvWeights conv_weights = random_conv_weights(m.pick, conv);
    RowSet rows = rows_on({1, 2}, {4, 4}, 4);
    rows.pool_blocks = 3;
    ConvData data = random_conv_data(m.pick, conv, rows);
    const ConvData start = data;
    RulePool one_by_one = another_pool(m.pick, m.pool);
    std::vector<std::vector<reference::Line>> history(2, std::vector<reference::Line>(6));
    for (int i = 0; i < 2; ++i) {
      for (int ch = 0; ch < 6; ++ch) {
        history[static_cast<std::size_t>(i)][static_cast<std::size_t>(ch)] = line_bits(start.line, i + 1, ch);
        history[static_cast<std::size_t>(i)][static_cast<std::size_t>(ch)].resize(3);
      }
    }
    for (const std::vector<int>& kept : {std::vector{1, 3}, std::vector{kind == LineKind::rolled ? 2 : 0, 4}}) {
      const RuleTokens tokens = random_tokens(m.pick, kSmall, 8);
      const Tensor out = random_out(m.pick, kSmall, 8);
      const Tensor x = random_conv_data(m.pick, conv, rows).x;
      copy_bits(x, data.x);
      data = run_conv(m.pick, conv, conv_weights, rows, data, {});
      ASSERT_TRUE(m.verify(rows, tokens, out, m.pool).ok());
      PlanArrays plan;
      for (int i = 0; i < 2; ++i) plan.add(i + 1, kept[static_cast<std::size_t>(i)]);
      const PlanTensors plan_arrays = plan_tensors(m.pick, plan);
      const std::array groups = {plan_arrays.group()};
      recoverssm::Layer layer = layer_of(m.shape, m.weights, m.pool);
      layer.line = data.line;
      layer.line_kind = kind;
      layer.conv_taps = 4;
      const std::array layers = {layer};
      must_run(recoverssm::CommitParams{groups, layers, 4, 0});
      for (int i = 0; i < 2; ++i) {
        for (int t = 0; t < kept[static_cast<std::size_t>(i)]; ++t) {
          const RuleTokens one = gather(m.pick, kSmall, tokens, {4 * i + t}, 0, 1);
          ASSERT_TRUE(m.plain(rows_on({i + 1}, {1}, 0), one, random_out(m.pick, kSmall, 1), one_by_one).ok());
          for (int ch = 0; ch < 6; ++ch) {
            reference::Line& h = history[static_cast<std::size_t>(i)][static_cast<std::size_t>(ch)];
            h.erase(h.begin());
            h.push_back(raw_bits(conv.T, x.at(4 * i + t, ch)));
          }
        }
        for (int ch = 0; ch < 6; ++ch) {
          reference::Line now = line_bits(data.line, i + 1, ch);
          now.resize(3);
          EXPECT_EQ(now, history[static_cast<std::size_t>(i)][static_cast<std::size_t>(ch)]) << "line of row " << i;
        }
      }
      EXPECT_TRUE(same_bits(m.pool.state, one_by_one.state));
    }
  }
}

// The null id is an argument: with null 0 the padding rows leave a NaN block 0 alone; with null -1 block 0 is a block like any other
// and moves exactly once. B29 is the same with a live row that must not see the NaN.
TEST(Reports, B07_B09_B29_NullBlocks) {
  Model m(7, kSmall, 8, 3);
  const RowSet padded = rows_on({5, 7, 0, 0}, {3, 2, 1, 3}, 3);
  const RuleTokens tokens = random_tokens(m.pick, kSmall, 9);
  const RulePool poisoned = another_pool(m.pick, m.pool);
  for_each(slice(poisoned.state, 0, 0), [&](const Index& i) {
    poisoned.state.set(i[2] % 2 == 0 ? std::numeric_limits<double>::infinity() : std::nan(""), 0, i[1], i[2], i[3]);
  });
  const Tensor clean_out = random_out(m.pick, kSmall, 9), out = random_out(m.pick, kSmall, 9);
  ASSERT_TRUE(m.verify(padded, tokens, clean_out, m.pool).ok());
  Untouched untouched(poisoned.watches());
  for (const TensorView& part : poisoned.record_slices(5, 0, 3)) untouched.except(part);
  for (const TensorView& part : poisoned.record_slices(7, 0, 2)) untouched.except(part);
  ASSERT_TRUE(m.verify(padded, tokens, out, poisoned).ok());
  EXPECT_TRUE(untouched.check());
  EXPECT_TRUE(same_bits(clean_out, out));
  EXPECT_TRUE(all_zero_bits(slice(out, 0, 5, 9)));

  RowSet block_zero = rows_on({0, -1, -1}, {1, 1, 1}, 0);
  block_zero.null_id = -1;
  const RuleTokens three = random_tokens(m.pick, kSmall, 3);
  const RulePool once = another_pool(m.pick, m.pool), alone = another_pool(m.pick, m.pool);
  const Tensor out_three = random_out(m.pick, kSmall, 3);
  ASSERT_TRUE(m.plain(block_zero, three, out_three, once).ok());
  RowSet only = rows_on({0}, {1}, 0);
  only.null_id = -1;
  ASSERT_TRUE(m.plain(only, gather(m.pick, kSmall, three, {0}, 0, 1), random_out(m.pick, kSmall, 1), alone).ok());
  EXPECT_TRUE(same_bits(once.state, alone.state));
  EXPECT_FALSE(same_bits(once.state, m.pool.state));
  EXPECT_TRUE(all_zero_bits(slice(out_three, 0, 1, 3)));
}

// Ids past the pool are refused, never folded by a modulo (6947 mod 26 = 5) or clamped to the last block.
TEST(Reports, B09_IdsPastThePoolAreRefused) {
  Model m(9, kSmall, 26, 2);
  for (const std::vector<int>& blocks :
       {std::vector{5, 6947}, std::vector{25, 26}, std::vector{1, std::numeric_limits<int>::max()}}) {
    const RowSet rows = rows_on(blocks, {1, 2}, 2);
    const RuleTokens tokens = random_tokens(m.pick, kSmall, 3);
    const Tensor out = random_out(m.pick, kSmall, 3);
    const Untouched untouched({{"state", m.pool.state}, {"out", out}});
    EXPECT_EQ(m.verify(rows, tokens, out, m.pool).kind, ErrorKind::out_of_range);
    EXPECT_EQ(m.plain(rows, tokens, out, m.pool).kind, ErrorKind::out_of_range);
    EXPECT_TRUE(untouched.check());
  }
}

// A column of a block table is an index view of stride 4: rows read 10, 14, 18 and not 10, 11, 12.
TEST(Reports, B15_StridedIndexViews) {
  Model m(15, kSmall, 22, 2);
  Tensor table = dense(DType::i32, {3, 4});
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 4; ++j) table.set(10 + 4 * i + j, i, j);
  }
  RowSet rows = rows_on({10, 14, 18}, {1, 2, 1}, 2);
  const RuleTokens tokens = random_tokens(m.pick, kSmall, 4);
  const Tensor out = random_out(m.pick, kSmall, 4), expected = random_out(m.pick, kSmall, 4);
  const RulePool packed = another_pool(m.pick, m.pool), strided_ids = another_pool(m.pick, m.pool);
  ASSERT_TRUE(m.plain(rows, tokens, expected, packed).ok());
  const RowTensors index = row_tensors(m.pick, rows);
  recoverssm::Rows view = rows_of(rows, index);
  view.state_indices = TensorView(table.view.data, DType::i32, {3}, {4});
  must_run(recoverssm::GatedDeltaRuleParams{inputs_of(kSmall, m.weights, tokens), strided_ids.state, out, view, {}, {}});
  EXPECT_TRUE(same_bits(out, expected));
  EXPECT_TRUE(same_bits(packed.state, strided_ids.state));

  RowSet windows = rows;  // table[:, :2] of a 4-wide buffer
  windows.snapshots = windows.counted = true;
  windows.accepted = {1, 2, 1};
  windows.columns = {{10, 11}, {14, 15}, {18, 19}};
  const RowTensors window_index = row_tensors(m.pick, windows);
  const RulePool a = another_pool(m.pick, m.pool), b = another_pool(m.pick, m.pool);
  recoverssm::Rows narrow = rows_of(windows, window_index);
  must_run(recoverssm::GatedDeltaRuleSnapshotsParams{inputs_of(kSmall, m.weights, tokens), a.state, expected, narrow});
  narrow.state_indices = TensorView(table.view.data, DType::i32, {3, 2}, {4, 1});
  must_run(recoverssm::GatedDeltaRuleSnapshotsParams{inputs_of(kSmall, m.weights, tokens), b.state, out, narrow});
  EXPECT_TRUE(same_bits(out, expected));
  EXPECT_TRUE(same_bits(a.state, b.state));
}

// Rows without tokens keep their blocks and their stale ids are not read; no rows, no tokens and null data are success.
TEST(Reports, B17_EmptyRowsAndEmptyCalls) {
  Model m(17, kSmall, 5, 3);
  const RowSet rows = rows_on({3, 9999, 1}, {2, 0, 3}, 3);  // qsl = [0,2,2,5]
  const RuleTokens tokens = random_tokens(m.pick, kSmall, 5);
  const Tensor out = random_out(m.pick, kSmall, 5), alone = random_out(m.pick, kSmall, 3);
  ASSERT_TRUE(m.verify(rows, tokens, out, m.pool).ok());
  ASSERT_TRUE(m.verify(rows_on({1}, {3}, 3), gather(m.pick, kSmall, tokens, {2, 3, 4}, 0, 3), alone, m.pool).ok());
  EXPECT_TRUE(same_bits(slice(out, 0, 2, 5), alone));
  EXPECT_TRUE(m.plain(rows_on({3, 9, 9}, {1, 0, 0}, 0), gather(m.pick, kSmall, tokens, {0}, 0, 1), out, m.pool).ok());

  std::int32_t zeros[2] = {0, 0};
  for (const std::int64_t n : {0, 1}) {  // no rows; one row without tokens
    recoverssm::GatedDeltaRuleVerifyParams p;
    p.inputs = inputs_of(kSmall, m.weights, tokens);
    p.inputs.q = p.inputs.k = TensorView(nullptr, DType::f32, {0, 1, 16});
    p.inputs.v = TensorView(nullptr, DType::f32, {0, 2, 8});
    p.inputs.a = p.inputs.b = TensorView(nullptr, DType::f32, {0, 2});
    p.out = TensorView(nullptr, DType::f32, {0, 2, 8});
    p.state = m.pool.state;
    p.records = m.pool.records();
    p.rows.query_start_loc = TensorView(zeros, DType::i32, {n + 1});
    std::int32_t stale = 9;
    p.rows.state_indices = TensorView(n == 0 ? nullptr : &stale, DType::i32, {n});
    p.rows.window_capacity = 3;
    const Untouched untouched({{"state", m.pool.state}});
    const recoverssm::Status status = try_run(p);
    EXPECT_TRUE(status.ok()) << status.message;
    EXPECT_TRUE(untouched.check());
  }
}

// Address space without memory behind it: only what is touched costs anything.
class SparseMemory {
 public:
  explicit SparseMemory(std::size_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  ~SparseMemory() {
    if (ok()) munmap(data_, bytes_);
  }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;
  bool ok() const { return data_ != MAP_FAILED; }
  void* data() { return data_; }

 private:
  void* data_;
  std::size_t bytes_;
};

TensorView spread(void* data, const Tensor& packed, std::int64_t stride) {
  TensorView view = packed.view;
  view.data = data;
  view.stride[0] = stride;
  copy_bits(packed, view);
  return view;
}

// slot * HV*V*K passes 32 bits: element offsets, and byte offsets, above 2^31 in every op that takes a pool.
TEST(Reports, B33_PoolsLargerThan32Bits) {
  const RuleShape shape = {.H = 1, .HV = 2, .K = 16, .V = 8, .T = DType::bf16, .state = DType::bf16, .out = DType::f32};
  const std::int64_t stride = (std::int64_t{1} << 30) + 64;
  SparseMemory memory(static_cast<std::size_t>(stride) * 3 * 2), record_memory(static_cast<std::size_t>(stride) * 3 * 4);
  if (!memory.ok() || !record_memory.ok()) GTEST_SKIP() << "no address space for a pool of 6 GB";
  Model m(33, shape, 3, 2);
  RulePool packed;
  packed.state = dense(DType::bf16, {3, 2, 8, 16});
  packed.packed = dense(DType::f32, {3, 2, 2, 8 + 16 + 1});
  copy_bits(m.pool.state, packed.state);
  RulePool wide = packed;
  wide.capacity = packed.capacity = 2;
  wide.state.view = spread(memory.data(), packed.state, stride);
  wide.packed.view = spread(record_memory.data(), packed.packed, stride);
  const RowSet rows = rows_on({2}, {2}, 2);
  const RuleTokens tokens = random_tokens(m.pick, shape, 2);
  const Tensor out = random_out(m.pick, shape, 2), expected = random_out(m.pick, shape, 2);
  const auto same = [&](const char* what) {
    EXPECT_TRUE(same_bits(packed.state, wide.state)) << what;
    EXPECT_TRUE(same_bits(packed.packed, wide.packed)) << what;
    EXPECT_TRUE(same_bits(out, expected)) << what;
  };
  for (RulePool* p : {&packed, &wide}) ASSERT_TRUE(m.verify(rows, tokens, p == &wide ? out : expected, *p).ok());
  same("verify");
  PlanArrays plan;
  plan.add(2, 2, 1, 2, 1);
  for (RulePool* p : {&packed, &wide}) m.commit(plan, *p);
  same("commit");
  RowSet plain = rows;
  plain.capacity = 0;
  for (RulePool* p : {&packed, &wide}) ASSERT_TRUE(m.plain(plain, tokens, p == &wide ? out : expected, *p).ok());
  same("plain");
  RowSet snapshots = rows;
  snapshots.snapshots = snapshots.counted = true;
  snapshots.accepted = {2};
  snapshots.columns = {{1, 2}};
  const RowTensors index = row_tensors(m.pick, snapshots);
  for (RulePool* p : {&packed, &wide}) {
    must_run(recoverssm::GatedDeltaRuleSnapshotsParams{inputs_of(shape, m.weights, tokens), p->state, p == &wide ? out : expected,
                                                       rows_of(snapshots, index)});
  }
  same("snapshots");
}

// token * pitch passes 32 bits, signed and unsigned, in the convolutions' x, out and line.
TEST(Reports, B35_TokenStridesLargerThan32Bits) {
  for (const std::int64_t stride : {(std::int64_t{1} << 30) + 8, (std::int64_t{1} << 31) + 8}) {
    SparseMemory x_memory(static_cast<std::size_t>(stride) * 2 * 3), out_memory(static_cast<std::size_t>(stride) * 2 * 3);
    SparseMemory line_memory(static_cast<std::size_t>(stride) * 2 * 3);
    if (!x_memory.ok() || !out_memory.ok() || !line_memory.ok()) GTEST_SKIP() << "no address space for strides of 2^31";
    for (const int S : {0, 3}) {
      Pick pick(35);
      ConvShape shape;
      shape.C = 8;
      shape.T = DType::bf16;
      shape.S = S;
      shape.columns = 5;
      const ConvWeights weights = random_conv_weights(pick, shape);
      RowSet rows = rows_on({2}, {3}, S);
      rows.pool_blocks = 3;
      const ConvData packed = random_conv_data(pick, shape, rows);
      ConvData wide = packed;
      wide.x.view = spread(x_memory.data(), packed.x, stride);
      wide.out.view = spread(out_memory.data(), packed.out, stride);
      wide.line.view = spread(line_memory.data(), packed.line, stride);
      ASSERT_TRUE(try_conv(pick, shape, weights, rows, packed, {}).ok());
      ASSERT_TRUE(try_conv(pick, shape, weights, rows, wide, {}).ok());
      EXPECT_TRUE(same_bits(packed.out, wide.out));
      EXPECT_TRUE(same_bits(packed.line, wide.line));
    }
  }
}

}  // namespace
