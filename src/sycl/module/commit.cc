// commit on SYCL: all layers of all groups in one launch (one a head size and gate, where layers differ in them), after those that write the
// call's tables. Layers with pending take one more, tiny launch that clears the counts.
#include "recoverssm/commit.hpp"

#include <algorithm>

#include "sycl/module/operations.h"
#include "sycl/module/replay.h"

namespace recoverssm::sycl_backend {
namespace {

constexpr std::size_t kGroupsAtOnce = 16;

device::PlanColumns plan_columns(const CommitGroup& group) {
  return {device::column_of(group.state_indices),    device::column_of(group.commit_len),   device::column_of(group.final_indices),
          device::column_of(group.boundary_indices), device::column_of(group.boundary_len), group.state_indices.shape[0]};
}

}  // namespace

std::size_t workspace_bytes(const CommitParams& p, ::sycl::queue&) { return replay_bytes(p.layers.size(), p.groups.size()); }

void prepare(const CommitParams& p, ::sycl::queue& queue) { prepare_replay(p.layers, queue); }

void launch(const CommitParams& p, const Launch& launch, ::sycl::queue& queue) {
  ReplayCall call;
  call.table = static_cast<device::LayerArgs*>(launch.workspace.data);
  auto* const groups = reinterpret_cast<device::PlanColumns*>(call.table + p.layers.size());
  for (std::size_t first = 0; first < p.groups.size(); first += kGroupsAtOnce) {
    device::PlanColumns columns[kGroupsAtOnce];
    const std::size_t count = std::min(kGroupsAtOnce, p.groups.size() - first);
    for (std::size_t g = 0; g < count; ++g) {
      columns[g] = plan_columns(p.groups[first + g]);
      call.args.rows = std::max(call.args.rows, columns[g].rows);
    }
    write_table(queue, groups + first, columns, count * sizeof(device::PlanColumns));
  }
  call.args.groups = groups;
  call.args.reporter = {launch.flag, Operation::commit};
  call.args.null_block_id = p.null_block_id;
  call.args.capacity = p.window_capacity;
  call.args.of = device::ReplayOf::commit;
  call.tokens = p.window_capacity;
  launch_replay(p.layers, call, queue);
}

}  // namespace recoverssm::sycl_backend
