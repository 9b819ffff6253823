// The replayer: that it sees what does not hold, and only that.
#include "trace/replay.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "trace/example.h"

namespace recoverssm::trace::test {
namespace {

json& expectation(Example& e, std::size_t i) { return call(e)["expect"][i]; }

// The one failure of a trace that must have exactly one.
Failure only_failure(const ReplayResult& result) {
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.failed.size(), 1U);
  return result.failed.empty() ? Failure{} : result.failed[0];
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Replay, TheExampleHolds) {
  const ReplayResult result = replay(plan_example());
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.name, "plan example");
  EXPECT_EQ(result.calls, 1);
  EXPECT_EQ(result.checks, 5);
  EXPECT_FALSE(result.skipped);
  EXPECT_FALSE(result.error);
}

TEST(Replay, WrongTensorIsSeen) {
  Example e = plan_example();
  e.add_tensor<std::int32_t>("want.commit_len", DType::i32, {2}, {2, 3});
  const Failure failure = only_failure(replay(e));
  EXPECT_EQ(failure.call, "plan");
  EXPECT_EQ(failure.check, 0);
  EXPECT_EQ(failure.detail, "buffer commit_len offset 0 shape [2], index [1]: got 1, want 3 (1 of 2 elements)");
}

TEST(Replay, ToleranceIsMeasured) {
  Example e = plan_example();
  e.add_tensor<std::int32_t>("want.commit_len", DType::i32, {2}, {2, 3});
  expectation(e, 0)["match"] = {{"rtol", 0}, {"atol", 2}};
  const ReplayResult held = replay(e);
  EXPECT_TRUE(held.ok());
  EXPECT_EQ(held.max_error, 2);
  expectation(e, 0)["match"]["atol"] = 1.5;
  EXPECT_TRUE(has(only_failure(replay(e)).detail, "|got - want| up to 2, rtol 0, atol 1.5"));
}

TEST(Replay, EveryOtherKindOfExpectationCanFail) {
  Example same = plan_example();
  expectation(same, 1)["same_as"] = vector_view("counts", 2);
  EXPECT_EQ(only_failure(replay(same)).check, 1);

  Example fill = plan_example();
  expectation(fill, 2)["fill"] = 1;
  EXPECT_EQ(only_failure(replay(fill)).check, 2);

  Example changed = plan_example();
  expectation(changed, 3)["view"] = vector_view("commit_len", 2);
  const Failure failure = only_failure(replay(changed));
  EXPECT_EQ(failure.check, 3);
  EXPECT_TRUE(has(failure.detail, "got 2, want -1 (2 of 2 elements), unchanged since start")) << failure.detail;

  Example finite = plan_example();
  finite.add_tensor<std::uint32_t>("f.init", DType::f32, {2}, {0x3f800000U, 0x7f800000U});
  finite.document["buffers"]["f"] = {{"dtype", "F32"}, {"elements", 2}, {"init", "f.init"}};
  finite.document["finally"] = {{{"view", vector_view("f", 2)}, {"finite", true}}};
  const Failure infinite = only_failure(replay(finite));
  EXPECT_EQ(infinite.call, "finally");
  EXPECT_TRUE(has(infinite.detail, "index [1]: got inf")) << infinite.detail;
}

// Two plans; the second sees other counts.
Example two_plans() {
  Example e = plan_example();
  e.add_tensor<std::int32_t>("counts2.init", DType::i32, {2}, {3, 2});
  e.document["buffers"]["counts2"] = {{"dtype", "I32"}, {"elements", 2}, {"init", "counts2.init"}};
  json second = call(e);
  second["id"] = "second";
  second["args"]["num_accepted"] = vector_view("counts2", 2);
  second["expect"] = json::array();
  e.document["calls"].push_back(second);
  return e;
}

TEST(Replay, UnchangedSinceACallLooksAtThatMoment) {
  Example e = two_plans();  // its finally: commit_len unchanged since the first plan
  EXPECT_TRUE(has(only_failure(replay(e)).detail, "got 3, want 2 (2 of 2 elements), unchanged since plan"));
  e.document["finally"][0]["unchanged_since"] = "second";
  EXPECT_TRUE(replay(e).ok());
}

