// What calls ask of the module's programs, on a module that compiles nothing (dry.h): that all they launch is there from ahead of time where a SYCL
// compiler made it, and how a program that has to be compiled holds up others, or fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <sycl/sycl.hpp>
#include <vector>

#include "recoverssm/recoverssm.hpp"
#include "recoverssm/sycl.hpp"
#include "sycl/bench.h"
#include "sycl/dry.h"

namespace {

using namespace recoverssm;
using namespace std::chrono_literals;

constexpr std::int64_t kBlocks = 3, kN = 1, kS = 4, kHV = 2, kV = 8, kTaps = 4, kColumns = kTaps + kS;

class SyclPrograms : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = sycl_backend::unavailable_reason(); !reason.empty())
      GTEST_SKIP() << "left out: no SYCL here: " << reason;
    const ::sycl::device device(::sycl::default_selector_v);
    if (!device.is_cpu())
      GTEST_SKIP() << "left out: " << device.get_info<::sycl::info::device::name>() << " is no CPU, whose memory is the host's";
    queue_.emplace(::sycl::context(device), device,
                   ::sycl::property::queue::in_order());  // a context of its own has no programs yet
    memory_ = static_cast<std::byte*>(::sycl::malloc_shared(kMemory, *queue_));
    std::fill_n(memory_, kMemory, std::byte{0});
  }
  void TearDown() override {
    dry::set_compiler({});
    dry::withhold({});
    if (memory_ != nullptr) ::sycl::free(memory_, *queue_);
  }

  // Kernels do not run, so that contents are no matter.
  template <class... Sizes>
  TensorView tensor(DType dtype, Sizes... sizes) {
    TensorView view(memory_ + used_, dtype, {static_cast<std::int64_t>(sizes)...});
    used_ += (static_cast<std::size_t>(view.elements()) * 4 + 255) / 256 * 256;
    EXPECT_LE(used_, kMemory);
    return view;
  }
  template <class... Sizes>
  TensorView floats(Sizes... sizes) {
    return tensor(DType::f32, sizes...);
  }
  template <class... Sizes>
  TensorView ints(Sizes... sizes) {
    return tensor(DType::i32, sizes...);
  }

  template <class Params>
  Status call(const Params& params) {
    Launch launch{.backend = Backend::sycl, .stream = &*queue_};
    launch.workspace = {memory_ + kMemory / 2, kMemory / 2};
    return run(params, launch);
  }
  template <class Params>
  void expect_runs(const Params& params) {
    const Status status = call(params);
    EXPECT_TRUE(status.ok()) << status.message;
    used_ = 0;
  }

  Rows rows(bool windows, bool counts) {
    Rows rows{.query_start_loc = ints(kN + 1), .state_indices = ints(kN)};
    if (counts) rows.num_accepted = ints(kN);
    if (windows) rows.window_capacity = kS;
    return rows;
  }
  RuleInputs inputs(Gate gate, std::int64_t K) {
    const bool kda = gate == Gate::kda;
    return {.gate = gate,
            .q = floats(kS, 1, K),
            .k = floats(kS, 1, K),
            .v = floats(kS, kHV, kV),
            .a = kda ? floats(kS, kHV, K) : floats(kS, kHV),
            .b = floats(kS, kHV),
            .A_log = floats(kHV),
            .dt_bias = kda ? floats(kHV, K) : floats(kHV)};
  }
  Records records(Gate gate, std::int64_t K) {
    if (gate == Gate::gdn) return {.packed = floats(kBlocks, kHV, kS, kV + K + 1)};
    return {.corrections = floats(kBlocks, kHV, kS, kV), .key_gate = floats(kBlocks, kHV, kS, 2 * K)};
  }
  TensorView state(std::int64_t K) { return floats(kBlocks, kHV, kV, K); }
  TensorView line(std::int64_t C) { return floats(kBlocks, kColumns, C); }

  Layer layer(Gate gate, std::int64_t K) {
    Layer layer{.state = state(K), .records = records(gate, K), .pending = ints(kBlocks), .gate = gate};
    if (gate == Gate::kda) {
      layer.A_log = floats(kHV);
      layer.dt_bias = floats(kHV, K);
    }
    return layer;
  }

  SplitProjectionsParams split() {
    return {.qkvz = floats(kS, 2 * 64 + 2 * kHV * kV),
            .ba = floats(kS, 2 * kHV),
            .num_k_heads = 1,
            .num_v_heads = kHV,
            .head_k_dim = 64,
            .head_v_dim = kV,
            .mixed_qkv = floats(kS, 2 * 64 + kHV * kV),
            .z = floats(kS, kHV, kV),
            .b = floats(kS, kHV),
            .a = floats(kS, kHV)};
  }
  CommitPlanParams plan() {
    return {.num_accepted = ints(kN),
            .query_start_loc = ints(kN + 1),
            .state_indices = ints(kN),
            .window_capacity = kS,
            .out = {.commit_len = ints(kN), .final_indices = ints(kN), .boundary_indices = ints(kN), .boundary_len = ints(kN)}};
  }

  void delta_rules(Gate gate, std::int64_t K) {
    expect_runs(GatedDeltaRuleParams{.inputs = inputs(gate, K),
                                     .state = state(K),
                                     .out = floats(kS, kHV, kV),
                                     .rows = rows(false, true),
                                     .pending = ints(kBlocks),
                                     .records = records(gate, K)});
    GatedDeltaRuleSnapshotsParams snapshots{
        .inputs = inputs(gate, K), .state = state(K), .out = floats(kS, kHV, kV), .rows = rows(true, true)};
    snapshots.rows.state_indices = ints(kN, kS);
    expect_runs(snapshots);
    expect_runs(GatedDeltaRuleVerifyParams{.inputs = inputs(gate, K),
                                           .state = state(K),
                                           .out = floats(kS, kHV, kV),
                                           .records = records(gate, K),
                                           .rows = rows(true, true),
                                           .pending = ints(kBlocks)});
    const Layer one = layer(gate, K);
    const CommitGroup group{ints(kN), ints(kN), ints(kN), ints(kN), ints(kN)};
    expect_runs(CommitParams{.groups = {&group, 1}, .layers = {&one, 1}, .window_capacity = kS});
  }

  void other_operations() {
    const std::int64_t C = 32;
    expect_runs(split());
    expect_runs(plan());
    expect_runs(CausalConv1dParams{
        .x = floats(kS, C), .weight = floats(C, kTaps), .out = floats(kS, C), .line = line(C), .rows = rows(false, false)});
    expect_runs(ShortConvParams{
        .x = floats(kS, C), .weight = floats(C, kTaps), .residual = floats(kS, C), .line = line(C), .rows = rows(false, false)});
    const Layer moved = layer(Gate::gdn, 64);
    expect_runs(AlignMoveParams{.from = ints(kN), .to = ints(kN), .layers = {&moved, 1}});
    expect_runs(AlignAdvanceParams{.commit_len = ints(kN),
                                   .state_indices = ints(kN),
                                   .num_computed = ints(kN),
                                   .block_size = 16,
                                   .running_column = ints(kN),
                                   .num_accepted = ints(kN)});
    GdnAttentionParams attention{.qkvz = floats(kS, 2 * 64 + 2 * kHV * kV),
                                 .ba = floats(kS, 2 * kHV),
                                 .num_k_heads = 1,
                                 .num_v_heads = kHV,
                                 .head_k_dim = 64,
                                 .head_v_dim = kV,
                                 .weight = floats(2 * 64 + kHV * kV, kTaps),
                                 .A_log = floats(kHV),
                                 .dt_bias = floats(kHV),
                                 .line = line(2 * 64 + kHV * kV),
                                 .state = state(64),
                                 .out = floats(kS, kHV, kV),
                                 .z = floats(kS, kHV, kV)};
    attention.plain = AttentionPlainPart{.rows = rows(false, false)};
    expect_runs(attention);

    const sycl_backend::BenchCalls& bench = sycl_backend::bench_calls();
    std::int64_t issued = 0;
    for (const Status& status : {bench.repeat(&*queue_, memory_, 64, memory_ + 64, 16), bench.set_words(&*queue_, memory_, 1, 4),
                                 bench.read(&*queue_, memory_, 64, memory_ + 64), bench.copy(&*queue_, memory_, memory_ + 64, 64),
                                 bench.multiply_add(&*queue_, memory_, &issued), bench.empty(&*queue_)}) {
      EXPECT_TRUE(status.ok()) << status.message;
    }
  }

  static constexpr std::size_t kMemory = std::size_t{8} << 20;
  std::optional<::sycl::queue> queue_;
  std::byte* memory_ = nullptr;
  std::size_t used_ = 0;
};

