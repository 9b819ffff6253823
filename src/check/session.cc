// A small session: several requests, several steps of window, accepted prefix and commit, against token-by-token decoding on the
// portable target. No tolerance.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "check/calls.h"

namespace recoverssm::check {

namespace {

constexpr std::int32_t kRequests = 3, kSteps = 7, kCapacity = 4, kPrompt = 5;
constexpr std::int32_t kPositions = kPrompt + kSteps * kCapacity;
// K and V are no multiples of any vector length.
constexpr std::int64_t kH = 2, kHV = 4, kK = 40, kV = 20, kTaps = 4, kHistory = kTaps - 1;
constexpr std::int64_t kChannels = 2 * kH * kK + kHV * kV;
constexpr std::int64_t kStateElements = kHV * kV * kK;

// What does not change during a session.
struct Model {
  Gate gate;
  LineKind line;
  Tensor conv_weight, conv_bias, A_log, dt_bias;

  std::int64_t gate_width() const { return gate == Gate::gdn ? kHV : kHV * kK; }
};

Model model_of(Gate gate, LineKind line) {
  Random random(gate == Gate::gdn ? 91 : 92);
  Model m{gate, line, {}, {}, {}, {}};
  m.conv_weight = Tensor::random(DType::bf16, {kChannels, kTaps}, random);
  m.conv_bias = Tensor::random(DType::f32, {kChannels}, random, 0.25F);
  m.A_log = Tensor::random(DType::f32, {kHV}, random);
  m.dt_bias = gate == Gate::gdn ? Tensor::random(DType::f32, {kHV}, random) : Tensor::random(DType::f32, {kHV, kK}, random);
  return m;
}

// One token of a request, before the convolution. Drafts that will be refused have another `salt` than the text itself.
struct Token {
  std::int32_t request, position;
  std::uint64_t salt = 0;
};

// A batch of rows, one a request (a negative one is a row of padding), with their tokens' projections.
struct Batch {
  std::vector<std::int32_t> offsets{0}, blocks;
  std::vector<Token> tokens;

  void add(std::int32_t request, std::int32_t position, std::int32_t good, std::int32_t length) {
    for (std::int32_t t = 0; t < length; ++t)
      tokens.push_back({request, position + t, t < good ? 0U : 1000U + static_cast<unsigned>(t)});
    offsets.push_back(static_cast<std::int32_t>(tokens.size()));
    blocks.push_back(request + 1);  // 0 is the null block
  }
};

// A layer's memory for all requests, and the calls on it.
class Layers {
 public:
  Layers(const Model& model, bool windows)
      : model_(model),
        line_(DType::bf16, {kRequests + 1, windows ? kHistory + kCapacity : kHistory, kChannels}),
        state_(DType::f32, {kRequests + 1, kHV, kV, kK}) {
    if (!windows) return;
    if (model.gate == Gate::gdn) {
      packed_ = Tensor::filled(DType::f32, {kRequests + 1, kHV, kCapacity, kV + kK + 1}, 7.0F);
    } else {
      corrections_ = Tensor::filled(DType::f32, {kRequests + 1, kHV, kCapacity, kV}, 7.0F);
      key_gate_ = Tensor::filled(DType::bf16, {kRequests + 1, kHV, kCapacity, 2 * kK}, 7.0F);
    }
    pending_ = Tensor::ints(std::vector<std::int32_t>(kRequests + 1));
  }

  // Prefill or decode. Gives [tokens, HV, V] bf16.
  Tensor plain(const Batch& batch, bool from_zero, Context& context) {
    const Call call(model_, batch);
    Tensor has_state(DType::boolean, {static_cast<std::int64_t>(batch.blocks.size())});
    if (!from_zero) std::ranges::fill(has_state.bytes(), std::byte{1});
    Rows rows = call.rows();
    rows.has_initial_state = has_state;
    causal_conv1d({.x = call.x,
                   .weight = model_.conv_weight,
                   .bias = model_.conv_bias,
                   .activation = Activation::silu,
                   .out = call.mixed,
                   .line = line_,
                   .line_kind = model_.line,
                   .rows = rows},
                  context);
    gated_delta_rule({.inputs = call.inputs(model_), .state = state_, .out = call.out, .rows = rows}, context);
    return call.out;
  }

