// The host's side of a device: contexts, launches of the C ABI, trace replay and its comparison, the flag.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "cuda/architectures.h"
#include "device/fake_cuda.h"
#include "recoverssm/recoverssm.h"
#include "recoverssm/recoverssm.hpp"
#include "support/call.h"
#include "trace/replay.h"

namespace {

using namespace recoverssm;
using recoverssm::cuda::parse_architectures;
using support::dense;
using support::dense_i32;
using support::Tensor;
using trace::Replayer;
using trace::ReplayOptions;
using trace::ReplayResult;

const std::string kTraces = RECOVERSSM_SOURCE_DIR "/traces/";

ReplayOptions on_cuda(bool compare = true) {
  ReplayOptions options;
  options.backend = "cuda";
  options.compare_cpu = compare;
  return options;
}

std::string problems(const ReplayResult& result) {
  std::string text = result.error.value_or("");
  for (const trace::Failure& failure : result.failed) text += failure.call + ": " + failure.detail + "\n";
  return text;
}

TEST(DeviceReplay, HoldsWhatTheCpuHoldsAndComparesEveryCall) {
  for (const bool guards : {true, false}) {
    ReplayOptions options = on_cuda();
    options.guards = guards;
    Replayer replayer(options);
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(kTraces + "golden")) {
      const ReplayResult result = replayer.replay_file(entry.path());
      EXPECT_TRUE(result.ok()) << entry.path() << "\n" << problems(result);
      EXPECT_EQ(result.compared, result.calls) << entry.path();
      EXPECT_EQ(result.not_compared, 0);
      ++files;
    }
    EXPECT_GE(files, 20);
  }
}

// Wrong contents: the flag is the device's answer, and the fake's row is always 0.
TEST(DeviceReplay, LooksAtTheFlag) {
  const ReplayResult result = Replayer(on_cuda()).replay_file(kTraces + "synthetic/bad_rows_gpu.commit_len.rst.safetensors");
  EXPECT_FALSE(result.skipped);
  EXPECT_GT(result.not_compared, 0) << problems(result);
  EXPECT_EQ(problems(result).find("flag"), std::string::npos) << problems(result);  // out_of_range, row 0: as expected
  const ReplayResult other = Replayer(on_cuda()).replay_file(kTraces + "synthetic/bad_rows_gpu.column.rst.safetensors");
  EXPECT_NE(problems(other).find("row 0, want flag out_of_range, row 1"), std::string::npos) << problems(other);
}

TEST(DeviceReplay, AFlagForNothingFails) {
  fake_cuda::raises = true;
  const ReplayResult plain = Replayer(on_cuda(false)).replay_file(kTraces + "golden/rule.kda.rst.safetensors");
  const ReplayResult compared = Replayer(on_cuda()).replay_file(kTraces + "golden/rule.kda.rst.safetensors");
  fake_cuda::raises = false;
  EXPECT_EQ(problems(plain), "finally: flag bad_state of gated_delta_rule, layer 0, row 7, expected none\n");
  EXPECT_NE(problems(compared).find("and the CPU finds nothing wrong"), std::string::npos) << problems(compared);
}

TEST(DeviceReplay, SeesAWriteOutside) {
  fake_cuda::writes_outside = true;
  const ReplayResult result = Replayer(on_cuda()).replay_file(kTraces + "golden/rule.kda.rst.safetensors");
  fake_cuda::writes_outside = false;
  EXPECT_NE(problems(result).find("workspace: wrote outside: 1 bytes changed"), std::string::npos) << problems(result);
}

TEST(DeviceReplay, WithoutADeviceIsAnError) {
  fake_cuda::present = false;
  const ReplayResult result = Replayer(on_cuda()).replay_file(kTraces + "golden/rule.kda.rst.safetensors");
  fake_cuda::present = true;
  ASSERT_TRUE(result.error);
  EXPECT_NE(result.error->find("no CUDA device"), std::string::npos) << *result.error;
}

TEST(DeviceReplay, GivesItsMemoryBack) {
  const std::int64_t before = fake_cuda::allocated;
  EXPECT_TRUE(Replayer(on_cuda()).replay_file(kTraces + "golden/rule.kda.rst.safetensors").ok());
  EXPECT_EQ(fake_cuda::allocated, before);
}

// One plain row of two tokens on block 1, in memory that calls on the device see.
struct Call {
  Tensor qk = dense(DType::f32, {2, 1, 8}), v = dense(DType::f32, {2, 1, 4}), gate = dense(DType::f32, {2, 1});
  Tensor head = dense(DType::f32, {1}), state = dense(DType::f32, {2, 1, 4, 8}), out = dense(DType::f32, {2, 1, 4});
  Tensor offsets = dense_i32({0, 2}), ids = dense_i32({1});
  GatedDeltaRuleParams params;