// A call that asked for what is not in the list would fail: nothing is compiled here.
TEST_F(SyclPrograms, AllThatIsLaunchedIsThereFromAheadOfTimeAndNothingElse) {
  other_operations();
  for (const Gate gate : {Gate::gdn, Gate::kda}) {
    for (const std::int64_t K : {64, 128, 256, 100, 200}) delta_rules(gate, K);
  }
  for (const std::string& name : dry::ahead())
    EXPECT_TRUE(dry::launched().contains(name)) << name << ": in the list, and no call launches it";
  EXPECT_EQ(dry::launched().size(), dry::ahead().size());
}

TEST_F(SyclPrograms, WhatFailsToCompileIsNotTriedAgain) {
  dry::withhold({"projections.h"});
  std::atomic<int> compiled = 0;
  dry::set_compiler([&](const std::string& header) {
    ++compiled;
    throw ::sycl::exception(::sycl::make_error_code(::sycl::errc::build), header + ":1: error: of the test's making");
  });
  const SplitProjectionsParams params = split();
  for (int i = 0; i < 3; ++i) {
    const Status status = call(params);
    EXPECT_EQ(status.kind, ErrorKind::device_error);
    EXPECT_EQ(status.message,
              "split_projections: projections.h failed to compile, and is not tried again in this process: projections.h:1: error: "
              "of the "
              "test's making");
  }
  EXPECT_EQ(compiled, 1);
  expect_runs(plan());  // the others are no worse for it
}