  // One window a row. counts: kept tokens of each row's last window (lazy), absent where every step is committed (eager).
  Tensor window(const Batch& batch, const Tensor* counts, Context& context) {
    const Call call(model_, batch);
    Rows rows = call.rows();
    rows.window_capacity = kCapacity;
    if (counts != nullptr) rows.num_accepted = *counts;
    causal_conv1d_window({.x = call.x,
                          .weight = model_.conv_weight,
                          .bias = model_.conv_bias,
                          .activation = Activation::silu,
                          .out = call.mixed,
                          .line = line_,
                          .line_kind = model_.line,
                          .rows = rows},
                         context);
    gated_delta_rule_verify({.inputs = call.inputs(model_),
                             .state = state_,
                             .out = call.out,
                             .records = records(),
                             .rows = rows,
                             .pending = counts != nullptr ? TensorView(pending_) : TensorView()},
                            context);
    return call.out;
  }

  void commit_window(const Batch& batch, const Tensor& accepted, Context& context) {
    const Tensor offsets = Tensor::ints(batch.offsets), blocks = Tensor::ints(batch.blocks);
    const std::vector<std::int32_t> none(batch.blocks.size());
    const Tensor lengths = Tensor::ints(none), final = Tensor::ints(none), boundary = Tensor::ints(none),
                 boundary_len = Tensor::ints(none);
    commit_plan({.num_accepted = accepted,
                 .query_start_loc = offsets,
                 .state_indices = blocks,
                 .window_capacity = kCapacity,
                 .out = {lengths, final, boundary, boundary_len}},
                context);
    const std::array groups = {CommitGroup{blocks, lengths, final, boundary, boundary_len}};
    const std::array layers = {layer(false)};
    commit({.groups = groups, .layers = layers, .window_capacity = kCapacity}, context);
  }

  void fold_all(const Tensor& blocks, const Tensor& counts, Context& context) {
    const std::array layers = {layer(true)};
    materialize({.blocks = blocks, .num_accepted = counts, .layers = layers}, context);
  }

  std::span<std::byte> state(std::int32_t request) { return state_.slice((request + 1) * kStateElements, kStateElements); }
  // The W-1 positions of history from `first` on.
  std::span<std::byte> history(std::int32_t request, std::int64_t first) {
    const std::int64_t columns = line_.elements() / (kRequests + 1) / kChannels;
    return line_.slice(((request + 1) * columns + first) * kChannels, kHistory * kChannels);
  }

 private:
  // Tensors of one call over a batch.
  struct Call {
    Call(const Model& m, const Batch& batch)
        : x(DType::bf16, {count(batch), kChannels}),
          mixed(DType::bf16, {count(batch), kChannels}),
          a(DType::bf16, {count(batch), m.gate_width()}),
          b(DType::bf16, {count(batch), kHV}),
          out(Tensor::filled(DType::bf16, {count(batch), kHV, kV}, 9.0F)),
          offsets(Tensor::ints(batch.offsets)),
          blocks(Tensor::ints(batch.blocks)) {
      for (std::int64_t t = 0; t < count(batch); ++t) {
        const Token& token = batch.tokens[static_cast<std::size_t>(t)];
        Random random((token.salt << 40) + (static_cast<std::uint64_t>(token.request + 1) << 20) +
                      static_cast<std::uint64_t>(token.position));
        for (std::int64_t c = 0; c < kChannels; ++c) x.set(t * kChannels + c, random.uniform(2.0F));
        for (std::int64_t g = 0; g < m.gate_width(); ++g) a.set(t * m.gate_width() + g, random.uniform(4.0F));
        for (std::int64_t j = 0; j < kHV; ++j) b.set(t * kHV + j, random.uniform(4.0F));
      }
    }
    static std::int64_t count(const Batch& batch) { return static_cast<std::int64_t>(batch.tokens.size()); }

