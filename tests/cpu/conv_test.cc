// causal_conv1d and causal_conv1d_window: properties that hold for any call.
#include "cpu/conv_case.h"
#include "recoverssm/info.hpp"

namespace {

using namespace conv_case;
using support::property;
using support::require;
using support::same_bits;

class ConvProperties : public ::testing::TestWithParam<bool> {
 protected:
  ConvOptions options() const { return {.window = GetParam()}; }
};

INSTANTIATE_TEST_SUITE_P(Conv, ConvProperties, ::testing::Bool(), [](const auto& test) { return test.param ? "Window" : "Plain"; });

// Every byte of out and line: outputs, history, inputs, and that nothing else is touched (other blocks, later columns, other
// tokens, null and empty rows, gaps).
TEST_P(ConvProperties, DoesWhatTheContractSays) {
  property(300, [&](Pick& pick) {
    Conv conv = random_conv(pick, options());
    conv.activation = Activation::none;
    const Expected want = expected(conv);
    const Tensor x = clone(conv.x);
    conv.run();
    require(same_memory(conv.line, want.line), "line");
    require(same_memory(conv.out, want.out), "out");
    if (conv.out.view.data != conv.x.view.data) require(same_bits(conv.x, x), "x");
  });
}

TEST_P(ConvProperties, IsCloseToFloat64) {
  property(150, [&](Pick& pick) {
    const Conv conv = random_conv(pick, options());
    const Conv before = with_own_outputs(conv);
    conv.run();
    for (int i = 0; i < conv.rows.rows(); ++i) {
      if (!conv.rows.live(i)) continue;
      for (int c = 0; c < conv.C(); ++c) {
        const std::vector<std::uint64_t> bits = entries(before, i, c);
        for (int t = 0; t < conv.rows.length(i); ++t) {
          const Reference want = reference(before, bits, t, c);
          const double got = conv.out.get(conv.rows.global(conv.rows.first(i) + t), c);
          require(std::fabs(got - want.value) <= want.tolerance, "row " + std::to_string(i) + " token " + std::to_string(t) +
                                                                     " channel " + std::to_string(c) + ": " + std::to_string(got) +
                                                                     " against " + std::to_string(want.value));
        }
      }
    }
  });
}

// A line holds whatever it is given: NaN payloads, -0, subnormals.
TEST_P(ConvProperties, LinesMoveBits) {
  property(100, [&](Pick& pick) {
    ConvOptions any_bits = options();
    any_bits.random_bits = true;
    const Conv conv = random_conv(pick, any_bits);
    const Expected want = expected(conv);
    conv.run();
    require(same_memory(conv.line, want.line));
  });
}

TEST_P(ConvProperties, InPlaceEqualsOutOfPlace) {
  property(100, [&](Pick& pick) {
    ConvOptions disjoint = options();
    disjoint.in_place = false;
    const Conv conv = random_conv(pick, disjoint);
    Conv in_place = conv;
    in_place.line = clone(conv.line);
    in_place.x = in_place.out = clone(conv.x);
    conv.run();
    in_place.run();
    require(same_memory(in_place.line, conv.line), "line");
    for (int t = conv.rows.offsets.front(); t < conv.rows.offsets.back(); ++t) {
      const std::int64_t row = conv.rows.global(t);
      require(same_bits(support::slice(in_place.out, 0, row), support::slice(conv.out, 0, row)), "token " + std::to_string(t));
    }
  });
}

// Both memory orders of a line among them.
TEST_P(ConvProperties, StridesDoNotMatter) {
  property(100, [&](Pick& pick) {
    ConvOptions disjoint = options();
    disjoint.in_place = false;
    const Conv conv = random_conv(pick, disjoint);
    Conv other = conv;
    other.line = support::another_layout(pick, conv.line, 0);
    other.x = support::another_layout(pick, conv.x, 1);
    other.weight = support::another_layout(pick, conv.weight, 0);
    other.bias = support::another_layout(pick, conv.bias, 0);
    other.out = support::another_layout(pick, conv.out, 1);
    other.tensors = support::row_tensors(pick, conv.rows);
    conv.run();
    other.run();
    require(same_bits(other.line, conv.line), "line");
    require(same_bits(other.out, conv.out), "out");
  });
}

TEST_P(ConvProperties, TargetsAndThreadsDoNotMatter) {
  property(60, [&](Pick& pick) {
    const Conv conv = random_conv(pick, options());
    const Conv start = with_own_outputs(conv);
    conv.run({.threads = 1, .target = recoverssm::Target::portable});
    for (const recoverssm::Target target : recoverssm::available_targets()) {
      for (const int threads : {1, 4}) {
        const Conv other = with_own_outputs(start);
        other.run({.threads = threads, .target = target});
        const std::string how = std::string(recoverssm::name_of(target)) + ", threads " + std::to_string(threads);
        require(same_bits(other.line, conv.line), how);
        require(same_bits(other.out, conv.out), how);
      }
    }
  });
}

// Any neighbours, NaNs among them: a row gives what it gives alone.
TEST_P(ConvProperties, RowsAreIndependent) {
  property(60, [&](Pick& pick) {
    ConvOptions any_bits = options();
    any_bits.random_bits = pick.chance(50);
    const Conv conv = random_conv(pick, any_bits);
    const Conv start = with_own_outputs(conv);
    conv.run();
    for (int i = 0; i < conv.rows.rows(); ++i) {
      Conv alone = with_own_outputs(start);
      alone.rows = support::only_row(conv.rows, i);
      alone.tensors = support::row_tensors(pick, alone.rows);
      alone.run();
      for (int t = conv.rows.first(i); t < conv.rows.first(i) + conv.rows.length(i); ++t) {
        const std::int64_t row = conv.rows.global(t);
        require(same_bits(support::slice(alone.out, 0, row), support::slice(conv.out, 0, row), /*nan_is_nan=*/true),
                "row " + std::to_string(i) + " token " + std::to_string(t));
      }
      if (conv.rows.live(i)) {
        const int block = conv.rows.block(i);
        require(same_bits(support::slice(alone.line, 0, block), support::slice(conv.line, 0, block)),
                "line of row " + std::to_string(i));
      }
    }
  });
}

// One request's stream of tokens, run in steps on a line of its own (block 1).
class Stream {
 public:
  Stream(const Conv& model, const Tensor& inputs, LineKind kind, const Tensor& line)
      : model_(model), inputs_(inputs), kind_(kind), line_(clone(line)) {}

