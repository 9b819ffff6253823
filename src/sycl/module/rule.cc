// gated_delta_rule on SYCL: plain rows. With pending a second, tiny launch clears the counts, which every head of a row reads.
#include "sycl/kernels/rule.h"

#include "contract/rules.h"
#include "sycl/kernels/pending.h"
#include "sycl/module/delta.h"

namespace recoverssm::sycl_backend {

std::size_t workspace_bytes(const GatedDeltaRuleParams&, ::sycl::queue&) { return 0; }

void prepare(const GatedDeltaRuleParams& p, ::sycl::queue& queue) {
  kernel_of(queue, delta_program(select_shape(p.inputs.q.shape[2]), p.inputs.gate, traits_of(queue)), "plain");
  if (p.pending.present()) kernel_of(queue, kPending, "clear_pending");
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
  args.records = record_args(p.records);
  args.record_capacity = p.pending.present() ? record_capacity(p.inputs.gate, p.records) : 0;
  const DeltaShape shape = select_shape(args.rule.K);
  args.cut =
      cut_of(shape, p.inputs.gate, args.rows.rows * args.rule.HV, args.rule.V, kMostTokensPrepared, /*together=*/false, traits);
  launch_delta(queue, delta_program(shape, p.inputs.gate, traits), "plain", 1, args.rows.rows,
               std::int64_t{args.rule.HV} * args.cut.tiles, args.cut, traits, args);
  if (!p.pending.present()) return;
  const PendingArgs pending = {args.rows, args.pending, args.record_capacity};
  launch_kernel(queue, kernel_of(queue, kPending, "clear_pending"),
                range_of(1, 1, ceil_div(args.rows.rows, kPendingItems), kPendingItems), pending);
}

}  // namespace recoverssm::sycl_backend
