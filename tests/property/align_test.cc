// align_move and materialize: copies move bits, nothing else moves.
#include <gtest/gtest.h>

#include <array>

#include "support/call.h"
#include "support/convert.h"
#include "support/rule.h"

namespace {

using namespace support;
using recoverssm::LineKind;

// Random bits: NaN payloads, subnormals and signed zeros among them.
void fill_with_bits(Pick& pick, const Tensor& t) {
  for_each(t, [&](const Index& i) { set_raw_bits(t.dtype(), pick.bits(), element(t, i)); });
}

TEST(Align, MoveCopiesBitsOfStateAndHistory) {
  property(80, [](Pick& pick) {
    RuleShape shape = random_rule_shape(pick);
    shape.K = std::min(shape.K, 40);
    const int blocks = 12;
    const bool with_state = !pick.chance(20);
    const bool with_line = !with_state || pick.chance(70);
    const bool with_pending = with_state && pick.chance(50);
    const RulePool pool = random_pool(pick, shape, blocks, 2);
    const RuleWeights weights = random_weights(pick, shape);
    fill_with_bits(pick, pool.state);
    const int taps = pick.between(2, 8);
    const Tensor line = strided(pick, shape.T, {blocks, taps - 1 + 3, 5}, 0);
    fill_with_bits(pick, line);
    for (int b = 0; b < blocks; ++b) pool.pending.set(0, b);

    std::vector<int> from, to;
    const int n = pick.between(0, 5);
    const std::vector<int> ids = pick.distinct(2 * n, 1, blocks - 1);
    for (int i = 0; i < n; ++i) {
      const int a = ids[static_cast<std::size_t>(2 * i)], b = ids[static_cast<std::size_t>(2 * i + 1)];
      const int what = pick.between(0, 4);
      from.push_back(what == 3 ? 0 : a);
      to.push_back(what == 2 ? a : what == 4 ? -1 : b);
      if (from.back() > 0 && to.back() > 0 && from.back() != to.back()) pool.pending.set(2, b);  // cleared by the move
      if (from.back() == to.back()) pool.pending.set(1, a);                                      // a row that does nothing
    }
    recoverssm::Layer layer;
    if (with_state) layer = layer_of(shape, weights, pool, with_pending);
    if (with_line) {
      layer.line = line;
      layer.line_kind = pick.one_of({LineKind::rolled, LineKind::anchored});
      layer.conv_taps = taps;
    }
    std::vector<Untouched::Watch> watches = pool.watches();
    watches.push_back({"line", line});
    Untouched untouched(watches);
    const Tensor old_state = another_layout(pick, pool.state, 3), old_line = another_layout(pick, line, 0);
    const auto history = [&](const Tensor& t, int b) { return slice(slice(t, 0, b), 1, 0, taps - 1); };
    for (int i = 0; i < n; ++i) {
      const int a = from[static_cast<std::size_t>(i)], b = to[static_cast<std::size_t>(i)];
      if (a <= 0 || b <= 0 || a == b) continue;
      if (with_state) untouched.except(slice(pool.state, 0, b));
      if (with_pending) untouched.except(slice(pool.pending, 0, b));
      if (with_line) untouched.except(history(line, b));
    }
    const Tensor t_from = strided_i32(pick, from), t_to = strided_i32(pick, to);
    const std::array layers = {layer};
    must_run(recoverssm::AlignMoveParams{t_from, t_to, layers, 0}, random_how(pick));
    require(untouched.check());
    for (int i = 0; i < n; ++i) {
      const int a = from[static_cast<std::size_t>(i)], b = to[static_cast<std::size_t>(i)];
      if (a <= 0 || b <= 0 || a == b) continue;
      if (with_state) require(same_bits(slice(old_state, 0, a), slice(pool.state, 0, b)), "state");
      if (with_line) require(same_bits(history(old_line, a), history(line, b)), "history");
      if (with_pending) require(pool.pending.get(b) == 0, "pending of the destination");
    }
  });
}

// materialize compacts an anchored line by the tokens it folds, leaves a rolled one alone, clears pending also where nothing is folded.
TEST(Align, MaterializeCompactsAnchoredLines) {
  property(80, [](Pick& pick) {
    RuleShape shape = random_rule_shape(pick);
    shape.K = std::min(shape.K, 40);
    const int S = pick.between(1, 5);
    const RulePool pool = random_pool(pick, shape, 6, S);
    const RuleWeights weights = random_weights(pick, shape);
    for (const Tensor* records : {&pool.packed, &pool.corrections, &pool.key_gate}) {
      if (records->present()) for_each(*records, [&](const Index& i) { records->set_at(pick.uniform(-0.5, 0.5), i); });
    }
    const int taps = pick.between(2, 6);
    const Tensor line = strided(pick, shape.T, {6, taps - 1 + S, 4}, 0);
    fill_with_bits(pick, line);
    const Tensor old_line = another_layout(pick, line, 0);
    const LineKind kind = pick.one_of({LineKind::anchored, LineKind::rolled});
    std::vector<int> blocks = pick.distinct(pick.between(0, 5), 1, 5), counts, folds;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const int pending = pick.between(0, S);
      pool.pending.set(pending, blocks[i]);
      counts.push_back(pick.between(-1, S));
      folds.push_back(std::min(std::max(counts.back(), 0), pending));
    }
    recoverssm::Layer layer = layer_of(shape, weights, pool, true);
    layer.line = line;
    layer.line_kind = kind;
    layer.conv_taps = taps;
    std::vector<Untouched::Watch> watches = pool.watches();
    watches.push_back({"line", line});
    Untouched untouched(watches);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      untouched.except(slice(pool.pending, 0, blocks[i]));
      if (folds[i] == 0) continue;
      untouched.except(slice(pool.state, 0, blocks[i]));
      if (kind == LineKind::anchored) untouched.except(slice(slice(line, 0, blocks[i]), 1, 0, taps - 1));
    }
    const Tensor t_blocks = strided_i32(pick, blocks), t_counts = strided_i32(pick, counts);
    const std::array layers = {layer};
    must_run(recoverssm::MaterializeParams{t_blocks, t_counts, layers, 0}, random_how(pick));
    require(untouched.check());
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      require(pool.pending.get(blocks[i]) == 0, "pending");
      const int shift = kind == LineKind::anchored ? folds[i] : 0;
      require(same_bits(slice(slice(line, 0, blocks[i]), 1, 0, taps - 1),
                        slice(slice(old_line, 0, blocks[i]), 1, shift, shift + taps - 1)),
              "history");
    }
  });
}

}  // namespace