    Rows rows() const { return {.query_start_loc = offsets, .state_indices = blocks}; }
    RuleInputs inputs(const Model& m) const {
      return {.gate = m.gate,
              .q = mixed.heads(0, kH, kK),
              .k = mixed.heads(kH * kK, kH, kK),
              .v = mixed.heads(2 * kH * kK, kHV, kV),
              .a = m.gate == Gate::gdn ? TensorView(a) : a.heads(0, kHV, kK),
              .b = b,
              .A_log = m.A_log,
              .dt_bias = m.dt_bias};
    }

    Tensor x, mixed, a, b, out, offsets, blocks;
  };

  Records records() const {
    if (model_.gate == Gate::gdn) return {.packed = packed_};
    return {.corrections = corrections_, .key_gate = key_gate_};
  }
  Layer layer(bool lazy) const {
    return {.line = line_,
            .line_kind = model_.line,
            .conv_taps = kTaps,
            .state = state_,
            .records = records(),
            .pending = lazy ? TensorView(pending_) : TensorView(),
            .gate = model_.gate,
            .A_log = model_.gate == Gate::kda ? TensorView(model_.A_log) : TensorView(),
            .dt_bias = model_.gate == Gate::kda ? TensorView(model_.dt_bias) : TensorView()};
  }

  const Model& model_;
  Tensor line_, state_, packed_, corrections_, key_gate_, pending_;
};

constexpr std::int64_t kOutput = kHV * kV;

// Token-by-token decoding of every request: what is known after each position.
struct Truth {
  struct At {
    std::vector<std::byte> out, state, history;
  };
  std::vector<At> at;  // [request * kPositions + position]