TEST(Replay, FlagsAreSkippedOnTheCpu) {
  Example e = plan_example();
  call(e)["expect"].push_back({{"flag", {{"code", "bad_state"}, {"row", 0}}}});
  const ReplayResult result = replay(e);
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.checks, 5);
}

TEST(Replay, AnUnexpectedErrorFailsTheCall) {
  Example e = plan_example();
  call(e)["args"]["num_accepted"] = nullptr;
  call(e)["expect"] = json::array();
  e.document["finally"] = json::array();
  const Failure failure = only_failure(replay(e));
  EXPECT_EQ(failure.call, "plan");
  EXPECT_FALSE(failure.check);
  EXPECT_TRUE(has(failure.detail, "invalid_argument: commit_plan: num_accepted")) << failure.detail;
}

TEST(Replay, ExpectedErrors) {
  Example e = plan_example();
  call(e)["args"]["num_accepted"] = nullptr;
  call(e)["expect"] = json::array();
  e.document["finally"] = json::array();
  const auto with = [&](const json& kind, const json& mentions) {
    call(e)["error"] = {{"kind", kind}, {"mentions", mentions}};
    return replay(e);
  };
  const ReplayResult held = with("invalid_argument", {"commit_plan", "num_accepted"});
  EXPECT_TRUE(held.ok());
  EXPECT_EQ(held.checks, 1);
  EXPECT_TRUE(with({"out_of_range", "invalid_argument"}, json::array()).ok());
  EXPECT_TRUE(has(only_failure(with("out_of_range", json::array())).detail, "expected out_of_range"));
  EXPECT_TRUE(has(only_failure(with("invalid_argument", {"state"})).detail, "does not mention \"state\""));
}

TEST(Replay, ACallThatMustFailButDoesNot) {
  Example e = plan_example();
  call(e)["error"] = {{"kind", {"out_of_range", "bad_state"}}, {"mentions", json::array()}};
  const ReplayResult result = replay(e);
  ASSERT_EQ(result.failed.size(), 2U);
  EXPECT_EQ(result.failed[0].detail, "succeeded, expected out_of_range or bad_state");
  EXPECT_TRUE(has(result.failed[1].detail, "leave everything unchanged: buffer boundary element 0: got 0, want -1"))
      << result.failed[1].detail;
}

// A rolled line of one channel and two taps: the op reads history 5 and leaves the inputs 1, 2 in its place. A second run that did not
// start from the same contents would read 1.
Example rolled_example() {
  Example e;
  e.add_tensor<float>("x.init", DType::f32, {2}, {1, 2});
  e.add_tensor<float>("weight.init", DType::f32, {2}, {10, 1});
  e.add_tensor<float>("line.init", DType::f32, {4}, {7, 7, 5, 7});
  e.add_tensor<std::int32_t>("offsets.init", DType::i32, {2}, {0, 2});
  e.add_tensor<float>("want.out", DType::f32, {2, 1}, {51, 12});
  e.add_tensor<float>("want.line", DType::f32, {4}, {7, 7, 1, 2});
  const auto view = [](const char* buffer, std::vector<int> shape, std::vector<int> strides) {
    return json{{"buffer", buffer}, {"offset", 0}, {"shape", shape}, {"strides", strides}};
  };
  const auto buffer = [](const char* dtype, int elements, const json& init) {
    return json{{"dtype", dtype}, {"elements", elements}, {"init", init}};
  };
  e.document = {{"name", "rolled"},
                {"buffers",
                 {{"x", buffer("F32", 2, "x.init")},
                  {"weight", buffer("F32", 2, "weight.init")},
                  {"line", buffer("F32", 4, "line.init")},
                  {"out", buffer("F32", 2, {{"fill", -1}})},
                  {"offsets", buffer("I32", 2, "offsets.init")},
                  {"block", buffer("I32", 1, {{"fill", 1}})}}},
                {"calls",
                 {{{"id", "conv"},
                   {"op", "causal_conv1d_window"},
                   {"args",
                    {{"x", view("x", {2, 1}, {1, 1})},
                     {"weight", view("weight", {1, 2}, {2, 1})},
                     {"bias", nullptr},
                     {"activation", nullptr},
                     {"out", view("out", {2, 1}, {1, 1})},
                     {"line", view("line", {2, 2, 1}, {2, 1, 1})},
                     {"line_kind", "rolled"},
                     {"window_capacity", 2},
                     {"query_start_loc", view("offsets", {2}, {1})},
                     {"state_indices", view("block", {1}, {1})},
                     {"num_accepted", nullptr},
                     {"token_index", nullptr}}},
                   {"expect",
                    {{{"view", view("out", {2, 1}, {1, 1})}, {"tensor", "want.out"}, {"match", "bits"}},
                     {{"view", view("line", {4}, {1})}, {"tensor", "want.line"}, {"match", "bits"}}}}}}}};
  return e;
}

