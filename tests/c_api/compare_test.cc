// The C ABI says and does what the C++ API does: results, sizes, counters and the texts of errors, for every operation.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "calls.h"
#include "support/tensor.h"
#include "to_c.h"

namespace c_api_tests {
namespace {

using namespace recoverssm;

struct Result {
  int status = 0;
  std::string text;
  bool operator==(const Result&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Result& r) {
  return out << name_of(static_cast<ErrorKind>(r.status)) << ": " << r.text;
}

Result of(const Status& status) { return {static_cast<int>(status.kind), status.message}; }
Result of(int status) { return {status, status == RECOVERSSM_OK ? "" : recoverssm_last_error()}; }

template <class Params>
Result run_cpp(const Params& params, Counters* counters = nullptr) {
  Memory memory(workspace_size(params, {}));
  return of(run(params, {.workspace = {memory.data(), memory.bytes()}, .counters = counters}));
}

template <class Params>
Result run_c(const Params& params, recoverssm_counters* counters = nullptr) {
  ToC convert;
  const auto c = convert(params);
  recoverssm_launch launch;
  recoverssm_launch_init(&launch, sizeof launch);
  std::size_t bytes = 0;
  const int sized = Op<Params>::workspace_size(&c, &launch, &bytes);
  if (sized != RECOVERSSM_OK) {
    EXPECT_EQ(bytes, 0u);
    EXPECT_EQ(of(sized), of(validate(params)));
  }
  Memory memory(bytes);
  launch.workspace = memory.data();
  launch.workspace_bytes = memory.bytes();
  launch.counters = counters;
  return of(Op<Params>::run(&c, &launch));
}

template <class Params>
void compare_results(Params (*make)(Calls&)) {
  Calls cpp_calls, c_calls;
  Params cpp = make(cpp_calls), c = make(c_calls);
  SCOPED_TRACE(Op<Params>::kName);
  fill_floats(leaves_of(cpp));
  fill_floats(leaves_of(c));
  Counters cpp_counters{.rows = 5};
  recoverssm_counters c_counters;
  recoverssm_counters_init(&c_counters, sizeof c_counters);
  c_counters.rows = 5;
  ASSERT_EQ(run_cpp(cpp, &cpp_counters), Result{});
  ASSERT_EQ(run_c(c, &c_counters), Result{});
  const auto cpp_tensors = tensors_of(leaves_of(cpp)), c_tensors = tensors_of(leaves_of(c));
  ASSERT_EQ(cpp_tensors.size(), c_tensors.size());
  for (std::size_t i = 0; i < c_tensors.size(); ++i) EXPECT_TRUE(support::same_bits(cpp_tensors[i], c_tensors[i])) << i;
  EXPECT_EQ(c_counters.rows, cpp_counters.rows);
  EXPECT_EQ(c_counters.tokens, cpp_counters.tokens);
  EXPECT_EQ(c_counters.state_read, cpp_counters.state_read);
  EXPECT_EQ(c_counters.state_written, cpp_counters.state_written);
  EXPECT_EQ(c_counters.record_read, cpp_counters.record_read);
  EXPECT_EQ(c_counters.record_written, cpp_counters.record_written);
  EXPECT_EQ(c_counters.line_read, cpp_counters.line_read);
  EXPECT_EQ(c_counters.line_written, cpp_counters.line_written);
  EXPECT_EQ(c_counters.activation_read, cpp_counters.activation_read);
  EXPECT_EQ(c_counters.activation_written, cpp_counters.activation_written);
}

TEST(CompareWithCpp, Results) {
  for_every_operation([](const auto& makers) {
    for (auto make : makers) compare_results(make);
  });
}

// One spoilt call: both sides say the same, down to the text. Returns the status.
template <class Params>
int compare_fault(Params (*make)(Calls&), std::size_t i) {
  Calls calls;
  Params params = make(calls);
  const Fault fault = faults_of(leaves_of(params))[i];
  SCOPED_TRACE(std::string(Op<Params>::kName) + ": " + fault.text);
  fault.apply();
  ToC convert;
  const auto c = convert(params);
  EXPECT_EQ(of(Op<Params>::validate(&c)), of(validate(params)));
  const Support support = query_support(params);
  EXPECT_EQ(of(Op<Params>::query_support(&c)), (support.supported ? Result{} : Result{RECOVERSSM_UNSUPPORTED, support.reason}));
  if (fault.beyond && validate(params).ok()) return RECOVERSSM_OK;
  const Result expected = run_cpp(params);
  if (expected.status != RECOVERSSM_OK) {
    EXPECT_EQ(run_c(params), expected);  // the refused call wrote nothing: the tensors are as they were
  } else {
    Calls again;
    Params same = make(again);
    faults_of(leaves_of(same))[i].apply();
    EXPECT_EQ(run_c(same), expected);
  }
  return expected.status;
}

// Every leaf of every call, spoilt in every way.
TEST(CompareWithCpp, Errors) {
  std::map<int, int> all;
  int operations = 0;
  for_every_operation([&]<class Params>(const Makers<Params>& makers) {
    std::map<int, int> reached;
    for (auto make : makers) {
      Calls calls;
      Params good = make(calls);
      const std::size_t count = faults_of(leaves_of(good)).size();
      for (std::size_t i = 0; i < count; ++i) ++reached[compare_fault(make, i)];
    }
    EXPECT_GT(reached[RECOVERSSM_INVALID_ARGUMENT], 20) << Op<Params>::kName;
    for (const auto& [kind, count] : reached) all[kind] += count;
    ++operations;
  });
  EXPECT_EQ(operations, 14);
  EXPECT_GT(all[RECOVERSSM_OUT_OF_RANGE], 50);
  EXPECT_GT(all[RECOVERSSM_BAD_STATE], 0);
}

TEST(CompareWithCpp, UnsupportedKeySize) {
  Calls calls;
  auto params = calls.rule();
  constexpr std::int64_t kTooMuch = 257;
  params.inputs.q = params.inputs.k = calls.tensor(DType::bf16, {6, 2, kTooMuch});
  params.state = calls.tensor(DType::f32, {5, 4, 8, kTooMuch});
  const Result expected{RECOVERSSM_UNSUPPORTED, query_support(params).reason};
  ToC convert;
  const auto c = convert(params);
  EXPECT_EQ(of(recoverssm_gated_delta_rule_validate(&c)), Result{});
  EXPECT_EQ(of(recoverssm_gated_delta_rule_query_support(&c)), expected);
  EXPECT_EQ(run_c(params), expected);
}

// What the workspace must hold is that of the C++ call and the converted lists. One byte less is refused, in the words of the whole.
template <class Params>
void compare_workspace(Params (*make)(Calls&)) {
  Calls calls;
  Params params = make(calls);
  SCOPED_TRACE(Op<Params>::kName);
  ToC convert;
  const auto c = convert(params);
  recoverssm_launch launch;
  recoverssm_launch_init(&launch, sizeof launch);
  launch.parallel_run = [](void*, std::int64_t, recoverssm_task, void*) {};
  launch.parallel_workers = 5;
  std::size_t bytes = 0;
  ASSERT_EQ(of(Op<Params>::workspace_size(&c, &launch, &bytes)), Result{});
  const std::size_t cpp = workspace_size(params, {.parallel = {launch.parallel_run, nullptr, 5}});
  constexpr bool kLists = requires { params.layers; }
  || requires { params.groups; };
  if (kLists) {
    EXPECT_GT(bytes, cpp);
  } else {
    EXPECT_EQ(bytes, cpp);
  }
  launch.parallel_run = nullptr;
  ASSERT_EQ(of(Op<Params>::workspace_size(&c, &launch, &bytes)), Result{});
  if (bytes == 0) return;
  const std::string before = std::string(Op<Params>::kName) + ": workspace: ", needed = std::to_string(bytes);
  const auto refused = [&](const std::string& text) {
    EXPECT_EQ(of(Op<Params>::run(&c, &launch)), (Result{RECOVERSSM_INVALID_ARGUMENT, before + text}));
  };
  refused("null, expected " + needed + " bytes");
  Memory memory(bytes + 8);
  launch.workspace = memory.data();
  for (const std::size_t less : {std::size_t{1}, bytes / 2, bytes - 1}) {
    launch.workspace_bytes = bytes - less;
    refused(std::to_string(bytes - less) + " bytes, expected at least " + needed);
  }
  launch.workspace = memory.data() + 8;
  launch.workspace_bytes = bytes;
  refused("an address 8 past a multiple of 64, expected one aligned to 64 bytes");
  launch.workspace = memory.data();
  EXPECT_EQ(of(Op<Params>::run(&c, &launch)), Result{});
}

TEST(CompareWithCpp, WorkspaceSize) {
  for_every_operation([](const auto& makers) {
    for (auto make : makers) compare_workspace(make);
  });
}

TEST(CompareWithCpp, SizesAndWindows) {
  recoverssm_geometry geometry;
  recoverssm_geometry_init(&geometry, sizeof geometry);
  geometry.H = 2, geometry.HV = 4, geometry.K = 16, geometry.V = 8, geometry.W = 4, geometry.S = 3;
  geometry.gate = RECOVERSSM_GATE_KDA, geometry.activation = RECOVERSSM_F16, geometry.state = RECOVERSSM_BF16;
  recoverssm_request_sizes c;
  recoverssm_request_sizes_init(&c, sizeof c);
  ASSERT_EQ(recoverssm_sizes(&geometry, &c), RECOVERSSM_OK) << recoverssm_last_error();
  Geometry same{
      .H = 2, .HV = 4, .K = 16, .V = 8, .W = 4, .S = 3, .gate = Gate::kda, .activation = DType::f16, .state = DType::bf16};
  const Sizes cpp = sizes(same);
  EXPECT_EQ(c.state, cpp.state);
  EXPECT_EQ(c.line_rolled, cpp.line_rolled);
  EXPECT_EQ(c.line_anchored, cpp.line_anchored);
  EXPECT_EQ(c.records, cpp.records);
  EXPECT_EQ(c.page_rolled, cpp.page_rolled);
  EXPECT_EQ(c.page_anchored, cpp.page_anchored);
  EXPECT_EQ(c.snapshots, cpp.snapshots);

  geometry.channels = -1, same.channels = -1;
  std::string text;
  try {
    (void)sizes(same);
  } catch (const Error& error) {
    text = error.what();
  }
  EXPECT_EQ(of(recoverssm_sizes(&geometry, &c)), (Result{RECOVERSSM_INVALID_ARGUMENT, text}));

  const std::int32_t drafts[] = {0, 1, -2}, lengths[] = {1, 2, 3};
  const std::uint8_t prefilling[] = {0, 0, 0};
  std::int32_t rows[3], identity = 0;
  std::size_t count = 0;
  EXPECT_EQ(of(recoverssm_map_windows(drafts, prefilling, lengths, 2, rows, &count, &identity)), Result{});
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(identity, 1);
  EXPECT_EQ(of(recoverssm_map_windows(drafts, prefilling, lengths, 3, rows, &count, &identity)),
            (Result{RECOVERSSM_OUT_OF_RANGE, "map_windows: draft_counts[2]: -2, expected -1 (none) or a count"}));
  EXPECT_EQ(of(recoverssm_map_windows(nullptr, prefilling, lengths, 3, rows, &count, &identity)),
            (Result{RECOVERSSM_INVALID_ARGUMENT, "map_windows: draft_counts: null, expected 3 entries"}));
  EXPECT_EQ(of(recoverssm_map_windows(nullptr, nullptr, nullptr, 0, nullptr, &count, &identity)), Result{});
}

}  // namespace
}  // namespace c_api_tests
