// materialize on SYCL: folds waiting records into their own block; a second, tiny launch clears the counts.
#include "contract/layers.h"
#include "recoverssm/commit.hpp"
#include "sycl/module/operations.h"
#include "sycl/module/replay.h"

namespace recoverssm::sycl_backend {

std::size_t workspace_bytes(const MaterializeParams& p, ::sycl::queue&) { return replay_bytes(p.layers.size(), 1); }

void prepare(const MaterializeParams& p, ::sycl::queue& queue) { prepare_replay(p.layers, queue); }

void launch(const MaterializeParams& p, const Launch& launch, ::sycl::queue& queue) {
  ReplayCall call;
  call.table = static_cast<device::LayerArgs*>(launch.workspace.data);
  auto* const list = reinterpret_cast<device::PlanColumns*>(call.table + p.layers.size());
  device::PlanColumns columns;
  columns.state_indices = device::column_of(p.blocks);
  columns.commit_len = device::column_of(p.num_accepted);
  columns.rows = p.blocks.shape[0];
  write_table(queue, list, &columns, sizeof columns);
  call.args.groups = list;
  call.args.rows = columns.rows;
  call.args.reporter = {launch.flag, Operation::materialize};
  call.args.null_block_id = p.null_block_id;
  call.args.of = device::ReplayOf::materialize;
  for (const Layer& layer : p.layers) call.tokens = std::max(call.tokens, layer_capacity(layer));
  launch_replay(p.layers, call, queue);
}

}  // namespace recoverssm::sycl_backend
