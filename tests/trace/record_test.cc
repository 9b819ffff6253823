// A recorded run replays.
#include "trace/record.h"

#include <gtest/gtest.h>

#include "recoverssm/recoverssm.hpp"
#include "trace/example.h"

namespace recoverssm::trace::test {
namespace {

struct Recording {
  std::vector<std::int32_t> counts = {2, 1}, offsets = {0, 3, 5}, blocks = {1, 2};
  std::vector<std::int32_t> out = std::vector<std::int32_t>(8, -1);
  Recorder recorder{"recorded"};

  TensorView vector(std::vector<std::int32_t>& values, std::int64_t n, std::int64_t offset = 0) {
    return {values.data() + offset, DType::i32, {n}};
  }

  CommitPlanParams params() {
    CommitPlanParams p;
    p.num_accepted = vector(counts, 2);
    p.query_start_loc = vector(offsets, 3);
    p.state_indices = vector(blocks, 2);
    p.window_capacity = 4;
    p.out = {vector(out, 2), vector(out, 2, 2), vector(out, 2, 4), vector(out, 2, 6)};
    return p;
  }

  void record() {
    recorder.add_buffer("counts", DType::i32, counts.data(), 2);
    recorder.add_buffer("offsets", DType::i32, offsets.data(), 3);
    recorder.add_buffer("blocks", DType::i32, blocks.data(), 2);
    recorder.add_buffer("out", DType::i32, out.data(), 8);
    const CommitPlanParams p = params();
    recorder.add_call("plan", "commit_plan",
                      {{"num_accepted", recorder.view(p.num_accepted)},
                       {"query_start_loc", recorder.view(p.query_start_loc)},
                       {"state_indices", recorder.view(p.state_indices)},
                       {"window_capacity", p.window_capacity},
                       {"request_index", recorder.view(p.request_index)},
                       {"block_table", recorder.view(p.block_table)},
                       {"num_computed", recorder.view(p.num_computed)},
                       {"block_size", nullptr},
                       {"commit_len", recorder.view(p.out.commit_len)},
                       {"final_indices", recorder.view(p.out.final_indices)},
                       {"boundary_indices", recorder.view(p.out.boundary_indices)},
                       {"boundary_len", recorder.view(p.out.boundary_len)}});
    Context context;
    commit_plan(p, context);
    recorder.expect_bits(p.out.commit_len);
    recorder.expect_close(p.out.final_indices, 0, 0);
    recorder.finally({{"view", recorder.view(p.num_accepted)}, {"unchanged_since", "start"}});
  }
};

TEST(Recorder, WhatWasRecordedReplays) {
  Recording r;
  r.record();
  const Trace trace = parse_trace(parse_bytes(r.recorder.bytes()));
  const ReplayResult result = Replayer({}).replay(trace);
  EXPECT_TRUE(result.ok()) << (result.failed.empty() ? "" : result.failed[0].detail);
  EXPECT_EQ(result.calls, 1);
  EXPECT_EQ(result.checks, 3);
  // The buffer was recorded before the call, the expectation after it.
  const View& out = trace.document.calls[0].expectations[0].view;
  std::int32_t before = 0;
  std::memcpy(&before, trace.document.buffers[static_cast<std::size_t>(out.buffer)].init->bytes.data(), sizeof before);
  EXPECT_EQ(before, -1);
}

TEST(Recorder, AFaultInTheRunIsFoundOnReplay) {
  Recording r;
  r.record();
  r.out[0] = 77;  // as if the recorded run had computed this
  r.recorder.expect_bits(r.vector(r.out, 2));
  EXPECT_FALSE(Replayer({}).replay(parse_trace(parse_bytes(r.recorder.bytes()))).ok());
}

TEST(Recorder, ExpectedErrors) {
  Recording r;
  r.counts = {2};
  r.recorder.add_buffer("counts", DType::i32, r.counts.data(), 1);
  const json one = r.recorder.view(r.vector(r.counts, 1));
  r.recorder.add_call("bad", "align_advance",
                      {{"commit_len", nullptr},
                       {"state_indices", one},
                       {"request_index", nullptr},
                       {"num_computed", one},
                       {"block_size", 4},
                       {"running_column", one},
                       {"num_accepted", one}});
  r.recorder.expect_error(ErrorKind::invalid_argument, {"align_advance", "commit_len"});
  EXPECT_TRUE(Replayer({}).replay(parse_trace(parse_bytes(r.recorder.bytes()))).ok());
}

TEST(Recorder, ViewsOfAnyStrideFindTheirBuffer) {
  std::vector<float> memory(24);
  Recorder recorder("views");
  recorder.add_buffer("m", DType::f32, memory.data(), 24);
  EXPECT_EQ(recorder.view(TensorView(memory.data() + 20, DType::f32, {3, 2}, {-8, 3})),
            (json{{"buffer", "m"}, {"offset", 20}, {"shape", {3, 2}}, {"strides", {-8, 3}}}));
  EXPECT_EQ(recorder.view(TensorView()), json());
  EXPECT_EQ(recorder.view(TensorView(nullptr, DType::f32, {0, 4}))["offset"], 0);
  EXPECT_THROW(recorder.view(TensorView(memory.data() + 20, DType::f32, {5})), Error);
  EXPECT_THROW(recorder.view(TensorView(memory.data(), DType::i32, {5})), Error);
}

TEST(Recorder, WritesNoMalformedTrace) {
  Recorder recorder("bad");
  recorder.add_call("x", "commit_plan", json::object());
  EXPECT_THROW(recorder.bytes(), Malformed);
  std::int32_t value = 0;
  recorder.add_buffer("b", DType::i32, &value, 1);
  EXPECT_THROW(recorder.add_buffer("b", DType::i32, &value, 1), Error);
  EXPECT_THROW(Recorder("empty").expect({}), Error);
}

}  // namespace
}  // namespace recoverssm::trace::test