TEST_F(SyclPrograms, WhatMayWorkLaterIsTriedAgain) {
  dry::withhold({"projections.h"});
  std::atomic<int> compiled = 0;
  std::atomic<bool> memory = false;
  dry::set_compiler([&](const std::string&) {
    ++compiled;
    if (!memory) throw ::sycl::exception(::sycl::make_error_code(::sycl::errc::memory_allocation), "no memory just now");
    throw std::runtime_error("no runtime's error");
  });
  const SplitProjectionsParams params = split();
  for (int i = 0; i < 4; ++i) {
    memory = i % 2 == 1;
    const int before = compiled;
    const Status status = call(params);
    EXPECT_EQ(status.kind, ErrorKind::device_error);
    EXPECT_EQ(status.message, std::string("split_projections: ") + (memory ? "no runtime's error" : "no memory just now"));
    EXPECT_GT(compiled, before);
  }
}

TEST_F(SyclPrograms, OneThatIsCompiledHoldsUpNobodyWhoDoesNotNeedIt) {
  dry::withhold({"projections.h"});
  std::promise<void> entered, leave;
  const std::shared_future<void> left = leave.get_future().share();
  std::atomic<int> compiled = 0;
  dry::set_compiler([&](const std::string&) {
    if (++compiled == 1) entered.set_value();
    left.wait();
  });
  const SplitProjectionsParams params = split();
  const auto compile = [&] { return call(params).kind; };
  auto first = std::async(std::launch::async, compile);
  entered.get_future().wait();
  auto second = std::async(std::launch::async, compile);  // waits for the first's
  const CommitPlanParams other = plan();
  auto meanwhile = std::async(std::launch::async, [&] { return call(other).kind; });
  EXPECT_EQ(meanwhile.wait_for(60s), std::future_status::ready);
  EXPECT_EQ(first.wait_for(0s), std::future_status::timeout);
  EXPECT_EQ(second.wait_for(0s), std::future_status::timeout);
  leave.set_value();
  EXPECT_EQ(meanwhile.get(), ErrorKind::ok);
  EXPECT_EQ(first.get(), ErrorKind::device_error);
  EXPECT_EQ(second.get(), ErrorKind::device_error);
  EXPECT_EQ(compiled, 1);
}

}  // namespace
