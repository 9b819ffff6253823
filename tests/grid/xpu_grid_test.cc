// The grids of the XPU kernels' own tests of the delta rule: 384 verify cases and 64 snapshot cases at H 16, K = V = 128.
//
//   verify     rows {1,4,13} x S {2,3} x HV {32,48} x T {f16,bf16} x state {T,f32} x index {permuted,none} x ragged x null row
//   snapshots  rows {1,4}    x S {2,3} x HV {32,48} x T {f16,bf16} x state {T,f32} x index {permuted,none}
//
// Request r has the same inputs and the same checkpoint in every case of one (HV, T, state), so the float64 result of its first t tokens
// is worked out once and holds for every window length, row count and block order.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "support/call.h"
#include "support/convert.h"
#include "support/plan.h"
#include "support/rule.h"

namespace {

using namespace support;

constexpr int kRequests = 13;
constexpr int kLongest = 3;
constexpr int kH = 16, kK = 128, kV = 128;

// A model layer with 13 requests and what the reference makes of each of their tokens.
struct Model {
  RuleShape shape;
  RuleWeights weights;
  RuleTokens tokens;               // request r's token t is token r*3 + t
  Tensor checkpoints;              // [13, HV, V, K]
  std::vector<float> out;          // [13*3, HV, V], float64 results; kept as float to save memory: far below the tolerance
  std::vector<float> corrections;  // [13*3, HV, V]
  std::vector<float> keys;         // [13*3, HV, K]
  std::vector<float> decay;        // [13*3, HV]
  std::vector<float> states;       // [13*3, HV, V, K], after the token
};

std::size_t at(int token, int head, int HV, int inner) {
  return (static_cast<std::size_t>(token) * static_cast<std::size_t>(HV) + static_cast<std::size_t>(head)) *
         static_cast<std::size_t>(inner);
}

Model make_model(int HV, DType T, DType state) {
  Pick pick(static_cast<std::uint64_t>(HV * 100 + static_cast<int>(T) * 10 + static_cast<int>(state)));
  Model m;
  m.shape = {.H = kH, .HV = HV, .K = kK, .V = kV, .T = T, .state = state, .out = T};
  m.weights = random_weights(pick, m.shape);
  m.tokens = random_tokens(pick, m.shape, kRequests * kLongest);
  m.checkpoints = dense(state, {kRequests, HV, kV, kK});
  for_each(m.checkpoints, [&](const Index& i) { m.checkpoints.set_at(pick.uniform(-0.15, 0.15), i); });
  const std::size_t steps = kRequests * kLongest;
  const auto heads = static_cast<std::size_t>(HV);
  m.out.resize(steps * heads * kV);
  m.corrections.resize(steps * heads * kV);
  m.keys.resize(steps * heads * kK);
  m.decay.resize(steps * heads);
  m.states.resize(steps * heads * kV * kK);
  for (int j = 0; j < HV; ++j) {
    const reference::Head head = head_of(m.shape, m.weights, j);
    for (int r = 0; r < kRequests; ++r) {
      reference::Matrix h = matrix_of(m.checkpoints, r, j);
      for (int t = 0; t < kLongest; ++t) {
        const int token = r * kLongest + t;
        const reference::Step step = reference::advance_rank_one(head, token_of(m.shape, m.tokens, token, j), h);
        std::copy(step.out.begin(), step.out.end(), m.out.begin() + static_cast<std::ptrdiff_t>(at(token, j, HV, kV)));
        std::copy(step.correction.begin(), step.correction.end(),
                  m.corrections.begin() + static_cast<std::ptrdiff_t>(at(token, j, HV, kV)));
        std::copy(step.key.begin(), step.key.end(), m.keys.begin() + static_cast<std::ptrdiff_t>(at(token, j, HV, kK)));
        m.decay[at(token, j, HV, 1)] = static_cast<float>(step.decay[0]);
        std::copy(h.data.begin(), h.data.end(), m.states.begin() + static_cast<std::ptrdiff_t>(at(token, j, HV, kV * kK)));
      }
    }
  }
  return m;
}

struct Shard {
  int HV;
  DType T;
  bool state_is_f32;
};

std::string shard_name(const ::testing::TestParamInfo<Shard>& info) {
  return "HV" + std::to_string(info.param.HV) + "_" + name_of(info.param.T) + "_state_" +
         (info.param.state_is_f32 ? "f32" : name_of(info.param.T));
}

const std::vector<Shard> kShards = {{32, DType::f16, false},  {32, DType::f16, true},  {32, DType::bf16, false},
                                    {32, DType::bf16, true},  {48, DType::f16, false}, {48, DType::f16, true},
                                    {48, DType::bf16, false}, {48, DType::bf16, true}};

constexpr int kVerifyCases = 384;
constexpr int kSnapshotCases = 64;

// Values of all 16-bit patterns.
const std::vector<float>& decoded(DType dtype) {
  static const auto table = [](DType of) {
    std::vector<float> values(65536);
    for (std::uint32_t bits = 0; bits < 65536; ++bits) values[bits] = static_cast<float>(decode(of, &bits));
    return values;
  };
  static const std::vector<float> bf16 = table(DType::bf16), f16 = table(DType::f16);
  return dtype == DType::bf16 ? bf16 : f16;
}

// A contiguous range of a result against the reference.
void expect_near(const Tensor& tensor, const std::byte* got, const float* expected, std::size_t n, double ulps, const char* what) {
  const DType dtype = tensor.dtype();
  const std::vector<float>& table = decoded(dtype);
  for (std::size_t i = 0; i < n; ++i) {
    float g = 0;
    if (dtype == DType::f32) {
      std::memcpy(&g, got + 4 * i, 4);
    } else {
      std::uint16_t bits = 0;
      std::memcpy(&bits, got + 2 * i, 2);
      g = table[bits];
    }
    const double difference = std::fabs(static_cast<double>(g) - static_cast<double>(expected[i]));
    if (difference <= 1e-4) continue;  // the common case first: ulp() is slow
    ASSERT_LE(difference, 1e-4 + ulps * ulp(dtype, static_cast<double>(expected[i])))
        << what << " element " << i << ": " << g << ", expected " << expected[i];
  }
}

// Rows of a case: block of row i, tokens of row i (local, in order).
struct Rows {
  RowSet set;
  std::vector<int> request;  // -1: null row
  std::vector<int> which;    // model token of every local one
};

Rows make_rows(Pick& pick, int n, int S, bool permuted, bool ragged, bool null_row) {
  Rows rows;
  rows.set.capacity = S;
  rows.set.pool_blocks = n + 2;
  const std::vector<int> order = permuted ? pick.permutation(n) : std::vector<int>{};
  for (int i = 0; i < n; ++i) {
    const bool null = null_row && i == n / 2;
    const int length = ragged ? 1 + (i + S) % S : S;
    rows.set.add(length, null ? 0 : 1 + (permuted ? order[static_cast<std::size_t>(i)] : i));
    rows.request.push_back(null ? -1 : i);
    for (int t = 0; t < length; ++t) rows.which.push_back(i * kLongest + t);
  }
  rows.set.tokens = rows.set.global_rows = rows.set.offsets.back();
  return rows;
}

RulePool make_pool(Pick& pick, const Model& m, const Rows& rows, int blocks, int S) {
  RulePool pool;
  pool.blocks = blocks;
  pool.capacity = S;
  // Pages as an engine has them: state and records of one block side by side.
  std::vector<Part> parts = {{m.shape.state, {m.shape.HV, kV, kK}, 3}};
  if (S > 0) parts.push_back({DType::f32, {m.shape.HV, S, kV + kK + 1}, 3});
  const std::vector<Tensor> tensors = interleaved(pick, blocks, parts);
  pool.state = tensors[0];
  if (S > 0) pool.packed = tensors[1];
  const std::size_t bytes = static_cast<std::size_t>(m.shape.HV * kV * kK * recoverssm::size_of(m.shape.state));
  for (int i = 0; i < rows.set.rows(); ++i) {
    if (rows.request[static_cast<std::size_t>(i)] >= 0) {
      std::memcpy(pool.state.at(rows.set.block(i), 0, 0, 0), m.checkpoints.at(rows.request[static_cast<std::size_t>(i)], 0, 0, 0),
                  bytes);
    }
  }
  return pool;
}

bool same_block(const RulePool& a, int block_a, const RulePool& b, int block_b) {
  const Tensor& t = a.state;
  const auto bytes = static_cast<std::size_t>(t.view.shape[1] * t.view.shape[2] * t.view.shape[3] * recoverssm::size_of(t.dtype()));
  return std::memcmp(t.at(block_a, 0, 0, 0), b.state.at(block_b, 0, 0, 0), bytes) == 0;
}

class VerifyGrid : public ::testing::TestWithParam<Shard> {};

void verify_case(const Model& m, int n, int S, bool permuted, bool ragged, bool null_row) {
  const int HV = m.shape.HV;
  Pick pick(static_cast<std::uint64_t>(n * 8 + S));
  const Rows rows = make_rows(pick, n, S, permuted, ragged, null_row);
  const RulePool pool = make_pool(pick, m, rows, n + 2, S);
  const RuleTokens tokens = gather(pick, m.shape, m.tokens, rows.which, 0, rows.set.tokens);
  const RowTensors index = row_tensors(pick, rows.set);
  const Bytes before = pool.state.memory->all();
  // Both output dtypes: T, and fp32 from the same call again (verify is repeatable).
  for (const DType out_dtype : {DType::f32, m.shape.T}) {
    const Tensor out = dense(out_dtype, {rows.set.tokens, HV, kV});
    must_run(
        recoverssm::GatedDeltaRuleVerifyParams{
            inputs_of(m.shape, m.weights, tokens), pool.state, out, pool.records(), rows_of(rows.set, index), {}},
        {2});
    for (int i = 0; i < n; ++i) {
      const int request = rows.request[static_cast<std::size_t>(i)];
      if (request < 0) {
        ASSERT_TRUE(all_zero_bits(slice(out, 0, rows.set.first(i), rows.set.first(i) + rows.set.length(i)))) << "null row";
        continue;
      }
      for (int t = 0; t < rows.set.length(i); ++t) {
        for (int j = 0; j < HV; ++j) {
          expect_near(out, out.at(rows.set.first(i) + t, j, 0), &m.out[at(request * kLongest + t, j, HV, kV)], kV,
                      out_dtype == DType::f32 ? 0 : 2, "out");
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
  // Checkpoint bytes, and everything else but the records of live tokens, are unchanged.
  Bytes& now = pool.state.memory->all();
  for (int b = 0; b < n + 2; ++b) {
    const auto start = static_cast<std::size_t>(pool.state.at(b, 0, 0, 0) - now.data());
    const auto bytes = static_cast<std::size_t>(HV * kV * kK * recoverssm::size_of(m.shape.state));
    ASSERT_EQ(std::memcmp(now.data() + start, before.data() + start, bytes), 0) << "checkpoint of block " << b;
  }
  for (int i = 0; i < n; ++i) {
    const int request = rows.request[static_cast<std::size_t>(i)];
    if (request < 0) continue;
    const int block = rows.set.block(i);
    for (int j = 0; j < HV; ++j) {
      for (int t = 0; t < S; ++t) {
        const std::byte* record = pool.packed.at(block, j, t, 0);
        if (t >= rows.set.length(i)) {
          const std::byte* old = before.data() + (record - now.data());
          ASSERT_EQ(std::memcmp(record, old, sizeof(float) * (kV + kK + 1)), 0) << "record past the window";
          continue;
        }
        const int token = request * kLongest + t;
        expect_near(pool.packed, record, &m.corrections[at(token, j, HV, kV)], kV, 0, "record correction");
        expect_near(pool.packed, record + sizeof(float) * kV, &m.keys[at(token, j, HV, kK)], kK, 0, "record key");
        expect_near(pool.packed, record + sizeof(float) * (kV + kK), &m.decay[at(token, j, HV, 1)], 1, 0, "record decay");
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
  // The fold: row i keeps 1 + i % L tokens. With an fp32 state that is bit for bit what one-token steps give; a 16-bit state is
  // rounded once, like one plain call over the kept tokens.
  PlanArrays plan;
  std::vector<int> kept(static_cast<std::size_t>(n), 0);
  int most = 0;
  for (int i = 0; i < n; ++i) {
    if (rows.request[static_cast<std::size_t>(i)] < 0) continue;
    kept[static_cast<std::size_t>(i)] = 1 + i % rows.set.length(i);
    most = std::max(most, kept[static_cast<std::size_t>(i)]);
    plan.add(rows.set.block(i), kept[static_cast<std::size_t>(i)]);
  }
  const PlanTensors plan_arrays = plan_tensors(pick, plan);
  const std::array groups = {plan_arrays.group()};
  const std::array layers = {layer_of(m.shape, m.weights, pool)};
  must_run(recoverssm::CommitParams{groups, layers, S, 0}, {2});
  const RulePool stepped = make_pool(pick, m, rows, n + 2, 0);
  const bool by_token = m.shape.state == DType::f32;
  for (int t = 0; t < (by_token ? most : 1); ++t) {
    RowSet step;
    std::vector<int> which;
    for (int i = 0; i < n; ++i) {
      const int length = by_token ? (t < kept[static_cast<std::size_t>(i)] ? 1 : 0) : kept[static_cast<std::size_t>(i)];
      for (int u = 0; u < length; ++u) which.push_back(i * kLongest + t + u);
      step.add(length, rows.set.block(i));
    }
    step.tokens = step.global_rows = step.offsets.back();
    const RuleTokens step_tokens = gather(pick, m.shape, m.tokens, which, 0, step.tokens);
    const Tensor out = dense(m.shape.T, {step.tokens, HV, kV});
    const RowTensors step_index = row_tensors(pick, step);
    must_run(
        recoverssm::GatedDeltaRuleParams{
            inputs_of(m.shape, m.weights, step_tokens), stepped.state, out, rows_of(step, step_index), {}, {}},
        {2});
  }
  for (int i = 0; i < n; ++i) {
    const int request = rows.request[static_cast<std::size_t>(i)];
    if (request < 0) continue;
    ASSERT_TRUE(same_block(pool, rows.set.block(i), stepped, rows.set.block(i))) << "folded state of row " << i;
    const int last = request * kLongest + kept[static_cast<std::size_t>(i)] - 1;
    expect_near(pool.state, pool.state.at(rows.set.block(i), 0, 0, 0), &m.states[at(last, 0, HV, kV * kK)],
                static_cast<std::size_t>(HV * kV * kK), m.shape.state == DType::f32 ? 0 : 2, "folded state");
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST_P(VerifyGrid, AllCases) {
  const Shard& s = GetParam();
  const Model m = make_model(s.HV, s.T, s.state_is_f32 ? DType::f32 : s.T);
  int cases = 0;
  for (const int n : {1, 4, 13}) {
    for (const int S : {2, 3}) {
      for (const bool permuted : {false, true}) {
        for (const bool ragged : {false, true}) {
          for (const bool null_row : {false, true}) {
            SCOPED_TRACE("rows " + std::to_string(n) + " S " + std::to_string(S) + (permuted ? " permuted" : "") +
                         (ragged ? " ragged" : "") + (null_row ? " null row" : ""));
            verify_case(m, n, S, permuted, ragged, null_row);
            if (HasFatalFailure()) return;
            ++cases;
          }
        }
      }
    }
  }
  EXPECT_EQ(cases * static_cast<int>(kShards.size()), kVerifyCases);
}

INSTANTIATE_TEST_SUITE_P(Xpu, VerifyGrid, ::testing::ValuesIn(kShards), shard_name);

class SnapshotGrid : public ::testing::TestWithParam<Shard> {};

void snapshot_case(const Model& m, int n, int S, bool permuted) {
  const int HV = m.shape.HV;
  Pick pick(static_cast<std::uint64_t>(n * 8 + S));
  Rows rows = make_rows(pick, n, S, false, false, false);
  rows.set.snapshots = rows.set.counted = true;
  const int blocks = n * S + 1;
  const std::vector<int> order = pick.permutation(n * S);
  for (int i = 0; i < n; ++i) {
    std::vector<int> columns;
    for (int t = 0; t < S; ++t) columns.push_back(1 + (permuted ? order[static_cast<std::size_t>(i * S + t)] : i * S + t));
    rows.set.accepted.push_back(1 + i % S);  // starts from the state that the step before left in this column
    rows.set.blocks[static_cast<std::size_t>(i)] = columns[static_cast<std::size_t>(i % S)];
    rows.set.columns.push_back(columns);
  }
  const RulePool pool = make_pool(pick, m, rows, blocks, 0);
  const RuleTokens tokens = gather(pick, m.shape, m.tokens, rows.which, 0, rows.set.tokens);
  const RowTensors index = row_tensors(pick, rows.set);
  const Tensor out = dense(m.shape.T, {rows.set.tokens, HV, kV});
  must_run(
      recoverssm::GatedDeltaRuleSnapshotsParams{inputs_of(m.shape, m.weights, tokens), pool.state, out, rows_of(rows.set, index)},
      {2});
  for (int i = 0; i < n; ++i) {
    for (int t = 0; t < S; ++t) {
      const int token = i * kLongest + t;
      for (int j = 0; j < HV; ++j)
        expect_near(out, out.at(rows.set.first(i) + t, j, 0), &m.out[at(token, j, HV, kV)], kV, 2, "out");
      expect_near(pool.state, pool.state.at(rows.set.columns[static_cast<std::size_t>(i)][static_cast<std::size_t>(t)], 0, 0, 0),
                  &m.states[at(token, 0, HV, kV * kK)], static_cast<std::size_t>(HV * kV * kK), m.shape.state == DType::f32 ? 0 : 2,
                  "snapshot");
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST_P(SnapshotGrid, AllCases) {
  const Shard& s = GetParam();
  const Model m = make_model(s.HV, s.T, s.state_is_f32 ? DType::f32 : s.T);
  int cases = 0;
  for (const int n : {1, 4}) {
    for (const int S : {2, 3}) {
      for (const bool permuted : {false, true}) {
        SCOPED_TRACE("rows " + std::to_string(n) + " S " + std::to_string(S) + (permuted ? " permuted" : ""));
        snapshot_case(m, n, S, permuted);
        if (HasFatalFailure()) return;
        ++cases;
      }
    }
  }
  EXPECT_EQ(cases * static_cast<int>(kShards.size()), kSnapshotCases);
}

INSTANTIATE_TEST_SUITE_P(Xpu, SnapshotGrid, ::testing::ValuesIn(kShards), shard_name);

}  // namespace
