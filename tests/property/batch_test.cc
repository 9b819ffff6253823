// A row's bits depend on that row alone: not on its batch, the order of rows, the number of threads, the SIMD target or the strides.
#include <gtest/gtest.h>

#include "support/call.h"
#include "support/conv.h"
#include "support/rule.h"

namespace {

using namespace support;

// Every combination of target and thread count on this machine.
std::vector<How> every_how() {
  std::vector<How> all;
  for (const recoverssm::Target target : recoverssm::available_targets()) {
    for (const int threads : {1, 2, 4}) all.push_back({threads, target, nullptr});
  }
  return all;
}

// The rows of `rows` in another order, with their tokens moved along. token_index keeps every token's global row.
struct Shuffled {
  RowSet rows;
  std::vector<int> which;  // old local token of every new one
};

Shuffled shuffled(Pick& pick, const RowSet& rows) {
  Shuffled s;
  s.rows.capacity = rows.capacity;
  s.rows.null_id = rows.null_id;
  s.rows.pool_blocks = rows.pool_blocks;
  s.rows.counted = rows.counted;
  s.rows.global_rows = rows.global_rows;
  for (const int i : pick.permutation(rows.rows())) {
    const auto u = static_cast<std::size_t>(i);
    s.rows.add(rows.length(i), rows.block(i));
    if (!rows.initial.empty()) s.rows.initial.push_back(rows.initial[u]);
    if (rows.counted) s.rows.accepted.push_back(rows.accepted[u]);
    for (int t = 0; t < rows.length(i); ++t) {
      s.which.push_back(rows.first(i) + t);
      s.rows.token_index.push_back(rows.global(rows.first(i) + t));
    }
  }
  s.rows.tokens = s.rows.offsets.back();
  return s;
}

enum class Op { plain, verify, lazy };

struct RuleRun {
  RulePool pool;
  Tensor out;
};

RuleRun run_rule(Pick& pick, Op op, const RuleShape& shape, const RuleWeights& weights, const RuleTokens& tokens,
                 const RowSet& rows, const RulePool& start, const How& how) {
  RuleRun r{another_pool(pick, start), random_out(pick, shape, rows.global_rows)};
  r.out.fill(7.0);
  const RowTensors index = row_tensors(pick, rows);
  const recoverssm::RuleInputs inputs = inputs_of(shape, weights, tokens);
  if (op == Op::plain) {
    must_run(recoverssm::GatedDeltaRuleParams{inputs, r.pool.state, r.out, rows_of(rows, index), {}, {}}, how);
  } else {
    const TensorView pending = op == Op::lazy ? r.pool.pending.view : TensorView{};
    must_run(recoverssm::GatedDeltaRuleVerifyParams{inputs, r.pool.state, r.out, r.pool.records(), rows_of(rows, index), pending},
             how);
  }
  return r;
}

void same_run(const RuleRun& a, const RuleRun& b, const std::string& what) {
  require(same_bits(a.out, b.out), what + ": out");
  require(same_bits(a.pool.state, b.pool.state), what + ": state");
  for (const auto& [x, y] : {std::pair{a.pool.packed, b.pool.packed}, std::pair{a.pool.corrections, b.pool.corrections},
                             std::pair{a.pool.key_gate, b.pool.key_gate}}) {
    if (x.present()) require(same_bits(x, y), what + ": records");
  }
  require(same_bits(a.pool.pending, b.pool.pending), what + ": pending");
}

void rule_rows_stand_alone(Op op) {
  property(80, [op](Pick& pick) {
    const RuleShape shape = random_rule_shape(pick);
    const RuleWeights weights = random_weights(pick, shape);
    RowOptions options;
    options.max_rows = 5;
    options.capacity = op == Op::plain ? 0 : pick.between(1, 6);
    options.initial = op == Op::plain;
    options.accepted = op == Op::lazy;
    const RowSet rows = random_rows(pick, options);
    const RuleTokens tokens = random_tokens(pick, shape, rows.tokens);
    RulePool start = random_pool(pick, shape, rows.pool_blocks, options.capacity);
    if (op == Op::lazy) {  // records to fold: those of a window before
      RowSet before = rows;
      before.counted = true;
      for (int& count : before.accepted) count = 0;
      start = run_rule(pick, Op::lazy, shape, weights, random_tokens(pick, shape, rows.tokens), before, start, {}).pool;
    }
    pick.log(shape.text());
    pick.log(rows.text());
    const RuleRun expected = run_rule(pick, op, shape, weights, tokens, rows, start, {});

    for (const How& how : every_how()) {
      same_run(expected, run_rule(pick, op, shape, weights, tokens, rows, start, how),
               std::string(name_of(how.target)) + " " + std::to_string(how.threads) + " threads");
    }
    const Shuffled s = shuffled(pick, rows);
    const RuleTokens moved = gather(pick, shape, tokens, s.which, 0, s.rows.tokens);
    same_run(expected, run_rule(pick, op, shape, weights, moved, s.rows, start, random_how(pick)), "rows in another order");

    // Each row alone, one behind the other on the same pool: together they give what the batch gave.
    RuleRun alone{another_pool(pick, start), random_out(pick, shape, rows.global_rows)};
    alone.out.fill(7.0);
    for (int i = 0; i < rows.rows(); ++i) {
      const RuleRun one = run_rule(pick, op, shape, weights, tokens, only_row(rows, i), alone.pool, random_how(pick));
      for (int t = 0; t < rows.length(i); ++t) {
        const int row = rows.global(rows.first(i) + t);
        copy_bits(slice(one.out, 0, row), slice(alone.out, 0, row));
      }
      alone.pool = one.pool;
    }
    same_run(expected, alone, "row by row");
  });
}

TEST(Batch, PlainRowsStandAlone) { rule_rows_stand_alone(Op::plain); }
TEST(Batch, VerifyRowsStandAlone) { rule_rows_stand_alone(Op::verify); }
TEST(Batch, LazyVerifyRowsStandAlone) { rule_rows_stand_alone(Op::lazy); }

TEST(Batch, ConvolutionRowsStandAlone) {
  property(120, [](Pick& pick) {
    const bool window = pick.chance(50);
    const ConvShape shape = random_conv_shape(pick, window ? pick.between(1, 6) : 0);
    RowOptions options;
    options.max_rows = 5;
    options.capacity = shape.S;
    options.initial = !window;
    options.accepted = window;
    const RowSet rows = random_rows(pick, options);
    const ConvWeights weights = random_conv_weights(pick, shape);
    const ConvData start = random_conv_data(pick, shape, rows);
    pick.log(shape.text());
    pick.log(rows.text());
    const ConvData expected = run_conv(pick, shape, weights, rows, start, {});
    const auto same = [&](const ConvData& other, const std::string& what) {
      require(same_bits(expected.out, other.out), what + ": out");
      require(same_bits(expected.line, other.line), what + ": line");
    };
    for (const How& how : every_how()) {
      same(run_conv(pick, shape, weights, rows, start, how),
           std::string(name_of(how.target)) + " " + std::to_string(how.threads) + " threads");
    }
    same(run_conv(pick, shape, weights, shuffled(pick, rows).rows, start, random_how(pick)), "rows in another order");
    ConvData alone = start;
    for (int i = 0; i < rows.rows(); ++i) alone = run_conv(pick, shape, weights, only_row(rows, i), alone, random_how(pick));
    same(alone, "row by row");
  });
}

}  // namespace
