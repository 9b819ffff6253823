// split_projections, convolutions, short_conv: shapes, strides, dtypes, presence, overlap.
#include "cases.h"
#include "good_calls.h"

namespace contract_tests {
namespace {

using namespace recoverssm;

// One line a case, however long it is.
// clang-format off

TEST(ContractShapes, SplitProjections) {
  Calls calls;
  using P = SplitProjectionsParams;
  run_cases<P>("split_projections", [&] { return calls.split(); }, {
    {"qkvz missing", [](P& p) { p.qkvz = {}; }, kInvalid, {"qkvz", "missing"}},
    {"qkvz width", [](P& p) { p.qkvz.shape[1] -= 1; }, kInvalid, {"qkvz", "127", "2*H*K + 2*HV*V = 128"}},
    {"qkvz channel stride", [](P& p) { p.qkvz.stride[1] = 2; p.qkvz.shape[0] = 3; }, kInvalid, {"qkvz", "stride 2"}},
    {"qkvz dtype", [](P& p) { p.qkvz.dtype = DType::i32; }, kInvalid, {"qkvz", "i32", "f32 or bf16 or f16"}},
    {"unknown dtype", [](P& p) { p.qkvz.dtype = static_cast<DType>(200); }, kInvalid, {"qkvz"}},
    {"ba width", [](P& p) { p.ba.shape[1] = 7; }, kInvalid, {"ba", "7", "2*HV = 8"}},
    {"ba dtype", [](P& p) { p.ba.dtype = DType::f32; }, kInvalid, {"ba", "f32", "bf16"}},
    {"ba rows", [](P& p) { p.ba.shape[0] = 5; }, kInvalid, {"ba", "5", "6"}},
    {"mixed_qkv width", [](P& p) { p.mixed_qkv.shape[1] = 95; }, kInvalid, {"mixed_qkv", "95", "96"}},
    {"mixed_qkv rows", [](P& p) { p.mixed_qkv.shape[0] = 5; }, kInvalid, {"mixed_qkv", "5"}},
    {"z heads", [](P& p) { p.z.shape[1] = 3; }, kInvalid, {"z", "HV = 4"}},
    {"z dims", [](P& p) { p.z.dims = 2; }, kInvalid, {"z", "2 dimensions"}},
    {"b rows", [](P& p) { p.b.shape[0] = 5; }, kInvalid, {"b", "5"}},
    {"a heads", [](P& p) { p.a.shape[1] = 3; }, kInvalid, {"a", "HV = 4"}},
    {"no key heads", [](P& p) { p.num_k_heads = 0; }, kInvalid, {"num_k_heads"}},
    {"heads not a multiple", [](P& p) { p.num_v_heads = 3; }, kInvalid, {"num_v_heads"}},
    {"no key channels", [](P& p) { p.head_k_dim = 0; }, kInvalid, {"head_k_dim"}},
    {"no value channels", [](P& p) { p.head_v_dim = -1; }, kInvalid, {"head_v_dim"}},
    {"sizes past int64", [](P& p) { p.num_k_heads = p.num_v_heads = p.head_k_dim = p.head_v_dim = INT32_MAX; }, kInvalid, {"qkvz"}},
    {"unknown layout", [](P& p) { p.layout = unknown<Layout>(); }, kInvalid, {"layout"}},
    {"token_index dtype", [&](P& p) { p.token_index = with_dtype(calls.ints({0, 1}), DType::i64); }, kInvalid, {"token_index", "i64"}},
    {"out aliases in", [](P& p) { p.mixed_qkv.data = p.qkvz.data; }, kInvalid, {"mixed_qkv", "qkvz"}},
    {"a aliases b", [](P& p) { p.a = p.b; }, kInvalid, {"shares elements"}},
    {"z over itself", [](P& p) { p.z.stride[0] = 31; }, kInvalid, {"z", "twice"}},
    {"null data", [](P& p) { p.z.data = nullptr; }, kInvalid, {"z", "null data"}},
    {"interleaved is a layout", [](P& p) { p.layout = Layout::interleaved; }, kOk},
    {"no tokens", [](P& p) { for (auto* v : {&p.qkvz, &p.ba, &p.mixed_qkv, &p.z, &p.b, &p.a}) *v = without_data(with_shape(*v, 0, 0)); }, kOk},
    {"no tokens, strides of 0", [](P& p) { for (auto* v : {&p.qkvz, &p.ba, &p.mixed_qkv, &p.z, &p.b, &p.a}) { *v = with_shape(*v, 0, 0); v->stride = {}; } }, kOk},
    {"fewer tokens than rows", [&](P& p) { p.token_index = calls.ints({5, 0}); p.mixed_qkv.shape[0] = p.a.shape[0] = 2; }, kOk},
    {"too few local rows", [&](P& p) { p.token_index = calls.ints({5, 0}); p.mixed_qkv.shape[0] = 1; }, kInvalid, {"mixed_qkv"}},
    {"entry past the rows", [&](P& p) { p.token_index = calls.ints({5, 6}); }, kRange, {"token_index", "6"}},
    {"entry past the shortest", [&](P& p) { p.token_index = calls.ints({5}); p.z.shape[0] = 5; }, kRange, {"token_index", "5"}},
    {"negative entry", [&](P& p) { p.token_index = calls.ints({5, -1}); }, kRange, {"token_index", "-1"}},
    {"entry twice", [&](P& p) { p.token_index = calls.ints({5, 0, 5}); }, kRange, {"token_index", "5", "twice"}},
  });
}

// What both convolutions refuse.
template <class P>
std::vector<Case<P>> conv_cases(Calls& calls) {
  return {
    {"x missing", [](P& p) { p.x = {}; }, kInvalid, {"x", "missing"}},
    {"x channel stride", [](P& p) { p.x.stride[1] = 2; p.x.shape[0] = 3; }, kInvalid, {"x", "stride 2"}},
    {"weight channels", [](P& p) { p.weight.shape[0] = 9; }, kInvalid, {"weight", "9", "C = 10"}},
    {"one tap", [](P& p) { p.weight.shape[1] = 1; }, kInvalid, {"weight", "2..8"}},
    {"nine taps", [&](P& p) { p.weight = calls.tensor(DType::bf16, {10, 9}); p.line = calls.tensor(DType::bf16, {4, 12, 10}); }, kInvalid, {"weight", "9", "2..8"}},
    {"weight dtype", [&](P& p) { p.weight = calls.tensor(DType::f16, {10, 4}); }, kInvalid, {"weight", "f16", "f32 or bf16"}},
    {"bias length", [](P& p) { p.bias.shape[0] = 9; }, kInvalid, {"bias", "length 9", "C = 10"}},
    {"activation", [](P& p) { p.activation = unknown<Activation>(); }, kInvalid, {"activation"}},
    {"out width", [](P& p) { p.out.shape[1] = 9; }, kInvalid, {"out", "9"}},
    {"out dtype", [&](P& p) { p.out = calls.tensor(DType::f32, {6, 10}); }, kInvalid, {"out", "f32", "bf16"}},
    {"out missing", [](P& p) { p.out = {}; }, kInvalid, {"out"}},
    {"line channels", [](P& p) { p.line.shape[2] = 9; }, kInvalid, {"line", "9"}},
    {"line columns", [](P& p) { p.line.shape[1] = 2; }, kInvalid, {"line", "2"}},
    {"line dims", [](P& p) { p.line.dims = 2; }, kInvalid, {"line"}},
    {"line dtype", [&](P& p) { p.line = calls.tensor(DType::f32, {4, 5, 10}); }, kInvalid, {"line", "f32"}},
    {"line kind plain", [](P& p) { p.line_kind = LineKind::plain; }, kInvalid, {"line_kind"}},
    {"line kind unknown", [](P& p) { p.line_kind = unknown<LineKind>(); }, kInvalid, {"line_kind"}},
    {"offsets missing", [](P& p) { p.rows.query_start_loc = {}; }, kInvalid, {"query_start_loc"}},
    {"offsets i64", [&](P& p) { p.rows.query_start_loc = with_dtype(p.rows.query_start_loc, DType::i64); }, kInvalid, {"query_start_loc", "i64", "i32"}},
    {"offsets empty", [](P& p) { p.rows.query_start_loc.shape[0] = 0; }, kInvalid, {"query_start_loc", "N+1"}},
    {"ids short", [](P& p) { p.rows.state_indices.shape[0] = 2; }, kInvalid, {"state_indices", "2", "N = 3"}},
    {"ids two-dimensional", [&](P& p) { p.rows.state_indices = calls.table({{1}, {0}, {2}}); }, kInvalid, {"state_indices"}},
    {"ids i64", [](P& p) { p.rows.state_indices.dtype = DType::i64; }, kInvalid, {"state_indices", "i64"}},
    {"counts short", [](P& p) { p.rows.num_accepted.shape[0] = 2; }, kInvalid, {"num_accepted", "2"}},
    {"token_index dtype", [&](P& p) { p.rows.token_index = with_dtype(calls.ints({0, 1, 2, 3, 4, 5}), DType::u8); }, kInvalid, {"token_index"}},
    {"out shifted by a row", [](P& p) { p.out = p.x; p.out.data = static_cast<std::uint16_t*>(p.x.data) + 10; p.out.shape[0] = 5; }, kInvalid, {"out", "x"}},
    {"out in the line", [](P& p) { p.out.data = p.line.data; }, kInvalid, {"line", "out"}},
    {"line over itself", [](P& p) { p.line.stride[0] = 49; }, kInvalid, {"line", "twice"}},
    {"line without strides", [](P& p) { p.line.stride[0] = 0; }, kInvalid, {"line", "twice"}},
    {"misaligned", [](P& p) { p.x.data = static_cast<std::uint8_t*>(p.x.data) + 1; p.x.shape[0] = 5; }, kInvalid, {"x", "aligned"}},
    {"in place", [](P& p) { p.out = p.x; }, kOk},
    {"in place, fewer rows out", [](P& p) { p.out = with_shape(p.x, 0, 6); }, kOk},
    {"no bias", [](P& p) { p.bias = {}; }, kOk},
    {"weight broadcast", [](P& p) { p.weight.stride = {0, 1}; }, kOk},
    {"line the other way round", [](P& p) { p.line.stride = {50, 1, 5}; }, kOk},
    {"channels apart in the line", [](P& p) { p.line.shape[0] = 3; p.line.stride = {50, 10, 1}; }, kOk},
    {"ids with a stride", [&](P& p) { p.rows.state_indices = with_stride(with_shape(calls.ints({1, 9, 0, 9, 2}), 0, 3), 0, 2); }, kOk},
    {"no rows", [&](P& p) { p.rows = {}; p.rows.query_start_loc = calls.ints({-7}); p.rows.state_indices = without_data(calls.ints({})); p.rows.window_capacity = 3; }, kOk},
    {"f32 all through", [&](P& p) { p.x = calls.tensor(DType::f32, {6, 10}); p.out = p.x; p.weight = calls.tensor(DType::f32, {10, 4}); p.line = calls.tensor(DType::f32, {4, 5, 10}); }, kOk},
    // Contents.
    {"id past the pool", [&](P& p) { p.rows.state_indices = calls.ints({1, 0, 4}); }, kRange, {"state_indices", "4"}},
    {"negative id above null", [&](P& p) { p.rows.state_indices = calls.ints({1, -9, -2}); p.rows.null_block_id = -5; }, kRange, {"state_indices", "-2"}},
    {"shared block", [&](P& p) { p.rows.state_indices = calls.ints({1, 0, 1}); }, kRange, {"state_indices", "rows 0 and 2", "block 1"}},
    {"decreasing offsets", [&](P& p) { p.rows.query_start_loc = calls.ints({0, 3, 2, 6}); }, kRange, {"query_start_loc", "2"}},
    {"last offset decreasing", [&](P& p) { p.rows.query_start_loc = calls.ints({0, 3, 5, 4}); }, kRange, {"query_start_loc"}},
    {"negative offset", [&](P& p) { p.rows.query_start_loc = calls.ints({-1, 1, 3, 5}); }, kRange, {"query_start_loc", "-1"}},
    {"past the tensor", [&](P& p) { p.rows.query_start_loc = calls.ints({0, 3, 4, 7}); }, kRange, {"query_start_loc", "7", "6"}},
    {"token_index short", [&](P& p) { p.rows.token_index = calls.ints({0, 1, 2}); }, kRange, {"token_index", "3"}},
    {"token_index past the rows", [&](P& p) { p.rows.token_index = calls.ints({0, 1, 2, 3, 4, 6}); }, kRange, {"token_index", "6"}},
    {"token_index past a short out", [&](P& p) { p.rows.token_index = calls.ints({0, 1, 2, 3, 4, 5}); p.out.shape[0] = 5; }, kRange, {"token_index", "5"}},
    {"token_index negative", [&](P& p) { p.rows.token_index = calls.ints({0, 1, -1, 3, 4, 5}); }, kRange, {"token_index", "-1"}},
    {"token_index twice", [&](P& p) { p.rows.token_index = calls.ints({0, 1, 2, 3, 1, 5}); }, kRange, {"token_index", "1"}},
    {"token_index of a null row", [&](P& p) { p.rows.token_index = calls.ints({0, 1, 2, 9, 4, 5}); }, kRange, {"token_index", "9"}},
    {"token_index permuted, tail unused", [&](P& p) { p.rows.token_index = calls.ints({3, 2, 1, 0, 5, 4, 99}); }, kOk},
    {"first offset > 0", [&](P& p) { p.rows.query_start_loc = calls.ints({1, 3, 4, 6}); p.rows.token_index = calls.ints({99, 2, 1, 0, 5, 4}); }, kOk},
    {"stale id and count of an empty row", [&](P& p) { p.rows.query_start_loc = calls.ints({0, 3, 4, 4}); p.rows.state_indices = calls.ints({1, 0, 77}); p.rows.num_accepted = calls.ints({1, 99, 99}); }, kOk},
    {"other null id", [&](P& p) { p.rows.null_block_id = 2; p.rows.state_indices = calls.ints({3, 2, 1}); }, kOk},
  };
}

TEST(ContractShapes, CausalConv1d) {
  Calls calls;
  using P = CausalConv1dParams;
  const auto make = [&] { return calls.conv(); };
  run_cases<P>("causal_conv1d", make, conv_cases<P>(calls));
  run_cases<P>("causal_conv1d", make, {
    {"flags short", [](P& p) { p.rows.has_initial_state.shape[0] = 2; }, kInvalid, {"has_initial_state", "2"}},
    {"flags as bytes", [](P& p) { p.rows.has_initial_state.dtype = DType::u8; }, kInvalid, {"has_initial_state", "u8", "boolean"}},
    {"three columns are enough", [](P& p) { p.line.shape[1] = 3; p.rows.num_accepted = {}; }, kOk},
    {"history past the columns", [&](P& p) { p.rows.num_accepted = calls.ints({4, 0, 0}); }, kRange, {"num_accepted", "4"}},
    {"one further when anchored", [](P& p) { p.line_kind = LineKind::anchored; }, kRange, {"num_accepted", "3"}},
    {"count far past int32", [&](P& p) { p.rows.num_accepted = calls.ints({INT32_MAX, 0, 0}); }, kRange, {"num_accepted"}},
    {"count of a row from zero", [&](P& p) { p.rows.num_accepted = calls.ints({99, 0, 0}); p.rows.has_initial_state = calls.flags({0, 1, 1}); }, kOk},
  });
}

TEST(ContractShapes, CausalConv1dWindow) {
  Calls calls;
  using P = CausalConv1dWindowParams;
  const auto make = [&] { return calls.conv_window(); };
  run_cases<P>("causal_conv1d_window", make, conv_cases<P>(calls));
  run_cases<P>("causal_conv1d_window", make, {
    {"flags given", [&](P& p) { p.rows.has_initial_state = calls.flags({1, 1, 1}); }, kInvalid, {"has_initial_state"}},
    {"no capacity", [](P& p) { p.rows.window_capacity = 0; }, kInvalid, {"window_capacity", "0"}},
    {"a column short", [](P& p) { p.line.shape[1] = 4; }, kInvalid, {"line", "4", "5"}},
    {"anchored needs one more", [](P& p) { p.line_kind = LineKind::anchored; }, kInvalid, {"line", "5", "6"}},
    {"window too long", [&](P& p) { p.rows.query_start_loc = calls.ints({0, 4, 5, 6}); }, kRange, {"query_start_loc", "4", "window_capacity = 3"}},
    {"count above S", [&](P& p) { p.rows.num_accepted = calls.ints({4, 0, 0}); }, kRange, {"num_accepted", "4", "3"}},
    {"no counts", [](P& p) { p.rows.num_accepted = {}; }, kOk},
  });
}

TEST(ContractShapes, ShortConv) {
  Calls calls;
  using P = ShortConvParams;
  run_cases<P>("short_conv", [&] { return calls.short_conv(LineKind::anchored); }, {
    {"line short", [](P& p) { p.line.shape[1] = 11; }, kInvalid, {"line", "11", "12"}},
    {"dilation too large for the line", [](P& p) { p.dilation = 4; }, kInvalid, {"line"}},
    {"dilation 0", [](P& p) { p.dilation = 0; }, kInvalid, {"dilation"}},
    {"dilation huge", [](P& p) { p.dilation = INT32_MAX; }, kInvalid, {"line"}},
    {"weight channels", [](P& p) { p.weight.shape[0] = 5; }, kInvalid, {"weight"}},
    {"one tap", [](P& p) { p.weight.shape[1] = 1; }, kInvalid, {"weight", "Kc"}},
    {"residual width", [](P& p) { p.residual.shape[1] = 5; }, kInvalid, {"residual", "5"}},
    {"residual missing", [](P& p) { p.residual = {}; }, kInvalid, {"residual"}},
    {"outer_residual width", [&](P& p) { p.outer_residual = calls.tensor(DType::bf16, {6, 5}); }, kInvalid, {"outer_residual"}},
    {"outer_residual dtype", [&](P& p) { p.outer_residual = calls.tensor(DType::f32, {6, 6}); }, kInvalid, {"outer_residual"}},
    {"residual is x", [](P& p) { p.residual = p.x; }, kInvalid, {"residual", "x"}},
    {"outer is residual", [](P& p) { p.outer_residual = p.residual; }, kInvalid, {"residual", "outer_residual"}},
    {"flags given", [&](P& p) { p.rows.has_initial_state = calls.flags({1, 1, 1}); }, kInvalid, {"has_initial_state"}},
    {"unknown kind", [](P& p) { p.line_kind = unknown<LineKind>(); }, kInvalid, {"line_kind"}},
    {"count above S", [&](P& p) { p.rows.num_accepted = calls.ints({4, 0, 0}); }, kRange, {"num_accepted"}},
    {"window too long", [&](P& p) { p.rows.query_start_loc = calls.ints({0, 4, 5, 6}); }, kRange, {"query_start_loc"}},
    {"rows past outer_residual", [&](P& p) { p.outer_residual = calls.tensor(DType::bf16, {5, 6}); }, kRange, {"query_start_loc", "5"}},
    {"no counts", [](P& p) { p.rows.num_accepted = {}; }, kOk},
    {"outer residual", [&](P& p) { p.outer_residual = calls.tensor(DType::bf16, {9, 6}); }, kOk},
  });
  run_cases<P>("short_conv", [&] { return calls.short_conv(LineKind::plain); }, {
    {"counts given", [&](P& p) { p.rows.num_accepted = calls.ints({1, 1, 1}); }, kInvalid, {"num_accepted"}},
    {"line short", [](P& p) { p.line.shape[1] = 8; }, kInvalid, {"line", "8", "9"}},
    {"long rows", [&](P& p) { p.rows.query_start_loc = calls.ints({0, 6, 6, 6}); }, kOk},
    {"shared block", [&](P& p) { p.rows.state_indices = calls.ints({1, 0, 1}); }, kRange, {"state_indices"}},
  });
  run_cases<P>("short_conv", [&] { return calls.short_conv(LineKind::rolled); }, {
    {"line short", [](P& p) { p.line.shape[1] = 10; }, kInvalid, {"line", "10", "11"}},
    {"flags and counts", [&](P& p) { p.rows.has_initial_state = calls.flags({1, 1, 1}); }, kInvalid, {"has_initial_state"}},
  });
}

// clang-format on

}  // namespace
}  // namespace contract_tests
