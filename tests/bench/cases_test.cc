// The case table: every operation is in it, every data set is one the library accepts, shrinking and counting do what they say.
#include "bench/cases.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>

namespace recoverssm::bench {
namespace {

// Names of the operations, from the header that declares them.
std::set<std::string> operations() {
  std::ifstream file(std::string(RECOVERSSM_SOURCE_DIR) + "/include/recoverssm/recoverssm.hpp");
  const std::regex declaration(R"(^void (\w+)\(const \w+Params& params, Context& context\);$)");
  std::set<std::string> names;
  std::smatch match;
  for (std::string line; std::getline(file, line);) {
    if (std::regex_match(line, match, declaration)) names.insert(match[1]);
  }
  return names;
}

Options small() {
  Options options;
  options.rows = 2;
  options.tokens = 4;
  options.layers = 2;
  options.heads = 1;
  options.value_heads = 2;
  options.k = options.v = 16;
  return options;
}

TEST(BenchCases, CoverEveryOperation) {
  std::set<std::string> seen, expected = operations();
  for (const Case& row : case_table()) seen.insert(row.op);
  EXPECT_GE(expected.size(), 14U);
  expected.insert({"conv_verify", "step"});  // several operations in a row
  EXPECT_EQ(seen, expected);
}

TEST(BenchCases, NamesAreUnique) {
  std::set<std::string> names;
  for (const Job& job : jobs_of({})) EXPECT_TRUE(names.insert(job.name).second) << job.name;
}

TEST(BenchCases, EveryBoundedCaseMovesBytesItCanBeHeldTo) {
  for (const Job& job : jobs_of(small())) {
    Arena arena(bytes_of(job));
    const auto set = job.row->build(job.shape, arena);
    EXPECT_EQ(arena.used(), bytes_of(job)) << job.name;
    std::vector<std::byte> memory(set->workspace({}) + kWorkspaceAlignment);
    void* aligned = memory.data();
    std::size_t space = memory.size();
    std::align(kWorkspaceAlignment, 1, aligned, space);
    Counters first, second;
    Launch launch;
    launch.workspace = {aligned, space};
    for (Counters* counters : {&first, &second}) {
      launch.counters = counters;
      set->rearm(nullptr);
      const Status status = set->run(launch);
      ASSERT_TRUE(status.ok()) << job.name << ": " << status.message;
    }
    // Only a call that can be repeated as it was may be timed in a loop.
    EXPECT_EQ(first.total(), second.total()) << job.name;
    EXPECT_EQ(first.state_written, second.state_written) << job.name;
    EXPECT_EQ(first.rows, second.rows) << job.name;
    EXPECT_GT(first.rows + first.tokens, 0) << job.name;
    EXPECT_EQ(first.total() > 0, job.row->bound != Bound::none) << job.name;
    EXPECT_EQ(issue_slots(job) > 0, job.row->work != Work::none) << job.name;
  }
}

TEST(BenchCases, VariantsDoWhatTheyAreNamedAfter) {
  const auto counters_of = [](const char* name) {
    Options options = small();
    options.ops = {name};
    const Job job = jobs_of(options).at(0);
    Arena arena(bytes_of(job));
    const auto set = job.row->build(job.shape, arena);
    std::vector<std::byte> memory(set->workspace({}) + kWorkspaceAlignment);
    void* aligned = memory.data();
    std::size_t space = memory.size();
    std::align(kWorkspaceAlignment, 1, aligned, space);
    Counters counters;
    Launch launch;
    launch.workspace = {aligned, space};
    launch.counters = &counters;
    EXPECT_TRUE(set->run(launch).ok());
    return counters;
  };
  EXPECT_EQ(counters_of("gated_delta_rule_verify.t4.gdn").state_written, 0);
  EXPECT_GT(counters_of("gated_delta_rule_verify.lazy.gdn").state_written, 0);
  const Counters in_place = counters_of("commit.in_place.gdn"), boundary = counters_of("commit.boundary.gdn");
  EXPECT_EQ(in_place.state_read, boundary.state_read);
  EXPECT_EQ(2 * in_place.state_written, boundary.state_written);
  EXPECT_EQ(counters_of("gated_delta_rule.decode.gdn").tokens, 2);
  const Counters moved = counters_of("commit.moved.gdn"), align = counters_of("commit.align.gdn");
  EXPECT_EQ(moved.state_written, in_place.state_written);
  EXPECT_EQ(align.state_written, boundary.state_written);
  const Counters groups = counters_of("commit.groups.gdn"), calls = counters_of("commit.call_a_group.gdn");
  EXPECT_EQ(groups.state_written, calls.state_written);
  EXPECT_EQ(groups.state_written, 3 * in_place.state_written / 2);  // a layer a group, where the others have two
  const Counters records = counters_of("step.records.gdn"), lazy = counters_of("step.lazy.gdn"),
                 snapshots = counters_of("step.snapshots.gdn");
  EXPECT_EQ(records.state_read, 2 * lazy.state_read);  // verify, commit
  EXPECT_EQ(records.state_written, lazy.state_written);
  EXPECT_EQ(snapshots.state_written, 4 * records.state_written);
}

TEST(BenchCases, GlobsSelect) {
  Options options;
  options.ops = {"commit"};
  EXPECT_EQ(jobs_of(options).size(), 12U);
  options.ops = {"commit*", "gated_delta_rule_verify.t4.gdn"};
  EXPECT_EQ(jobs_of(options).size(), 15U);
  options.ops = {"gated_delta_rule_verify.lazy"};
  EXPECT_EQ(jobs_of(options).size(), 2U);
  options.gate = Gate::kda;
  EXPECT_EQ(jobs_of(options).size(), 1U);
  options.ops = {"no_such_op"};
  EXPECT_THROW(jobs_of(options), Error);
}

TEST(BenchCases, ADeviceHasShapesOfItsOwn) {
  Options options;
  options.backend = Backend::cuda;
  std::set<std::string> shapes;
  std::set<std::pair<int, int>> windows;
  for (const Job& job : jobs_of(options)) {
    const Shape& s = job.shape;
    const bool half = s.state != DType::f32;
    const std::string text = job.name + ", " + text_of(job);
    EXPECT_TRUE(shapes.insert(text).second) << text;
    if (job.row->op == std::string("gated_delta_rule_verify") && s.waiting == 0 && !half) windows.insert({s.rows, s.tokens});
  }
  std::set<std::pair<int, int>> grid;
  for (const int rows : {1, 8, 32, 64, 128, 256}) {
    for (const int tokens : {1, 2, 4, 8}) grid.insert({rows, tokens});
  }
  EXPECT_EQ(windows, grid);
  // A shape of the command line takes the place of the lists.
  options.rows = 5;
  options.tokens = 3;
  for (const Job& job : jobs_of(options)) EXPECT_EQ(job.shape.rows, 5) << job.name;
  options.backend = Backend::cpu;
  options.rows = options.tokens = {};
  for (const Job& job : jobs_of(options)) EXPECT_EQ(job.shape.rows, job.row->rows) << job.name;
}

TEST(BenchCases, RefusesShapesThatTheOperationRefuses) {
  Options options;
  options.value_heads = 17;
  EXPECT_THROW(jobs_of(options), Error);
}

TEST(BenchCases, TokensOfTheCommandLineAreInTheName) {
  Options options;
  options.ops = {"gated_delta_rule_verify.t4.gdn"};
  options.tokens = 6;
  EXPECT_EQ(jobs_of(options).at(0).name, "gated_delta_rule_verify.t6.gdn");
}

TEST(BenchCases, ShrinksIntoTheCache) {
  constexpr std::size_t kBudget = std::size_t{1} << 20;
  for (const Job& job : jobs_of({})) {
    for (const int threads : {1, 2}) {
      const std::size_t budget = kBudget * static_cast<std::size_t>(threads);
      const Job shrunk = in_cache(job, budget, threads);
      EXPECT_LE(bytes_of(shrunk), budget) << job.name;
      EXPECT_EQ(shrunk.shape.HV * job.shape.H, job.shape.HV * shrunk.shape.H) << job.name;
      EXPECT_GE(std::int64_t{shrunk.shape.rows} * shrunk.shape.HV, threads) << job.name;
    }
  }
}

TEST(BenchCases, PortableRowsAreShorterWhereStatesAreComputed) {
  for (const Job& job : jobs_of({})) {
    const int tokens = for_portable(job).shape.tokens;
    EXPECT_EQ(tokens, job.row->work == Work::none || job.shape.tokens <= 256 ? job.shape.tokens : 256) << job.name;
  }
}

TEST(BenchCases, SetsGoBeyondTheCache) {
  for (const std::size_t set : {std::size_t{1}, std::size_t{999}, std::size_t{1000}, std::size_t{2001}}) {
    EXPECT_GT(set * sets_beyond_cache(set, 1000), 2000U);
    EXPECT_LE(set * (sets_beyond_cache(set, 1000) - 1), 2000U);
  }
}

}  // namespace
}  // namespace recoverssm::bench
