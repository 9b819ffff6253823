// Arguments of a document as Params structs.
#include "trace/binding.h"

#include <gtest/gtest.h>

#include "trace/example.h"

namespace recoverssm::trace::test {
namespace {

// The first call of an example, bound to memory at this address (which nothing reads).
std::byte* const kBase = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 20);

BoundCall bind_first(const Example& e) {
  const Trace trace = parse(e);
  return bind(trace.document.calls[0], [](std::int32_t) { return kBase; });
}

json& arguments(Example& e) { return call(e)["args"]; }

TEST(Binding, ViewsKeepOffsetShapeAndStrides) {
  Example e = plan_example();
  json& view = arguments(e)["query_start_loc"];
  view["offset"] = 2;
  view["strides"] = {-1};
  const BoundCall bound = bind_first(e);
  const auto& p = std::get<CommitPlanParams>(bound.params);
  EXPECT_EQ(p.query_start_loc.data, kBase + 8);
  EXPECT_EQ(p.query_start_loc.dtype, DType::i32);
  EXPECT_EQ(p.query_start_loc.dims, 1);
  EXPECT_EQ(p.query_start_loc.shape[0], 3);
  EXPECT_EQ(p.query_start_loc.stride[0], -1);
  EXPECT_EQ(p.window_capacity, 4);
  EXPECT_EQ(p.null_block_id, 0);
  EXPECT_FALSE(p.block_size);
  EXPECT_FALSE(p.request_index.present());
}

TEST(Binding, AnEmptyViewIsPresentWithoutAnAddress) {
  Example e = plan_example();
  arguments(e)["num_accepted"]["shape"] = {0};
  const BoundCall bound = bind_first(e);
  const auto& p = std::get<CommitPlanParams>(bound.params);
  EXPECT_TRUE(p.num_accepted.present());
  EXPECT_EQ(p.num_accepted.data, nullptr);
}

TEST(Binding, ANullViewIsAbsentAndTheOperationSaysSo) {
  Example e = plan_example();
  arguments(e)["num_accepted"] = nullptr;
  const BoundCall bound = bind_first(e);
  EXPECT_FALSE(std::get<CommitPlanParams>(bound.params).num_accepted.present());
  EXPECT_TRUE(bound.refusal.ok());
  call(e)["error"] = {{"kind", "invalid_argument"}, {"mentions", {"commit_plan", "num_accepted"}}};
  call(e)["expect"] = json::array();
  e.document["finally"] = json::array();
  EXPECT_TRUE(replay(e).ok());
}

TEST(Binding, WhatNoStructCanHoldIsTheOperationsError) {
  struct Case {
    const char* name;
    json value;
    const char* message;
  };
  json five = vector_view("counts", 1);
  five["shape"] = {1, 1, 1, 1, 2};
  five["strides"] = {1, 1, 1, 1, 1};
  const Case cases[] = {
      {"window_capacity", nullptr, "commit_plan: window_capacity: null, expected an integer"},
      {"window_capacity", std::int64_t{1} << 32, "commit_plan: window_capacity: 4294967296, expected a 32-bit integer"},
      {"null_block_id", -(std::int64_t{1} << 40), "commit_plan: null_block_id: -1099511627776, expected a 32-bit integer"},
      {"num_accepted", five, "commit_plan: num_accepted: shape [1, 1, 1, 1, 2], expected at most 4 dimensions"},
  };
  for (const Case& c : cases) {
    Example e = plan_example();
    arguments(e)[c.name] = c.value;
    const BoundCall bound = bind_first(e);
    EXPECT_EQ(bound.refusal.kind, ErrorKind::invalid_argument);
    EXPECT_EQ(bound.refusal.message, c.message);
    const Status status = run(bound, {});  // must not touch the made-up memory
    EXPECT_EQ(status.message, c.message);
  }
}

TEST(Binding, NullTakesTheDefaultWhereThereIsOne) {
  Example e = plan_example();
  arguments(e)["null_block_id"] = nullptr;
  EXPECT_EQ(std::get<CommitPlanParams>(bind_first(e).params).null_block_id, 0);
  arguments(e)["null_block_id"] = -1;
  EXPECT_EQ(std::get<CommitPlanParams>(bind_first(e).params).null_block_id, -1);
}

// A commit of one kda layer without a line.
Example commit_example() {
  Example e = plan_example();
  e.document["buffers"]["f"] = {{"dtype", "F32"}, {"elements", 64}, {"init", {{"fill", 0.25}}}};
  const json any = vector_view("f", 4);
  const json index = vector_view("blocks", 2);
  call(e) = {{"id", "commit"},
             {"op", "commit"},
             {"args",
              {{"groups",
                {{{"state_indices", index},
                  {"commit_len", vector_view("counts", 2)},
                  {"final_indices", index},
                  {"boundary_indices", index},
                  {"boundary_len", index}}}},
               {"layers",
                {{{"group", 0},
                  {"line", nullptr},
                  {"line_kind", "anchored"},
                  {"conv_taps", 4},
                  {"state", any},
                  {"records", {{"corrections", any}, {"key_gate", any}}},
                  {"gate", "kda"},
                  {"A_log", any},
                  {"dt_bias", any},
                  {"lower_bound", -0.1},
                  {"l2norm", true}}}},
               {"window_capacity", 4}}}};
  e.document["finally"] = json::array();
  return e;
}

TEST(Binding, GroupsLayersAndRecords) {
  BoundCall first = bind_first(commit_example());
  const BoundCall bound = std::move(first);  // spans survive a move
  const auto& p = std::get<CommitParams>(bound.params);
  ASSERT_EQ(p.groups.size(), 1U);
  ASSERT_EQ(p.layers.size(), 1U);
  EXPECT_EQ(p.layers.data(), bound.layers.data());
  const Layer& layer = p.layers[0];
  EXPECT_EQ(layer.gate, Gate::kda);
  EXPECT_EQ(layer.line_kind, LineKind::anchored);
  EXPECT_FALSE(layer.line.present());
  EXPECT_FALSE(layer.pending.present());
  EXPECT_TRUE(layer.records.corrections.present());
  EXPECT_TRUE(layer.records.key_gate.present());
  EXPECT_FALSE(layer.records.packed.present());
  ASSERT_TRUE(layer.lower_bound);
  EXPECT_EQ(*layer.lower_bound, -0.1F);  // rounded to fp32
  EXPECT_EQ(layer.softplus_threshold, 20.0F);
}

TEST(Binding, UnknownWordsReachTheOperation) {
  Example e = commit_example();
  json& layer = arguments(e)["layers"][0];
  layer["line_kind"] = "coiled";
  layer["gate"] = nullptr;
  const BoundCall bound = bind_first(e);
  EXPECT_EQ(static_cast<int>(bound.layers[0].line_kind), 255);
  EXPECT_EQ(static_cast<int>(bound.layers[0].gate), 255);
  EXPECT_FALSE(run(bound, {}).ok());
}

TEST(Binding, NamesInsideListsAreChecked) {
  const auto reason_after = [](const std::function<void(json&)>& damage) {
    Example e = commit_example();
    damage(arguments(e));
    return reason(e.bytes());
  };
  EXPECT_EQ(reason_after([](json&) {}), "");
  EXPECT_NE(reason_after([](json& a) { a["layers"][0].erase("l2norm"); }).find("argument layers[0].l2norm is missing"),
            std::string::npos);
  EXPECT_NE(reason_after([](json& a) { a["layers"][0]["depth"] = 1; }).find("unknown argument layers[0].depth"), std::string::npos);
  EXPECT_NE(reason_after([](json& a) { a["groups"][0]["block_table"] = nullptr; }).find("unknown argument groups[0].block_table"),
            std::string::npos);
  EXPECT_NE(
      reason_after([](json& a) { a["layers"][0]["records"].erase("key_gate"); }).find("layers[0].records.key_gate is missing"),
      std::string::npos);
  EXPECT_NE(reason_after([](json& a) { a["layers"] = 3; }).find("layers: an integer, expected a list"), std::string::npos);
  EXPECT_NE(reason_after([](json& a) { a["layers"][0] = 3; }).find("layers[0]: an integer, expected an object"), std::string::npos);
}

TEST(Binding, ANullListIsTheOperationsError) {
  Example e = commit_example();
  arguments(e)["layers"] = nullptr;
  EXPECT_EQ(bind_first(e).refusal.message, "commit: layers: null, expected a list");
}

TEST(Binding, EveryOperationHasAName) { EXPECT_EQ(operation_names().size(), 14U); }

}  // namespace
}  // namespace recoverssm::trace::test
