// Host side of the delta kernels: how a call is cut, and its launches.
#pragma once

#include "sycl/kernels/fold.h"
#include "sycl/module/operations.h"
#include "sycl/select.h"

namespace recoverssm::sycl_backend {

constexpr std::int64_t kPendingItems = 64;

inline DeltaCut cut_of(const DeltaShape& shape, Gate gate, std::int64_t heads, std::int64_t V, std::int64_t tokens, bool together,
                       const DeviceTraits& traits) {
  const bool kda = gate == Gate::kda;
  DeltaCut cut;
  cut.task_rows = select_task_rows(heads, V, together, traits);
  cut.tiles = static_cast<std::int32_t>(ceil_div(V, cut.task_rows));
  cut.token_chunk = select_token_chunk(shape, kda, tokens);
  cut.local_floats = stage_floats(shape) + cut.token_chunk * token_floats(shape, kda);
  return cut;
}

// Launches a delta kernel with `tasks` tasks for each of `rows` rows of `layers` layers.
template <class Args>
void launch_delta(::sycl::queue& queue, const Program& program, const char* name, std::int64_t layers, std::int64_t rows,
                  std::int64_t tasks, const DeltaCut& cut, const DeviceTraits& traits, const Args& args) {
  static_assert(args_floats<Args>() <= kParameterFloats);
  const std::int64_t sub_groups = sub_groups_of(traits);
  const auto range = range_of(layers, rows, ceil_div(tasks, sub_groups), sub_groups * traits.sub_group);
  launch_kernel(queue, kernel_of(queue, program, name), range, args,
                std::int64_t{cut.local_floats + args_floats<Args>()} * sub_groups);
}

// The first launch of the lazy form, where there is one.
template <class Params>
void launch_fold(::sycl::queue& queue, const Program& program, const Params& p, const RowsArgs& rows, std::int64_t record_capacity,
                 const DeltaShape& shape, const DeviceTraits& traits) {
  if (!p.pending.present()) return;
  FoldArgs args;
  args.rows = rows;
  args.state = view_of(p.state);
  args.pending = view_of(p.pending);
  args.records = record_args(p.records);
  args.gate = rule_args(p.inputs).gate;
  args.record_capacity = record_capacity;
  args.HV = static_cast<std::int32_t>(p.state.shape[1]);
  args.V = static_cast<std::int32_t>(p.state.shape[2]);
  args.K = static_cast<std::int32_t>(p.state.shape[3]);
  args.cut = cut_of(shape, p.inputs.gate, rows.rows * args.HV, args.V, record_capacity, /*together=*/false, traits);
  launch_delta(queue, program, "fold", 1, rows.rows, std::int64_t{args.HV} * args.cut.tiles, args.cut, traits, args);
}

}  // namespace recoverssm::sycl_backend
