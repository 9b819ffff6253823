// One round of speculative decoding on one layer: verify a window of four tokens, plan, commit the three that the sampler kept.
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <recoverssm/recoverssm.hpp>
#include <vector>

namespace rs = recoverssm;

// A dense tensor with memory of its own.
template <class T, rs::DType dtype>
struct Tensor {
  std::vector<T> data;
  rs::TensorView view;
  Tensor(T value, std::initializer_list<std::int64_t> shape) {
    std::int64_t count = 1;
    for (const std::int64_t n : shape) count *= n;
    data.assign(static_cast<std::size_t>(count), value);
    view = rs::TensorView(data.data(), dtype, shape);
  }
};
using Floats = Tensor<float, rs::DType::f32>;
using Ints = Tensor<std::int32_t, rs::DType::i32>;

int main() try {
  constexpr int S = 4, H = 1, HV = 2, K = 64, V = 64, blocks = 2;
  // A layer keeps one state and the records of one window a block. Block 0 is the null block, block 1 is the request's.
  Floats state(0, {blocks, HV, V, K}), record(0, {blocks, HV, S, V + K + 1});
  // What the layer's projections give for the window's tokens.
  Floats q(0.1F, {S, H, K}), k(0.1F, {S, H, K}), v(0.5F, {S, HV, V}), a(0, {S, HV}), b(0, {S, HV}), A_log(0, {HV}),
      dt_bias(0, {HV});
  Floats out(0, {S, HV, V});
  Ints offsets(0, {2}), block(1, {1}), kept(3, {1}), commit_len(0, {1}), final_block(0, {1}), boundary(0, {1}),
      boundary_len(0, {1});
  offsets.data[1] = S;

  rs::Context context(2);  // two threads
  const rs::RuleInputs inputs{
      .q = q.view, .k = k.view, .v = v.view, .a = a.view, .b = b.view, .A_log = A_log.view, .dt_bias = dt_bias.view};
  const rs::Rows rows{.query_start_loc = offsets.view, .state_indices = block.view, .window_capacity = S};
  rs::gated_delta_rule_verify(
      {.inputs = inputs, .state = state.view, .out = out.view, .records = {.packed = record.view}, .rows = rows}, context);
  const float untouched = state.data[HV * V * K];

  const rs::PlanOutputs plan{commit_len.view, final_block.view, boundary.view, boundary_len.view};
  rs::commit_plan(
      {.num_accepted = kept.view, .query_start_loc = offsets.view, .state_indices = block.view, .window_capacity = S, .out = plan},
      context);
  const rs::CommitGroup group{block.view, plan.commit_len, plan.final_indices, plan.boundary_indices, plan.boundary_len};
  const rs::Layer layer{.state = state.view, .records = {.packed = record.view}};
  rs::commit({.groups = {&group, 1}, .layers = {&layer, 1}, .window_capacity = S}, context);

  std::printf("recoverssm %s: committed %d tokens, state of block 1: %g, then %g\n", rs::version(), commit_len.data[0],
              static_cast<double>(untouched), static_cast<double>(state.data[HV * V * K]));
} catch (const rs::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
