// gated_delta_rule_verify on SYCL. One launch; the lazy form takes a second, tiny one that stores the pending counts, which every head of a row
// reads.
#include "sycl/kernels/pending.h"
#include "sycl/module/delta.h"

namespace recoverssm::sycl_backend {

std::size_t workspace_bytes(const GatedDeltaRuleVerifyParams&, ::sycl::queue&) { return 0; }

void prepare(const GatedDeltaRuleVerifyParams& p, ::sycl::queue& queue) {
  kernel_of(queue, delta_program(select_shape(p.inputs.q.shape[2]), p.inputs.gate, traits_of(queue)), "verify");
  if (p.pending.present()) kernel_of(queue, kPending, "store_pending");
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
                    /*together=*/p.pending.present(), traits);
  launch_delta(queue, delta_program(shape, p.inputs.gate, traits), "verify", 1, args.rows.rows,
               std::int64_t{args.rule.HV} * args.cut.tiles, args.cut, traits, args);
  if (!p.pending.present()) return;
  const PendingArgs pending = {args.rows, args.pending, 0};
  launch_kernel(queue, kernel_of(queue, kPending, "store_pending"),
                range_of(1, 1, ceil_div(args.rows.rows, kPendingItems), kPendingItems), pending);
}

}  // namespace recoverssm::sycl_backend
