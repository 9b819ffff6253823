// torch.ops.recoverssm.*: schemas, and kernels for the CPU and CUDA. What the operations do and their errors: docs/operations.md; the schemas'
// rules: docs/python.md. Only the stable ABI of PyTorch is used, so one library runs under every version from 2.10 on.
#include <string>

#include "attention.h"
#include "commit.h"
#include "forward.h"
#include "launch.h"
#include "schema.h"
#include "stack.h"

namespace recoverssm::torch_ops {
namespace {

// The operation's name, without the overload's.
template <class Op>
std::string operation() {
  const std::string name = Op::kName;
  return name.substr(0, name.find('.'));
}

template <class Op>
std::string schema() {
  SchemaWriter writer(Op::kName);
  Op op;
  op.describe(writer);
  return writer.take();
}

template <class Op>
void kernel(StableIValue* stack, std::uint64_t, std::uint64_t) {
  static const std::string name = operation<Op>();
  StackReader reader(name.c_str(), stack);
  Op op;
  op.describe(reader);
  if constexpr (requires { op.assemble(reader); }) {
    if (reader.refusal().ok()) op.assemble(reader);
  }
  if (!reader.refusal().ok()) raise(reader.refusal());
  launch(op.params, reader.place());
}

struct Operation {
  const char* name;
  std::string (*schema)();
  void (*kernel)(StableIValue*, std::uint64_t, std::uint64_t);
};

template <class... Ops>
struct Table {
  static constexpr Operation kOperations[] = {{Ops::kName, schema<Ops>, kernel<Ops>}...};
};

using Operations =
    Table<SplitProjections, CausalConv1d<false>, CausalConv1d<true>, CausalConv1dWindow<false>, CausalConv1dWindow<true>,
          GatedDeltaRule<false>, GatedDeltaRule<true>, GatedDeltaRuleSnapshots, GatedDeltaRuleVerify<false, false>,
          GatedDeltaRuleVerify<false, true>, GatedDeltaRuleVerify<true, false>, GatedDeltaRuleVerify<true, true>, CommitPlan,
          CommitPlanGroups, Commit, Materialize, AlignMove, AlignAdvance, ShortConv, GdnAttention<0>, GdnAttention<1>,
          GdnAttention<2>, GdnAttention<3>, GdnAttention<4>>;

}  // namespace
}  // namespace recoverssm::torch_ops

STABLE_TORCH_LIBRARY(recoverssm, library) {
  for (const auto& operation : recoverssm::torch_ops::Operations::kOperations) library.def(operation.schema().c_str());
}

STABLE_TORCH_LIBRARY_IMPL(recoverssm, CPU, library) {
  for (const auto& operation : recoverssm::torch_ops::Operations::kOperations) library.impl(operation.name, operation.kernel);
}

// In every build: one without CUDA says so in the library's own words, and tensors on several devices are refused in both.
STABLE_TORCH_LIBRARY_IMPL(recoverssm, CUDA, library) {
  for (const auto& operation : recoverssm::torch_ops::Operations::kOperations) library.impl(operation.name, operation.kernel);
}
