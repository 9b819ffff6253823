// materialize on CUDA: folds waiting records into their own block; a second, tiny launch clears the counts.

#include "cuda/replay.cuh"

namespace recoverssm::cuda {

std::size_t scratch_size(const MaterializeParams&) { return 0; }

Status execute(const MaterializeParams& p, const Launch& launch) {
  ReplayTable table;
  table.of = ReplayOf::materialize;
  table.reporter = {launch.flag, Operation::materialize};
  table.null_block_id = p.null_block_id;
  PlanColumns list;
  list.state_indices = column_of(p.blocks);
  list.commit_len = column_of(p.num_accepted);
  list.rows = static_cast<std::int32_t>(p.blocks.shape[0]);
  Launcher launcher(launch);
  launch_layers(p.layers, {&list, 1}, 0, table, launcher);
  return launcher.status("materialize");
}

}  // namespace recoverssm::cuda