  Call() {
    for (const Tensor& t : {qk, v, gate, head, state, out}) t.fill(0.25);
    params.inputs = {.q = qk, .k = qk, .v = v, .a = gate, .b = gate, .A_log = head, .dt_bias = head};
    params.state = state;
    params.out = out;
    params.rows = {.query_start_loc = offsets, .state_indices = ids};
  }
};

TEST(DeviceContext, RunsOnItsStreamWithAWorkspaceOfTheDevice) {
  const std::int64_t launches = fake_cuda::launches, allocated = fake_cuda::allocated;
  {
    int stream = 0;
    Context context = Context::cuda(&stream);
    EXPECT_EQ(context.backend(), Backend::cuda);
    const Call on_device, on_cpu;
    EXPECT_EQ(context.launch().stream, &stream);
    gated_delta_rule(on_device.params, context);
    EXPECT_EQ(fake_cuda::launches, launches + 1);
    Context cpu;
    gated_delta_rule(on_cpu.params, cpu);
    EXPECT_EQ(fake_cuda::launches, launches + 1);
    EXPECT_TRUE(support::same_bits(on_device.out, on_cpu.out));
    Counters counters;
    context.counters = &counters;
    EXPECT_THROW(gated_delta_rule(on_device.params, context), Error);
  }
  EXPECT_EQ(fake_cuda::allocated, allocated);
  fake_cuda::present = false;
  EXPECT_THROW(Context::cuda(), Error);
  fake_cuda::present = true;
}

TEST(DeviceFlag, IsWrittenByTheCallAndNamedByTheHost) {
  const Call call;
  call.ids.set(5, 0);  // past the pool
  DeviceFlag flag;
  Context context = Context::cuda();
  context.flag = &flag;
  gated_delta_rule(call.params, context);
  EXPECT_EQ(flag.code, static_cast<int>(ErrorKind::out_of_range));
  EXPECT_STREQ(name_of(static_cast<Operation>(flag.op)), "gated_delta_rule");
  // What tests/support makes of it.
  EXPECT_EQ(support::try_run(call.params).kind, ErrorKind::out_of_range);
  call.ids.set(1, 0);
  EXPECT_TRUE(support::try_run(call.params).ok());
  fake_cuda::raises = true;
  EXPECT_ANY_THROW(support::try_run(call.params));
  fake_cuda::raises = false;
}

TEST(Backends, AnUnknownOneIsRefused) {
  const Call call;
  EXPECT_EQ(run(call.params, {.backend = static_cast<Backend>(7)}).kind, ErrorKind::unsupported);
  EXPECT_FALSE(query_support(call.params, static_cast<Backend>(7)).supported);
  EXPECT_STREQ(name_of(static_cast<Backend>(7)), "unknown");
  EXPECT_STREQ(name_of(Operation::split_projections), "split_projections");
  EXPECT_STREQ(name_of(Operation::gdn_attention), "gdn_attention");
  EXPECT_STREQ(name_of(static_cast<Operation>(0)), "unknown");
  EXPECT_STREQ(name_of(static_cast<Operation>(15)), "unknown");
}

TEST(Architectures, WhatRunsWhere) {
  const auto names = [](std::string_view list) {
    std::string text;
    for (const auto& architecture : parse_architectures(list)) text += architecture.name() + " ";
    return text;
  };
  EXPECT_EQ(names("80-real,90a,120-virtual"), "sm_80 sm_90a compute_90a compute_120 ");
  EXPECT_EQ(names("native,"), "");
  const auto runs = [](std::string_view list, int major, int minor) {
    const auto all = parse_architectures(list);
    return std::ranges::any_of(all, [&](const auto& a) { return a.runs_on(major, minor); });
  };
  EXPECT_TRUE(runs("80-real", 8, 6));
  EXPECT_FALSE(runs("86-real", 8, 0));
  EXPECT_FALSE(runs("80-real", 9, 0));
  EXPECT_TRUE(runs("80", 9, 0));  // PTX
  EXPECT_FALSE(runs("90", 8, 9));
  EXPECT_TRUE(runs("90a", 9, 0));
  EXPECT_FALSE(runs("90a", 10, 0));
}

