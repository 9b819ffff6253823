// Host side of the delta kernels: from sizes and gate to a program and a cut.
#pragma once

#include "sycl/kernels/delta.h"
#include "sycl/module/operations.h"
#include "sycl/select.h"

namespace recoverssm::sycl_backend {

inline Program delta_program(const DeltaShape& shape, Gate gate, const DeviceTraits& traits) {
  return {.header = "delta_program.h",
          .defines = {{{"RSSM_SUB_GROUP", traits.sub_group},
                       {"RSSM_CHUNKS", shape.chunks},
                       {"RSSM_WHOLE", shape.whole ? 1 : 0},
                       {"RSSM_KDA", gate == Gate::kda ? 1 : 0}}}};
}

constexpr Program kPending = {.header = "pending.h", .defines = {}};
constexpr std::int64_t kPendingItems = 64;

inline DeltaCut cut_of(const DeltaShape& shape, Gate gate, std::int64_t heads, std::int64_t V, std::int64_t tokens, bool together,
                       const DeviceTraits& traits) {
  const bool kda = gate == Gate::kda;
  DeltaCut cut;
  cut.task_rows = select_task_rows(heads, V, together, traits);
  cut.tiles = static_cast<std::int32_t>(ceil_div(V, cut.task_rows));
  cut.token_chunk = select_token_chunk(shape, kda, tokens);
  cut.local_floats = 32 * shape.chunks + cut.token_chunk * (32 * shape.chunks * (kda ? 3 : 2) + 4);
  cut.sub_groups = sub_groups_of(traits);
  return cut;
}

// Launches a delta kernel with `tasks` tasks for each of `rows` rows of `layers` layers.
template <class Args>
void launch_delta(::sycl::queue& queue, const Program& program, const char* name, std::int64_t layers, std::int64_t rows,
                  std::int64_t tasks, const DeltaCut& cut, const DeviceTraits& traits, const Args& args) {
  const auto range = range_of(layers, rows, ceil_div(tasks, cut.sub_groups), std::int64_t{cut.sub_groups} * traits.sub_group);
  launch_kernel(queue, kernel_of(queue, program, name), range, args, std::int64_t{cut.local_floats} * cut.sub_groups);
}

}  // namespace recoverssm::sycl_backend
