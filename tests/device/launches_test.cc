// How many kernels a call takes, counted as the nodes of a graph that holds the call alone. The most it may take is part of what
// docs/cuda.md says.
#include <gtest/gtest.h>

#include <cstdio>

#include "device/programs.h"

namespace device_test {
namespace {

using recoverssm::WindowMode;

struct Row {
  const char* call;
  std::size_t most;
  SceneShape shape;
  std::function<void(const Scene&, const Side&, Runner&)> run;
};

void run_commit(const Scene& scene, const Side& side, Runner& run) {
  const CommitCall call = commit(scene, side);
  run(call.params());
}

void run_groups(const Scene& scene, const Side& side, Runner& run) {
  const recoverssm::CommitPlanParams one = plan(scene, side);
  const recoverssm::PlanGroup group{one.state_indices, one.block_table, one.out};
  recoverssm::CommitPlanGroupsParams params;
  params.num_accepted = one.num_accepted;
  params.query_start_loc = one.query_start_loc;
  params.window_capacity = one.window_capacity;
  params.request_index = one.request_index;
  params.num_computed = one.num_computed;
  params.block_size = one.block_size;
  params.groups = {&group, 1};
  run(params);
}

template <class Call, class... Arguments>
auto of_layer(Call call, std::size_t layer, Arguments... arguments) {
  return [=](const Scene& scene, const Side& side, Runner& run) { run(call(scene, side, layer, arguments...)); };
}

std::vector<Row> table() {
  const LayerShape gdn{.H = 1, .HV = 2, .K = 64, .V = 64}, kda{.kind = LayerKind::kda, .H = 1, .HV = 2, .K = 64, .V = 64},
      half{.H = 1, .HV = 2, .K = 64, .V = 64, .state = DType::bf16}, filter{.kind = LayerKind::short_conv, .W = 3, .channels = 64};
  const SceneShape one{.layers = {gdn}}, lazy{.layers = {gdn}, .lazy = true}, filters{.layers = {filter}};
  const SceneShape longer{.layers = {gdn, filter}, .plain_tokens = 200};  // rows that are cut into segments
  const auto verify_part = [](const char* parts, WindowMode mode) { return of_layer(attention, 0, std::string(parts), mode); };
  return {
      {"split_projections", 1, one, of_layer(split, 0)},
      {"causal_conv1d, short rows", 1, one, of_layer(conv_plain, 0)},
      {"causal_conv1d, long rows", 2, longer, of_layer(conv_plain, 0)},
      {"causal_conv1d_window", 1, one, of_layer(conv_window, 0)},
      {"gated_delta_rule", 1, one, of_layer(rule, 0)},
      {"gated_delta_rule, pending", 2, lazy, of_layer(rule, 0)},
      {"gated_delta_rule_snapshots", 1, one, of_layer(snapshots, 0)},
      {"gated_delta_rule_verify", 1, one, of_layer(verify, 0)},
      {"gated_delta_rule_verify, lazy", 2, lazy, of_layer(verify, 0)},
      {"commit_plan", 1, one, [](const Scene& scene, const Side& side, Runner& run) { run(plan(scene, side)); }},
      {"commit_plan_groups", 1, one, run_groups},
      {"commit, 1 layer", 1, one, run_commit},
      {"commit, 12 layers of one kind", 1, {.layers = std::vector<LayerShape>(12, gdn)}, run_commit},
      {"commit, gdn and short_conv", 1, {.layers = {gdn, gdn, filter, filter}}, run_commit},
      {"commit, gdn, kda and short_conv", 2, {.layers = {gdn, kda, filter, gdn}}, run_commit},
      {"commit, gdn of two state dtypes", 2, {.layers = {gdn, half, gdn}}, run_commit},
      {"commit, short_conv alone", 1, filters, run_commit},
      {"commit, 12 layers, pending", 2, {.layers = std::vector<LayerShape>(12, gdn), .lazy = true}, run_commit},
      {"materialize", 2, lazy,
       [](const Scene& scene, const Side& side, Runner& run) {
         const ListCall list = materialize(scene, side);
         run(list.materialize());
       }},
      {"align_move", 1, one,
       [](const Scene& scene, const Side& side, Runner& run) {
         const ListCall list = align_move(scene, side);
         run(list.move());
       }},
      {"align_advance", 1, one, [](const Scene& scene, const Side& side, Runner& run) { run(advance(scene, side)); }},
      {"short_conv, windows", 1, filters, of_layer(short_conv, 0, true)},
      {"short_conv, short rows", 1, filters, of_layer(short_conv, 0, false)},
      {"short_conv, long rows", 2, longer, of_layer(short_conv, 1, false)},
      {"gdn_attention, windows", 3, one, verify_part("w", WindowMode::verify)},
      {"gdn_attention, windows, lazy", 3, lazy, verify_part("w", WindowMode::verify)},
      {"gdn_attention, snapshots", 3, one, verify_part("w", WindowMode::snapshots)},
      {"gdn_attention, plain", 3, one, verify_part("p", WindowMode::verify)},
      {"gdn_attention, plain, pending", 4, lazy, verify_part("p", WindowMode::verify)},
      {"gdn_attention, plain, long rows", 4, longer, verify_part("p", WindowMode::verify)},
      {"gdn_attention, plain and windows", 6, one, verify_part("pw", WindowMode::verify)},
      {"gdn_attention, plain and windows, lazy", 7, lazy, verify_part("pw", WindowMode::verify)},
  };
}

TEST(Launches, OfOneCall) {
  GPU_OR_SKIP();
  for (const Row& row : table()) {
    SCOPED_TRACE(row.call);
    Scene scene(row.shape);
    Twin twin(scene);
    const gpu::Stream stream(gpu::StreamKind::non_blocking);
    Runner device = Runner::device(stream, [&](Runner& run) { row.run(scene, twin.side(), run); });
    const gpu::Graph graph(stream, gpu::CaptureMode::global, [&] { row.run(scene, twin.side(), device); });
    EXPECT_EQ(graph.other_nodes(), 0);
    if (gpu::real()) {
      EXPECT_EQ(graph.kernels().size(), row.most);
    }
    if (gpu::executes()) {
      graph.launch(stream);
      stream.wait();
      Runner cpu = Runner::cpu();
      row.run(scene, scene.side(), cpu);
      EXPECT_TRUE(twin.same());
      EXPECT_TRUE(no_finding(device));
    }
    char text[160];
    std::snprintf(text, sizeof text, "launches: %-40s %zu kernels, at most %zu, %d other nodes", row.call, graph.kernels().size(),
                  row.most, graph.other_nodes());
    saw(text);
  }
}

// Nothing to do is no launch.
TEST(Launches, NoneForNothing) {
  GPU_OR_SKIP();
  Scene scene({.layers = {LayerShape{}}});
  Twin twin(scene);
  const gpu::Stream stream(gpu::StreamKind::non_blocking);
  const Program program = eager_step(scene);
  Side nobody = twin.side();
  nobody.rows = 0;
  Runner device = Runner::device(stream, [&](Runner& run) { program(nobody, run); });
  const gpu::Graph graph(stream, gpu::CaptureMode::global, [&] { program(nobody, device); });
  EXPECT_EQ(graph.kernels().size(), 0U);
  EXPECT_EQ(graph.other_nodes(), 0);
  graph.launch(stream);
  stream.wait();
  EXPECT_TRUE(twin.same());
  saw("launches: a step of no rows, " + std::to_string(device.calls()) + " calls: " + std::to_string(graph.kernels().size()) +
      " kernels");
}

}  // namespace
}  // namespace device_test
