// Launches of the replay kernel: layers sorted into tables.
#include <algorithm>

#include "cuda/replay.cuh"

namespace recoverssm::cuda {
namespace {

__global__ void clear_pending_kernel(const __grid_constant__ ReplayTable table, std::int64_t rows) {
  after_previous();
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const LayerArgs& layer = table.layers[blockIdx.y];
  if (i >= rows || layer.pending == nullptr) return;
  const Replay replay = replay_row(table, layer, i);
  if (!replay.live) return;
  if (replay.boundary_len > 0) layer.pending[replay.boundary * layer.pending_stride] = 0;
  layer.pending[replay.final * layer.pending_stride] = 0;
  layer.pending[replay.source * layer.pending_stride] = 0;
}

// What layers of one table have in common. Layers without a state go with any.
struct Instantiation {
  DeltaTile tile;
  DType state = DType::f32;
  Gate gate = Gate::gdn;

  bool operator==(const Instantiation&) const = default;
};

Instantiation instantiation_of(const Layer& layer) {
  return {select_tile(static_cast<int>(layer.state.shape[3]), state_aligned(layer.state), /*few=*/true), layer.state.dtype,
          layer.gate};
}

void flush(ReplayTable& table, const Instantiation& common, std::int64_t rows, Launcher& launcher) {
  if (table.layer_count > 0 && rows > 0) launch_replay(table, common.tile, common.state, common.gate, rows, launcher);
  table.layer_count = 0;
}

}  // namespace

void launch_replay(ReplayTable& table, const DeltaTile& tile, DType state, Gate gate, std::int64_t rows, Launcher& launcher) {
  const bool kda = gate == Gate::kda;
  const int value_rows = replay_value_rows(tile, size_of(state));
  const std::int64_t ahead = replay_ahead_bytes(tile, size_of(state));
  table.token_chunk = static_cast<std::int8_t>(replay_tokens(tile, size_of(state), kda));
  int tasks = 0;
  bool lazy = false;
  for (int l = 0; l < table.layer_count; ++l) {
    tasks = std::max(tasks, head_blocks(table.layers[l], value_rows) + line_blocks(table.layers[l]));
    lazy = lazy || table.layers[l].pending != nullptr;
  }
  if (tasks > 0) {
    const dim3 grid(static_cast<unsigned>(tasks), static_cast<unsigned>(rows), static_cast<unsigned>(table.layer_count));
    const auto shared = static_cast<std::size_t>(shared_floats(tile, value_rows, kda, table.token_chunk) * 4 + ahead);
    dispatch_delta(tile, state, gate,
                   [&]<class State, int CHUNKS, int ROWS, bool WHOLE, bool KDA>(DeltaKernel<State, CHUNKS, ROWS, WHOLE, KDA>) {
                     launcher.put(replay_kernel<State, CHUNKS, WHOLE, KDA>, grid, kReplayThreads, shared, table);
                   });
  }
  if (lazy) {
    const dim3 grid(static_cast<unsigned>(ceil_div(rows, 128)), static_cast<unsigned>(table.layer_count));
    launcher.put(clear_pending_kernel, grid, 128, 0, table, rows);
  }
}

void launch_layers(std::span<const Layer> layers, std::span<const PlanColumns> plans, int first_group, const ReplayTable& prototype,
                   Launcher& launcher) {
  ReplayTable table = prototype;
  std::int64_t rows = 0;
  for (std::size_t g = 0; g < plans.size(); ++g) {
    table.groups[g] = plans[g];
    rows = std::max<std::int64_t>(rows, plans[g].rows);
  }
  const auto group_of = [&](const Layer& layer) { return prototype.of == ReplayOf::commit ? layer.group - first_group : 0; };
  const auto concerned = [&](const Layer& layer) {
    return group_of(layer) >= 0 && group_of(layer) < static_cast<int>(plans.size());
  };
  const auto add = [&](std::size_t l, const Instantiation& common) {
    if (table.layer_count == kLayersPerLaunch) flush(table, common, rows, launcher);
    LayerArgs& args = table.layers[table.layer_count++];
    args = layer_args(layers[l], static_cast<int>(l));
    args.group = static_cast<std::int16_t>(group_of(layers[l]));
  };
  // Layers without a state, short convolutions, ride with the first instantiation there is.
  bool lines_taken = false;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    if (!concerned(layers[l]) || !layers[l].state.present()) continue;
    const Instantiation common = instantiation_of(layers[l]);
    const auto same = [&](const Layer& layer) {
      return concerned(layer) && layer.state.present() && instantiation_of(layer) == common;
    };
    if (std::any_of(layers.begin(), layers.begin() + static_cast<std::ptrdiff_t>(l), same)) continue;  // launched already
    for (std::size_t m = 0; m < layers.size(); ++m) {
      if (same(layers[m]) || (!lines_taken && concerned(layers[m]) && !layers[m].state.present())) add(m, common);
    }
    lines_taken = true;
    flush(table, common, rows, launcher);
  }
  if (lines_taken) return;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    if (concerned(layers[l])) add(l, {});
  }
  flush(table, {}, rows, launcher);
}

}  // namespace recoverssm::cuda