  const At& of(std::int32_t request, std::int32_t position) const {
    return at[static_cast<std::size_t>(request * kPositions + position)];
  }
};

std::vector<std::byte> copy(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

Truth decode_all(Gate gate) {
  const Model model = model_of(gate, LineKind::rolled);  // plain rows know no other kind
  Context context;
  context.target = Target::portable;
  Truth truth;
  truth.at.resize(static_cast<std::size_t>(kRequests * kPositions));
  Layers layers(model, false);
  for (std::int32_t position = 0; position < kPositions; ++position) {
    Batch batch;
    for (std::int32_t r = 0; r < kRequests; ++r) batch.add(r, position, 1, 1);
    Tensor out = layers.plain(batch, position == 0, context);
    for (std::int32_t r = 0; r < kRequests; ++r) {
      truth.at[static_cast<std::size_t>(r * kPositions + position)] = {copy(out.slice(r * kOutput, kOutput)), copy(layers.state(r)),
                                                                       copy(layers.history(r, 0))};
    }
  }
  return truth;
}

// The same for every target, thread count and kind of line.
const Truth& truth_of(Gate gate) {
  static const Truth gdn = decode_all(Gate::gdn), kda = decode_all(Gate::kda);
  return gate == Gate::gdn ? gdn : kda;
}

class Session {
 public:
  Session(const Model& model, bool lazy, const Place& place, Report& report)
      : model_(model), lazy_(lazy), place_(place), report_(report), truth_(truth_of(model.gate)), layers_(model, true) {}

  void run() {
    prefill();
    for (std::int32_t step = 0; step < kSteps; ++step) run_step(step);
    if (!lazy_) return;
    std::vector<std::int32_t> blocks;
    for (std::int32_t r = 0; r < kRequests; ++r) blocks.push_back(r + 1);
    layers_.fold_all(Tensor::ints(blocks), Tensor::ints(waiting_), place_.context);
    for (std::int32_t r = 0; r < kRequests; ++r) {
      // A rolled line stays as the last window left it.
      const std::int32_t count = waiting_[static_cast<std::size_t>(r)];
      compare_memory("materialize", r, model_.line == LineKind::rolled ? std::max(count - 1, 0) : 0);
    }
  }

 private:
  void prefill() {
    Batch batch;
    for (std::int32_t r = 0; r < kRequests; ++r) batch.add(r, 0, kPrompt, kPrompt);
    Tensor out = layers_.plain(batch, true, place_.context);
    for (std::int32_t r = 0; r < kRequests; ++r) {
      for (std::int32_t t = 0; t < kPrompt; ++t) compare_output("prefill", out, r * kPrompt + t, r, t);
      compare_memory("prefill", r, 0);
    }
    position_.assign(kRequests, kPrompt);
    waiting_.assign(kRequests, 0);
  }

  void run_step(std::int32_t step) {
    Batch batch;
    std::vector<std::int32_t> accepted, counts;
    for (std::int32_t r = 0; r < kRequests; ++r) {
      const std::int32_t length = random_.between(0, kCapacity), kept = length == 0 ? 0 : random_.between(1, length);
      batch.add(r, position_[static_cast<std::size_t>(r)], kept, length);
      accepted.push_back(kept);
      counts.push_back(waiting_[static_cast<std::size_t>(r)]);
    }
    batch.add(-1, 0, 0, 2);  // padding
    accepted.push_back(0);
    counts.push_back(0);
    const Tensor count_tensor = Tensor::ints(counts);
    Tensor out = layers_.window(batch, lazy_ ? &count_tensor : nullptr, place_.context);
    if (!lazy_) layers_.commit_window(batch, Tensor::ints(accepted), place_.context);

    const std::string when = fmt::format("step {}", step);
    for (std::int32_t r = 0; r < kRequests; ++r) {
      const auto i = static_cast<std::size_t>(r);
      for (std::int32_t t = 0; t < accepted[i]; ++t) compare_output(when, out, batch.offsets[i] + t, r, position_[i] + t);
      position_[i] += accepted[i];
      if (batch.offsets[i + 1] > batch.offsets[i]) waiting_[i] = accepted[i];
      if (!lazy_) compare_memory(when, r, 0);
    }
    const Tensor zeros(DType::bf16, {2, kHV, kV});
    report_.expect_bits(when + ", output of the padding row", DType::bf16,
                        out.slice(batch.offsets[kRequests] * kOutput, 2 * kOutput), zeros.bytes());
  }

  void compare_output(const std::string& when, Tensor& out, std::int32_t row, std::int32_t request, std::int32_t position) {
    report_.expect_bits(fmt::format("{}, request {}, output at position {}", name(when), request, position), DType::bf16,
                        out.slice(row * kOutput, kOutput), truth_.of(request, position).out);
  }

  void compare_memory(const std::string& when, std::int32_t request, std::int64_t first) {
    const std::int32_t last = position_.empty() ? kPrompt - 1 : position_[static_cast<std::size_t>(request)] - 1;
    const Truth::At& want = truth_.of(request, last);
    report_.expect_bits(fmt::format("{}, request {}, state", name(when), request), DType::f32, layers_.state(request), want.state);
    report_.expect_bits(fmt::format("{}, request {}, conv line", name(when), request), DType::bf16, layers_.history(request, first),
                        want.history);
  }

  std::string name(const std::string& when) const {
    return fmt::format("{} with {} line, {}", model_.gate == Gate::gdn ? "gdn" : "kda",
                       model_.line == LineKind::rolled ? "rolled" : "anchored", when);
  }

  const Model& model_;
  bool lazy_;
  const Place& place_;
  Report& report_;
  const Truth& truth_;
  Layers layers_;
  Random random_{93};
  std::vector<std::int32_t> position_;  // of each request: its committed tokens
  std::vector<std::int32_t> waiting_;   // kept tokens of its last window
};

void run_sessions(bool lazy, const Place& place, Report& report) {
  for (const Gate gate : {Gate::gdn, Gate::kda}) {
    for (const LineKind line : {LineKind::rolled, LineKind::anchored}) {
      const Model model = model_of(gate, line);
      Session(model, lazy, place, report).run();
    }
  }
}

}  // namespace

void check_session_eager(const Place& place, Report& report) { run_sessions(false, place, report); }
void check_session_lazy(const Place& place, Report& report) { run_sessions(true, place, report); }

}  // namespace recoverssm::check
