// gdn_attention: which arguments of the parts go together, shapes, contents.
#include "cases.h"
#include "good_calls.h"

namespace contract_tests {
namespace {

using namespace recoverssm;

// One line a case, however long it is.
// clang-format off
using P = GdnAttentionParams;

TEST(ContractAttention, Snapshots) {
  Calls calls;
  run_cases<P>("gdn_attention", [&] { return calls.attention_snapshots(); }, {
    {"table without counts", [](P& p) { p.windows->rows.num_accepted = {}; }, kInvalid, {"state_indices", "num_accepted"}},
    {"counts without table", [](P& p) { p.windows->rows.state_indices = {}; }, kInvalid, {"state_indices", "num_accepted"}},
    {"ids of verify", [&](P& p) { p.windows->rows.state_indices = calls.ints({1, 4}); }, kInvalid, {"windows.state_indices"}},
    {"records given", [&](P& p) { p.windows->records = calls.attention_verify().windows->records; }, kInvalid, {"windows.records"}},
    {"pending given", [&](P& p) { p.windows->pending = calls.ints({0, 0, 0, 0, 0, 0, 0, 0}); }, kInvalid, {"windows.pending"}},
    {"another capacity", [](P& p) { p.windows->rows.window_capacity = 2; }, kInvalid, {"windows.state_indices"}},
    {"no capacity", [](P& p) { p.windows->rows.window_capacity = 0; }, kInvalid, {"windows.window_capacity"}},
    {"mode unknown", [](P& p) { p.windows->mode = unknown<WindowMode>(); }, kInvalid, {"windows.mode"}},
    {"line a column short", [](P& p) { p.line.shape[1] = 4; }, kInvalid, {"line", "4", "5"}},
    {"line anchored", [](P& p) { p.line_kind = LineKind::anchored; }, kInvalid, {"line", "6"}},
    {"line blocks", [](P& p) { p.line.shape[0] = 7; }, kInvalid, {"line", "7", "blocks = 8"}},
    {"line kind plain", [](P& p) { p.line_kind = LineKind::plain; }, kInvalid, {"line_kind"}},
    {"qkvz width", [](P& p) { p.qkvz.shape[1] -= 1; }, kInvalid, {"qkvz"}},
    {"z heads", [](P& p) { p.z.shape[1] = 1; }, kInvalid, {"z"}},
    {"out dtype", [&](P& p) { p.out = calls.tensor(DType::f16, {6, 4, 8}); }, kInvalid, {"out"}},
    {"weight channels", [](P& p) { p.weight.shape[0] -= 1; }, kInvalid, {"weight"}},
    {"layout unknown", [](P& p) { p.layout = unknown<Layout>(); }, kInvalid, {"layout"}},
    {"activation unknown", [](P& p) { p.activation = unknown<Activation>(); }, kInvalid, {"activation"}},
    {"A_log length", [](P& p) { p.A_log.shape[0] = 3; }, kInvalid, {"A_log"}},
    {"state heads", [](P& p) { p.state.shape[1] = 3; }, kInvalid, {"state"}},
    {"out is z", [](P& p) { p.out = p.z; }, kInvalid, {"out", "z"}},
    {"out in qkvz", [](P& p) { p.out.data = p.qkvz.data; }, kInvalid, {"out", "qkvz"}},
    {"plain entry past the rows", [&](P& p) { p.plain->rows.token_index = calls.ints({1, 6}); }, kRange, {"plain.token_index", "6"}},
    {"windows entry twice", [&](P& p) { p.windows->rows.token_index = calls.ints({0, 2, 0, 5}); }, kRange, {"windows.token_index"}},
    {"a row in both parts", [&](P& p) { p.windows->rows.token_index = calls.ints({0, 2, 3, 5}); }, kRange, {"token_index", "3"}},
    {"a row in both parts, plain by number", [&](P& p) { p.plain->rows.token_index = {}; }, kRange, {"token_index", "0"}},
    {"a row in both parts, windows by number", [&](P& p) { p.windows->rows.token_index = {}; }, kRange, {"token_index", "1"}},
    {"a row in both parts, both by number", [&](P& p) { p.plain->rows.token_index = p.windows->rows.token_index = {}; }, kRange, {"token_index", "0"}},
    {"by number and apart", [&](P& p) { p.plain->rows.token_index = p.windows->rows.token_index = {}; p.plain->rows.query_start_loc = calls.ints({4, 6}); }, kOk},
    {"window too long", [&](P& p) { p.windows->rows.query_start_loc = calls.ints({0, 4, 4}); }, kRange, {"windows.query_start_loc"}},
    {"decreasing offsets", [&](P& p) { p.plain->rows.query_start_loc = calls.ints({2, 0}); }, kRange, {"plain.query_start_loc"}},
    {"count above S", [&](P& p) { p.windows->rows.num_accepted = calls.ints({1, 4}); }, kRange, {"windows.num_accepted"}},
    {"plain id past the pool", [&](P& p) { p.plain->rows.state_indices = calls.ints({8}); }, kRange, {"plain.state_indices", "8"}},
    {"a block in both parts", [&](P& p) { p.plain->rows.state_indices = calls.ints({3}); }, kRange, {"windows.state_indices", "plain.state_indices", "block 3"}},
    {"a column past L in the plain part", [](P&) {}, kOk},  // block 7 is column 1 of a window of one
    {"plain count past the line", [&](P& p) { p.plain->rows.num_accepted = calls.ints({4}); }, kRange, {"plain.num_accepted"}},
    {"plain part alone", [](P& p) { p.windows.reset(); p.line.shape[1] = 3; }, kOk},
    {"windows alone", [](P& p) { p.plain.reset(); }, kOk},
    {"neither", [](P& p) { p.plain.reset(); p.windows.reset(); }, kOk},
    {"the parts' own null ids are not read", [](P& p) { p.plain->rows.null_block_id = p.windows->rows.null_block_id = 99; }, kOk},
  });
}

TEST(ContractAttention, Verify) {
  Calls calls;
  const auto same_lazy = [](P& p) {
    p.plain->pending = p.windows->pending;
    p.plain->records = p.windows->records;
  };
  run_cases<P>("gdn_attention", [&] { return calls.attention_verify(); }, {
    {"both parts name the same", [&](P& p) { same_lazy(p); }, kOk},
    {"eager", [&](P& p) { p.windows->pending = {}; p.windows->rows.num_accepted = {}; p.plain->rows.num_accepted = {}; }, kOk},
    {"eager, plain counts for the line", [&](P& p) { p.windows->pending = {}; p.windows->rows.num_accepted = {}; }, kOk},
    {"records missing", [](P& p) { p.windows->records = {}; }, kInvalid, {"windows.records", "missing"}},
    {"records of kda", [&](P& p) { p.windows->records = calls.verify(Gate::kda).records; }, kInvalid, {"windows.records"}},
    {"records of another capacity", [](P& p) { p.windows->records.packed.shape[2] = 2; }, kInvalid, {"windows.records", "2"}},
    {"counts without pending", [](P& p) { p.windows->pending = {}; }, kInvalid, {"windows.num_accepted"}},
    {"pending without counts", [](P& p) { p.windows->rows.num_accepted = {}; }, kInvalid, {"windows.num_accepted"}},
    {"table of snapshots", [&](P& p) { p.windows->rows.state_indices = calls.table({{1, 2, 3}, {4, 7, 99}}); }, kInvalid, {"windows.state_indices"}},
    {"plain borrows, without counts", [](P& p) { p.plain->rows.num_accepted = {}; }, kInvalid, {"plain.num_accepted"}},
    {"another pending", [&](P& p) { p.plain->pending = calls.ints({0, 0, 0, 0, 0, 0, 0, 0}); }, kInvalid, {"plain.pending", "windows.pending"}},
    {"other records", [&](P& p) { p.plain->records = calls.attention_verify().windows->records; }, kInvalid, {"plain.records", "windows.records"}},
    {"other records beside the same pending", [&](P& p) { same_lazy(p); p.plain->records = calls.attention_verify().windows->records; }, kInvalid, {"plain.records"}},
    {"the same pending, no records", [&](P& p) { p.plain->pending = p.windows->pending; }, kInvalid, {"plain.records"}},
    {"the same records, no pending", [&](P& p) { p.plain->records = p.windows->records; }, kInvalid, {"plain.records"}},
    {"plain alone, pending without records", [&](P& p) { same_lazy(p); p.plain->records = {}; p.windows.reset(); }, kInvalid, {"plain.records"}},
    {"plain alone, records without pending", [&](P& p) { same_lazy(p); p.plain->pending = {}; p.windows.reset(); }, kInvalid, {"plain.records"}},
    {"plain alone, lazy", [&](P& p) { same_lazy(p); p.windows.reset(); }, kOk},
    {"plain count of another length", [&](P& p) { p.plain->rows.num_accepted = calls.ints({1, 1}); }, kInvalid, {"plain.num_accepted"}},
    {"plain count above S", [&](P& p) { p.plain->rows.num_accepted = calls.ints({4}); }, kRange, {"plain.num_accepted", "4"}},
    {"borrowed pending above S", [&](P& p) { p.windows->pending = calls.ints({0, 0, 0, 0, 0, 0, 0, 4}); }, kRange, {"windows.pending", "4"}},
    {"windows' pending negative", [&](P& p) { p.windows->pending = calls.ints({0, -1, 0, 0, 0, 0, 0, 0}); }, kRange, {"windows.pending"}},
    {"plain row from zero", [&](P& p) { p.windows->pending = calls.ints({0, 0, 0, 0, 0, 0, 0, 99}); p.plain->rows.num_accepted = calls.ints({99}); p.plain->rows.has_initial_state = calls.flags({0}); }, kOk},
    {"flags in the windows", [&](P& p) { p.windows->rows.has_initial_state = calls.flags({1, 1}); }, kInvalid, {"windows.has_initial_state"}},
    {"shared block", [&](P& p) { p.windows->rows.state_indices = calls.ints({1, 1}); }, kRange, {"windows.state_indices"}},
    {"a block in both parts", [&](P& p) { p.plain->rows.state_indices = calls.ints({4}); }, kRange, {"windows.state_indices", "row 1", "block 4"}},
    {"null rows in both parts", [&](P& p) { p.plain->rows.state_indices = calls.ints({0}); p.windows->rows.state_indices = calls.ints({0, 0}); }, kOk},
    {"records in the state", [](P& p) { p.windows->records.packed.data = p.state.data; }, kInvalid, {"windows.records", "state"}},
    {"anchored line, lazy", [&](P& p) { p.line = calls.tensor(DType::bf16, {8, 6, 96}); p.line_kind = LineKind::anchored; p.plain->rows.num_accepted = calls.ints({3}); }, kOk},
  });
}

// clang-format on

}  // namespace
}  // namespace contract_tests
