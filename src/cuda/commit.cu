// commit on CUDA: all layers of all groups in one launch (one a head size, state dtype and gate, where layers differ in them), one block a
// value tile of a head, or a piece of a line, of one row of one layer. Layers with pending take a second, tiny launch that clears the counts.

#include "cuda/replay.cuh"

namespace recoverssm::cuda {
namespace {

PlanColumns plan_columns(const CommitGroup& group) {
  return {column_of(group.state_indices), column_of(group.commit_len),
          column_of(group.final_indices), column_of(group.boundary_indices),
          column_of(group.boundary_len),  static_cast<std::int32_t>(group.state_indices.shape[0])};
}

}  // namespace

std::size_t scratch_size(const CommitParams&) { return 0; }

Status execute(const CommitParams& p, const Launch& launch) {
  ReplayTable table;
  table.of = ReplayOf::commit;
  table.reporter = {launch.flag, Operation::commit};
  table.null_block_id = p.null_block_id;
  table.capacity = p.window_capacity;
  Launcher launcher(launch);
  // A window of groups at a time: nothing here allocates.
  for (std::size_t g = 0; g < p.groups.size(); g += kGroupsPerLaunch) {
    PlanColumns plans[kGroupsPerLaunch];
    const std::size_t count = p.groups.size() - g < kGroupsPerLaunch ? p.groups.size() - g : kGroupsPerLaunch;
    for (std::size_t i = 0; i < count; ++i) plans[i] = plan_columns(p.groups[g + i]);
    launch_layers(p.layers, {plans, count}, static_cast<int>(g), table, launcher);
  }
  return launcher.status("commit");
}

}  // namespace recoverssm::cuda