TEST(Replay, RepeatRunsFromTheSameContents) {
  EXPECT_TRUE(replay(rolled_example()).ok());
  Example e = rolled_example();
  call(e)["repeat"] = 5;
  const ReplayResult own = replay(e);
  EXPECT_TRUE(own.ok()) << own.failed[0].detail;
  ReplayOptions options;
  options.repeat = 3;
  const ReplayResult asked = replay(rolled_example(), options);
  EXPECT_TRUE(asked.ok()) << asked.failed[0].detail;
  EXPECT_EQ(asked.calls, 1);
}

TEST(Replay, BackendsAndModesSkip) {
  Example e = plan_example();
  e.document["backends"] = {"cuda", "sycl"};
  ReplayResult result = replay(e);
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.skipped, "for backends cuda, sycl, not cpu");
  EXPECT_EQ(result.calls, 0);
  EXPECT_EQ(result.checks, 0);
  e.document["backends"] = {"cuda", "cpu"};
  EXPECT_FALSE(replay(e).skipped);

  ReplayOptions fast;
  fast.mode = "fast";
  e.document["mode"] = "fast";
  EXPECT_EQ(replay(e).skipped, "for mode fast, not exact");
  EXPECT_FALSE(replay(e, fast).skipped);
  e.document["mode"] = "exact";
  EXPECT_FALSE(replay(e).skipped);
  EXPECT_EQ(replay(e, fast).skipped, "for mode exact, not fast");
  e.document["mode"] = "any";
  EXPECT_FALSE(replay(e).skipped);
  EXPECT_FALSE(replay(e, fast).skipped);
}

TEST(Replay, MemoryLimit) {
  Example e = plan_example();
  e.document["buffers"]["large"] = {{"dtype", "F64"}, {"elements", std::int64_t{1} << 34}, {"init", {{"fill", 0}}}};
  const ReplayResult result = replay(e);
  EXPECT_FALSE(result.ok());
  ASSERT_TRUE(result.error);
  EXPECT_TRUE(has(*result.error, "take 256.00 GiB, more than the limit of")) << *result.error;
  EXPECT_FALSE(result.name);
  ReplayOptions little;
  little.memory_limit = 100;
  EXPECT_TRUE(replay(plan_example(), little).error);
  EXPECT_LE(default_memory_limit(), std::uint64_t{16} << 30);
}

TEST(Replay, FilesThatAreNoTraces) {
  const std::string path = std::filesystem::temp_directory_path() / ("recoverssm_" + std::to_string(::getpid()) + ".safetensors");
  Replayer replayer({});
  ReplayResult result = replayer.replay_file(path);
  EXPECT_TRUE(has(result.error.value_or(""), "cannot open"));
  EXPECT_EQ(result.file, path);
  write_file(path, plan_example().bytes());
  result = replayer.replay_file(path);
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.file, path);
  std::filesystem::remove(path);
}

TEST(Replay, ProgressIsTold) {
  std::vector<std::int64_t> told;
  ReplayOptions options;
  options.progress = [&](std::int64_t done, std::int64_t calls) {
    told.push_back(done);
    EXPECT_EQ(calls, 2);
  };
  replay(two_plans(), options);
  EXPECT_EQ(told, (std::vector<std::int64_t>{1, 2}));
}

}  // namespace
}  // namespace recoverssm::trace::test
