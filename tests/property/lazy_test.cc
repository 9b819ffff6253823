// Lazy commit: sessions of several steps, once with commit after each verify, once with verify folding what the step before left, give
// the same bits in outputs, records and (after materialize) states.
#include <gtest/gtest.h>

#include <array>

#include "support/call.h"
#include "support/plan.h"
#include "support/rule.h"

namespace {

using namespace support;

struct Session {
  RuleShape shape;
  RuleWeights weights;
  int S = 1;
  RulePool eager, lazy;
  std::vector<int> waiting;  // per block: kept tokens of the last window, which the lazy pool has not folded yet
};

Session random_session(Pick& pick) {
  Session s;
  s.shape = random_rule_shape(pick);
  s.weights = random_weights(pick, s.shape);
  // Rows of more than 16 tokens run in chunks, between which each tile of state rows waits in scratch.
  s.S = pick.chance(25) ? pick.between(17, 40) : pick.between(1, 8);
  s.eager = random_pool(pick, s.shape, 6, s.S);
  s.lazy = another_pool(pick, s.eager);
  s.waiting.assign(6, 0);
  pick.log(s.shape.text());
  return s;
}

// The count a caller hands in for a block: negative for nothing, and past the window where all of it is kept.
int previous_count(Pick& pick, const Session& s, int block) {
  const int kept = s.waiting[static_cast<std::size_t>(block)];
  if (block > 0 && kept >= s.lazy.pending.get(block) && pick.chance(40)) return pick.between(kept, s.S);
  return kept == 0 && pick.chance(30) ? -1 : kept;
}

// Rows of one step: some blocks of 1..5, some windows empty, some null. `kept` becomes the counts of the windows before.
RowSet step_rows(Pick& pick, const Session& s) {
  RowSet rows;
  rows.capacity = s.S;
  rows.counted = true;
  const int n = pick.between(1, 4);
  const std::vector<int> ids = pick.distinct(n, 1, 5);
  for (int i = 0; i < n; ++i) {
    const int block = pick.chance(15) ? 0 : ids[static_cast<std::size_t>(i)];
    rows.add(pick.chance(10) ? 0 : pick.between(1, s.S), block);
    rows.accepted.push_back(previous_count(pick, s, block));
  }
  rows.tokens = rows.global_rows = rows.offsets.back();
  return rows;
}

void same_outputs(const RowSet& rows, const Tensor& a, const Tensor& b) {
  for (int t = 0; t < rows.offsets.back(); ++t) require(same_bits(slice(a, 0, t), slice(b, 0, t)), "outputs");
}

TEST(Lazy, SessionsEqualEagerCommit) {
  property(200, [](Pick& pick) {
    Session s = random_session(pick);
    const int steps = pick.between(1, 5);
    for (int step = 0; step < steps; ++step) {
      const RowSet rows = step_rows(pick, s);
      pick.log(rows.text());
      const RuleTokens tokens = random_tokens(pick, s.shape, rows.tokens);
      const Tensor out_eager = random_out(pick, s.shape, rows.tokens);
      const Tensor out_lazy = random_out(pick, s.shape, rows.tokens);
      const recoverssm::RuleInputs inputs = inputs_of(s.shape, s.weights, tokens);
      RowSet plain_rows = rows;
      plain_rows.counted = false;
      const RowTensors eager_index = row_tensors(pick, plain_rows);
      const RowTensors lazy_index = row_tensors(pick, rows);
      const bool decode = pick.chance(25);  // plain rows in between: they fold, then continue
      if (decode) {
        RowSet plain = rows;
        plain.capacity = 0;
        RowSet plain_eager = plain;
        plain_eager.counted = false;
        must_run(recoverssm::GatedDeltaRuleParams{inputs, s.eager.state, out_eager, rows_of(plain_eager, eager_index), {}, {}},
                 random_how(pick));
        must_run(recoverssm::GatedDeltaRuleParams{inputs, s.lazy.state, out_lazy, rows_of(plain, lazy_index), s.lazy.pending,
                                                  s.lazy.records()},
                 random_how(pick));
        for (int i = 0; i < rows.rows(); ++i) {
          if (!rows.live(i)) continue;
          s.waiting[static_cast<std::size_t>(rows.block(i))] = 0;
          require(s.lazy.pending.get(rows.block(i)) == 0, "a plain row leaves pending 0");
          require(same_bits(slice(s.eager.state, 0, rows.block(i)), slice(s.lazy.state, 0, rows.block(i))),
                  "state after a plain row");
        }
        same_outputs(rows, out_eager, out_lazy);
        continue;
      }
      must_run(
          recoverssm::GatedDeltaRuleVerifyParams{
              inputs, s.eager.state, out_eager, s.eager.records(), rows_of(plain_rows, eager_index), {}},
          random_how(pick));
      Untouched untouched(s.lazy.watches());
      for (int i = 0; i < rows.rows(); ++i) {
        if (!rows.live(i)) continue;
        const bool folds = rows.count(i) > 0 && s.lazy.pending.get(rows.block(i)) > 0;
        if (folds) untouched.except(slice(s.lazy.state, 0, rows.block(i)));  // no fold, no write
        untouched.except(slice(s.lazy.pending, 0, rows.block(i)));
        for (const TensorView& part : s.lazy.record_slices(rows.block(i), 0, rows.length(i))) untouched.except(part);
      }
      must_run(recoverssm::GatedDeltaRuleVerifyParams{inputs, s.lazy.state, out_lazy, s.lazy.records(), rows_of(rows, lazy_index),
                                                      s.lazy.pending},
               random_how(pick));
      require(untouched.check());
      same_outputs(rows, out_eager, out_lazy);

      PlanArrays plan;
      for (int i = 0; i < rows.rows(); ++i) {
        if (!rows.live(i)) continue;
        const int block = rows.block(i);
        require(s.lazy.pending.get(block) == rows.length(i), "pending is the window's length");
        require(same_bits(slice(s.eager.state, 0, block), slice(s.lazy.state, 0, block)), "the folded state is the committed one");
        const std::vector<TensorView> eager_records = s.eager.record_slices(block, 0, rows.length(i));
        const std::vector<TensorView> lazy_records = s.lazy.record_slices(block, 0, rows.length(i));
        for (std::size_t part = 0; part < eager_records.size(); ++part)
          require(same_bits(eager_records[part], lazy_records[part]), "records");
        const int kept = pick.between(0, rows.length(i));
        s.waiting[static_cast<std::size_t>(block)] = kept;
        plan.add(block, kept);
      }
      const PlanTensors plan_arrays = plan_tensors(pick, plan);
      const std::array groups = {plan_arrays.group()};
      const std::array layers = {layer_of(s.shape, s.weights, s.eager)};
      must_run(recoverssm::CommitParams{groups, layers, s.S, 0}, random_how(pick));
    }

    // Whoever needs the states now: materialize every block, in any order.
    std::vector<int> blocks, kept;
    for (const int b : pick.distinct(5, 1, 5)) {
      blocks.push_back(b);
      kept.push_back(previous_count(pick, s, b));
    }
    blocks.push_back(0);
    kept.push_back(9999);
    const Tensor block_list = strided_i32(pick, blocks);
    const Tensor counts = strided_i32(pick, kept);
    const std::array layers = {layer_of(s.shape, s.weights, s.lazy, true)};
    must_run(recoverssm::MaterializeParams{block_list, counts, layers, 0}, random_how(pick));
    require(same_bits(s.eager.state, s.lazy.state), "states after materialize");
    for (int b = 1; b < 6; ++b) require(s.lazy.pending.get(b) == 0, "materialize clears pending");
  });
}

// commit with pending does what commit without it does when the records are all there, and nothing when none wait.
TEST(Lazy, CommitWithPendingFoldsWhatWaits) {
  property(150, [](Pick& pick) {
    const Session s = random_session(pick);
    RowSet rows;
    rows.capacity = s.S;
    rows.add(pick.between(1, s.S), 1);
    rows.tokens = rows.global_rows = rows.offsets.back();
    const RuleTokens tokens = random_tokens(pick, s.shape, rows.tokens);
    const Tensor out = random_out(pick, s.shape, rows.tokens);
    const RowTensors index = row_tensors(pick, rows);
    must_run(recoverssm::GatedDeltaRuleVerifyParams{
        inputs_of(s.shape, s.weights, tokens), s.eager.state, out, s.eager.records(), rows_of(rows, index), {}});
    const RulePool lazy = another_pool(pick, s.eager);
    const int pending = pick.between(0, rows.length(0));
    const int planned = pick.between(1, rows.length(0));
    const int folded = std::min(planned, pending);
    lazy.pending.set(pending, 1);
    const int edge = pick.between(1, planned);
    const bool crosses = pick.chance(60);
    const int final_block = pending == 0 ? 1 : pick.one_of({1, 2, 3});
    const int boundary = crosses ? pick.one_of({3, 2, 1}) : 0;
    pick.log("pending " + std::to_string(pending) + " planned " + std::to_string(planned) + " edge " + std::to_string(edge) +
             " final " + std::to_string(final_block) + " boundary " + std::to_string(boundary));

    PlanArrays expected_plan;
    if (folded > 0) expected_plan.add(1, folded, final_block, edge <= folded ? boundary : 0, edge);
    const PlanTensors expected = plan_tensors(pick, expected_plan);
    const std::array expected_groups = {expected.group()};
    const std::array expected_layers = {layer_of(s.shape, s.weights, s.eager)};
    must_run(recoverssm::CommitParams{expected_groups, expected_layers, s.S, 0});

    PlanArrays plan;
    plan.add(1, planned, final_block, boundary, edge);
    for (const int b : {2, 3})
      lazy.pending.set(b == final_block || b == boundary ? 1 : 0, b);  // a written block ends with pending 0
    const PlanTensors tensors = plan_tensors(pick, plan);
    const std::array groups = {tensors.group()};
    const std::array layers = {layer_of(s.shape, s.weights, lazy, true)};
    must_run(recoverssm::CommitParams{groups, layers, s.S, 0}, random_how(pick));
    require(same_bits(s.eager.state, lazy.state), "states");
    require(lazy.pending.get(1) == 0, "source pending");
    if (folded > 0) require(lazy.pending.get(final_block) == 0, "final pending");
    if (folded > 0 && boundary > 0 && edge <= folded) require(lazy.pending.get(boundary) == 0, "boundary pending");
  });
}

// Two verifies with no count handed over drop the first window: the checkpoint is as before it.
TEST(Lazy, NothingKeptRollsBack) {
  property(80, [](Pick& pick) {
    const Session s = random_session(pick);
    RowSet rows;
    rows.capacity = s.S;
    rows.counted = true;
    rows.add(pick.between(1, s.S), 1);
    rows.accepted = {0};
    rows.tokens = rows.global_rows = rows.offsets.back();
    const RowTensors index = row_tensors(pick, rows);
    const RuleTokens rejected = random_tokens(pick, s.shape, rows.tokens);
    const RuleTokens tokens = random_tokens(pick, s.shape, rows.tokens);
    const Tensor out = random_out(pick, s.shape, rows.tokens);
    const Tensor out_alone = random_out(pick, s.shape, rows.tokens);
    for (const RuleTokens* window : {&rejected, &tokens}) {
      must_run(recoverssm::GatedDeltaRuleVerifyParams{inputs_of(s.shape, s.weights, *window), s.lazy.state, out, s.lazy.records(),
                                                      rows_of(rows, index), s.lazy.pending},
               random_how(pick));
    }
    RowSet alone = rows;
    alone.counted = false;
    const RowTensors alone_index = row_tensors(pick, alone);
    must_run(recoverssm::GatedDeltaRuleVerifyParams{
        inputs_of(s.shape, s.weights, tokens), s.eager.state, out_alone, s.eager.records(), rows_of(alone, alone_index), {}});
    require(same_bits(out, out_alone), "outputs");
    require(same_bits(s.lazy.state, s.eager.state), "checkpoint");
  });
}

// An anchored line moves by as many positions as records are folded, kept or not; a rolled one is read at num_accepted by the next
// convolution and stays.
TEST(Lazy, MaterializeMovesAnchoredLinesOnly) {
  property(60, [](Pick& pick) {
    const RuleShape shape = random_rule_shape(pick);
    const RuleWeights weights = random_weights(pick, shape);
    const int S = pick.between(1, 6), W = pick.between(2, 6), C = pick.between(1, 600);
    const bool anchored = pick.chance(50);
    const RulePool pool = random_pool(pick, shape, 3, S);
    const Tensor line = strided(pick, shape.T, {3, W - 1 + S, C}, 0);
    for_each(line, [&](const Index& i) { line.set_at(pick.normal(), i); });
    const Tensor before = dense(shape.T, {3, W - 1 + S, C});
    copy_bits(line, before);
    const int waiting = pick.between(0, S), kept = pick.between(-1, S);
    pool.pending.set(waiting, 1);
    pool.pending.set(pick.between(0, S), 2);

    recoverssm::Layer layer = layer_of(shape, weights, pool, true);
    layer.line = line;
    layer.line_kind = anchored ? recoverssm::LineKind::anchored : recoverssm::LineKind::rolled;
    layer.conv_taps = W;
    // The records are NaN where nothing was verified; the state is not what this test looks at.
    Untouched untouched({{"line", line}, {"pending", pool.pending}});
    untouched.except(slice(pool.pending, 0, 1));
    const int n = std::min(std::max(kept, 0), waiting);
    if (anchored && n > 0) untouched.except(slice(slice(line, 0, 1), 1, 0, W - 1));
    const std::array layers = {layer};
    must_run(recoverssm::MaterializeParams{dense_i32({1}), dense_i32({kept}), layers, 0}, random_how(pick));
    require(untouched.check());
    require(pool.pending.get(1) == 0, "pending is cleared");
    const int shift = anchored ? n : 0;
    require(same_bits(slice(slice(line, 0, 1), 1, 0, W - 1), slice(slice(before, 0, 1), 1, shift, shift + W - 1)), "history");
  });
}

}  // namespace
