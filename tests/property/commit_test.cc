// commit: one pass that is right whatever blocks coincide, reads nothing past the kept tokens and touches nothing but what the plan names.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "support/call.h"
#include "support/conv.h"
#include "support/plan.h"
#include "support/rule.h"

namespace {

using namespace support;
using recoverssm::Layer;
using recoverssm::LineKind;

constexpr int kBlocks = 14;

// A layer of a model: a rule with verified windows in every block 1.., a conv line, or both.
struct ModelLayer {
  RuleShape shape;
  RuleWeights weights;
  RulePool pool;
  Tensor line;
  int taps = 0;
  LineKind kind = LineKind::rolled;
  int group = 0;

  Layer layer(int group_index) const {
    Layer l = pool.state.present() ? layer_of(shape, weights, pool) : Layer{};
    l.group = group_index;
    if (line.present()) {
      l.line = line;
      l.line_kind = kind;
      l.conv_taps = taps;
    }
    return l;
  }
};

ModelLayer random_layer(Pick& pick, int S, int group) {
  ModelLayer m;
  m.group = group;
  m.shape = random_rule_shape(pick);
  const int what = pick.between(0, 2);  // 0: both, 1: state only, 2: line only
  if (what != 2) {
    m.weights = random_weights(pick, m.shape);
    m.pool = random_pool(pick, m.shape, kBlocks, S);
    RowSet rows;
    rows.capacity = S;
    for (int b = 1; b < kBlocks; ++b) rows.add(S, b);
    rows.tokens = rows.global_rows = rows.offsets.back();
    const RuleTokens tokens = random_tokens(pick, m.shape, rows.tokens);
    const Tensor out = random_out(pick, m.shape, rows.tokens);
    const RowTensors index = row_tensors(pick, rows);
    must_run(recoverssm::GatedDeltaRuleVerifyParams{
        inputs_of(m.shape, m.weights, tokens), m.pool.state, out, m.pool.records(), rows_of(rows, index), {}});
  }
  if (what != 1) {
    m.taps = pick.between(2, 8);
    m.kind = pick.one_of({LineKind::rolled, LineKind::anchored});
    const int columns = m.taps - 1 + (m.kind == LineKind::anchored ? S : S - 1) + pick.between(0, 2);
    m.line = strided(pick, m.shape.T, {kBlocks, columns, pick.between(1, 20)}, 0);
    for_each(m.line, [&](const Index& i) { m.line.set_at(pick.normal(), i); });
  }
  return m;
}

ModelLayer clone(Pick& pick, const ModelLayer& m) {
  ModelLayer copy = m;
  if (m.pool.state.present()) copy.pool = another_pool(pick, m.pool);
  copy.line = another_layout(pick, m.line, 0);
  return copy;
}

void same_layer(const ModelLayer& a, const ModelLayer& b, const std::string& what) {
  if (a.pool.state.present()) require(same_bits(a.pool.state, b.pool.state), what + ": state");
  if (a.line.present()) require(same_bits(a.line, b.line), what + ": line");
}

void run_commit(Pick& pick, const std::vector<PlanArrays>& plans, const std::vector<ModelLayer>& models, int S, const How& how) {
  std::vector<PlanTensors> tensors;
  std::vector<recoverssm::CommitGroup> groups;
  std::vector<Layer> layers;
  for (const PlanArrays& plan : plans) tensors.push_back(plan_tensors(pick, plan));
  for (const PlanTensors& t : tensors) groups.push_back(t.group());
  for (const ModelLayer& m : models) layers.push_back(m.layer(m.group));
  must_run(recoverssm::CommitParams{groups, layers, S, 0}, how);
}

// What a row does to a layer, put together from commits that cannot go wrong: `c` tokens from a copy of the source into a block of
// their own, copied where they belong.
void commit_row_plainly(Pick& pick, const ModelLayer& before, const ModelLayer& target, int source, int tokens, int destination,
                        int S) {
  const ModelLayer scratch = clone(pick, before);
  PlanArrays plan;
  plan.add(source, tokens);
  run_commit(pick, {plan}, {[&] {
               ModelLayer m = scratch;
               m.group = 0;
               return m;
             }()},
             S, {});
  if (scratch.pool.state.present()) {
    copy_bits(slice(scratch.pool.state, 0, source), slice(target.pool.state, 0, destination));
  }
  if (scratch.line.present()) {
    for (int p = 0; p < scratch.taps - 1; ++p) {
      copy_bits(slice(slice(scratch.line, 0, source), 1, p), slice(slice(target.line, 0, destination), 1, p));
    }
  }
}

struct RowPlan {
  int source, length, final_block, boundary_block, boundary_len;
};

// A row of blocks first..first+2 in a random alias class of (source, boundary, final): all equal, each pair, all different.
RowPlan random_row(Pick& pick, int first, int S) {
  RowPlan row{};
  row.length = pick.between(1, S);
  row.boundary_len = pick.between(1, row.length);
  const int alias = pick.between(0, 5);
  const int classes[6][3] = {{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {0, 1, 1}, {0, 1, 2}, {0, -1, 1}};  // source, boundary, final
  row.source = first + classes[alias][0];
  row.boundary_block = classes[alias][1] < 0 ? 0 : first + classes[alias][1];
  row.final_block = first + classes[alias][2];
  if (row.boundary_block == 0) row.boundary_len = pick.between(0, 99);  // means nothing beside a null boundary
  return row;
}

TEST(Commit, AliasClassesBoundariesDeadRowsLayersAndGroups) {
  property(120, [](Pick& pick) {
    const int S = pick.between(1, 6);
    const int group_count = pick.between(1, 2);
    std::vector<ModelLayer> models;
    const int layer_count = pick.between(1, 4);
    for (int i = 0; i < layer_count; ++i) models.push_back(random_layer(pick, S, pick.between(0, group_count - 1)));
    std::vector<PlanArrays> plans(static_cast<std::size_t>(group_count));
    std::vector<ModelLayer> expected;
    for (const ModelLayer& m : models) expected.push_back(clone(pick, m));
    for (int g = 0; g < group_count; ++g) {
      PlanArrays& plan = plans[static_cast<std::size_t>(g)];
      for (const int slot : pick.distinct(pick.between(0, 4), 0, 3)) {
        const RowPlan row = random_row(pick, 1 + 3 * slot, S);
        pick.log("group " + std::to_string(g) + ": source " + std::to_string(row.source) + " c " + std::to_string(row.length) +
                 " final " + std::to_string(row.final_block) + " boundary " + std::to_string(row.boundary_block) + " at " +
                 std::to_string(row.boundary_len));
        if (pick.chance(20)) {  // dead: ids are not read
          plan.add(pick.one_of({row.source, 9999, 0}), 0, pick.one_of({row.final_block, -1}), 9999, 9999);
          continue;
        }
        if (pick.chance(10)) {  // dead by a null id
          plan.add(pick.chance(50) ? 0 : row.source, row.length, 0, 0, 0);
          continue;
        }
        plan.add(row.source, row.length, row.final_block, row.boundary_block, row.boundary_len);
        for (std::size_t l = 0; l < models.size(); ++l) {
          if (models[l].group != g) continue;
          const ModelLayer& before = models[l];  // not committed yet
          if (row.boundary_block > 0)
            commit_row_plainly(pick, before, expected[l], row.source, row.boundary_len, row.boundary_block, S);
          commit_row_plainly(pick, before, expected[l], row.source, row.length, row.final_block, S);
        }
      }
    }
    std::vector<ModelLayer> one_call, by_layer;
    for (const ModelLayer& m : models) one_call.push_back(clone(pick, m));
    for (const ModelLayer& m : models) by_layer.push_back(clone(pick, m));

    run_commit(pick, plans, one_call, S, random_how(pick));
    for (const ModelLayer& m : by_layer) run_commit(pick, plans, {m}, S, random_how(pick));

    for (std::size_t l = 0; l < models.size(); ++l) {
      same_layer(expected[l], one_call[l], "one call, layer " + std::to_string(l));
      same_layer(expected[l], by_layer[l], "a call a layer, layer " + std::to_string(l));
    }
  });
}

TEST(Commit, WritesOnlyWhatThePlanNamesAndReadsNothingPastC) {
  property(120, [](Pick& pick) {
    const int S = pick.between(1, 6);
    const ModelLayer m = random_layer(pick, S, 0);
    const RowPlan row = random_row(pick, 1, S);
    PlanArrays plan;
    plan.add(row.source, row.length, row.final_block, row.boundary_block, row.boundary_len);
    const ModelLayer clean = clone(pick, m);
    run_commit(pick, {plan}, {clean}, S, random_how(pick));

    const ModelLayer poisoned = clone(pick, m);
    if (m.pool.state.present()) {
      for (const TensorView& part : poisoned.pool.record_slices(row.source, row.length, S)) {
        for_each(part, [&](const Index& i) { Tensor{poisoned.pool.state.memory, part}.set_at(std::nan(""), i); });
      }
      for (int b = 0; b < kBlocks; ++b) {  // records of every other block
        if (b == row.source) continue;
        for (const TensorView& part : poisoned.pool.record_slices(b, 0, S)) {
          for_each(part, [&](const Index& i) { Tensor{poisoned.pool.state.memory, part}.set_at(std::nan(""), i); });
        }
      }
    }
    std::vector<Untouched::Watch> watches = {{"line", poisoned.line}};
    if (m.pool.state.present()) {
      for (const Untouched::Watch& w : poisoned.pool.watches()) watches.push_back(w);
    }
    Untouched untouched(watches);
    for (const int b : {row.boundary_block, row.final_block}) {
      if (b == 0) continue;
      if (m.pool.state.present()) untouched.except(slice(poisoned.pool.state, 0, b));
      if (m.line.present()) untouched.except(slice(slice(poisoned.line, 0, b), 1, 0, m.taps - 1));
    }
    run_commit(pick, {plan}, {poisoned}, S, random_how(pick));
    require(untouched.check());
    same_layer(clean, poisoned, "NaN in records past c and in other blocks");
  });
}

// The line after a commit of c tokens is the history that the plain convolution of those c tokens leaves.
TEST(Commit, LinesHoldTheHistoryAfterCTokens) {
  property(120, [](Pick& pick) {
    const int S = pick.between(1, 6);
    ConvShape shape = random_conv_shape(pick, S);
    shape.in_place = false;
    const ConvWeights weights = random_conv_weights(pick, shape);
    RowSet rows;
    rows.capacity = S;
    rows.pool_blocks = 4;
    rows.add(S, 1);
    rows.tokens = rows.global_rows = S;
    const ConvData start = random_conv_data(pick, shape, rows);
    const ConvData window = run_conv(pick, shape, weights, rows, start, random_how(pick));
    const int c = pick.between(1, S);
    const int edge = pick.between(1, c);
    ModelLayer m;
    m.line = window.line;
    m.taps = shape.W;
    m.kind = shape.kind;
    PlanArrays plan;
    plan.add(1, c, 2, 3, edge);
    run_commit(pick, {plan}, {m}, S, random_how(pick));
    ConvShape plain = shape;
    plain.S = 0;
    for (const auto& [tokens, block] : {std::pair{c, 2}, std::pair{edge, 3}}) {
      RowSet prefix = rows;
      prefix.capacity = 0;
      prefix.offsets = {0, tokens};
      const ConvData whole = run_conv(pick, plain, weights, prefix, start, {});
      require(same_bits(slice(slice(whole.line, 0, 1), 1, 0, shape.W - 1), slice(slice(window.line, 0, block), 1, 0, shape.W - 1)),
              "history after " + std::to_string(tokens));
    }
  });
}

// Nothing kept: state and records as before; an anchored line too. (A rolled line cannot be restored: the request must be dead.)
TEST(Commit, NothingKeptChangesNothing) {
  property(30, [](Pick& pick) {
    const int S = pick.between(1, 5);
    const ModelLayer m = random_layer(pick, S, 0);
    std::vector<Untouched::Watch> watches = {{"line", m.line}};
    if (m.pool.state.present()) {
      for (const Untouched::Watch& w : m.pool.watches()) watches.push_back(w);
    }
    const Untouched untouched(watches);
    PlanArrays plan;
    const int rows = pick.between(1, 5);
    for (int b = 1; b <= rows; ++b) plan.add(b, 0);
    run_commit(pick, {plan}, {m}, S, random_how(pick));
    require(untouched.check());
  });
}

}  // namespace
