// gated_delta_rule_verify on SYCL. One launch; the lazy form takes one before it, which folds the records that wait.
#include "sycl/kernels/verify.h"

#include "sycl/module/delta.h"

namespace recoverssm::sycl_backend {

std::size_t workspace_bytes(const GatedDeltaRuleVerifyParams&, ::sycl::queue&) { return 0; }

void prepare(const GatedDeltaRuleVerifyParams& p, ::sycl::queue& queue) {
  kernel_of(queue, delta_program(select_shape(p.inputs.q.shape[2]), p.inputs.gate, traits_of(queue)), "verify");
}

void launch(const GatedDeltaRuleVerifyParams& p, const Launch& launch, ::sycl::queue& queue) {
  const DeviceTraits traits = traits_of(queue);
  VerifyArgs args;
  args.rule = rule_args(p.inputs);
  args.rows = rows_args(p.rows, p.rows.window_capacity, local_tokens_of(p.inputs), p.out.shape[0], p.state.shape[0],
                        Operation::gated_delta_rule_verify, launch);
  args.state = view_of(p.state);
  args.out = view_of(p.out);
  args.pending = view_of(p.pending);
  args.records = record_args(p.records);
  const DeltaShape shape = select_shape(args.rule.K);
  args.cut = cut_of(shape, p.inputs.gate, args.rows.rows * args.rule.HV, args.rule.V, p.rows.window_capacity,
                    /*together=*/false, traits);
  const Program program = delta_program(shape, p.inputs.gate, traits);
  launch_fold(queue, program, p, args.rows, p.rows.window_capacity, shape, traits);
  launch_delta(queue, program, "verify", 1, args.rows.rows, std::int64_t{args.rule.HV} * args.cut.tiles, args.cut, traits, args);
}

}  // namespace recoverssm::sycl_backend
