// Checking a right call allocates nothing: launches happen in places where the allocator must not be entered.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <vector>

#include "contract/contents.h"
#include "good_calls.h"

namespace {
thread_local long allocations = 0;
}

// Replaced for the whole test program; the other tests do not look at the count.
void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace contract_tests {
namespace {

using namespace recoverssm;

template <class Params>
void expect_no_allocation(const char* op, const Params& params) {
  std::vector<std::uint64_t> memory((contents_workspace_size(params) + 7) / 8 + 1);
  const long before = allocations;
  const Status shapes = validate(params);
  const Status contents = validate_contents(params, {memory.data(), memory.size() * 8});
  const long after = allocations;
  EXPECT_TRUE(shapes.ok()) << shapes.message;
  EXPECT_TRUE(contents.ok()) << contents.message;
  EXPECT_EQ(after, before) << op;
}

TEST(ContractAllocation, NoneForRightCalls) {
  Calls calls;
  auto split = calls.split();
  split.token_index = calls.ints({5, 1, 3});
  expect_no_allocation("split_projections", split);
  auto conv = calls.conv();
  conv.rows.token_index = calls.ints({5, 1, 3, 2, 4, 0});
  expect_no_allocation("causal_conv1d", conv);
  expect_no_allocation("causal_conv1d_window", calls.conv_window());
  expect_no_allocation("gated_delta_rule", calls.lazy_rule(Gate::kda));
  expect_no_allocation("gated_delta_rule_snapshots", calls.snapshots());
  expect_no_allocation("gated_delta_rule_verify", calls.lazy_verify());
  expect_no_allocation("commit_plan", calls.plan());
  expect_no_allocation("commit_plan_groups", calls.plan_groups());
  expect_no_allocation("commit", calls.commit(Gate::kda));
  expect_no_allocation("materialize", calls.materialize());
  expect_no_allocation("align_move", calls.align_move());
  expect_no_allocation("align_advance", calls.align_advance());
  expect_no_allocation("short_conv", calls.short_conv());
  expect_no_allocation("gdn_attention", calls.attention_verify());
  expect_no_allocation("gdn_attention", calls.attention_snapshots());
}

}  // namespace
}  // namespace contract_tests
