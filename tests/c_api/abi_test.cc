// The rules of the C ABI itself: versions of structs, null pointers, errors per thread, a caller's threads, contexts and fork.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "abi_support.h"
#include "c_api/status.h"
#include "calls.h"
#include "support/tensor.h"
#include "to_c.h"

namespace c_api_tests {
namespace {

using namespace recoverssm;

recoverssm_launch new_launch() {
  recoverssm_launch launch;
  recoverssm_launch_init(&launch, sizeof launch);
  return launch;
}

template <class Params>
void expect_version_rules(Params (*make)(Calls&)) {
  using C = typename Op<Params>::C;
  Calls calls;
  const Params params = make(calls);
  ToC convert;
  const C good = convert(params);
  SCOPED_TRACE(Op<Params>::kName);
  ASSERT_EQ(good.struct_size, sizeof(C));
  const auto validated = [&](std::size_t size, unsigned char rest) {
    const Resized<C> other(good, size, rest);
    return text_of(Op<Params>::validate(other.at));
  };
  const std::string refused = std::string(Op<Params>::kName) + ": params.struct_size: ";
  // Newer: zeros mean nothing new.
  EXPECT_EQ(validated(sizeof(C) + 8, 0), "ok");
  EXPECT_EQ(validated(sizeof(C) + 96, 0), "ok");
  EXPECT_TRUE(says(validated(sizeof(C) + 96, 0x5A), refused + std::to_string(sizeof(C) + 96) + ", expected " +
                                                        std::to_string(sizeof(C)) + " or zeros behind that: byte " +
                                                        std::to_string(sizeof(C)) + " is set"));
  // Nobody's: unset, odd, garbage.
  for (const std::size_t size : {std::size_t{0}, std::size_t{4}, sizeof(C) + 4, sizeof(C) - 4, sizeof(C) + 4096 + 8}) {
    EXPECT_TRUE(says(validated(size, 0), refused + std::to_string(size) + ", expected " + std::to_string(sizeof(C)))) << size;
  }
  C garbage = good;
  garbage.struct_size = SIZE_MAX - 7;
  EXPECT_TRUE(says(text_of(Op<Params>::validate(&garbage)), refused + std::to_string(SIZE_MAX - 7)));
  // Older, down to the size alone: what lies behind is not looked at. Where a field ends there is a version, inside it there is none.
  bool inside = false;
  for (std::size_t size = sizeof(std::size_t); size < sizeof(C); size += sizeof(std::size_t)) {
    const std::string text = validated(size, 0x5A);
    EXPECT_FALSE(says(text, "zeros behind")) << size;
    inside = inside || says(text, "expected a size that does not end inside");
  }
  EXPECT_TRUE(inside);
  EXPECT_FALSE(says(validated(sizeof(std::size_t), 0x5A), "struct_size"));
}

TEST(StructSize, OlderNewerAndGarbage) {
  for_every_operation([](const auto& makers) {
    for (auto make : makers) expect_version_rules(make);
  });
}

// A call as an older header would make it: the missing fields have their defaults.
TEST(StructSize, MissingFieldsTakeTheirDefaults) {
  Calls calls;
  ToC convert;
  recoverssm_gated_delta_rule_verify_params verify = convert(calls.verify());
  const Resized<recoverssm_gated_delta_rule_verify_params> before_pending(
      verify, offsetof(recoverssm_gated_delta_rule_verify_params, pending), 0x5A);
  EXPECT_EQ(text_of(recoverssm_gated_delta_rule_verify_validate(before_pending.at)), "ok");

  // l2norm, softplus and the rest of the inputs; null_block_id of the rows.
  const Resized<recoverssm_rule_inputs> inputs(*verify.inputs, offsetof(recoverssm_rule_inputs, gate), 0x5A);
  const Resized<recoverssm_records> records(*verify.records, offsetof(recoverssm_records, corrections), 0x5A);
  verify.inputs = inputs.at;
  verify.records = records.at;
  EXPECT_EQ(text_of(recoverssm_gated_delta_rule_verify_validate(&verify)), "ok");

  const Resized<recoverssm_rows> rows(*verify.rows, offsetof(recoverssm_rows, token_index) + 8, 0);
  verify.rows = rows.at;
  EXPECT_EQ(text_of(recoverssm_gated_delta_rule_verify_validate(&verify)),
            "gated_delta_rule_verify: rows.struct_size: " + std::to_string(offsetof(recoverssm_rows, token_index) + 8) +
                ", expected a size that does not end inside token_index");
}

// Elements lie their size apart, whichever size that is.
TEST(StructSize, OfListElements) {
  Calls calls;
  ToC convert;
  recoverssm_commit_params commit = convert(calls.commit());
  ASSERT_EQ(commit.layer_count, 2u);
  constexpr std::size_t kNewer = sizeof(recoverssm_layer) + 32, kOlder = offsetof(recoverssm_layer, has_lower_bound);
  for (const std::size_t size : {kNewer, kOlder}) {
    std::vector<std::uint64_t> memory(2 * size / sizeof(std::uint64_t));
    auto* const bytes = reinterpret_cast<std::byte*>(memory.data());
    for (std::size_t i = 0; i < 2; ++i) {
      std::memcpy(bytes + i * size, &commit.layers[i], std::min(size, sizeof(recoverssm_layer)));
      std::memcpy(bytes + i * size, &size, sizeof size);
    }
    recoverssm_commit_params other = commit;
    other.layers = reinterpret_cast<const recoverssm_layer*>(bytes);
    EXPECT_EQ(text_of(recoverssm_commit_validate(&other)), "ok") << size;
    const std::size_t zero = 0;
    std::memcpy(bytes + size, &zero, sizeof zero);
    EXPECT_EQ(text_of(recoverssm_commit_validate(&other)),
              "commit: layers[1].struct_size: 0, expected " + std::to_string(size) + ", as layers[0] has");
  }
  commit.layers = nullptr;
  EXPECT_EQ(text_of(recoverssm_commit_validate(&commit)), "commit: layers: null, expected 2 structs");
  commit = convert(calls.commit());
  commit.layer_count = 65537;
  EXPECT_EQ(text_of(recoverssm_commit_validate(&commit)), "commit: layers: 65537 structs, expected at most 65536");
}

TEST(Structs, ReservedWordsAndFlags) {
  Calls calls;
  ToC convert;
  auto split = convert(calls.split());
  split.reserved = 1;
  EXPECT_EQ(text_of(recoverssm_split_projections_validate(&split)), "split_projections: reserved: 1, expected 0");
  split.reserved = 0;
  split.qkvz.reserved[1] = 1;
  EXPECT_EQ(text_of(recoverssm_split_projections_validate(&split)),
            "split_projections: qkvz: reserved words that are not 0, expected 0");
  split.qkvz.reserved[1] = 0;
  split.layout = 300;
  EXPECT_EQ(text_of(recoverssm_split_projections_validate(&split)),
            "split_projections: layout: value 300, expected one of the constants");
  split.layout = RECOVERSSM_LAYOUT_FLAT;
  // Absent: a negative number of dimensions, or nothing at all. A tensor without dimensions is there, and wrong.
  std::memset(&split.token_index, 0, sizeof split.token_index);
  EXPECT_EQ(text_of(recoverssm_split_projections_validate(&split)), "ok");
  split.token_index.data = &split;
  EXPECT_TRUE(says(text_of(recoverssm_split_projections_validate(&split)), "split_projections: token_index: 0 dimensions"));

  auto commit = convert(calls.commit());
  auto layer = commit.layers[0];
  commit.layers = &layer;
  commit.layer_count = 1;
  layer.l2norm = 2;
  EXPECT_EQ(text_of(recoverssm_commit_validate(&commit)), "commit: layers[0].l2norm: 2, expected 0 or 1");
  layer.l2norm = 1;
  recoverssm_records records = *layer.records;
  records.struct_size = 3;
  layer.records = &records;
  EXPECT_TRUE(says(text_of(recoverssm_commit_validate(&commit)), "commit: layers[0].records.struct_size: 3, expected "));
}

// An init function writes what its caller has room for.
// numpy and torch give a view without elements strides of 0: no stride of such a view is looked at.
TEST(Structs, ViewsWithoutElements) {
  Calls calls;
  ToC convert;
  recoverssm_split_projections_params params = convert(calls.split());
  recoverssm_tensor* const views[] = {&params.qkvz, &params.ba, &params.mixed_qkv, &params.z, &params.b, &params.a};
  for (recoverssm_tensor* view : views) {
    view->data = nullptr;
    view->shape[0] = 0;
    std::fill(std::begin(view->stride), std::end(view->stride), 0);
  }
  const recoverssm_launch launch = new_launch();
  EXPECT_EQ(text_of(recoverssm_split_projections_validate(&params)), "ok");
  EXPECT_EQ(text_of(recoverssm_split_projections_run(&params, &launch)), "ok");
  params.qkvz.shape[0] = 2;
  EXPECT_TRUE(says(text_of(recoverssm_split_projections_validate(&params)), "qkvz: "));
}

TEST(Structs, InitOfAnyVersion) {
  recoverssm_rule_inputs inputs;
  std::memset(static_cast<void*>(&inputs), 0x5A, sizeof inputs);
  recoverssm_rule_inputs_init(&inputs, offsetof(recoverssm_rule_inputs, softplus_beta));
  EXPECT_EQ(inputs.struct_size, offsetof(recoverssm_rule_inputs, softplus_beta));
  EXPECT_EQ(inputs.q.dims, -1);
  EXPECT_EQ(inputs.l2norm, 1);
  std::uint32_t beta = 0;
  std::memcpy(&beta, &inputs.softplus_beta, sizeof beta);
  EXPECT_EQ(beta, 0x5A5A5A5Au);
  struct {
    recoverssm_rows known;
    std::int64_t newer;
  } rows = {{}, -1};
  recoverssm_rows_init(&rows.known, sizeof rows);
  EXPECT_EQ(rows.known.struct_size, sizeof rows);
  EXPECT_EQ(rows.newer, 0);
  recoverssm_rows_init(nullptr, sizeof rows);
  recoverssm_rows_init(&rows.known, 3);
  EXPECT_EQ(rows.known.struct_size, sizeof rows);
}

TEST(Structs, CountersOfAnOlderCaller) {
  Calls calls;
  ToC convert;
  const auto rule = convert(calls.rule());
  recoverssm_counters counters;
  recoverssm_counters_init(&counters, offsetof(recoverssm_counters, record_read));
  counters.record_read = counters.activation_written = -77;
  recoverssm_launch launch = new_launch();
  launch.counters = &counters;
  std::size_t bytes = 0;
  ASSERT_EQ(text_of(recoverssm_gated_delta_rule_workspace_size(&rule, &launch, &bytes)), "ok");
  Memory memory(bytes);
  launch.workspace = memory.data();
  launch.workspace_bytes = bytes;
  ASSERT_EQ(text_of(recoverssm_gated_delta_rule_run(&rule, &launch)), "ok");
  EXPECT_GT(counters.state_written, 0);
  EXPECT_EQ(counters.record_read, -77);
  EXPECT_EQ(counters.activation_written, -77);
  counters.struct_size = 1;
  EXPECT_TRUE(says(text_of(recoverssm_gated_delta_rule_run(&rule, &launch)), "gated_delta_rule: counters.struct_size: 1"));
}

template <class Params>
void expect_nulls_refused() {
  const std::string op = Op<Params>::kName;
  typename Op<Params>::C params;
  Op<Params>::init(&params, sizeof params);
  const recoverssm_launch launch = new_launch();
  std::size_t bytes = 1;
  EXPECT_EQ(text_of(Op<Params>::validate(nullptr)), op + ": params: null, expected a struct");
  EXPECT_EQ(text_of(Op<Params>::query_support(nullptr)), op + ": params: null, expected a struct");
  EXPECT_EQ(text_of(Op<Params>::workspace_size(nullptr, &launch, &bytes)), op + ": params: null, expected a struct");
  EXPECT_EQ(bytes, 0u);
  EXPECT_EQ(text_of(Op<Params>::workspace_size(&params, &launch, nullptr)), op + ": bytes: null, expected where to write the size");
  EXPECT_EQ(text_of(Op<Params>::run(nullptr, &launch)), op + ": params: null, expected a struct");
  // As the init function leaves them, something required is missing.
  EXPECT_EQ(Op<Params>::run(&params, &launch), RECOVERSSM_INVALID_ARGUMENT);
  EXPECT_TRUE(says(recoverssm_last_error(), op + ": ")) << recoverssm_last_error();
}

TEST(Nulls, AreRefused) {
  for_every_operation([]<class Params>(const Makers<Params>&) { expect_nulls_refused<Params>(); });
  Calls calls;
  ToC convert;
  auto rule = convert(calls.rule());
  std::size_t bytes = 0;
  EXPECT_EQ(text_of(recoverssm_gated_delta_rule_run(&rule, nullptr)), "gated_delta_rule: launch: null, expected a struct");
  EXPECT_EQ(text_of(recoverssm_gated_delta_rule_workspace_size(&rule, nullptr, &bytes)),
            "gated_delta_rule: launch: null, expected a struct");
  rule.rows = nullptr;
  EXPECT_EQ(text_of(recoverssm_gated_delta_rule_validate(&rule)), "gated_delta_rule: rows: null, expected a struct");
  recoverssm_launch launch = new_launch();
  EXPECT_EQ(text_of(recoverssm_context_create(1, nullptr)), "context_create: context: null, expected where to write the context");
  EXPECT_EQ(text_of(recoverssm_context_launch(nullptr, 0, &launch)), "context_launch: context: null, expected a context");
  EXPECT_EQ(recoverssm_sizes(nullptr, nullptr), RECOVERSSM_INVALID_ARGUMENT);
  EXPECT_EQ(recoverssm_resolve_target(0, nullptr), RECOVERSSM_INVALID_ARGUMENT);
  EXPECT_EQ(recoverssm_available_targets(nullptr, 3, &bytes), RECOVERSSM_INVALID_ARGUMENT);
  EXPECT_EQ(recoverssm_available_targets(nullptr, 0, nullptr), RECOVERSSM_INVALID_ARGUMENT);
  recoverssm_context_destroy(nullptr);
}

TEST(Errors, BelongToTheirThread) {
  ASSERT_NE(recoverssm_commit_validate(nullptr), RECOVERSSM_OK);
  const char* const mine = recoverssm_last_error();
  std::string before = "?", theirs;
  std::thread([&] {
    before = recoverssm_last_error();
    ASSERT_NE(recoverssm_align_move_validate(nullptr), RECOVERSSM_OK);
    theirs = recoverssm_last_error();
  }).join();
  EXPECT_EQ(before, "");
  EXPECT_EQ(theirs, "align_move: params: null, expected a struct");
  EXPECT_STREQ(mine, "commit: params: null, expected a struct");
  std::int32_t resolved = 0;
  ASSERT_EQ(recoverssm_resolve_target(RECOVERSSM_TARGET_BEST, &resolved), RECOVERSSM_OK);
  EXPECT_STREQ(recoverssm_last_error(), "commit: params: null, expected a struct");  // success leaves it alone
}

// No exception crosses the ABI: what a body may throw becomes a status. On a CPU nothing but memory fails by itself.
TEST(Errors, OfEveryKind) {
  using c_api::guarded;
  for (int kind = 1; kind <= RECOVERSSM_DEVICE_ERROR; ++kind) {
    EXPECT_EQ(guarded([&]() -> Status { return {static_cast<ErrorKind>(kind), "returned"}; }), kind);
    EXPECT_STREQ(recoverssm_last_error(), "returned");
    EXPECT_EQ(guarded([&]() -> Status { throw Error({static_cast<ErrorKind>(kind), "thrown"}); }), kind);
    EXPECT_STREQ(recoverssm_last_error(), "thrown");
  }
  EXPECT_EQ(guarded([]() -> Status { throw std::bad_alloc(); }), RECOVERSSM_OUT_OF_MEMORY);
  EXPECT_EQ(guarded([]() -> Status { throw std::runtime_error("some driver"); }), RECOVERSSM_DEVICE_ERROR);
  EXPECT_STREQ(recoverssm_last_error(), "some driver");
  EXPECT_EQ(guarded([]() -> Status { throw 7; }), RECOVERSSM_DEVICE_ERROR);
  const std::string too_long(5000, 'x');
  EXPECT_EQ(guarded([&]() -> Status { throw std::runtime_error(too_long); }), RECOVERSSM_DEVICE_ERROR);
  EXPECT_EQ(recoverssm_last_error(), too_long.substr(0, 1023));
  const std::set<std::string> names{recoverssm_status_name(0), recoverssm_status_name(1), recoverssm_status_name(2),
                                    recoverssm_status_name(3), recoverssm_status_name(4), recoverssm_status_name(5),
                                    recoverssm_status_name(6)};
  EXPECT_EQ(names.size(), 7u);
  EXPECT_STREQ(recoverssm_status_name(-1), recoverssm_status_name(77));
  EXPECT_STREQ(recoverssm_dtype_name(-1), "unknown");
  EXPECT_EQ(recoverssm_dtype_size(300), 0);
}

TEST(Target, MustExist) {
  Calls calls;
  ToC convert;
  const auto plan = convert(calls.plan());
  recoverssm_launch launch = new_launch();
  launch.target = 300;
  EXPECT_EQ(text_of(recoverssm_commit_plan_run(&plan, &launch)), "commit_plan: target: value 300, expected one of the constants");
  launch.target = 77;
  EXPECT_EQ(recoverssm_commit_plan_run(&plan, &launch), RECOVERSSM_UNSUPPORTED);
  EXPECT_TRUE(says(recoverssm_last_error(), "commit_plan: target: ")) << recoverssm_last_error();
  launch.target = RECOVERSSM_TARGET_PORTABLE;
  EXPECT_EQ(text_of(recoverssm_commit_plan_run(&plan, &launch)), "ok");
}

// The caller's own threads: every task once, on the workers it said, and the same bits as without.
struct Caller {
  std::atomic<int> calls{0}, tasks{0};
  static void run(void* self, std::int64_t tasks, recoverssm_task task, void* context) {
    auto& caller = *static_cast<Caller*>(self);
    ++caller.calls;
    std::vector<std::thread> threads;
    for (int worker = 0; worker < 3; ++worker) {
      threads.emplace_back([=, &caller] {
        for (std::int64_t t = worker; t < tasks; t += 3) {
          task(context, t, worker);
          ++caller.tasks;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

template <class Params>
std::vector<TensorView> run_with(Calls& calls, Params params, const recoverssm_launch& given) {
  recoverssm_launch launch = given;
  fill_floats(leaves_of(params));
  ToC convert;
  const auto c = convert(params);
  std::size_t bytes = 0;
  EXPECT_EQ(text_of(Op<Params>::workspace_size(&c, &launch, &bytes)), "ok");
  Memory memory(bytes);
  launch.workspace = memory.data();
  launch.workspace_bytes = bytes;
  EXPECT_EQ(text_of(Op<Params>::run(&c, &launch)), "ok");
  (void)calls;  // owns the tensors
  return tensors_of(leaves_of(params));
}

void expect_same(const std::vector<TensorView>& a, const std::vector<TensorView>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(support::same_bits(a[i], b[i])) << i;
}

TEST(Threads, OfTheCaller) {
  Caller caller;
  recoverssm_launch launch = new_launch();
  launch.parallel_run = Caller::run;
  launch.parallel_self = &caller;
  launch.parallel_workers = 3;
  Calls one, two;
  expect_same(run_with(one, one.commit(), new_launch()), run_with(two, two.commit(), launch));
  EXPECT_GT(caller.calls, 0);
  EXPECT_GT(caller.tasks, 2);
  launch.parallel_workers = 0;
  ToC convert;
  const auto plan = convert(one.plan());
  EXPECT_EQ(text_of(recoverssm_commit_plan_run(&plan, &launch)), "commit_plan: parallel: workers 0, expected at least 1");
}

TEST(Threads, OfAContext) {
  recoverssm_context* context = nullptr;
  for (const int wrong : {-1, 1025}) {
    EXPECT_EQ(text_of(recoverssm_context_create(wrong, &context)),
              "context_create: threads: " + std::to_string(wrong) + ", expected 0 (one a core) to 1024");
    EXPECT_EQ(context, nullptr);
  }
  ASSERT_EQ(text_of(recoverssm_context_create(4, &context)), "ok");
  recoverssm_launch launch = new_launch();
  ASSERT_EQ(text_of(recoverssm_context_launch(context, 1000, &launch)), "ok");
  EXPECT_EQ(launch.parallel_workers, 4);
  EXPECT_GE(launch.workspace_bytes, 1000u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(launch.workspace) % RECOVERSSM_WORKSPACE_ALIGNMENT, 0u);
  Calls one, two;
  expect_same(run_with(one, one.commit(), new_launch()), run_with(two, two.commit(), launch));
  recoverssm_context_destroy(context);
}

// In a forked child a launch of the parent's context still works, without threads; a new launch must come from a new context.
TEST(Threads, AfterAFork) {
  recoverssm_context* context = nullptr;
  ASSERT_EQ(text_of(recoverssm_context_create(3, &context)), "ok");
  recoverssm_launch launch = new_launch();
  ASSERT_EQ(text_of(recoverssm_context_launch(context, 0, &launch)), "ok");
  Calls here;
  const auto expected = run_with(here, here.commit(), new_launch());
  Calls there;
  auto params = there.commit();
  fill_floats(leaves_of(params));
  ToC convert;
  const auto c = convert(params);
  std::size_t bytes = 0;
  ASSERT_EQ(text_of(recoverssm_commit_workspace_size(&c, &launch, &bytes)), "ok");
  Memory memory(bytes);
  launch.workspace = memory.data();
  launch.workspace_bytes = bytes;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);  // a child that waits for threads it does not have must not wait for ever
    int wrong = 0;
    if (recoverssm_commit_run(&c, &launch) != RECOVERSSM_OK) wrong |= 1;
    const auto got = tensors_of(leaves_of(params));
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (!support::same_bits(got[i], expected[i])) wrong |= 2;
    }
    recoverssm_launch another = new_launch();
    if (recoverssm_context_launch(context, 0, &another) != RECOVERSSM_BAD_STATE) wrong |= 4;
    recoverssm_context_destroy(context);
    _exit(wrong);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  recoverssm_context_destroy(context);
}

TEST(Version, OfHeaderLibraryAndBuild) {
  const std::string text = std::to_string(RECOVERSSM_VERSION_MAJOR) + "." + std::to_string(RECOVERSSM_VERSION_MINOR) + "." +
                           std::to_string(RECOVERSSM_VERSION_PATCH);
  EXPECT_EQ(recoverssm_version(), text);  // the build's, from CMakeLists.txt
  EXPECT_EQ(recoverssm_version_number(), RECOVERSSM_VERSION_NUMBER);
}

TEST(Fields, AreAllPaired) {
  EXPECT_FIELDS(recoverssm_rows, Rows, query_start_loc, state_indices, has_initial_state, num_accepted, token_index,
                window_capacity, null_block_id)
  EXPECT_FIELDS(recoverssm_rule_inputs, RuleInputs, gate, q, k, v, a, b, A_log, dt_bias, lower_bound, scale, l2norm, softplus_beta,
                softplus_threshold)
  EXPECT_FIELDS(recoverssm_records, Records, packed, corrections, key_gate)
  EXPECT_FIELDS(recoverssm_layer, Layer, group, line, line_kind, conv_taps, state, records, pending, gate, A_log, dt_bias,
                lower_bound, l2norm, softplus_beta, softplus_threshold)
  EXPECT_FIELDS(recoverssm_split_projections_params, SplitProjectionsParams, qkvz, ba, layout, num_k_heads, num_v_heads, head_k_dim,
                head_v_dim, mixed_qkv, z, b, a, token_index)
  EXPECT_FIELDS(recoverssm_causal_conv1d_params, CausalConv1dParams, x, weight, bias, activation, out, line, line_kind, rows)
  EXPECT_FIELDS(recoverssm_causal_conv1d_window_params, CausalConv1dWindowParams, x, weight, bias, activation, out, line, line_kind,
                rows)
  EXPECT_FIELDS(recoverssm_gated_delta_rule_params, GatedDeltaRuleParams, inputs, state, out, rows, pending, records)
  EXPECT_FIELDS(recoverssm_gated_delta_rule_snapshots_params, GatedDeltaRuleSnapshotsParams, inputs, state, out, rows)
  EXPECT_FIELDS(recoverssm_gated_delta_rule_verify_params, GatedDeltaRuleVerifyParams, inputs, state, out, records, rows, pending)
  EXPECT_FIELDS(recoverssm_plan_outputs, PlanOutputs, commit_len, final_indices, boundary_indices, boundary_len)
  EXPECT_FIELDS(recoverssm_commit_plan_params, CommitPlanParams, num_accepted, query_start_loc, state_indices, window_capacity,
                request_index, block_table, num_computed, block_size, out, null_block_id)
  EXPECT_FIELDS(recoverssm_plan_group, PlanGroup, state_indices, block_table, out)
  EXPECT_FIELDS(recoverssm_commit_plan_groups_params, CommitPlanGroupsParams, num_accepted, query_start_loc, window_capacity,
                request_index, num_computed, block_size, groups, null_block_id)
  EXPECT_FIELDS(recoverssm_commit_group, CommitGroup, state_indices, commit_len, final_indices, boundary_indices, boundary_len)
  EXPECT_FIELDS(recoverssm_commit_params, CommitParams, groups, layers, window_capacity, null_block_id)
  EXPECT_FIELDS(recoverssm_materialize_params, MaterializeParams, blocks, num_accepted, layers, null_block_id)
  EXPECT_FIELDS(recoverssm_align_move_params, AlignMoveParams, from, to, layers, null_block_id)
  EXPECT_FIELDS(recoverssm_align_advance_params, AlignAdvanceParams, commit_len, state_indices, request_index, num_computed,
                block_size, running_column, num_accepted, null_block_id)
  EXPECT_FIELDS(recoverssm_short_conv_params, ShortConvParams, x, weight, dilation, residual, outer_residual, line, line_kind, rows)
  EXPECT_FIELDS(recoverssm_attention_plain, AttentionPlainPart, rows, pending, records)
  EXPECT_FIELDS(recoverssm_attention_windows, AttentionWindowPart, mode, rows, pending, records)
  EXPECT_FIELDS(recoverssm_gdn_attention_params, GdnAttentionParams, qkvz, ba, layout, num_k_heads, num_v_heads, head_k_dim,
                head_v_dim, weight, bias, activation, A_log, dt_bias, scale, l2norm, softplus_beta, softplus_threshold, line,
                line_kind, state, out, z, plain, windows, null_block_id)
  EXPECT_FIELDS(recoverssm_counters, Counters, rows, tokens, state_read, state_written, record_read, record_written, line_read,
                line_written, activation_read, activation_written)
  EXPECT_FIELDS(recoverssm_geometry, Geometry, H, HV, K, V, W, channels, S, gate, activation, state)
  EXPECT_FIELDS(recoverssm_request_sizes, Sizes, state, line_rolled, line_anchored, records, page_rolled, page_anchored, snapshots)
}

}  // namespace
}  // namespace c_api_tests
