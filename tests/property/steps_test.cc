// Grouping of tokens into calls changes no bit: n one-token steps, one n-token call, one n-token window and the states that commit
// makes of it, snapshots. No tolerance anywhere in this file.
#include <gtest/gtest.h>

#include <array>

#include "support/call.h"
#include "support/plan.h"
#include "support/rule.h"

namespace {

using namespace support;

// Windows of one layer, all rows live, with everything a comparison starts from.
struct Windows {
  RuleShape shape;
  RuleWeights weights;
  RowSet rows;
  RuleTokens tokens;
  RulePool pool;  // before any call
};

Windows random_windows(Pick& pick, int longest) {
  Windows w;
  w.shape = random_rule_shape(pick);
  w.weights = random_weights(pick, w.shape);
  RowOptions options;
  options.capacity = pick.between(1, longest);
  options.min_rows = 1;
  options.max_rows = 3;
  options.nulls = options.empties = false;
  w.rows = random_rows(pick, options);
  w.tokens = random_tokens(pick, w.shape, w.rows.tokens);
  w.pool = random_pool(pick, w.shape, w.rows.pool_blocks, options.capacity);
  pick.log(w.shape.text());
  pick.log(w.rows.text());
  return w;
}

struct Result {
  RulePool pool;
  Tensor out;  // global rows of w.rows
};

Result verified(Pick& pick, const Windows& w) {
  Result r{another_pool(pick, w.pool), random_out(pick, w.shape, w.rows.global_rows)};
  const RowTensors index = row_tensors(pick, w.rows);
  must_run(
      recoverssm::GatedDeltaRuleVerifyParams{
          inputs_of(w.shape, w.weights, w.tokens), r.pool.state, r.out, r.pool.records(), rows_of(w.rows, index), {}},
      random_how(pick));
  return r;
}

// Plain call over tokens first..first+length-1 of every row (fewer where the row ends). Adds to `r`.
void plain(Pick& pick, const Windows& w, Result& r, int first, int length) {
  RowSet rows;
  rows.null_id = w.rows.null_id;
  std::vector<int> which;
  for (int i = 0; i < w.rows.rows(); ++i) {
    const int n = std::min(length, w.rows.length(i) - first);
    for (int t = 0; t < n; ++t) {
      which.push_back(w.rows.first(i) + first + t);
      rows.token_index.push_back(w.rows.global(which.back()));
    }
    rows.add(std::max(n, 0), w.rows.block(i));
  }
  rows.tokens = static_cast<int>(which.size());
  const RuleTokens tokens = gather(pick, w.shape, w.tokens, which, 0, rows.tokens);
  const RowTensors index = row_tensors(pick, rows);
  must_run(
      recoverssm::GatedDeltaRuleParams{inputs_of(w.shape, w.weights, tokens), r.pool.state, r.out, rows_of(rows, index), {}, {}},
      random_how(pick));
}

Result fresh(Pick& pick, const Windows& w) { return {another_pool(pick, w.pool), random_out(pick, w.shape, w.rows.global_rows)}; }

void commit_first(Pick& pick, const Windows& w, const RulePool& pool, int c) {
  PlanArrays plan;
  for (int i = 0; i < w.rows.rows(); ++i) plan.add(w.rows.block(i), std::min(c, w.rows.length(i)));
  const PlanTensors tensors = plan_tensors(pick, plan);
  const std::array groups = {tensors.group()};
  const std::array layers = {layer_of(w.shape, w.weights, pool)};
  must_run(recoverssm::CommitParams{groups, layers, w.rows.capacity, w.rows.null_id}, random_how(pick));
}

void same_outputs(const Windows& w, const Result& a, const Result& b, int tokens, const char* what) {
  for (int i = 0; i < w.rows.rows(); ++i) {
    for (int t = 0; t < std::min(tokens, w.rows.length(i)); ++t) {
      const int row = w.rows.global(w.rows.first(i) + t);
      require(same_bits(slice(a.out, 0, row), slice(b.out, 0, row)), std::string("outputs, ") + what);
    }
  }
}

// A window's outputs are those of a plain call over its tokens, and committing c of them gives the state of a plain call over c.
TEST(Steps, WindowAndCommitEqualOnePlainCall) {
  property(150, [](Pick& pick) {
    const Windows w = random_windows(pick, 8);
    const Result window = verified(pick, w);
    for (int c = 1; c <= w.rows.capacity; ++c) {
      Result whole = fresh(pick, w);
      plain(pick, w, whole, 0, c);
      same_outputs(w, window, whole, c, "plain call of c tokens");
      const RulePool committed = another_pool(pick, window.pool);
      commit_first(pick, w, committed, c);
      require(same_bits(committed.state, whole.pool.state), "state after commit of " + std::to_string(c));
    }
  });
}

// With an fp32 state the same holds for one-token steps, and any other grouping.
TEST(Steps, Float32StatesDoNotSeeTheGrouping) {
  property(150, [](Pick& pick) {
    Windows w = random_windows(pick, 8);
    w.shape.state = DType::f32;
    w.pool = random_pool(pick, w.shape, w.rows.pool_blocks, w.rows.capacity);
    const Result window = verified(pick, w);
    Result steps = fresh(pick, w);
    for (int t = 0; t < w.rows.capacity; ++t) {
      plain(pick, w, steps, t, 1);
      const RulePool committed = another_pool(pick, window.pool);
      commit_first(pick, w, committed, t + 1);
      require(same_bits(committed.state, steps.pool.state), "state after " + std::to_string(t + 1) + " one-token steps");
    }
    same_outputs(w, window, steps, w.rows.capacity, "one-token steps");
    Result pieces = fresh(pick, w);
    for (int t = 0; t < w.rows.capacity;) {
      const int n = pick.between(1, w.rows.capacity - t);
      plain(pick, w, pieces, t, n);
      t += n;
    }
    same_outputs(w, window, pieces, w.rows.capacity, "pieces");
    require(same_bits(pieces.pool.state, steps.pool.state), "states of pieces");
  });
}

// The snapshot after token t is what verify and a commit of t+1 tokens make of the same block; also rounded to 16 bits.
TEST(Steps, SnapshotsEqualVerifyAndCommit) {
  property(150, [](Pick& pick) {
    const Windows w = random_windows(pick, 6);
    const int S = w.rows.capacity;
    const Result window = verified(pick, w);

    RowSet rows = w.rows;  // row i starts from its own block and stores token t to block base + i*S + t
    rows.snapshots = rows.counted = true;
    const int base = w.pool.blocks;
    for (int i = 0; i < rows.rows(); ++i) {
      std::vector<int> columns;
      for (int t = 0; t < S; ++t) columns.push_back(base + i * S + t);
      const int count = pick.between(0, S);
      rows.accepted.push_back(count);
      rows.columns.push_back(columns);
    }
    const RulePool pool = random_pool(pick, w.shape, base + rows.rows() * S, 0);
    for (int i = 0; i < rows.rows(); ++i) {
      const int start = rows.columns[static_cast<std::size_t>(i)][static_cast<std::size_t>(std::max(rows.count(i) - 1, 0))];
      copy_bits(slice(w.pool.state, 0, rows.block(i)), slice(pool.state, 0, start));
    }
    const Tensor out = random_out(pick, w.shape, rows.global_rows);
    const RowTensors index = row_tensors(pick, rows);
    must_run(
        recoverssm::GatedDeltaRuleSnapshotsParams{inputs_of(w.shape, w.weights, w.tokens), pool.state, out, rows_of(rows, index)},
        random_how(pick));

    for (int c = 1; c <= S; ++c) {
      const RulePool committed = another_pool(pick, window.pool);
      commit_first(pick, w, committed, c);
      for (int i = 0; i < rows.rows(); ++i) {
        if (rows.length(i) < c) continue;
        const int column = rows.columns[static_cast<std::size_t>(i)][static_cast<std::size_t>(c - 1)];
        require(same_bits(slice(committed.state, 0, rows.block(i)), slice(pool.state, 0, column)),
                "snapshot " + std::to_string(c - 1));
      }
    }
    same_outputs(w, window, {pool, out}, S, "snapshots");
  });
}

// Verify can be repeated: same outputs, same records, whatever the records held.
TEST(Steps, VerifyIsRepeatable) {
  property(80, [](Pick& pick) {
    const Windows w = random_windows(pick, 5);
    const Result first = verified(pick, w);
    Windows again = w;
    again.pool = first.pool;  // records of the first run are still there
    const Result second = verified(pick, again);
    require(same_bits(first.pool.state, w.pool.state), "checkpoint");
    same_outputs(w, first, second, w.rows.capacity, "second run");
    for (const auto& [a, b] :
         {std::pair{first.pool.packed, second.pool.packed}, std::pair{first.pool.corrections, second.pool.corrections},
          std::pair{first.pool.key_gate, second.pool.key_gate}}) {
      if (a.present()) require(same_bits(a, b), "records");
    }
  });
}

// A prefill of thousands of tokens equals the same prefill in pieces.
TEST(Steps, LongPrefillInPieces) {
  for (const Gate gate : {Gate::gdn, Gate::kda}) {
    Pick pick(gate == Gate::gdn ? 11 : 12);
    Windows w;
    w.shape = {.gate = gate, .H = 1, .HV = 2, .K = 40, .V = 19, .T = DType::bf16, .out = DType::bf16};
    w.weights = random_weights(pick, w.shape);
    w.rows.capacity = 3000;
    w.rows.add(3000, 1);
    w.rows.tokens = w.rows.global_rows = 3000;
    w.rows.pool_blocks = 2;
    w.tokens = random_tokens(pick, w.shape, 3000);
    w.pool = random_pool(pick, w.shape, 2, 0);
    Result whole = fresh(pick, w);
    plain(pick, w, whole, 0, 3000);
    Result pieces = fresh(pick, w);
    for (int t = 0; t < 3000;) {
      const int n = pick.one_of({1, 63, 64, 65, 700});
      plain(pick, w, pieces, t, n);
      t += n;
    }
    same_outputs(w, whole, pieces, 3000, "pieces");
    EXPECT_TRUE(same_bits(whole.pool.state, pieces.pool.state));
  }
}

}  // namespace
