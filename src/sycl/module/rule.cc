// gated_delta_rule on SYCL: plain rows. With pending a launch before it folds the records that wait.
#include "sycl/kernels/rule.h"

#include "contract/rules.h"
#include "sycl/module/delta.h"

namespace recoverssm::sycl_backend {

std::size_t workspace_bytes(const GatedDeltaRuleParams&, ::sycl::queue&) { return 0; }

void prepare(const GatedDeltaRuleParams& p, ::sycl::queue& queue) {
  kernel_of(queue, delta_program(select_shape(p.inputs.q.shape[2]), p.inputs.gate, traits_of(queue)), "plain");
}

void launch(const GatedDeltaRuleParams& p, const Launch& launch, ::sycl::queue& queue) {
  const DeviceTraits traits = traits_of(queue);
  PlainArgs args;
  args.rule = rule_args(p.inputs);
  args.rows =
      rows_args(p.rows, 0, local_tokens_of(p.inputs), p.out.shape[0], p.state.shape[0], Operation::gated_delta_rule, launch);
  args.state = view_of(p.state);
  args.out = view_of(p.out);
  args.pending = view_of(p.pending);
  args.record_capacity = p.pending.present() ? record_capacity(p.inputs.gate, p.records) : 0;
  const DeltaShape shape = select_shape(args.rule.K);
  args.cut =
      cut_of(shape, p.inputs.gate, args.rows.rows * args.rule.HV, args.rule.V, kMostTokensPrepared, /*together=*/false, traits);
  const Program program = delta_program(shape, p.inputs.gate, traits);
  launch_fold(queue, program, p, args.rows, args.record_capacity, shape, traits);
  launch_delta(queue, program, "plain", 1, args.rows.rows, std::int64_t{args.rule.HV} * args.cut.tiles, args.cut, traits, args);
}

}  // namespace recoverssm::sycl_backend
