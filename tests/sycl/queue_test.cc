// The caller's queue: of its own context, in order or refused, and recorded into a command graph where the device offers them.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <sycl/sycl.hpp>
#include <vector>

#include "recoverssm/recoverssm.hpp"
#include "recoverssm/sycl.hpp"

namespace {

using namespace recoverssm;
namespace experimental = ::sycl::ext::oneapi::experimental;

constexpr std::int64_t kTokens = 4, kHV = 2, kK = 64, kV = 8, kBlocks = 3;
constexpr std::int32_t kBlock = 2;

// One layer's window, verified, planned and committed. Memory from `take(bytes)`.
struct Step {
  TensorView q, k, v, ab, head, state, record, out, offsets, ids, counts, plan[4];

  template <class Take>
  explicit Step(Take&& take) {
    const auto floats = [&](float start, auto... n) {
      const TensorView view(nullptr, DType::f32, {static_cast<std::int64_t>(n)...});
      auto* const data = reinterpret_cast<float*>(take(static_cast<std::size_t>(view.elements()) * sizeof(float)));
      for (std::int64_t i = 0; i < view.elements(); ++i) data[i] = start + 0.01F * static_cast<float>(i % 97);
      return TensorView(data, DType::f32, {static_cast<std::int64_t>(n)...});
    };
    const auto ints = [&](std::vector<std::int32_t> values) {
      auto* const data = reinterpret_cast<std::int32_t*>(take(values.size() * sizeof(std::int32_t)));
      std::copy(values.begin(), values.end(), data);
      return TensorView(data, DType::i32, {static_cast<std::int64_t>(values.size())});
    };
    q = floats(-0.4F, kTokens, 1, kK);
    k = floats(-0.3F, kTokens, 1, kK);
    v = floats(-0.2F, kTokens, kHV, kV);
    ab = floats(-0.1F, kTokens, kHV);
    head = floats(0.1F, kHV);
    state = floats(0.5F, kBlocks, kHV, kV, kK);
    record = floats(0, kBlocks, kHV, kTokens, kV + kK + 1);
    out = floats(0, kTokens, kHV, kV);
    offsets = ints({0, kTokens});
    ids = ints({kBlock});
    counts = ints({0});
    for (TensorView& each : plan) each = ints({0});
  }

  void launch(Context& context) {
    const RuleInputs inputs{.q = q, .k = k, .v = v, .a = ab, .b = ab, .A_log = head, .dt_bias = head};
    const Rows rows{.query_start_loc = offsets, .state_indices = ids, .window_capacity = kTokens};
    const Layer layer{.state = state, .records = {.packed = record}};
    gated_delta_rule_verify({.inputs = inputs, .state = state, .out = out, .records = layer.records, .rows = rows}, context);
    commit_plan({.num_accepted = counts,
                 .query_start_loc = offsets,
                 .state_indices = ids,
                 .window_capacity = kTokens,
                 .out = {.commit_len = plan[0], .final_indices = plan[1], .boundary_indices = plan[2], .boundary_len = plan[3]}},
                context);
    const CommitGroup group{ids, plan[0], plan[1], plan[2], plan[3]};
    commit({.groups = {&group, 1}, .layers = {&layer, 1}, .window_capacity = kTokens}, context);
  }

  void set_count(std::int32_t count) { *static_cast<std::int32_t*>(counts.data) = count; }
  std::vector<float> contents() const {
    std::vector<float> all;
    for (const TensorView* view : {&state, &record, &out}) {
      const auto* const data = static_cast<const float*>(view->data);
      all.insert(all.end(), data, data + view->elements());
    }
    return all;
  }
};

// Steps with these counts, one after the other, on the CPU.
std::vector<float> on_cpu(std::initializer_list<std::int32_t> counts) {
  std::vector<std::vector<std::byte>> memory;
  Step step([&](std::size_t bytes) { return memory.emplace_back(bytes).data(); });
  Context context;
  for (const std::int32_t count : counts) {
    step.set_count(count);
    step.launch(context);
  }
  return step.contents();
}

class SyclQueue : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = sycl_backend::unavailable_reason(); !reason.empty())
      GTEST_SKIP() << "left out: no SYCL here: " << reason;
    const ::sycl::device device(::sycl::default_selector_v);
    queue_.emplace(::sycl::context(device), device, ::sycl::property::queue::in_order());
  }
  void TearDown() override {
    for (void* memory : taken_) ::sycl::free(memory, *queue_);
  }
  std::byte* take(std::size_t bytes) { return static_cast<std::byte*>(taken_.emplace_back(::sycl::malloc_shared(bytes, *queue_))); }
  // Of a context of its own, which is not the default queue's.
  ::sycl::queue& queue() { return *queue_; }

 private:
  std::optional<::sycl::queue> queue_;
  std::vector<void*> taken_;
};

TEST_F(SyclQueue, OfAnotherContext) {
  Step step([&](std::size_t bytes) { return take(bytes); });
  Context context = Context::sycl(&queue());
  step.set_count(3);
  step.launch(context);
  queue().wait_and_throw();
  EXPECT_EQ(step.contents(), on_cpu({3}));
}

TEST_F(SyclQueue, OutOfOrderIsRefused) {
  ::sycl::queue unordered(queue().get_context(), queue().get_device());
  Step step([&](std::size_t bytes) { return take(bytes); });
  Context context = Context::sycl(&unordered);
  const std::vector<float> before = step.contents();
  try {
    step.launch(context);
    FAIL() << "launched";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_STREQ(error.what(), "gated_delta_rule_verify: stream: an out-of-order sycl::queue, expected an in-order one");
  }
  unordered.wait_and_throw();
  EXPECT_EQ(step.contents(), before);
}

// Shapes, addresses and the workspace are the recording's; counts are read when it runs.
TEST_F(SyclQueue, CommandGraph) {
  const ::sycl::device device = queue().get_device();
  if (!device.has(::sycl::aspect::ext_oneapi_graph) && !device.has(::sycl::aspect::ext_oneapi_limited_graph))
    GTEST_SKIP() << "left out: " << device.get_info<::sycl::info::device::name>() << " has no command graphs (ext_oneapi_graph)";
  Step step([&](std::size_t bytes) { return take(bytes); });
  const std::vector<float> before = step.contents();
  Context context = Context::sycl(&queue());
  step.set_count(0);
  step.launch(context);  // compiles, and grows the workspace
  queue().wait_and_throw();
  experimental::command_graph<experimental::graph_state::modifiable> graph(queue().get_context(), device);
  graph.begin_recording(queue());
  step.launch(context);
  graph.end_recording(queue());
  const auto ready = graph.finalize();
  for (const std::int32_t count : {3, 1}) {
    step.set_count(count);
    queue().ext_oneapi_graph(ready);
    queue().wait_and_throw();
  }
  EXPECT_EQ(step.contents(), on_cpu({0, 3, 1}));
  EXPECT_NE(step.contents(), before);
}

}  // namespace
