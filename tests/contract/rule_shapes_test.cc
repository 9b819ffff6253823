// The delta rules: shapes, strides, dtypes, which optional arguments go together, contents.
#include <cmath>

#include "cases.h"
#include "good_calls.h"

namespace contract_tests {
namespace {

using namespace recoverssm;

// One line a case, however long it is.
// clang-format off

// What all three rules refuse of a gdn call.
template <class P>
std::vector<Case<P>> rule_cases(Calls& calls) {
  return {
    {"q missing", [](P& p) { p.inputs.q = {}; }, kInvalid, {"q", "missing"}},
    {"q innermost stride", [](P& p) { p.inputs.q.stride = {64, 32, 2, 0}; p.inputs.q.shape[0] = 3; }, kInvalid, {"q", "stride 2"}},
    {"q dtype", [](P& p) { p.inputs.q.dtype = DType::f64; }, kInvalid, {"q", "f64"}},
    {"k channels", [](P& p) { p.inputs.k.shape[2] = 15; }, kInvalid, {"k", "15", "K = 16"}},
    {"k dtype", [](P& p) { p.inputs.k.dtype = DType::f16; }, kInvalid, {"k", "f16", "bf16"}},
    {"v heads", [](P& p) { p.inputs.v.shape[1] = 3; }, kInvalid, {"v", "3", "H = 2"}},
    {"v innermost stride", [](P& p) { p.inputs.v.stride = {64, 16, 2, 0}; p.inputs.v.shape[0] = 3; }, kInvalid, {"v"}},
    {"a heads", [](P& p) { p.inputs.a.shape[1] = 3; }, kInvalid, {"a", "3", "HV = 4"}},
    {"a of the other gate", [&](P& p) { p.inputs.a = calls.tensor(DType::bf16, {6, 4, 16}); }, kInvalid, {"a", "3 dimensions"}},
    {"b heads", [](P& p) { p.inputs.b.shape[1] = 3; }, kInvalid, {"b", "HV = 4"}},
    {"A_log length", [](P& p) { p.inputs.A_log.shape[0] = 3; }, kInvalid, {"A_log", "3"}},
    {"A_log dtype", [&](P& p) { p.inputs.A_log = calls.tensor(DType::f16, {4}); }, kInvalid, {"A_log", "f16"}},
    {"dt_bias length", [](P& p) { p.inputs.dt_bias.shape[0] = 3; }, kInvalid, {"dt_bias", "3"}},
    {"unknown gate", [](P& p) { p.inputs.gate = unknown<Gate>(); }, kInvalid, {"gate"}},
    {"lower_bound with gdn", [](P& p) { p.inputs.lower_bound = -5.0F; }, kInvalid, {"lower_bound", "-5"}},
    {"softplus_beta 0", [](P& p) { p.inputs.softplus_beta = 0; }, kInvalid, {"softplus_beta"}},
    {"softplus_beta NaN", [](P& p) { p.inputs.softplus_beta = NAN; }, kInvalid, {"softplus_beta"}},
    {"softplus_threshold NaN", [](P& p) { p.inputs.softplus_threshold = NAN; }, kInvalid, {"softplus_threshold"}},
    {"scale NaN", [](P& p) { p.inputs.scale = NAN; }, kInvalid, {"scale"}},
    {"state channels", [](P& p) { p.state.shape[3] = 15; }, kInvalid, {"state", "15", "K = 16"}},
    {"state heads", [](P& p) { p.state.shape[1] = 3; }, kInvalid, {"state", "3", "HV = 4"}},
    {"state padded rows", [](P& p) { p.state.stride = {508, 128, 18, 1}; p.state.shape[0] = 4; }, kInvalid, {"state", "stride 18", "K = 16"}},
    {"state padded heads", [](P& p) { p.state.stride[1] = 130; p.state.shape[0] = 4; }, kInvalid, {"state", "130", "V*K = 128"}},
    {"state dims", [](P& p) { p.state.dims = 3; }, kInvalid, {"state", "3 dimensions"}},
    {"state dtype", [](P& p) { p.state.dtype = DType::i32; }, kInvalid, {"state", "i32"}},
    {"out width", [](P& p) { p.out.shape[2] = 7; }, kInvalid, {"out", "7", "V = 8"}},
    {"out heads", [](P& p) { p.out.shape[1] = 3; }, kInvalid, {"out"}},
    {"out dtype", [&](P& p) { p.out = calls.tensor(DType::f16, {6, 4, 8}); }, kInvalid, {"out", "f16", "f32 or bf16"}},
    {"out aliases v", [](P& p) { p.out.data = p.inputs.v.data; }, kInvalid, {"out", "v"}},
    {"out over itself", [](P& p) { p.out.stride[0] = 31; }, kInvalid, {"out", "twice"}},
    {"offsets i64", [](P& p) { p.rows.query_start_loc.dtype = DType::i64; }, kInvalid, {"query_start_loc", "i64"}},
    {"ids i64", [](P& p) { p.rows.state_indices.dtype = DType::i64; }, kInvalid, {"state_indices", "i64"}},
    {"null data", [](P& p) { p.inputs.k.data = nullptr; }, kInvalid, {"k", "null data"}},
    {"a shape past int64", [](P& p) { p.inputs.q.shape = {INT64_MAX, 2, 16, 0}; p.inputs.q.stride = {0, 16, 1, 0}; }, kInvalid, {"q"}},
    {"strides past int64", [](P& p) { p.inputs.q.stride[0] = INT64_MAX / 2; }, kInvalid, {"q"}},
    {"smallest stride", [](P& p) { p.inputs.q.stride[0] = INT64_MIN; }, kInvalid, {"q"}},
    {"negative dimension", [](P& p) { p.inputs.q.shape[0] = -1; }, kInvalid, {"q", "-1"}},
    {"more dimensions than there are", [](P& p) { p.inputs.q = TensorView(p.inputs.q.data, DType::bf16, {1, 1, 1, 1, 1}); }, kInvalid, {"q"}},
    {"f32 out", [&](P& p) { p.out = calls.tensor(DType::f32, {6, 4, 8}); }, kOk},
    {"heads apart", [](P& p) { p.inputs.q.stride = {0, 0, 1, 0}; }, kOk},
    {"no tokens, strides of 0", [&](P& p) { for (auto* v : {&p.inputs.q, &p.inputs.k, &p.inputs.v, &p.inputs.a, &p.inputs.b, &p.out}) { *v = with_shape(*v, 0, 0); v->stride = {}; } p.rows.query_start_loc = calls.ints({0, 0, 0, 0}); }, kOk},
    {"one token, strides of 0", [](P& p) { p.inputs.q = with_shape(p.inputs.q, 0, 1); p.inputs.q.stride = {}; }, kInvalid, {"q", "stride 0"}},
    {"broadcast tokens", [](P& p) { p.inputs.v.stride[0] = 0; }, kOk},
    {"tails", [&](P& p) { p.inputs.k = calls.tensor(DType::bf16, {9, 2, 16}); p.out = calls.tensor(DType::bf16, {7, 4, 8}); }, kOk},
    {"scalars", [](P& p) { p.inputs.l2norm = false; p.inputs.scale = 1.0F; p.inputs.softplus_beta = 2.0F; }, kOk},
    // Contents.
    {"decreasing offsets", [&](P& p) { p.rows.query_start_loc = calls.ints({0, 3, 2, 6}); }, kRange, {"query_start_loc"}},
    {"negative offset", [&](P& p) { p.rows.query_start_loc = calls.ints({-1, 1, 3, 5}); }, kRange, {"query_start_loc"}},
    {"past the shortest input", [](P& p) { p.inputs.b.shape[0] = 5; }, kRange, {"query_start_loc", "6", "5"}},
    {"past out", [](P& p) { p.out.shape[0] = 5; }, kRange, {"query_start_loc", "6", "5"}},
    {"past the inputs in spite of token_index", [&](P& p) { p.inputs.b.shape[0] = 5; p.rows.token_index = calls.ints({0, 1, 2, 3, 4, 5}); }, kRange, {"query_start_loc", "6"}},
    {"token_index short", [&](P& p) { p.rows.token_index = calls.ints({0, 1, 2}); }, kRange, {"token_index"}},
    {"token_index past out", [&](P& p) { p.rows.token_index = calls.ints({0, 1, 2, 3, 4, 6}); }, kRange, {"token_index", "6"}},
    {"token_index twice", [&](P& p) { p.rows.token_index = calls.ints({0, 1, 2, 3, 1, 5}); }, kRange, {"token_index"}},
    {"token_index into a longer out", [&](P& p) { p.out = calls.tensor(DType::bf16, {9, 4, 8}); p.rows.token_index = calls.ints({8, 1, 2, 3, 7, 5}); }, kOk},
    {"ids past the pool", [&](P& p) { p.state.shape[0] = 2; }, kRange, {}},
  };
}

// Cases that change the number of blocks break the other views of a pool: they are for the plain rule and snapshots only.
template <class P>
std::vector<Case<P>> without(std::vector<Case<P>> cases, std::initializer_list<const char*> names) {
  std::erase_if(cases, [&](const Case<P>& c) {
    for (const char* name : names) {
      if (std::string(c.what) == name) return true;
    }
    return false;
  });
  return cases;
}

TEST(ContractShapes, GatedDeltaRule) {
  Calls calls;
  using P = GatedDeltaRuleParams;
  const auto make = [&] { return calls.rule(); };
  run_cases<P>("gated_delta_rule", make, rule_cases<P>(calls));
  run_cases<P>("gated_delta_rule", make, {
    {"16-bit state with padded blocks", [&](P& p) { p.state = with_stride(with_shape(calls.tensor(DType::bf16, {5, 4, 8, 16}), 0, 4), 0, 520); }, kOk},
    {"flags short", [&](P& p) { p.rows.has_initial_state = calls.flags({1, 1}); }, kInvalid, {"has_initial_state", "2"}},
    {"ids short", [](P& p) { p.rows.state_indices.shape[0] = 2; }, kInvalid, {"state_indices"}},
    {"counts without pending", [&](P& p) { p.rows.num_accepted = calls.ints({1, 1, 1}); }, kInvalid, {"num_accepted", "pending"}},
    {"records without pending", [&](P& p) { p.records = calls.verify().records; }, kInvalid, {"records", "pending"}},
    {"state over itself", [](P& p) { p.state.stride[0] = 511; }, kInvalid, {"state", "twice"}},
    {"state holds out", [](P& p) { p.out = {p.state.data, DType::f32, {6, 4, 8}}; }, kInvalid, {"out", "state"}},
    {"shared block", [&](P& p) { p.rows.state_indices = calls.ints({1, 0, 1}); }, kRange, {"state_indices", "rows 0 and 2"}},
    {"id past the pool", [&](P& p) { p.rows.state_indices = calls.ints({1, 0, 5}); }, kRange, {"state_indices", "5"}},
    {"huge id", [&](P& p) { p.rows.state_indices = calls.ints({1, 0, INT32_MAX}); }, kRange, {"state_indices"}},
    {"long rows", [&](P& p) { p.rows.query_start_loc = calls.ints({0, 6, 6, 6}); }, kOk},
    {"key channels past the backend's", [&](P& p) { auto& in = p.inputs; in.q = in.k = calls.tensor(DType::bf16, {6, 2, 300}); p.state = calls.tensor(DType::f32, {5, 4, 8, 300}); }, kOk},
  });
  for (Gate gate : {Gate::gdn, Gate::kda}) {
    run_cases<P>("gated_delta_rule", [&] { return calls.lazy_rule(gate); }, {
      {"counts missing", [](P& p) { p.rows.num_accepted = {}; }, kInvalid, {"num_accepted", "pending"}},
      {"records missing", [](P& p) { p.records = {}; }, kInvalid, {"records", "missing"}},
      {"pending missing", [](P& p) { p.pending = {}; }, kInvalid, {"num_accepted"}},
      {"pending short", [](P& p) { p.pending.shape[0] = 4; }, kInvalid, {"pending", "4", "blocks = 5"}},
      {"pending i64", [](P& p) { p.pending.dtype = DType::i64; }, kInvalid, {"pending", "i64"}},
      {"pending over itself", [](P& p) { p.pending.stride[0] = 0; }, kInvalid, {"pending", "twice"}},
      {"pending is num_accepted", [](P& p) { p.rows.num_accepted.data = p.pending.data; }, kInvalid, {"pending", "num_accepted"}},
      {"count above S", [&](P& p) { p.rows.num_accepted = calls.ints({4, 0, 0}); }, kRange, {"num_accepted", "4", "3"}},
      {"pending above S", [&](P& p) { p.pending = calls.ints({0, 4, 0, 0, 0}); }, kRange, {"pending", "4"}},
      {"pending negative", [&](P& p) { p.pending = calls.ints({0, -1, 0, 0, 0}); }, kRange, {"pending", "-1"}},
      {"nothing read of a row from zero", [&](P& p) { p.pending = calls.ints({0, 99, 0, 0, 0}); p.rows.num_accepted = calls.ints({99, 0, 0}); p.rows.has_initial_state = calls.flags({0, 1, 1}); }, kOk},
    });
  }
}

TEST(ContractShapes, Snapshots) {
  Calls calls;
  using P = GatedDeltaRuleSnapshotsParams;
  const auto make = [&] { return calls.snapshots(); };
  run_cases<P>("gated_delta_rule_snapshots", make, rule_cases<P>(calls));
  run_cases<P>("gated_delta_rule_snapshots", make, {
    {"one-dimensional ids", [&](P& p) { p.rows.state_indices = calls.ints({1, 0, 2}); }, kInvalid, {"state_indices", "1 dimension"}},
    {"table short", [](P& p) { p.rows.state_indices.shape[0] = 2; }, kInvalid, {"state_indices"}},
    {"no columns", [](P& p) { p.rows.state_indices.shape[1] = 0; }, kInvalid, {"state_indices", "S"}},
    {"another capacity", [](P& p) { p.rows.window_capacity = 4; }, kInvalid, {"state_indices", "window_capacity = 4"}},
    {"counts missing", [](P& p) { p.rows.num_accepted = {}; }, kInvalid, {"num_accepted", "missing"}},
    {"counts short", [](P& p) { p.rows.num_accepted.shape[0] = 2; }, kInvalid, {"num_accepted"}},
    {"flags given", [&](P& p) { p.rows.has_initial_state = calls.flags({1, 1, 1}); }, kInvalid, {"has_initial_state"}},
    {"column past the pool", [&](P& p) { p.rows.state_indices = calls.table({{1, 2, 5}, {0, 0, 0}, {4, 3, 0}}); }, kRange, {"state_indices", "5"}},
    {"column of another row", [&](P& p) { p.rows.state_indices = calls.table({{1, 2, 3}, {0, 0, 0}, {3, 4, 0}}); }, kRange, {"state_indices", "block 3"}},
    {"column twice in a row", [&](P& p) { p.rows.state_indices = calls.table({{1, 2, 1}, {0, 0, 0}, {4, 3, 0}}); p.rows.query_start_loc = calls.ints({0, 3, 4, 5}); }, kRange, {"state_indices", "block 1"}},
    {"start of another row", [&](P& p) { p.rows.state_indices = calls.table({{1, 2, 3}, {0, 0, 0}, {4, -1, 2}}); p.rows.num_accepted = calls.ints({1, 2, 3}); }, kRange, {"state_indices", "block 2"}},
    {"one start for two rows", [&](P& p) { p.rows.query_start_loc = calls.ints({0, 2, 3, 5}); p.rows.state_indices = calls.table({{0, 0, 4}, {0, 0, 0}, {0, 0, 4}}); p.rows.num_accepted = calls.ints({3, 1, 3}); }, kRange, {"state_indices", "block 4"}},
    {"count above S", [&](P& p) { p.rows.num_accepted = calls.ints({4, 1, 1}); }, kRange, {"num_accepted", "4"}},
    {"count above S of a null row", [&](P& p) { p.rows.num_accepted = calls.ints({1, 4, 1}); }, kRange, {"num_accepted", "4"}},
    {"window too long", [&](P& p) { p.rows.query_start_loc = calls.ints({0, 4, 5, 6}); }, kRange, {"query_start_loc", "4"}},
    {"start is an own column", [&](P& p) { p.rows.num_accepted = calls.ints({3, 2, -4}); }, kOk},
    {"columns past L may repeat", [&](P& p) { p.rows.state_indices = calls.table({{1, 2, 3}, {0, 0, 0}, {4, 0, 3}}); }, kOk},
    {"count of an empty row", [&](P& p) { p.rows.query_start_loc = calls.ints({0, 3, 3, 5}); p.rows.num_accepted = calls.ints({1, 99, 1}); }, kOk},
    {"capacity named", [](P& p) { p.rows.window_capacity = 3; }, kOk},
  });
}

TEST(ContractShapes, Verify) {
  Calls calls;
  using P = GatedDeltaRuleVerifyParams;
  const auto make = [&] { return calls.verify(); };
  // Its records have a block count too, which a shorter pool breaks first.
  run_cases<P>("gated_delta_rule_verify", make, without(rule_cases<P>(calls), {"ids past the pool"}));
  run_cases<P>("gated_delta_rule_verify", make, {
    {"record width", [](P& p) { p.records.packed.shape[3] = 24; }, kInvalid, {"gated_delta_rule_verify: records: last dimension 24, expected V+K+1 = 25"}},
    {"record heads", [](P& p) { p.records.packed.shape[1] = 3; }, kInvalid, {"records", "3", "HV = 4"}},
    {"record blocks", [](P& p) { p.records.packed.shape[0] = 4; }, kInvalid, {"records", "4", "blocks = 5"}},
    {"record dims", [](P& p) { p.records.packed.dims = 3; }, kInvalid, {"records", "3 dimensions"}},
    {"record dtype", [](P& p) { p.records.packed.dtype = DType::bf16; }, kInvalid, {"records", "bf16", "f32"}},
    {"record stride", [](P& p) { p.records.packed.stride[3] = 2; p.records.packed.shape[0] = 5; p.records.packed.stride[2] = 50; p.records.packed.stride[1] = 150; p.records.packed.stride[0] = 600; }, kInvalid, {"records", "stride 2"}},
    {"record capacity", [](P& p) { p.rows.window_capacity = 4; }, kInvalid, {"records", "3", "window_capacity = 4"}},
    {"no capacity", [](P& p) { p.rows.window_capacity = 0; }, kInvalid, {"window_capacity"}},
    {"records missing", [](P& p) { p.records = {}; }, kInvalid, {"records", "missing"}},
    {"records of kda", [&](P& p) { p.records = calls.verify(Gate::kda).records; }, kInvalid, {"records", "gdn"}},
    {"records and corrections", [&](P& p) { p.records.corrections = calls.verify(Gate::kda).records.corrections; }, kInvalid, {"records"}},
    {"records over themselves", [](P& p) { p.records.packed.stride[2] = 24; }, kInvalid, {"records", "twice"}},
    {"records in the state", [](P& p) { p.records.packed.data = p.state.data; p.state.shape[0] = 5; }, kInvalid, {"records", "state"}},
    {"counts without pending", [&](P& p) { p.rows.num_accepted = calls.ints({1, 1, 1}); }, kInvalid, {"num_accepted", "pending"}},
    {"ids two-dimensional", [&](P& p) { p.rows.state_indices = calls.table({{1}, {0}, {2}}); }, kInvalid, {"state_indices"}},
    {"flags given", [&](P& p) { p.rows.has_initial_state = calls.flags({1, 1, 1}); }, kInvalid, {"has_initial_state"}},
    {"shared block", [&](P& p) { p.rows.state_indices = calls.ints({1, 0, 1}); }, kRange, {"state_indices"}},
    {"window too long", [&](P& p) { p.rows.query_start_loc = calls.ints({0, 4, 5, 6}); }, kRange, {"query_start_loc", "4"}},
    {"long null row", [&](P& p) { p.rows.query_start_loc = calls.ints({0, 1, 5, 6}); }, kRange, {"query_start_loc", "4"}},
    {"records in another order", [](P& p) { p.records.packed.stride = {300, 25, 100, 1}; }, kOk},
    {"state read only, broadcast", [](P& p) { p.state.stride[0] = 0; }, kOk},
    {"records inside the state's pages", [&](P& p) {
       const TensorView page = calls.tensor(DType::f32, {5, 1000});
       p.state = {page.data, DType::f32, {5, 4, 8, 16}, {1000, 128, 16, 1}};
       p.records.packed = {static_cast<float*>(page.data) + 512, DType::f32, {5, 4, 3, 25}, {1000, 75, 25, 1}};
     }, kOk},
    {"records reach into the next block's state", [&](P& p) {
       const TensorView page = calls.tensor(DType::f32, {6, 800});
       p.state = {page.data, DType::f32, {5, 4, 8, 16}, {800, 128, 16, 1}};
       p.records.packed = {static_cast<float*>(page.data) + 512, DType::f32, {5, 4, 3, 25}, {800, 75, 25, 1}};
     }, kInvalid, {"records", "state"}},
  });
  run_cases<P>("gated_delta_rule_verify", [&] { return calls.lazy_verify(); }, {
    {"pending short", [](P& p) { p.pending.shape[0] = 3; }, kInvalid, {"pending"}},
    {"counts short", [](P& p) { p.rows.num_accepted.shape[0] = 1; }, kInvalid, {"num_accepted"}},
    {"counts missing", [](P& p) { p.rows.num_accepted = {}; }, kInvalid, {"num_accepted"}},
    {"pending missing", [](P& p) { p.pending = {}; }, kInvalid, {"num_accepted"}},
    {"pending i64", [](P& p) { p.pending.dtype = DType::i64; }, kInvalid, {"pending", "i64"}},
    {"lazy state written over itself", [](P& p) { p.state.stride[0] = 0; }, kInvalid, {"state"}},
    {"count above S", [&](P& p) { p.rows.num_accepted = calls.ints({4, 0, 0}); }, kRange, {"num_accepted"}},
    {"pending above S", [&](P& p) { p.pending = calls.ints({0, 4, 0, 0, 0}); }, kRange, {"pending"}},
    {"pending negative", [&](P& p) { p.pending = calls.ints({0, 0, -1, 0, 0}); }, kRange, {"pending"}},
  });
}

TEST(ContractShapes, KeyGate) {
  Calls calls;
  using P = GatedDeltaRuleVerifyParams;
  run_cases<P>("gated_delta_rule_verify", [&] { return calls.verify(Gate::kda); }, {
    {"a of the other gate", [&](P& p) { p.inputs.a = calls.tensor(DType::bf16, {6, 4}); }, kInvalid, {"a"}},
    {"a innermost stride", [](P& p) { p.inputs.a.stride = {128, 32, 2, 0}; p.inputs.a.shape[0] = 3; }, kInvalid, {"a"}},
    {"dt_bias heads", [](P& p) { p.inputs.dt_bias.shape[0] = 3; }, kInvalid, {"dt_bias"}},
    {"dt_bias of the other gate", [&](P& p) { p.inputs.dt_bias = calls.tensor(DType::f32, {4}); }, kInvalid, {"dt_bias"}},
    {"positive lower_bound", [](P& p) { p.inputs.lower_bound = 5.0F; }, kInvalid, {"lower_bound", "5"}},
    {"lower_bound 0", [](P& p) { p.inputs.lower_bound = 0.0F; }, kInvalid, {"lower_bound"}},
    {"lower_bound -inf", [](P& p) { p.inputs.lower_bound = -INFINITY; }, kInvalid, {"lower_bound"}},
    {"key_gate width", [](P& p) { p.records.key_gate.shape[3] = 31; }, kInvalid, {"records.key_gate", "31", "2*K = 32"}},
    {"key_gate dtype", [&](P& p) { p.records.key_gate = calls.tensor(DType::f32, {5, 4, 3, 32}); }, kInvalid, {"records.key_gate", "f32", "bf16"}},
    {"key_gate capacity", [](P& p) { p.records.key_gate.shape[2] = 2; }, kInvalid, {"records.key_gate"}},
    {"corrections width", [](P& p) { p.records.corrections.shape[3] = 7; }, kInvalid, {"records.corrections", "7"}},
    {"corrections dtype", [](P& p) { p.records.corrections.dtype = DType::bf16; }, kInvalid, {"records.corrections", "bf16"}},
    {"corrections missing", [](P& p) { p.records.corrections = {}; }, kInvalid, {"records.corrections"}},
    {"key_gate missing", [](P& p) { p.records.key_gate = {}; }, kInvalid, {"records.key_gate"}},
    {"records of gdn", [&](P& p) { p.records = calls.verify().records; }, kInvalid, {"records", "kda"}},
    {"key_gate over corrections", [](P& p) { p.records.key_gate.data = p.records.corrections.data; }, kInvalid, {"records"}},
    {"bounded", [](P& p) { p.inputs.lower_bound = -5.0F; }, kOk},
  });
}

// clang-format on

}  // namespace
}  // namespace contract_tests
