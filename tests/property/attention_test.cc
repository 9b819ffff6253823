// gdn_attention is the composition of the single operations: bit for bit the chain a caller would write by hand.
#include <gtest/gtest.h>

#include "support/call.h"
#include "support/rule.h"

namespace {

using namespace support;
using recoverssm::LineKind;
using recoverssm::WindowMode;

constexpr int kBlocks = 40;

// What a layer owns and reads; the chain and gdn_attention each get a copy of what is written.
struct Layer {
  RuleShape shape;
  RuleWeights weights;
  int W = 4, S = 0, C = 0;
  LineKind kind = LineKind::rolled;
  recoverssm::Layout layout = recoverssm::Layout::flat;
  bool silu = false;
  Tensor weight, bias, qkvz, ba;
  int tokens = 0;  // global
};

struct State {
  RulePool pool;
  Tensor line, out, z;
};

State another_state(Pick& pick, const State& s) {
  return {another_pool(pick, s.pool), another_layout(pick, s.line, 0), another_layout(pick, s.out, 1),
          another_layout(pick, s.z, 1)};
}

struct Part {
  RowSet set;  // token_index always given: local -> global
  RowTensors index;
  bool lazy = false;
};

Tensor random_tensor(Pick& pick, DType dtype, const Shape& shape, int contiguous, double size) {
  const Tensor t = strided(pick, dtype, shape, contiguous);
  for_each(t, [&](const Index& i) { t.set_at(pick.normal() * size, i); });
  return t;
}

Layer random_layer(Pick& pick, int S, int tokens) {
  Layer l;
  l.shape = random_rule_shape(pick);
  l.shape.gate = Gate::gdn;
  l.shape.lower_bound.reset();
  l.shape.l2norm = true;
  l.shape.K = pick.between(1, 40);
  l.weights = random_weights(pick, l.shape);
  l.W = pick.between(2, 5);
  l.S = S;
  l.C = 2 * l.shape.H * l.shape.K + l.shape.HV * l.shape.V;
  l.kind = pick.one_of({LineKind::rolled, LineKind::anchored});
  l.layout = pick.one_of({recoverssm::Layout::flat, recoverssm::Layout::interleaved});
  l.silu = pick.chance(60);
  l.weight = random_tensor(pick, pick.one_of({DType::f32, l.shape.T}), {l.C, l.W}, 0, 0.5);
  if (pick.chance(50)) l.bias = random_tensor(pick, pick.one_of({DType::f32, l.shape.T}), {l.C}, 0, 0.5);
  l.tokens = tokens;
  l.qkvz = random_tensor(pick, l.shape.T, {tokens, l.C + l.shape.HV * l.shape.V}, 1, 1.0);
  l.ba = random_tensor(pick, l.shape.T, {tokens, 2 * l.shape.HV}, 1, 2.0);
  pick.log(l.shape.text() + " W " + std::to_string(l.W) + " S " + std::to_string(S) +
           (l.kind == LineKind::rolled ? " rolled" : " anchored"));
  return l;
}

State random_state(Pick& pick, const Layer& l) {
  State s;
  s.pool = random_pool(pick, l.shape, kBlocks, l.S);
  s.line = random_tensor(pick, l.shape.T, {kBlocks, l.W - 1 + std::max(l.S, 1), l.C}, 0, 1.0);
  s.out = random_out(pick, l.shape, l.tokens);
  s.z = strided(pick, l.shape.T, {l.tokens, l.shape.HV, l.shape.V}, 1);
  return s;
}

// Rows over the global tokens given, on the blocks given.
Part random_part(Pick& pick, const std::vector<int>& globals, int capacity, const std::vector<int>& blocks) {
  Part part;
  part.set.capacity = capacity;
  part.set.token_index = globals;
  part.set.tokens = part.set.global_rows = static_cast<int>(globals.size());
  // Tokens before the first offset belong to no row.
  if (part.set.tokens > 0 && pick.chance(30)) part.set.offsets[0] = pick.between(0, std::min(part.set.tokens - 1, 2));
  std::size_t next = 0;
  while (part.set.offsets.back() < part.set.tokens) {
    const int left = part.set.tokens - part.set.offsets.back();
    const int length = pick.between(pick.chance(10) ? 0 : 1, std::min(left, capacity > 0 ? capacity : 7));
    part.set.add(length, pick.chance(15) ? 0 : blocks[next++]);
    if (next == blocks.size()) break;
  }
  return part;
}

// The chain: split, convolution, rule, part by part, on local buffers.
void chain(const Layer& l, const State& s, Part& part, Pick& pick, bool window, WindowMode mode) {
  const int first = part.set.offsets.front(), n = part.set.offsets.back();  // tokens of the rows: first..n-1
  const RuleShape& shape = l.shape;
  const Tensor mixed = dense(shape.T, {n, l.C});
  const Tensor b = dense(shape.T, {n, shape.HV}), a = dense(shape.T, {n, shape.HV});
  const Tensor covered = strided_i32(pick, {part.set.token_index.begin() + first, part.set.token_index.begin() + n});
  must_run(recoverssm::SplitProjectionsParams{l.qkvz, l.ba, l.layout, shape.H, shape.HV, shape.K, shape.V,
                                              slice(mixed, 0, first, n), s.z, slice(b, 0, first, n), slice(a, 0, first, n),
                                              covered});

  RowSet local = part.set;  // the convolution runs in place on the local buffer
  local.token_index.clear();
  local.snapshots = false;
  const RowTensors local_index = row_tensors(pick, local);
  const auto convolve = [&](auto params) {
    params.x = params.out = mixed;
    params.weight = l.weight;
    params.bias = l.bias;
    params.activation = l.silu ? recoverssm::Activation::silu : recoverssm::Activation::none;
    params.line = s.line;
    params.line_kind = l.kind;
    params.rows = rows_of(local, local_index);
    // Anchored lines in the lazy form: line and state use the same count, min(max(a,0), pending).
    std::vector<int> counts = local.accepted;
    for (int i = 0; i < local.rows() && local.counted && part.lazy && l.kind == LineKind::anchored; ++i) {
      int& count = counts[static_cast<std::size_t>(i)];
      count = local.live(i) ? std::min(std::max(count, 0), static_cast<int>(s.pool.pending.get(local.block(i)))) : 0;
    }
    const Tensor line_counts = dense_i32(counts);
    if (local.counted) params.rows.num_accepted = line_counts;
    if (window && mode == WindowMode::snapshots) {  // beside snapshots the line lives in column 0's block
      std::vector<int> blocks;
      for (int i = 0; i < local.rows(); ++i) blocks.push_back(local.null(i) ? 0 : part.set.columns[static_cast<std::size_t>(i)][0]);
      const Tensor column = dense_i32(blocks);
      params.rows.state_indices = column;
      must_run(params);
      return;
    }
    must_run(params);
  };
  if (window) {
    convolve(recoverssm::CausalConv1dWindowParams{});
  } else {
    convolve(recoverssm::CausalConv1dParams{});
  }

  const auto head_view = [&](int first_channel, int heads, int size) {
    TensorView view(mixed.at(0, 0), shape.T, {n, heads, size}, {l.C, size, 1});
    if (n > 0) view.data = mixed.at(0, first_channel);
    return view;
  };
  recoverssm::RuleInputs inputs;
  if (n == 0) return;
  inputs.q = head_view(0, shape.H, shape.K);
  inputs.k = head_view(shape.H * shape.K, shape.H, shape.K);
  inputs.v = head_view(2 * shape.H * shape.K, shape.HV, shape.V);
  inputs.a = a;
  inputs.b = b;
  inputs.A_log = l.weights.A_log;
  inputs.dt_bias = l.weights.dt_bias;
  inputs.scale = shape.scale;
  inputs.softplus_beta = shape.softplus_beta;
  inputs.softplus_threshold = shape.softplus_threshold;
  const recoverssm::Rows rows = rows_of(part.set, part.index);
  if (!window) {
    recoverssm::GatedDeltaRuleParams params{inputs, s.pool.state, s.out, rows, {}, {}};
    if (part.lazy) {
      params.pending = s.pool.pending;
      params.records = s.pool.records();
    } else {
      params.rows.num_accepted = {};
    }
    must_run(params);
  } else if (mode == WindowMode::snapshots) {
    must_run(recoverssm::GatedDeltaRuleSnapshotsParams{inputs, s.pool.state, s.out, rows});
  } else {
    recoverssm::GatedDeltaRuleVerifyParams params{inputs, s.pool.state, s.out, s.pool.records(), rows, {}};
    if (part.lazy) params.pending = s.pool.pending;
    must_run(params);
  }
}

recoverssm::GdnAttentionParams attention_params(const Layer& l, const State& s) {
  recoverssm::GdnAttentionParams p;
  p.qkvz = l.qkvz;
  p.ba = l.ba;
  p.layout = l.layout;
  p.num_k_heads = l.shape.H;
  p.num_v_heads = l.shape.HV;
  p.head_k_dim = l.shape.K;
  p.head_v_dim = l.shape.V;
  p.weight = l.weight;
  p.bias = l.bias;
  p.activation = l.silu ? recoverssm::Activation::silu : recoverssm::Activation::none;
  p.A_log = l.weights.A_log;
  p.dt_bias = l.weights.dt_bias;
  p.scale = l.shape.scale;
  p.softplus_beta = l.shape.softplus_beta;
  p.softplus_threshold = l.shape.softplus_threshold;
  p.line = s.line;
  p.line_kind = l.kind;
  p.state = s.pool.state;
  p.out = s.out;
  p.z = s.z;
  return p;
}

enum class Step { plain, snapshots, verify, lazy };

// The count a caller hands in for a block: a sampler may count past the window that waits there.
int previous_count(Pick& pick, const Layer& l, const State& s, const std::vector<int>& waiting, int block) {
  const int kept = waiting[static_cast<std::size_t>(block)];
  return kept >= s.pool.pending.get(block) && pick.chance(40) ? pick.between(kept, l.S) : kept;
}

// One random step on the chain's state and on the attention's; both must stay the same.
void step(Pick& pick, const Layer& l, State& by_chain, State& by_attention, Step what, bool with_plain, std::vector<int>& waiting) {
  const std::vector<int> order = pick.permutation(l.tokens);
  const int used = pick.between(1, l.tokens);
  const int plain_tokens = what == Step::plain ? used : with_plain ? pick.between(0, used) : 0;
  const std::vector<int> blocks = pick.distinct(15, 1, 15);  // a block is in one part in this step, maybe in the other in the next
  Part plain = random_part(pick, {order.begin(), order.begin() + plain_tokens}, 0, {blocks.begin(), blocks.begin() + 7});
  Part windows = random_part(pick, {order.begin() + plain_tokens, order.begin() + used}, l.S, {blocks.begin() + 7, blocks.end()});
  if (pick.chance(40)) {
    for (int i = 0; i < plain.set.rows(); ++i) plain.set.initial.push_back(pick.chance(50) ? 1 : 0);
  }
  const bool lazy = what == Step::lazy;
  windows.lazy = lazy;
  if (lazy) {  // both parts take counts: of the window that waits in the block, or of a compacted line
    plain.lazy = true;
    for (Part* part : {&plain, &windows}) {
      part->set.counted = true;
      for (int i = 0; i < part->set.rows(); ++i) {
        part->set.accepted.push_back(part->set.live(i) ? previous_count(pick, l, by_chain, waiting, part->set.block(i)) : 77);
      }
    }
  }
  if (what == Step::snapshots) {
    windows.set.snapshots = windows.set.counted = true;
    int next = 16;  // columns come from the blocks above
    for (int i = 0; i < windows.set.rows(); ++i) {
      const bool null = windows.set.null(i);
      std::vector<int> columns;
      for (int t = 0; t < l.S; ++t) columns.push_back(next < kBlocks ? next++ : 0);
      windows.set.accepted.push_back(l.kind == LineKind::rolled ? pick.between(1, l.S) : pick.between(0, l.S));
      int& start = columns[static_cast<std::size_t>(std::max(windows.set.accepted.back() - 1, 0))];
      if (null) start = 0;
      if (columns[0] <= 0 && !null) start = 0;  // no block for the line left: a null row
      windows.set.blocks[static_cast<std::size_t>(i)] = start;
      windows.set.columns.push_back(columns);
    }
  }
  plain.index = row_tensors(pick, plain.set);
  windows.index = row_tensors(pick, windows.set);
  pick.log("plain " + plain.set.text());
  pick.log("windows " + windows.set.text());
  const bool has_plain = what == Step::plain || with_plain;
  const bool has_windows = what != Step::plain;
  const WindowMode mode = what == Step::snapshots ? WindowMode::snapshots : WindowMode::verify;

  if (has_plain) chain(l, by_chain, plain, pick, false, mode);
  if (has_windows) chain(l, by_chain, windows, pick, true, mode);

  recoverssm::GdnAttentionParams p = attention_params(l, by_attention);
  if (has_plain) {
    p.plain = recoverssm::AttentionPlainPart{rows_of(plain.set, plain.index), {}, {}};
    if (plain.lazy && pick.chance(50)) {  // else: the window part's, by themselves
      p.plain->pending = by_attention.pool.pending;
      p.plain->records = by_attention.pool.records();
    }
  }
  if (has_windows) {
    p.windows = recoverssm::AttentionWindowPart{mode, rows_of(windows.set, windows.index), {}, {}};
    if (mode == WindowMode::verify) p.windows->records = by_attention.pool.records();
    if (lazy) p.windows->pending = by_attention.pool.pending;
  }
  Untouched inputs_untouched({{"qkvz", l.qkvz}, {"ba", l.ba}, {"weight", l.weight}});
  must_run(p, random_how(pick));
  require(inputs_untouched.check());

  require(same_bits(by_chain.out, by_attention.out), "out");
  require(same_bits(by_chain.z, by_attention.z), "z");
  require(same_bits(by_chain.line, by_attention.line), "line");
  require(same_bits(by_chain.pool.state, by_attention.pool.state), "state");
  require(same_bits(by_chain.pool.pending, by_attention.pool.pending), "pending");
  if (by_chain.pool.packed.present()) require(same_bits(by_chain.pool.packed, by_attention.pool.packed), "records");
  for (int i = 0; i < plain.set.rows() && lazy; ++i) {
    if (plain.set.live(i)) waiting[static_cast<std::size_t>(plain.set.block(i))] = l.kind == LineKind::anchored ? 0 : 1;
  }
  for (int i = 0; i < windows.set.rows() && lazy; ++i) {
    if (windows.set.live(i)) {
      waiting[static_cast<std::size_t>(windows.set.block(i))] =
          pick.between(l.kind == LineKind::anchored ? 0 : 1, windows.set.length(i));
    }
  }
}

void equals_the_chain(Step what, int runs) {
  property(runs, [what](Pick& pick) {
    const Layer l = random_layer(pick, what == Step::plain ? 0 : pick.between(1, 5), pick.between(1, 20));
    State by_chain = random_state(pick, l);
    State by_attention = another_state(pick, by_chain);
    std::vector<int> waiting(kBlocks, l.kind == LineKind::anchored ? 0 : 1);
    const int steps = what == Step::lazy ? pick.between(1, 4) : 1;
    for (int i = 0; i < steps; ++i) step(pick, l, by_chain, by_attention, what, pick.chance(60), waiting);
  });
}

TEST(Attention, PlainPart) { equals_the_chain(Step::plain, 120); }
TEST(Attention, SnapshotsAndMixedSteps) { equals_the_chain(Step::snapshots, 120); }
TEST(Attention, VerifyAndMixedSteps) { equals_the_chain(Step::verify, 120); }
TEST(Attention, LazySessionsAndMixedSteps) { equals_the_chain(Step::lazy, 120); }

}  // namespace
