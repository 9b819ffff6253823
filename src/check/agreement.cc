// One layer of a production geometry on this target, against the portable target with one thread.
#include <fmt/format.h>

#include <array>

#include "check/calls.h"

namespace recoverssm::check {

namespace {

constexpr std::int64_t kH = 2, kHV = 6, kK = 128, kV = 128, kTaps = 4, kRows = 3, kWindow = 4;
constexpr std::int64_t kChannels = 2 * kH * kK + kHV * kV;

// A mixed step's window part and its commit: what every later step starts from.
struct SampleLayer {
  explicit SampleLayer(DType state_dtype) : state(DType::f32, {1}), line(DType::bf16, {1}) {
    Random random(101);
    const std::int64_t tokens = kRows * kWindow;
    qkvz = Tensor::random(DType::bf16, {tokens, 2 * kH * kK + 2 * kHV * kV}, random, 2.0F);
    ba = Tensor::random(DType::bf16, {tokens, 2 * kHV}, random, 4.0F);
    weight = Tensor::random(DType::bf16, {kChannels, kTaps}, random);
    A_log = Tensor::random(DType::f32, {kHV}, random);
    dt_bias = Tensor::random(DType::f32, {kHV}, random);
    state = Tensor::random(state_dtype, {kRows + 1, kHV, kV, kK}, random, 0.5F);
    line = Tensor::random(DType::bf16, {kRows + 1, kTaps - 1 + kWindow, kChannels}, random, 2.0F);
    records = Tensor(DType::f32, {kRows + 1, kHV, kWindow, kV + kK + 1});
    out = Tensor(DType::bf16, {tokens, kHV, kV});
    z = Tensor(DType::bf16, {tokens, kHV, kV});
  }

  void run(Context& context) {
    const Tensor offsets = Tensor::ints({0, 4, 6, 10}), blocks = Tensor::ints({2, 3, 1});
    gdn_attention(
        {.qkvz = qkvz,
         .ba = ba,
         .num_k_heads = kH,
         .num_v_heads = kHV,
         .head_k_dim = kK,
         .head_v_dim = kV,
         .weight = weight,
         .activation = Activation::silu,
         .A_log = A_log,
         .dt_bias = dt_bias,
         .line = line,
         .line_kind = LineKind::anchored,
         .state = state,
         .out = out,
         .z = z,
         .windows = AttentionWindowPart{.rows = {.query_start_loc = offsets, .state_indices = blocks, .window_capacity = kWindow},
                                        .records = {.packed = records}}},
        context);
    const Tensor kept = Tensor::ints({3, 2, 4}), none = Tensor::ints({0, 0, 0});
    const std::array groups = {CommitGroup{blocks, kept, blocks, none, none}};
    const std::array layers = {
        Layer{.line = line, .line_kind = LineKind::anchored, .conv_taps = kTaps, .state = state, .records = {.packed = records}}};
    commit({.groups = groups, .layers = layers, .window_capacity = kWindow}, context);
  }

  Tensor qkvz, ba, weight, A_log, dt_bias, state, line, records, out, z;
};

SampleLayer portable_result(DType state) {
  SampleLayer layer(state);
  Context context;
  context.target = Target::portable;
  layer.run(context);
  return layer;
}

}  // namespace

void check_agreement(const Place& place, Report& report) {
  static const std::array wanted = {portable_result(DType::f32), portable_result(DType::bf16), portable_result(DType::f16)};
  for (const SampleLayer& want : wanted) {
    const DType dtype = want.state.dtype();
    SampleLayer got(dtype);
    got.run(place.context);
    const auto compare = [&](const char* what, Tensor& a, const Tensor& b) {
      report.expect_bits(fmt::format("{}, {} state", what, name_of(dtype)), a.dtype(), a.bytes(), b.bytes());
    };
    compare("outputs", got.out, want.out);
    compare("records", got.records, want.records);
    compare("states", got.state, want.state);
    compare("conv lines", got.line, want.line);
  }
}

}  // namespace recoverssm::check
