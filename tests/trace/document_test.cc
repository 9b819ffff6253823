// What the document may say: each way to be malformed has a reason that names the place.
#include "trace/document.h"

#include <gtest/gtest.h>

#include <functional>

#include "trace/example.h"

namespace recoverssm::trace::test {
namespace {

struct Damage {
  const char* reason;
  std::function<void(Example&)> apply;
};

void expect_reasons(const std::vector<Damage>& cases) {
  for (const Damage& damage : cases) {
    Example e = plan_example();
    damage.apply(e);
    const std::string got = reason(e.bytes());
    EXPECT_NE(got.find(damage.reason), std::string::npos) << "wanted: " << damage.reason << "\ngot: " << got;
  }
}

json& arguments(Example& e) { return call(e)["args"]; }
json& expectation(Example& e, std::size_t i = 0) { return call(e)["expect"][i]; }

TEST(Document, TheExampleIsATrace) {
  const Trace trace = parse(plan_example());
  EXPECT_EQ(trace.document.name, "plan example");
  EXPECT_EQ(trace.document.mode, "any");
  EXPECT_FALSE(trace.document.backends);
  ASSERT_EQ(trace.document.calls.size(), 1U);
  EXPECT_EQ(trace.document.calls[0].expectations.size(), 4U);
  EXPECT_EQ(trace.document.calls[0].repeat, 1);
  EXPECT_FALSE(trace.document.calls[0].error);
}

TEST(Document, Metadata) {
  const Example e = plan_example();
  const auto with = [&](const std::map<std::string, std::string>& metadata) {
    return reason(safetensors_bytes(metadata, e.tensors));
  };
  EXPECT_NE(with({}).find("no trace"), std::string::npos);
  EXPECT_NE(with({{"recoverssm_trace", "2"}, {"document", "{}"}}).find("version \"2\""), std::string::npos);
  EXPECT_NE(with({{"recoverssm_trace", "1"}}).find("no \"document\""), std::string::npos);
  EXPECT_NE(with({{"recoverssm_trace", "1"}, {"document", "{"}}).find("document: "), std::string::npos);
  EXPECT_NE(with({{"recoverssm_trace", "1"}, {"document", "[]"}}).find("document: array, expected an object"), std::string::npos);
  EXPECT_NE(with({{"recoverssm_trace", "1"}, {"document", "{\"name\":\"a\",\"name\":\"b\"}"}}).find("\"name\" twice"),
            std::string::npos);
}

TEST(Document, Top) {
  expect_reasons({
      {"document: \"name\" is missing", [](Example& e) { e.document.erase("name"); }},
      {"document: \"calls\" is missing", [](Example& e) { e.document.erase("calls"); }},
      {"document: \"buffers\" is missing", [](Example& e) { e.document.erase("buffers"); }},
      {"document: unknown name \"bakends\"", [](Example& e) { e.document["bakends"] = {"cpu"}; }},
      {"name: number, expected a string", [](Example& e) { e.document["name"] = 3; }},
      {"mode: \"slow\"", [](Example& e) { e.document["mode"] = "slow"; }},
      {"backends: string, expected a list", [](Example& e) { e.document["backends"] = "cpu"; }},
      {"calls: object, expected a list", [](Example& e) { e.document["calls"] = json::object(); }},
      {"finally: number, expected a list", [](Example& e) { e.document["finally"] = 1; }},
  });
}

TEST(Document, Buffers) {
  const auto buffer = [](Example& e) -> json& { return e.document["buffers"]["counts"]; };
  expect_reasons({
      {"buffers: array, expected an object", [](Example& e) { e.document["buffers"] = json::array(); }},
      {"buffers.counts: \"init\" is missing", [=](Example& e) { buffer(e).erase("init"); }},
      {"buffers.counts: unknown name \"size\"", [=](Example& e) { buffer(e)["size"] = 3; }},
      {"buffers.counts.dtype: \"int32\"", [=](Example& e) { buffer(e)["dtype"] = "int32"; }},
      {"buffers.counts.elements: -1", [=](Example& e) { buffer(e)["elements"] = -1; }},
      {"buffers.counts.elements: 4611686018427387904", [=](Example& e) { buffer(e)["elements"] = std::int64_t{1} << 62; }},
      {"no tensor \"missing\"", [=](Example& e) { buffer(e)["init"] = "missing"; }},
      {"tensor counts.init is I32 [2], expected I32 [3]", [=](Example& e) { buffer(e)["elements"] = 3; }},
      {"tensor counts.init is I32 [2], expected F32 [2]", [=](Example& e) { buffer(e)["dtype"] = "F32"; }},
      {"buffers.counts.init.bytes: 256",
       [=](Example& e) {
         buffer(e)["init"] = {{"bytes", 256}};
       }},
      {"buffers.counts.init.fill: 0.5 is no I32",
       [=](Example& e) {
         buffer(e)["init"] = {{"fill", 0.5}};
       }},
      {"buffers.counts.init.fill: 3000000000 is no I32",
       [=](Example& e) {
         buffer(e)["init"] = {{"fill", 3000000000}};
       }},
      {"buffers.counts.init.fill: string, expected a number",
       [=](Example& e) {
         buffer(e)["init"] = {{"fill", "nan"}};
       }},
      {"buffers.counts.init: unknown name \"x\"",
       [=](Example& e) {
         buffer(e)["init"] = {{"fill", 0}, {"x", 0}};
       }},
      {"buffers.counts.init: number, expected an object", [=](Example& e) { buffer(e)["init"] = 0; }},
  });
}

TEST(Document, Views) {
  const auto view = [](Example& e) -> json& { return arguments(e)["num_accepted"]; };
  constexpr auto kHuge = std::int64_t{1} << 62;
  expect_reasons({
      {"(plan).args.num_accepted: there is no buffer \"none\"", [=](Example& e) { view(e)["buffer"] = "none"; }},
      {"args.num_accepted: \"strides\" is missing", [=](Example& e) { view(e).erase("strides"); }},
      {"args.num_accepted: unknown name \"stride\"", [=](Example& e) { view(e)["stride"] = 1; }},
      {"args.num_accepted.dtype: I64, its buffer is I32", [=](Example& e) { view(e)["dtype"] = "I64"; }},
      {"args.num_accepted.offset: -1", [=](Example& e) { view(e)["offset"] = -1; }},
      {"leave buffer counts of 2 elements", [=](Example& e) { view(e)["offset"] = 1; }},
      {"leave buffer counts of 2 elements", [=](Example& e) { view(e)["strides"] = {-1}; }},
      {"leave buffer counts of 2 elements", [=](Example& e) { view(e)["strides"] = {kHuge}; }},
      {"leave buffer counts of 2 elements", [=](Example& e) { view(e)["strides"] = {INT64_MIN}; }},
      {"leave buffer counts of 2 elements",  // 2 * 2^63 wraps to 0 in 64 bits
       [=](Example& e) {
         view(e)["shape"] = {3};
         view(e)["strides"] = {INT64_MIN};
       }},
      {"leave buffer counts of 2 elements", [=](Example& e) { view(e)["offset"] = INT64_MAX; }},
      {"has a negative dimension", [=](Example& e) { view(e)["shape"] = {-2}; }},
      {"more than 17179869184 elements",
       [=](Example& e) {
         view(e)["shape"] = {kHuge, 4};
         view(e)["strides"] = {0, 0};
       }},
      {"shape of 2 dimensions, 1 strides",
       [=](Example& e) {
         view(e)["shape"] = {1, 2};
       }},
      {"shape of 17 dimensions",
       [=](Example& e) {
         view(e)["shape"] = std::vector<int>(17, 1);
         view(e)["strides"] = std::vector<int>(17, 1);
       }},
      {"args.num_accepted.shape: 1.5, expected an integer", [=](Example& e) { view(e)["shape"] = {1.5}; }},
  });
}

TEST(Document, NegativeStridesAndEmptyViewsAreFine) {
  Example e = plan_example();
  json& view = arguments(e)["num_accepted"];
  view["offset"] = 1;
  view["strides"] = {-1};
  EXPECT_EQ(reason(e.bytes()), "");
  view["shape"] = {0};
  view["offset"] = 77;
  view["strides"] = {INT64_MAX};
  EXPECT_EQ(reason(e.bytes()), "");
  view["dtype"] = "I32";
  EXPECT_EQ(reason(e.bytes()), "");
}

TEST(Document, Arguments) {
  expect_reasons({
      {"call plan: unknown operation \"commit_plans\"", [](Example& e) { call(e)["op"] = "commit_plans"; }},
      {"call plan: commit_plan: argument num_accepted is missing", [](Example& e) { arguments(e).erase("num_accepted"); }},
      {"call plan: commit_plan: argument block_size is missing", [](Example& e) { arguments(e).erase("block_size"); }},
      {"call plan: commit_plan: unknown argument stream", [](Example& e) { arguments(e)["stream"] = nullptr; }},
      {"commit_plan: num_accepted: an integer, expected a view or null", [](Example& e) { arguments(e)["num_accepted"] = 3; }},
      {"commit_plan: window_capacity: a string, expected an integer", [](Example& e) { arguments(e)["window_capacity"] = "4"; }},
      {"commit_plan: window_capacity: a number, expected an integer", [](Example& e) { arguments(e)["window_capacity"] = 4.0; }},
      {"commit_plan: window_capacity: a boolean, expected an integer", [](Example& e) { arguments(e)["window_capacity"] = true; }},
      {"commit_plan: window_capacity: a view, expected an integer",
       [](Example& e) { arguments(e)["window_capacity"] = vector_view("counts", 1); }},
      {"nested more than 8 deep",
       [](Example& e) {
         json deep = 1;
         for (int i = 0; i < 20; ++i) deep = json::array({deep});
         arguments(e)["window_capacity"] = deep;
       }},
      {"args: array, expected an object", [](Example& e) { call(e)["args"] = json::array(); }},
  });
}

TEST(Document, Calls) {
  expect_reasons({
      {"calls[0]: \"id\" is missing", [](Example& e) { call(e).erase("id"); }},
      {"calls[0]: \"op\" is missing", [](Example& e) { call(e).erase("op"); }},
      {"calls[0]: \"args\" is missing", [](Example& e) { call(e).erase("args"); }},
      {"calls[0]: unknown name \"expects\"", [](Example& e) { call(e)["expects"] = json::array(); }},
      {"calls[1] (plan).id: \"plan\" twice", [](Example& e) { e.document["calls"].push_back(call(e)); }},
      {"\"start\" names the moment before the first call", [](Example& e) { call(e)["id"] = "start"; }},
      {"repeat: 0, expected 1..", [](Example& e) { call(e)["repeat"] = 0; }},
      {"error: \"mentions\" is missing",
       [](Example& e) {
         call(e)["error"] = {{"kind", "out_of_range"}};
       }},
      {"error.kind: \"device_error\"",
       [](Example& e) {
         call(e)["error"] = {{"kind", "device_error"}, {"mentions", json::array()}};
       }},
      {"error.kind: an empty list",
       [](Example& e) {
         call(e)["error"] = {{"kind", json::array()}, {"mentions", json::array()}};
       }},
      {"error.mentions: string, expected a list",
       [](Example& e) {
         call(e)["error"] = {{"kind", "bad_state"}, {"mentions", "x"}};
       }},
  });
}

TEST(Document, Expectations) {
  expect_reasons({
      {"expect[0]: \"match\" is missing", [](Example& e) { expectation(e).erase("match"); }},
      {"expect[0]: \"view\" is missing", [](Example& e) { expectation(e).erase("view"); }},
      {"expect[0]: unknown name \"tensors\"", [](Example& e) { expectation(e)["tensors"] = "x"; }},
      {"expect[0]: unknown name \"fill\"", [](Example& e) { expectation(e)["fill"] = 0; }},
      {"no tensor \"none\"", [](Example& e) { expectation(e)["tensor"] = "none"; }},
      {"tensor offsets.init is I32 [3], its view I32 [2]", [](Example& e) { expectation(e)["tensor"] = "offsets.init"; }},
      {"match: expected \"bits\"", [](Example& e) { expectation(e)["match"] = "bit"; }},
      {"match: \"atol\" is missing",
       [](Example& e) {
         expectation(e)["match"] = {{"rtol", 0}};
       }},
      {"match.rtol: -1",
       [](Example& e) {
         expectation(e)["match"] = {{"rtol", -1}, {"atol", 0}};
       }},
      {"expect[2].view: 8589934592 elements of a buffer of 2",  // one element, compared for hours
       [](Example& e) {
         expectation(e, 2)["view"]["shape"] = {std::int64_t{1} << 33};
         expectation(e, 2)["view"]["strides"] = {0};
       }},
      {"same_as is I32 [3], its view I32 [2]", [](Example& e) { expectation(e, 1)["same_as"] = vector_view("offsets", 3); }},
      {"expect[2].fill: 0.5 is no I32", [](Example& e) { expectation(e, 2)["fill"] = 0.5; }},
      {"unchanged_since: \"later\" is neither", [](Example& e) { expectation(e, 3)["unchanged_since"] = "later"; }},
      {"finite: expected true",
       [](Example& e) {
         expectation(e) = {{"view", vector_view("counts", 2)}, {"finite", false}};
       }},
      {"\"finite\" is missing",
       [](Example& e) {
         expectation(e) = {{"view", vector_view("counts", 2)}};
       }},
      {"expect[0].flag: \"row\" is missing",
       [](Example& e) {
         expectation(e) = {{"flag", {{"code", "bad_state"}}}};
       }},
      {"expect[0]: number, expected an object", [](Example& e) { expectation(e) = 3; }},
      {"finally[0].view: there is no buffer", [](Example& e) { e.document["finally"][0]["view"]["buffer"] = "x"; }},
  });
  Example later = plan_example();  // a call may not look at a later one
  later.document["calls"].push_back(call(later));
  call(later, 1)["id"] = "second";
  expectation(later, 3)["unchanged_since"] = "second";
  EXPECT_NE(reason(later.bytes()).find("\"second\" is neither"), std::string::npos);
}

}  // namespace
}  // namespace recoverssm::trace::test
