// commit_plan, commit_plan_groups, commit, materialize, align_move, align_advance: shapes and contents.
#include "cases.h"
#include "good_calls.h"

namespace contract_tests {
namespace {

using namespace recoverssm;

// One line a case, however long it is.
// clang-format off

TEST(ContractCommit, Plan) {
  Calls calls;
  using P = CommitPlanParams;
  run_cases<P>("commit_plan", [&] { return calls.plan(); }, {
    {"block_size missing", [](P& p) { p.block_size.reset(); }, kInvalid, {"block_size", "missing"}},
    {"num_computed missing", [](P& p) { p.num_computed = {}; }, kInvalid, {"num_computed", "missing"}},
    {"block_table missing", [](P& p) { p.block_table = {}; }, kInvalid, {"block_table", "missing"}},
    {"only a block_table", [](P& p) { p.block_size.reset(); p.num_computed = {}; }, kInvalid, {"block_size", "block_table"}},
    {"block_size below S", [](P& p) { p.block_size = 2; }, kInvalid, {"block_size", "2", "3"}},
    {"block_size 0", [](P& p) { p.block_size = 0; }, kInvalid, {"block_size"}},
    {"no capacity", [](P& p) { p.window_capacity = 0; }, kInvalid, {"window_capacity"}},
    {"final_indices short", [](P& p) { p.out.final_indices.shape[0] = 1; }, kInvalid, {"final_indices", "1", "N = 2"}},
    {"boundary_len short", [](P& p) { p.out.boundary_len.shape[0] = 1; }, kInvalid, {"boundary_len"}},
    {"commit_len i64", [](P& p) { p.out.commit_len.dtype = DType::i64; }, kInvalid, {"commit_len", "i64"}},
    {"ids short", [](P& p) { p.state_indices.shape[0] = 1; }, kInvalid, {"state_indices"}},
    {"fewer requests than rows", [](P& p) { p.num_accepted.shape[0] = 1; p.request_index = {}; }, kInvalid, {"num_accepted"}},
    {"request_index short", [](P& p) { p.request_index.shape[0] = 1; }, kInvalid, {"request_index"}},
    {"num_computed of another R", [](P& p) { p.num_computed.shape[0] = 2; }, kInvalid, {"num_computed", "R = 3"}},
    {"block_table of another R", [](P& p) { p.block_table.shape[0] = 2; }, kInvalid, {"block_table", "R = 3"}},
    {"outputs overlap", [](P& p) { p.out.commit_len = p.out.final_indices; }, kInvalid, {"shares elements"}},
    {"output over an input", [](P& p) { p.out.commit_len = p.state_indices; }, kInvalid, {"commit_len", "state_indices"}},
    {"request past the end", [&](P& p) { p.request_index = calls.ints({0, 3}); }, kRange, {"request_index", "3"}},
    {"request negative", [&](P& p) { p.request_index = calls.ints({-1, 1}); }, kRange, {"request_index", "-1"}},
    {"decreasing offsets", [&](P& p) { p.query_start_loc = calls.ints({0, 3, 2}); }, kRange, {"query_start_loc"}},
    {"num_computed negative", [&](P& p) { p.num_computed = calls.ints({2, -1, 0}); }, kRange, {"num_computed", "-1"}},
    {"column past the table", [&](P& p) { p.num_computed = calls.ints({2, 8, 0}); }, kRange, {"block_table", "8"}},
    {"column past int32", [&](P& p) { p.num_computed = calls.ints({INT32_MAX, 0, 0}); }, kRange, {"block_table", "2147483647"}},
    {"crossing into a missing column", [&](P& p) { p.num_accepted = calls.ints({2, 2, 1}); p.num_computed = calls.ints({6, 7, 0}); }, kRange, {"block_table"}},
    {"none mode", [](P& p) { p.block_size.reset(); p.num_computed = p.block_table = {}; }, kOk},
    {"a full table is enough", [&](P& p) { p.num_computed = calls.ints({2, 7, 0}); }, kOk},
    {"counts past the window", [&](P& p) { p.num_accepted = calls.ints({99, -4, 1}); }, kOk},
    {"windows longer than S", [&](P& p) { p.query_start_loc = calls.ints({0, 7, 9}); }, kOk},
    {"nothing read of a null row", [&](P& p) { p.state_indices = calls.ints({0, 3}); p.request_index = calls.ints({99, 1}); }, kOk},
    {"nothing read of an empty row", [&](P& p) { p.query_start_loc = calls.ints({0, 0, 2}); p.request_index = calls.ints({99, 1}); }, kOk},
    {"no table read where nothing is kept", [&](P& p) { p.num_accepted = calls.ints({0, -1, 1}); p.num_computed = calls.ints({-5, 9999, 0}); }, kOk},
    {"no rows", [&](P& p) { p = {.num_accepted = calls.ints({}), .query_start_loc = calls.ints({-3}), .state_indices = without_data(calls.ints({})), .window_capacity = 1, .request_index = {}, .block_table = {}, .num_computed = {}, .block_size = {}, .out = {calls.ints({}), calls.ints({}), calls.ints({}), calls.ints({})}}; }, kOk},
  });
}

TEST(ContractCommit, PlanGroups) {
  Calls calls;
  using P = CommitPlanGroupsParams;
  run_cases<P>("commit_plan_groups", [&] { return calls.plan_groups(); }, {
    {"ids short", [&](P& p) { calls.own(p.groups)[1].state_indices.shape[0] = 1; }, kInvalid, {"groups[1].state_indices", "1", "N = 2"}},
    {"output short", [&](P& p) { calls.own(p.groups)[1].out.boundary_len.shape[0] = 1; }, kInvalid, {"groups[1].boundary_len"}},
    {"one table missing", [&](P& p) { calls.own(p.groups)[1].block_table = {}; }, kInvalid, {"groups[1].block_table", "missing"}},
    {"num_computed missing", [](P& p) { p.num_computed = {}; }, kInvalid, {"num_computed"}},
    {"block_size below S", [](P& p) { p.block_size = 2; }, kInvalid, {"block_size"}},
    {"outputs of two groups overlap", [&](P& p) { auto& g = calls.own(p.groups); g[1].out.commit_len = g[0].out.commit_len; }, kInvalid, {"commit_len", "groups[0]", "groups[1]"}},
    {"dead in one group", [&](P& p) { calls.own(p.groups)[1].state_indices = calls.ints({0, 5}); }, kRange, {"groups[1].state_indices", "row 0"}},
    {"null final in one group", [&](P& p) { calls.own(p.groups)[1].block_table = calls.table({{7, 8}, {5, 0}, {9, 9}}); }, kRange, {"groups[1]", "row 1"}},
    {"narrow table in one group", [&](P& p) { calls.own(p.groups)[1].block_table.shape[1] = 1; }, kRange, {"groups[1].block_table"}},
    {"num_computed negative", [&](P& p) { p.num_computed = calls.ints({2, -1, 0}); }, kRange, {"num_computed"}},
    {"request past the end", [&](P& p) { p.request_index = calls.ints({0, 5}); }, kRange, {"request_index"}},
    {"request past the end, live in the second group only", [&](P& p) { p.request_index = calls.ints({0, 5}); calls.own(p.groups)[0].state_indices = calls.ints({1, 0}); }, kRange, {"request_index"}},
    {"decreasing offsets", [&](P& p) { p.query_start_loc = calls.ints({0, 3, 2}); }, kRange, {"query_start_loc"}},
    {"null in all groups", [&](P& p) { auto& g = calls.own(p.groups); g[0].state_indices = calls.ints({1, 0}); g[1].state_indices = calls.ints({7, -3}); p.request_index = calls.ints({0, 99}); }, kOk},
    {"no groups", [](P& p) { p.groups = {}; }, kOk},
  });
}

// What commit, materialize and align_move refuse of their layers.
template <class P>
std::vector<Case<P>> layer_cases(Calls& calls) {
  return {
    {"no line, no state", [&](P& p) { auto& l = calls.own(p.layers)[1]; l = Layer{}; }, kInvalid, {"layers[1]"}},
    {"state strides", [&](P& p) { auto& l = calls.own(p.layers)[1]; l.state.stride[2] = 17; l.state.shape[0] = 5; }, kInvalid, {"layers[1].state", "17"}},
    {"state dims", [&](P& p) { calls.own(p.layers)[0].state.dims = 3; }, kInvalid, {"layers[0].state"}},
    {"gate unknown", [&](P& p) { calls.own(p.layers)[0].gate = unknown<Gate>(); }, kInvalid, {"layers[0].gate"}},
    {"line kind unknown", [&](P& p) { calls.own(p.layers)[1].line_kind = unknown<LineKind>(); }, kInvalid, {"layers[1].line_kind"}},
    {"line kind plain", [&](P& p) { calls.own(p.layers)[1].line_kind = LineKind::plain; }, kInvalid, {"layers[1].line_kind"}},
    {"no taps", [&](P& p) { calls.own(p.layers)[1].conv_taps = 1; }, kInvalid, {"layers[1].conv_taps"}},
    {"too many taps", [&](P& p) { calls.own(p.layers)[1].conv_taps = 7; }, kInvalid, {"layers[1].line"}},
    {"line blocks", [&](P& p) { calls.own(p.layers)[1].line.shape[0] = 5; }, kInvalid, {"layers[1].line", "5", "blocks ="}},
    {"line dims", [&](P& p) { calls.own(p.layers)[1].line.dims = 2; }, kInvalid, {"layers[1].line"}},
    {"pending short", [&](P& p) { auto& l = calls.own(p.layers)[1]; l.pending = calls.ints({0, 1, 2}); }, kInvalid, {"layers[1].pending", "3"}},
    {"pending i64", [&](P& p) { auto& l = calls.own(p.layers)[1]; l.pending = with_dtype(calls.ints({0, 0, 0, 0, 0, 0, 0, 0}), DType::i64); l.pending.shape[0] = l.state.shape[0]; }, kInvalid, {"layers[1].pending", "i64"}},
    {"one state for two layers", [&](P& p) { auto& l = calls.own(p.layers); l[1].state = l[0].state; }, kInvalid, {"layers[0].state", "layers[1].state"}},
    {"line over itself", [&](P& p) { calls.own(p.layers)[1].line.stride[0] = 0; }, kInvalid, {"layers[1].line", "twice"}},
    {"state blocks overlap", [&](P& p) { calls.own(p.layers)[1].state.stride[0] = 500; }, kInvalid, {"layers[1].state", "twice"}},
  };
}

// What commit and materialize refuse of records.
template <class P>
std::vector<Case<P>> record_cases(Calls& calls) {
  return {
    {"records missing", [&](P& p) { calls.own(p.layers)[0].records = {}; }, kInvalid, {"layers[0].records", "missing"}},
    {"records without state", [&](P& p) { calls.own(p.layers)[0].state = {}; }, kInvalid, {"layers[0].records"}},
    {"record width", [&](P& p) { calls.own(p.layers)[0].records.packed.shape[3] = 24; }, kInvalid, {"layers[0].records", "24", "25"}},
    {"record heads of the second layer", [&](P& p) { calls.own(p.layers)[1].records.packed.shape[1] = 3; }, kInvalid, {"layers[1].records"}},
    {"line a column short", [&](P& p) { calls.own(p.layers)[0].line.shape[1] = 4; }, kInvalid, {"layers[0].line", "4", "5"}},
    {"anchored needs one more", [&](P& p) { calls.own(p.layers)[0].line_kind = LineKind::anchored; }, kInvalid, {"layers[0].line", "5", "6"}},
    {"lower_bound with gdn", [&](P& p) { calls.own(p.layers)[0].lower_bound = -1.0F; }, kInvalid, {"layers[0].lower_bound"}},
    {"kda without parameters", [&](P& p) { auto& l = calls.own(p.layers)[0]; l = calls.layer(Gate::kda, static_cast<int>(l.state.shape[0])); l.pending = p.layers[1].pending; l.A_log = {}; }, kInvalid, {"layers[0].A_log", "missing"}},
    {"kda with records of gdn", [&](P& p) { calls.own(p.layers)[0].gate = Gate::kda; }, kInvalid, {"layers[0].records"}},
  };
}

TEST(ContractCommit, Commit) {
  Calls calls;
  using P = CommitParams;
  const auto make = [&] { return calls.commit(); };
  const auto group = [&](P& p) -> CommitGroup& { return calls.own(p.groups)[0]; };
  run_cases<P>("commit", make, layer_cases<P>(calls));
  run_cases<P>("commit", make, record_cases<P>(calls));
  run_cases<P>("commit", make, {
    {"group past the end", [&](P& p) { calls.own(p.layers)[1].group = 1; }, kInvalid, {"layers[1].group", "1"}},
    {"group negative", [&](P& p) { calls.own(p.layers)[1].group = -1; }, kInvalid, {"layers[1].group"}},
    {"no capacity", [](P& p) { p.window_capacity = 0; }, kInvalid, {"window_capacity"}},
    {"capacity of other records", [](P& p) { p.window_capacity = 2; }, kInvalid, {"layers[0].records", "3", "2"}},
    {"final_indices short", [&](P& p) { group(p).final_indices.shape[0] = 1; }, kInvalid, {"groups[0].final_indices"}},
    {"commit_len i64", [&](P& p) { group(p).commit_len.dtype = DType::i64; }, kInvalid, {"groups[0].commit_len", "i64"}},
    {"ids missing", [&](P& p) { group(p).state_indices = {}; }, kInvalid, {"groups[0].state_indices"}},
    {"plan inside a pending view", [&](P& p) { auto& l = calls.own(p.layers)[1]; l.pending = calls.ints({0, 1, 2, 1, 0, 0}); group(p).commit_len.data = l.pending.data; }, kInvalid, {"layers[1].pending", "groups[0].commit_len"}},
    {"commit_len above S", [&](P& p) { group(p).commit_len = calls.ints({4, 1, 0}); }, kRange, {"commit_len", "4"}},
    {"commit_len negative", [&](P& p) { group(p).commit_len = calls.ints({-1, 1, 0}); }, kRange, {"commit_len", "-1"}},
    {"source past the pool", [&](P& p) { group(p).state_indices = calls.ints({1, 6, 0}); }, kRange, {"state_indices", "6"}},
    {"final past the pool", [&](P& p) { group(p).final_indices = calls.ints({1, 6, 0}); }, kRange, {"final_indices", "6"}},
    {"boundary past the pool", [&](P& p) { group(p).boundary_indices = calls.ints({6, 0, 0}); }, kRange, {"boundary_indices", "6"}},
    {"boundary_len 0", [&](P& p) { group(p).boundary_len = calls.ints({0, 0, 0}); }, kRange, {"boundary_len", "0"}},
    {"boundary_len past c", [&](P& p) { group(p).boundary_len = calls.ints({3, 0, 0}); }, kRange, {"boundary_len", "3", "2"}},
    {"two rows, one final", [&](P& p) { group(p).final_indices = calls.ints({4, 4, 0}); }, kRange, {"final_indices", "block 4"}},
    {"final is another row's source", [&](P& p) { group(p).final_indices = calls.ints({3, 4, 0}); }, kRange, {"final_indices", "state_indices", "block 3"}},
    {"boundary is another row's final", [&](P& p) { group(p).boundary_indices = calls.ints({4, 0, 0}); }, kRange, {"block 4"}},
    {"boundary is another row's source", [&](P& p) { group(p).boundary_indices = calls.ints({3, 0, 0}); }, kRange, {"boundary_indices", "block 3"}},
    {"two rows, one boundary", [&](P& p) { group(p).boundary_indices = calls.ints({5, 5, 0}); group(p).boundary_len = calls.ints({1, 1, 0}); }, kRange, {"boundary_indices", "block 5"}},
    {"a smaller pool in the group", [&](P& p) { auto& l = calls.own(p.layers)[1]; l.state.shape[0] = l.line.shape[0] = l.records.packed.shape[0] = 4; }, kRange, {"final_indices", "4"}},
    {"two rows read one source", [&](P& p) { group(p).state_indices = calls.ints({3, 3, 0}); }, kOk},
    {"a source cleared by two rows", [&](P& p) { group(p).state_indices = calls.ints({3, 3, 0}); calls.own(p.layers)[1].pending = calls.ints({0, 0, 0, 1, 0, 0}); }, kRange, {"state_indices", "block 3"}},
    {"all of a row in one block", [&](P& p) { group(p).boundary_indices = calls.ints({1, 0, 0}); }, kOk},
    {"null final frees the source", [&](P& p) { group(p).final_indices = calls.ints({0, 1, 0}); }, kOk},
    {"null final, block free", [&](P& p) { group(p).final_indices = calls.ints({0, 4, 0}); group(p).commit_len = calls.ints({99, 1, 0}); group(p).boundary_indices = calls.ints({4, 0, 0}); }, kOk},
    {"null source", [&](P& p) { group(p).state_indices = calls.ints({0, 3, 0}); group(p).final_indices = calls.ints({99, 4, 0}); }, kOk},
    {"no layers, no groups", [](P& p) { p.layers = {}; p.groups = {}; }, kOk},
    {"a line alone", [&](P& p) { auto& l = calls.own(p.layers)[1]; l.state = {}; l.records = {}; l.conv_taps = 4; }, kOk},
    {"a long history alone", [&](P& p) { auto& l = calls.own(p.layers)[1]; l = {}; l.conv_taps = 10; l.line_kind = LineKind::anchored; l.line = calls.tensor(DType::f16, {6, 12, 5}); }, kOk},
    {"a state alone", [&](P& p) { auto& l = calls.own(p.layers)[1]; l.line = {}; l.line_kind = LineKind::plain; l.conv_taps = 0; }, kOk},
  });
  run_cases<P>("commit", [&] { return calls.commit(Gate::kda); }, {
    {"dt_bias missing", [&](P& p) { calls.own(p.layers)[0].dt_bias = {}; }, kInvalid, {"layers[0].dt_bias"}},
    {"A_log dtype", [&](P& p) { calls.own(p.layers)[0].A_log = calls.tensor(DType::f16, {4}); }, kInvalid, {"layers[0].A_log", "f16"}},
    {"key_gate width", [&](P& p) { calls.own(p.layers)[1].records.key_gate.shape[3] = 31; }, kInvalid, {"layers[1].records.key_gate", "31"}},
    {"lower_bound positive", [&](P& p) { calls.own(p.layers)[1].lower_bound = 1.0F; }, kInvalid, {"layers[1].lower_bound"}},
  });
}

// Layers of two groups in the pages of one raw tensor, as a hybrid cache lays them out: blocks 1 to 4 are the first group's, 5 the second's.
TEST(ContractCommit, SharedPages) {
  Calls calls;
  using P = CommitParams;
  const auto make = [&] {
    P p = calls.commit();
    auto& layers = calls.own(p.layers);
    layers[1] = layers[0];
    layers[1].group = 1;
    auto& groups = calls.own(p.groups);
    groups.push_back({calls.ints({5, 0}), calls.ints({2, 2}), calls.ints({5, 0}), calls.ints({0, 0}), calls.ints({1, 0})});
    p.groups = groups;
    return p;
  };
  const auto second = [&](P& p) -> CommitGroup& { return calls.own(p.groups)[1]; };
  run_cases<P>("commit", make, {
    {"blocks of their own", [](P&) {}, kOk},
    {"one group", [&](P& p) { calls.own(p.layers)[1].group = 0; }, kInvalid, {"layers[0].state", "layers[1].state"}},
    {"a block further", [&](P& p) { auto& l = calls.own(p.layers)[1]; l.state.data = static_cast<char*>(l.state.data) + l.state.stride[0] * size_of(l.state.dtype); l.state.shape[0] = 5; l.line = {}; l.conv_taps = 0; l.line_kind = LineKind::plain; l.records.packed.shape[0] = 5; }, kInvalid, {"layers[1].state"}},
    {"a line of other pages", [&](P& p) { auto& l = calls.own(p.layers)[1]; l.line.stride[0] *= 2; l.line.shape[0] = 3; l.state = {}; l.records = {}; }, kInvalid, {"layers[1].line"}},
    {"final is the other group's source", [&](P& p) { second(p).final_indices = calls.ints({3, 0}); }, kRange, {"groups[1].final_indices", "block 3", "groups[0]"}},
    {"boundary is the other group's final", [&](P& p) { second(p).boundary_indices = calls.ints({4, 0}); }, kRange, {"block 4", "same pages"}},
    {"source that the other group writes", [&](P& p) { second(p).state_indices = calls.ints({4, 0}); }, kRange, {"groups[0].final_indices", "block 4", "groups[1]", "state_indices"}},
    {"source that the other group reads", [&](P& p) { second(p).state_indices = calls.ints({3, 0}); }, kOk},
    {"a dead row's blocks", [&](P& p) { second(p).state_indices = calls.ints({5, 4}); second(p).final_indices = calls.ints({5, 4}); second(p).commit_len = calls.ints({2, 0}); }, kOk},
    {"pools of their own", [&](P& p) { auto& l = calls.own(p.layers); l[1] = calls.layer(Gate::gdn, 6); l[1].group = 1; second(p).final_indices = calls.ints({3, 0}); second(p).boundary_indices = calls.ints({4, 0}); }, kOk},
    {"only the lines share", [&](P& p) { auto& l = calls.own(p.layers); const TensorView line = l[0].line; l[1] = calls.layer(Gate::gdn, 6); l[1].group = 1; l[1].line = line; second(p).final_indices = calls.ints({3, 0}); }, kRange, {"block 3"}},
    {"a third group with pools of its own", [&](P& p) { auto& l = calls.own(p.layers); l.push_back(calls.layer(Gate::gdn, 6)); l[2].group = 2; p.layers = l; auto& g = calls.own(p.groups); g.push_back(CommitGroup(g[0])); p.groups = g; }, kOk},
  });
}

TEST(ContractCommit, CommitPending) {
  Calls calls;
  using P = CommitParams;
  const auto make = [&] {
    P p = calls.commit();
    auto& layers = calls.own(p.layers);
    layers[0].pending = calls.ints({99, 3, 99, 1, 99, 99});
    layers[1].pending = calls.ints({99, 0, 99, 2, 99, 99});
    return p;
  };
  run_cases<P>("commit", make, {
    {"pending above S", [&](P& p) { calls.own(p.layers)[1].pending = calls.ints({0, 4, 0, 1, 0, 0}); }, kRange, {"layers[1].pending", "4"}},
    {"pending negative", [&](P& p) { calls.own(p.layers)[1].pending = calls.ints({0, -1, 0, 1, 0, 0}); }, kRange, {"layers[1].pending", "-1"}},
    {"nothing waits and the final block is another", [&](P& p) { calls.own(p.layers)[1].pending = calls.ints({0, 0, 0, 0, 0, 0}); }, kBadState, {"layers[1].pending", "block 3"}},
    {"boundary_len where less waits", [&](P& p) { calls.own(p.groups)[0].boundary_len = calls.ints({3, 0, 0}); }, kRange, {"boundary_len"}},
  });
}

TEST(ContractCommit, Materialize) {
  Calls calls;
  using P = MaterializeParams;
  const auto make = [&] { return calls.materialize(); };
  run_cases<P>("materialize", make, layer_cases<P>(calls));
  run_cases<P>("materialize", make, record_cases<P>(calls));
  run_cases<P>("materialize", make, {
    {"counts short", [](P& p) { p.num_accepted.shape[0] = 2; }, kInvalid, {"num_accepted", "2", "M = 3"}},
    {"blocks i64", [](P& p) { p.blocks.dtype = DType::i64; }, kInvalid, {"blocks", "i64"}},
    {"pending missing", [&](P& p) { calls.own(p.layers)[1].pending = {}; }, kInvalid, {"layers[1].pending", "missing"}},
    {"one pending for two layers", [&](P& p) { auto& l = calls.own(p.layers); l[1].pending = l[0].pending; }, kInvalid, {"pending"}},
    {"count above S", [&](P& p) { p.num_accepted = calls.ints({1, 0, 4}); }, kRange, {"num_accepted", "4"}},
    {"block past the pool", [&](P& p) { p.blocks = calls.ints({1, 0, 6}); }, kRange, {"blocks", "6"}},
    {"block twice", [&](P& p) { p.blocks = calls.ints({2, 0, 2}); }, kRange, {"blocks", "block 2"}},
    {"pending above S", [&](P& p) { calls.own(p.layers)[1].pending = calls.ints({0, 4, 0, 0, 0, 0}); }, kRange, {"layers[1].pending"}},
    {"pending negative", [&](P& p) { calls.own(p.layers)[1].pending = calls.ints({0, -1, 0, 0, 0, 0}); }, kRange, {"layers[1].pending"}},
    {"null ids twice", [&](P& p) { p.blocks = calls.ints({0, 0, 2}); }, kOk},
    {"groups are not looked at", [&](P& p) { calls.own(p.layers)[1].group = 77; }, kOk},
  });
}

TEST(ContractCommit, AlignMove) {
  Calls calls;
  using P = AlignMoveParams;
  const auto make = [&] { return calls.align_move(); };
  run_cases<P>("align_move", make, layer_cases<P>(calls));
  run_cases<P>("align_move", make, {
    {"to longer", [&](P& p) { p.to = calls.ints({5, 6, 4, 7, 3}); }, kInvalid, {"to", "5", "N = 4"}},
    {"from i64", [](P& p) { p.from.dtype = DType::i64; }, kInvalid, {"from", "i64"}},
    {"line shorter than the history", [&](P& p) { calls.own(p.layers)[1].line.shape[1] = 2; }, kInvalid, {"layers[1].line", "2", "3"}},
    {"one destination twice", [&](P& p) { p.to = calls.ints({5, 5, 4, 7}); }, kRange, {"to", "block 5"}},
    {"destination is another source", [&](P& p) { p.to = calls.ints({2, 6, 4, 7}); }, kRange, {"to", "block 2"}},
    {"swap", [&](P& p) { p.to = calls.ints({2, 1, 4, 7}); }, kRange, {"to"}},
    {"destination of a row that stays", [&](P& p) { p.to = calls.ints({4, 6, 4, 7}); }, kRange, {"to", "block 4"}},
    {"destination of a row without source", [&](P& p) { p.to = calls.ints({7, 6, 4, 7}); }, kRange, {"to", "block 7"}},
    {"to past the pool", [&](P& p) { p.to = calls.ints({5, 8, 4, 7}); }, kRange, {"to", "8"}},
    {"from past the pool", [&](P& p) { p.from = calls.ints({1, 8, 4, 0}); }, kRange, {"from", "8"}},
    {"records wait", [&](P& p) { p.from = calls.ints({1, 3, 4, 0}); }, kBadState, {"layers[0].pending", "block 3", "from"}},
    {"pending negative", [&](P& p) { calls.own(p.layers)[1].pending = calls.ints({0, -1, 0, 0, 0, 0, 0, 0}); }, kRange, {"layers[1].pending"}},
    {"records are not looked at", [&](P& p) { auto& l = calls.own(p.layers)[0]; l.records = {}; l.line.shape[1] = 3; }, kOk},
    {"one source for two", [&](P& p) { p.from = calls.ints({1, 1, 4, 0}); }, kOk},
    {"to null", [&](P& p) { p.to = calls.ints({5, 0, 4, 7}); }, kOk},
    {"no pending", [&](P& p) { for (Layer& l : calls.own(p.layers)) l.pending = {}; p.from = calls.ints({1, 3, 4, 0}); }, kOk},
  });
}

TEST(ContractCommit, AlignAdvance) {
  Calls calls;
  using P = AlignAdvanceParams;
  run_cases<P>("align_advance", [&] { return calls.align_advance(); }, {
    {"commit_len short", [](P& p) { p.commit_len.shape[0] = 2; }, kInvalid, {"commit_len", "2"}},
    {"ids missing", [](P& p) { p.state_indices = {}; }, kInvalid, {"state_indices"}},
    {"block_size 0", [](P& p) { p.block_size = 0; }, kInvalid, {"block_size"}},
    {"running_column short", [](P& p) { p.running_column.shape[0] = 2; }, kInvalid, {"running_column", "R = 3"}},
    {"counts i64", [](P& p) { p.num_accepted.dtype = DType::i64; }, kInvalid, {"num_accepted"}},
    {"fewer requests than rows", [&](P& p) { p.request_index = {}; p.num_computed.shape[0] = 2; p.running_column.shape[0] = p.num_accepted.shape[0] = 2; }, kInvalid, {"num_computed"}},
    {"column is num_computed", [](P& p) { p.running_column = p.num_computed; }, kInvalid, {"running_column"}},
    {"request past the end", [&](P& p) { p.request_index = calls.ints({0, 0, 3}); }, kRange, {"request_index", "3"}},
    {"num_computed negative", [&](P& p) { p.num_computed = calls.ints({-2, 0, 0}); }, kRange, {"num_computed", "-2"}},
    {"commit_len negative", [&](P& p) { p.commit_len = calls.ints({-2, 0, 1}); }, kRange, {"commit_len", "-2"}},
    {"column past int32", [&](P& p) { p.num_computed = calls.ints({INT32_MAX, 0, 0}); p.block_size = 1; }, kRange, {"num_computed"}},
    {"request twice", [&](P& p) { p.request_index = calls.ints({2, 0, 2}); }, kRange, {"request_index", "2"}},
    {"request twice, one dead", [&](P& p) { p.request_index = calls.ints({2, 2, 0}); }, kOk},
    {"the last column", [&](P& p) { p.num_computed = calls.ints({INT32_MAX - 1, 0, 0}); p.block_size = 1; }, kOk},
  });
}

// clang-format on

}  // namespace
}  // namespace contract_tests
