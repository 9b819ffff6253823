// Data sets of the operations after the sampler and around a step: plans, commit, materialize, align.
#include "bench/set_parts.h"

namespace recoverssm::bench {
namespace {

Layer layer_of(const Shape& s, std::int64_t blocks, Arena& arena) {
  Layer layer;
  layer.line = conv_line(s, blocks, line_columns(s, s.W - 1), arena);
  layer.line_kind = s.line_kind;
  layer.conv_taps = static_cast<std::int32_t>(s.W);
  layer.state = states(s, blocks, arena);
  layer.records = records_of(s, blocks, arena);
  layer.gate = s.gate;
  if (s.gate == Gate::kda) {
    layer.A_log = gate_logs(s, arena);
    layer.dt_bias = gate_bias(s, arena);
  }
  return layer;
}

PlanOutputs plan_outputs(const Shape& s, Arena& arena) {
  return {arena.ints(s.rows, 0), arena.ints(s.rows, 0), arena.ints(s.rows, 0), arena.ints(s.rows, 0)};
}

// Align mode: every row stands two tokens before the end of its second block of the prefix cache, so that keeping three crosses it.
constexpr std::int32_t kTableWidth = 8;

std::int32_t block_size(const Shape& s) { return std::max<std::int32_t>(16, static_cast<std::int32_t>(s.window())); }
TensorView computed(const Shape& s, Arena& arena) { return arena.ints(s.rows, 2 * block_size(s) - 2); }
TensorView block_table(const Shape& s, Arena& arena) {
  return arena.ints(s.rows, kTableWidth, counting(static_cast<std::int64_t>(s.rows) * kTableWidth));
}
TensorView second_blocks(const Shape& s, Arena& arena) { return arena.ints(counting(s.rows, 1, kTableWidth)); }
std::int32_t kept(const Shape& s) { return std::min(3, s.tokens); }

}  // namespace

std::unique_ptr<DataSet> build_commit_plan(const Shape& s, Arena& arena) {
  auto call = std::make_unique<Call<CommitPlanParams>>();
  CommitPlanParams& p = call->params;
  p.num_accepted = arena.ints(s.rows, kept(s));
  p.query_start_loc = offsets(s, arena);
  p.state_indices = second_blocks(s, arena);
  p.window_capacity = static_cast<std::int32_t>(s.window());
  p.block_table = block_table(s, arena);
  p.num_computed = computed(s, arena);
  p.block_size = block_size(s);
  p.out = plan_outputs(s, arena);
  p.null_block_id = kNull;
  return call;
}

// `layers` is the number of groups here.
std::unique_ptr<DataSet> build_commit_plan_groups(const Shape& s, Arena& arena) {
  auto call = std::make_unique<Call<CommitPlanGroupsParams>>();
  CommitPlanGroupsParams& p = call->params;
  for (int i = 0; i < s.layers; ++i) {
    PlanGroup group;
    group.state_indices = second_blocks(s, arena);
    group.block_table = block_table(s, arena);
    group.out = plan_outputs(s, arena);
    call->plans.push_back(group);
  }
  p.num_accepted = arena.ints(s.rows, kept(s));
  p.query_start_loc = offsets(s, arena);
  p.window_capacity = static_cast<std::int32_t>(s.window());
  p.num_computed = computed(s, arena);
  p.block_size = block_size(s);
  p.groups = call->plans;
  p.null_block_id = kNull;
  return call;
}

// Blocks: sources, then finals where they are others, then boundaries. Rows cross a boundary after two tokens, or after the only one.
std::unique_ptr<DataSet> build_commit(const Shape& s, Arena& arena) {
  const int calls = s.call_a_group ? s.groups : 1;
  auto all = std::make_unique<Calls>();
  for (int c = 0; c < calls; ++c) {
    auto call = std::make_unique<Call<CommitParams>>();
    const std::int64_t blocks = static_cast<std::int64_t>(s.rows) * (1 + (s.moved ? 1 : 0) + (s.boundary ? 1 : 0));
    const std::int32_t finals = s.moved ? s.rows : 0, boundaries = s.moved ? 2 * s.rows : s.rows;
    for (int g = 0; g < s.groups / calls; ++g) {
      CommitGroup group;
      group.state_indices = arena.ints(counting(s.rows));
      group.final_indices = arena.ints(counting(s.rows, finals));
      group.commit_len = arena.ints(s.rows, s.waiting);
      group.boundary_indices = s.boundary ? arena.ints(counting(s.rows, boundaries)) : arena.ints(s.rows, kNull);
      group.boundary_len = arena.ints(s.rows, s.boundary ? std::max(1, s.waiting - 1) : 0);
      call->groups.push_back(group);
      for (int i = 0; i < s.layers / s.groups; ++i) {
        call->layers.push_back(layer_of(s, blocks, arena));
        call->layers.back().group = g;
      }
    }
    call->params.groups = call->groups;
    call->params.layers = call->layers;
    call->params.window_capacity = static_cast<std::int32_t>(s.window());
    call->params.null_block_id = kNull;
    all->calls.push_back(std::move(call));
  }
  return all;
}

std::unique_ptr<DataSet> build_materialize(const Shape& s, Arena& arena) {
  auto call = std::make_unique<Call<MaterializeParams>>();
  call->count = s.waiting;
  call->counts = arena.ints(static_cast<std::int64_t>(s.rows) * s.layers, s.waiting);
  for (int i = 0; i < s.layers; ++i) {
    Layer layer = layer_of(s, s.rows, arena);
    layer.pending = TensorView(static_cast<std::int32_t*>(call->counts.data) + i * s.rows, DType::i32, {s.rows});
    call->layers.push_back(layer);
  }
  call->params.blocks = arena.ints(counting(s.rows));
  call->params.num_accepted = arena.ints(s.rows, s.waiting);
  call->params.layers = call->layers;
  call->params.null_block_id = kNull;
  return call;
}

std::unique_ptr<DataSet> build_align_move(const Shape& s, Arena& arena) {
  auto call = std::make_unique<Call<AlignMoveParams>>();
  for (int i = 0; i < s.layers; ++i) {
    Layer layer;
    layer.line = conv_line(s, 2 * s.rows, line_columns(s, s.W - 1), arena);
    layer.line_kind = s.line_kind;
    layer.conv_taps = static_cast<std::int32_t>(s.W);
    layer.state = states(s, 2 * s.rows, arena);
    call->layers.push_back(layer);
  }
  call->params.from = arena.ints(counting(s.rows));
  call->params.to = arena.ints(counting(s.rows, s.rows));
  call->params.layers = call->layers;
  call->params.null_block_id = kNull;
  return call;
}

std::unique_ptr<DataSet> build_align_advance(const Shape& s, Arena& arena) {
  auto call = std::make_unique<Call<AlignAdvanceParams>>();
  AlignAdvanceParams& p = call->params;
  p.commit_len = arena.ints(s.rows, kept(s));
  p.state_indices = second_blocks(s, arena);
  p.num_computed = computed(s, arena);
  p.block_size = block_size(s);
  p.running_column = arena.ints(s.rows, 1);
  p.num_accepted = arena.ints(s.rows, 1);
  p.null_block_id = kNull;
  return call;
}

}  // namespace recoverssm::bench