// The C ABI: lists are converted in memory of the host, the workspace is the device's alone.
TEST(CAbi, RunsOnTheDevice) {
  const Tensor block = dense_i32({1}), kept = dense_i32({1}), none = dense_i32({0});
  const Tensor state = dense(DType::f32, {2, 1, 4, 8}), packed = dense(DType::f32, {2, 1, 2, 13});
  state.fill(1);
  packed.fill(0.5);
  const auto view = [](const Tensor& t) {
    recoverssm_tensor c{};
    c.data = t.view.data;
    c.dtype = static_cast<std::int32_t>(t.view.dtype);
    c.dims = t.view.dims;
    std::copy(t.view.shape.begin(), t.view.shape.end(), c.shape);
    std::copy(t.view.stride.begin(), t.view.stride.end(), c.stride);
    return c;
  };
  recoverssm_commit_group group;
  recoverssm_commit_group_init(&group, sizeof group);
  group.state_indices = group.final_indices = view(block);
  group.commit_len = view(kept);
  group.boundary_indices = group.boundary_len = view(none);
  recoverssm_records records;
  recoverssm_records_init(&records, sizeof records);
  records.packed = view(packed);
  recoverssm_layer layer;
  recoverssm_layer_init(&layer, sizeof layer);
  layer.state = view(state);
  layer.records = &records;
  recoverssm_commit_params params;
  recoverssm_commit_params_init(&params, sizeof params);
  params.groups = &group;
  params.group_count = 1;
  params.layers = &layer;
  params.layer_count = 1;
  params.window_capacity = 2;
  EXPECT_EQ(recoverssm_commit_query_support_on(&params, RECOVERSSM_BACKEND_CUDA), RECOVERSSM_OK) << recoverssm_last_error();
  EXPECT_EQ(recoverssm_commit_query_support_on(&params, 7), RECOVERSSM_UNSUPPORTED);
  EXPECT_EQ(recoverssm_commit_query_support_on(&params, -1), RECOVERSSM_INVALID_ARGUMENT);

  recoverssm_context* context = nullptr;
  ASSERT_EQ(recoverssm_context_create_cuda(nullptr, &context), RECOVERSSM_OK) << recoverssm_last_error();
  recoverssm_launch launch;
  recoverssm_launch_init(&launch, sizeof launch);
  EXPECT_EQ(launch.backend, RECOVERSSM_BACKEND_CPU);
  ASSERT_EQ(recoverssm_context_launch(context, 0, &launch), RECOVERSSM_OK);
  EXPECT_EQ(launch.backend, RECOVERSSM_BACKEND_CUDA);
  std::size_t bytes = 0;
  ASSERT_EQ(recoverssm_commit_workspace_size(&params, &launch, &bytes), RECOVERSSM_OK) << recoverssm_last_error();
  EXPECT_EQ(bytes, fake_cuda::kWorkspace);
  ASSERT_EQ(recoverssm_context_launch(context, bytes, &launch), RECOVERSSM_OK);
  recoverssm_device_flag flag{};
  launch.flag = &flag;
  const std::int64_t launches = fake_cuda::launches;
  ASSERT_EQ(recoverssm_commit_run(&params, &launch), RECOVERSSM_OK) << recoverssm_last_error();
  EXPECT_EQ(fake_cuda::launches, launches + 1);
  EXPECT_EQ(flag.code, RECOVERSSM_OK);
  block.set(9, 0);
  ASSERT_EQ(recoverssm_commit_run(&params, &launch), RECOVERSSM_OK) << recoverssm_last_error();
  EXPECT_EQ(flag.code, RECOVERSSM_OUT_OF_RANGE);
  EXPECT_EQ(flag.op, RECOVERSSM_OP_COMMIT);
  EXPECT_STREQ(recoverssm_operation_name(flag.op), "commit");
  // An older program's launch ends before these fields: it runs on the CPU, whatever stands there.
  launch.struct_size = offsetof(recoverssm_launch, stream);
  launch.workspace_bytes = 0;
  EXPECT_EQ(recoverssm_commit_run(&params, &launch), RECOVERSSM_INVALID_ARGUMENT);
  EXPECT_EQ(fake_cuda::launches, launches + 2);
  recoverssm_context_destroy(context);

  EXPECT_EQ(recoverssm_cuda_available(), RECOVERSSM_OK);
  std::int32_t count = 0;
  ASSERT_EQ(recoverssm_cuda_device_count(&count), RECOVERSSM_OK);
  EXPECT_EQ(count, 1);
  recoverssm_cuda_device device;
  recoverssm_cuda_device_init(&device, sizeof device);
  ASSERT_EQ(recoverssm_cuda_describe_device(0, &device), RECOVERSSM_OK) << recoverssm_last_error();
  EXPECT_STREQ(device.name, "the CPU in disguise");
  EXPECT_EQ(device.major, 9);
  EXPECT_EQ(recoverssm_cuda_describe_device(1, &device), RECOVERSSM_OUT_OF_RANGE);
  EXPECT_STREQ(recoverssm_cuda_architectures(), "sm_90");
}

}  // namespace
