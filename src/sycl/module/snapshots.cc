// gated_delta_rule_snapshots on SYCL: windows that leave a state per token.
#include "sycl/kernels/snapshots.h"

#include "sycl/module/delta.h"

namespace recoverssm::sycl_backend {

std::size_t workspace_bytes(const GatedDeltaRuleSnapshotsParams&, ::sycl::queue&) { return 0; }

void prepare(const GatedDeltaRuleSnapshotsParams& p, ::sycl::queue& queue) {
  kernel_of(queue, delta_program(select_shape(p.inputs.q.shape[2]), p.inputs.gate, traits_of(queue)), "snapshots");
}

void launch(const GatedDeltaRuleSnapshotsParams& p, const Launch& launch, ::sycl::queue& queue) {
  const DeviceTraits traits = traits_of(queue);
  const std::int64_t S = p.rows.state_indices.shape[1];
  SnapshotsArgs args;
  args.rule = rule_args(p.inputs);
  args.rows = rows_args(p.rows, S, local_tokens_of(p.inputs), p.out.shape[0], p.state.shape[0],
                        Operation::gated_delta_rule_snapshots, launch);
  args.state = view_of(p.state);
  args.out = view_of(p.out);
  const DeltaShape shape = select_shape(args.rule.K);
  args.cut = cut_of(shape, p.inputs.gate, args.rows.rows * args.rule.HV, args.rule.V, S, /*together=*/false, traits);
  launch_delta(queue, delta_program(shape, p.inputs.gate, traits), "snapshots", 1, args.rows.rows,
               std::int64_t{args.rule.HV} * args.cut.tiles, args.cut, traits, args);
}

}  // namespace recoverssm::sycl_backend