  // Runs inputs first..first+n-1 and returns their outputs [n, C].
  Tensor step(bool window, int S, int first, int n, const std::vector<int>& accepted, const std::vector<int>& initial = {}) {
    Conv conv = model_;
    conv.window = window;
    conv.kind = kind_;
    conv.rows = {};
    conv.rows.add(n, 1);
    conv.rows.capacity = S;
    conv.rows.initial = initial;
    conv.rows.counted = !accepted.empty();
    conv.rows.accepted = accepted;
    conv.rows.tokens = conv.rows.global_rows = n;
    Pick pick(1);
    conv.tensors = support::row_tensors(pick, conv.rows);
    conv.x = inputs_;
    conv.x.view = support::slice(inputs_, 0, first, first + n);
    conv.out = support::dense(conv.x.dtype(), {n, model_.C()});
    conv.line = line_;
    conv.run();
    return conv.out;
  }

  TensorView history(int at, int W) const { return support::slice(support::slice(line_, 0, 1), 1, at, at + W - 1); }

 private:
  const Conv& model_;
  Tensor inputs_;
  LineKind kind_;
  Tensor line_;
};

struct StreamCase {
  Conv model;
  Tensor inputs, line;
  int tokens = 0, S = 0;
};

StreamCase random_stream(Pick& pick) {
  StreamCase s;
  s.S = pick.between(1, 5);
  s.tokens = pick.between(1, 30);
  const DType T = pick.one_of({DType::f32, DType::bf16, DType::f16});
  const int W = pick.between(2, 8), C = pick.between(1, 4);
  s.model.activation = pick.one_of({Activation::none, Activation::silu});
  s.model.weight = support::dense(T, {C, W});
  s.model.bias = support::dense(DType::f32, {C});
  s.inputs = support::dense(T, {s.tokens + s.S, C});
  s.line = support::strided(pick, T, {2, W - 1 + s.S, C}, 0);
  for (const Tensor& tensor : {s.model.weight, s.model.bias, s.inputs, s.line}) fill_normal(pick, tensor);
  pick.log("tokens " + std::to_string(s.tokens) + " S " + std::to_string(s.S) + " W " + std::to_string(W) + " C " +
           std::to_string(C));
  return s;
}

TEST(ConvStreams, ChunkedPrefillEqualsWhole) {
  property(100, [](Pick& pick) {
    const StreamCase s = random_stream(pick);
    const int from_state = pick.between(0, 1), W = s.model.W();
    Stream whole(s.model, s.inputs, LineKind::rolled, s.line), chunks(s.model, s.inputs, LineKind::rolled, s.line);
    const Tensor want = whole.step(false, 0, 0, s.tokens, {}, {from_state});
    for (int at = 0; at < s.tokens;) {
      const int n = pick.between(1, s.tokens - at);
      const Tensor got = chunks.step(false, 0, at, n, {}, {at == 0 ? from_state : 1});
      require(same_bits(got, support::slice(want, 0, at, at + n)), "chunk at " + std::to_string(at));
      at += n;
    }
    require(same_bits(chunks.history(0, W), whole.history(0, W)), "line");
  });
}

// Windows of drafts of which some are kept, the counts handed over with the next window (no commit in between); then a plain step
// with the last count. Both line kinds give what the kept tokens give one by one, and leave their history.
TEST(ConvStreams, WindowsEqualTokenByToken) {
  property(150, [](Pick& pick) {
    const StreamCase s = random_stream(pick);
    const int W = s.model.W();
    Stream single(s.model, s.inputs, LineKind::rolled, s.line);
    Stream rolled(s.model, s.inputs, LineKind::rolled, s.line), anchored(s.model, s.inputs, LineKind::anchored, s.line);
    int at = 0, rolled_count = 1, anchored_count = 0;
    while (at < s.tokens) {
      const int n = pick.between(1, s.S), kept = std::min(pick.between(1, n), s.tokens - at);
      const Tensor a = rolled.step(true, s.S, at, n, {rolled_count});
      const Tensor b = anchored.step(true, s.S, at, n, {anchored_count});
      require(same_bits(a, b), "rolled and anchored outputs");
      for (int t = 0; t < kept; ++t) {
        require(same_bits(single.step(false, 0, at + t, 1, {}), support::slice(a, 0, t)), "token " + std::to_string(at + t));
      }
      rolled_count = anchored_count = kept;
      at += kept;
    }
    const Tensor want = single.step(false, 0, at, 1, {});
    require(same_bits(rolled.step(false, 0, at, 1, {rolled_count}), want), "plain step after rolled windows");
    require(same_bits(anchored.step(false, 0, at, 1, {anchored_count}), want), "plain step after anchored windows");
    require(same_bits(rolled.history(0, W), single.history(0, W)), "rolled history");
    require(same_bits(anchored.history(0, W), single.history(0, W)), "anchored history");
  });
}

// An anchored window can be run again, with other drafts or after keeping nothing.
TEST(ConvStreams, AnchoredWindowsCanBeRepeated) {
  property(60, [](Pick& pick) {
    const StreamCase s = random_stream(pick);
    Stream stream(s.model, s.inputs, LineKind::anchored, s.line), fresh(s.model, s.inputs, LineKind::anchored, s.line);
    const int n = pick.between(1, s.S), first = pick.between(0, s.tokens), again = pick.between(0, s.tokens);
    stream.step(true, s.S, first, n, {});
    const std::vector<int> nothing_kept = pick.chance(50) ? std::vector<int>{} : std::vector<int>{pick.between(-1, 0)};
    require(same_bits(stream.step(true, s.S, again, n, nothing_kept), fresh.step(true, s.S, again, n, {})));
  });
}

}  // namespace
