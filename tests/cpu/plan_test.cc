// commit_plan, commit_plan_groups and map_windows: the formulas as a table, then random plans against the contract's text, written
// out again here.
#include "recoverssm/plan.hpp"

#include <algorithm>
#include <climits>

#include "support/call.h"
#include "support/layout.h"
#include "support/plan.h"
#include "support/property.h"

namespace {

using namespace support;
using recoverssm::CommitPlanGroupsParams;
using recoverssm::CommitPlanParams;
using recoverssm::PlanGroup;

struct Plan {
  int commit_len, final_block, boundary_block, boundary_len;
  bool operator==(const Plan&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Plan& p) {
  return out << "{c " << p.commit_len << " final " << p.final_block << " boundary " << p.boundary_block << " after "
             << p.boundary_len << "}";
}

Plan plan_at(const PlanTensors& out, int i) {
  return {static_cast<int>(out.commit_len.get(i)), static_cast<int>(out.final_block.get(i)),
          static_cast<int>(out.boundary_block.get(i)), static_cast<int>(out.boundary_len.get(i))};
}

PlanTensors empty_outputs(Pick& pick, int n) {
  const std::vector<int> pattern(static_cast<std::size_t>(n), -77);
  return plan_tensors(pick, {pattern, pattern, pattern, pattern, pattern});
}

// One window of one request, null id 0.
struct Case {
  const char* what;
  int accepted, length, S, source;
  int num_computed, B;     // B 0: none mode
  std::vector<int> table;  // the request's blocks
  Plan want;
};

class PlanTable : public ::testing::TestWithParam<Case> {};

TEST_P(PlanTable, Row) {
  const Case& c = GetParam();
  Pick pick(1);
  const PlanTensors out = empty_outputs(pick, 1);
  CommitPlanParams p;
  p.window_capacity = c.S;
  const Tensor accepted = dense_i32({c.accepted}), offsets = dense_i32({5, 5 + c.length}), source = dense_i32({c.source});
  const Tensor computed = dense_i32({c.num_computed}), table = strided_table(pick, {c.table}, static_cast<int>(c.table.size()));
  p.num_accepted = accepted;
  p.query_start_loc = offsets;
  p.state_indices = source;
  p.out = out.outputs();
  if (c.B > 0) {
    p.block_table = table;
    p.num_computed = computed;
    p.block_size = c.B;
  }
  must_run(p);
  EXPECT_EQ(plan_at(out, 0), c.want) << c.what;
}

constexpr Plan kDead{0, 0, 0, 0};

INSTANTIATE_TEST_SUITE_P(
    Plan, PlanTable,
    ::testing::Values(
        Case{"none mode", 2, 3, 4, 9, 0, 0, {}, {2, 9, 0, 0}},
        Case{"a count past the window is clamped to it", 9, 3, 4, 9, 0, 0, {}, {3, 9, 0, 0}},
        Case{"a negative count keeps nothing", -1, 3, 4, 9, 0, 0, {}, kDead}, Case{"nothing kept", 0, 3, 4, 9, 0, 0, {}, kDead},
        Case{"empty row", 3, 0, 4, 9, 0, 0, {}, kDead}, Case{"empty row, stale id", 3, 0, 4, 1 << 30, 0, 0, {}, kDead},
        Case{"null source", 3, 3, 4, 0, 0, 0, {}, kDead},
        Case{"nothing kept: neither num_computed nor the table is read", 0, 3, 4, 9, -5, 16, {}, kDead},
        Case{"first block", 3, 4, 4, 9, 0, 16, {9, 8}, {3, 9, 0, 16}},
        Case{"B18: crosses into the next block", 2, 3, 3, 8, 30, 16, {5, 6, 7}, {2, 6, 6, 2}},  // 32 tokens live in column 1
        Case{"B18: ends on the edge", 2, 2, 2, 5, 14, 16, {5}, {2, 5, 5, 2}},
        Case{"B18: stops on the edge of a longer window", 1, 4, 4, 5, 15, 16, {5}, {1, 5, 5, 1}},
        Case{"crosses and goes on", 4, 4, 4, 5, 14, 16, {5, 6}, {4, 6, 5, 2}},
        Case{"starts on an edge", 1, 4, 4, 5, 16, 16, {5, 6}, {1, 6, 0, 16}},
        Case{"one token short of the edge", 1, 4, 4, 5, 14, 16, {5}, {1, 5, 0, 2}},
        Case{"not crossing does not read the boundary's column", 1, 4, 4, 5, 17, 16, {-9, 6}, {1, 6, 0, 15}},
        Case{"a whole block in one window", 4, 4, 4, 5, 8, 4, {1, 2, 3}, {4, 3, 3, 4}},
        Case{"blocks of one token", 1, 1, 1, 5, 3, 1, {1, 2, 3, 4}, {1, 4, 4, 1}},
        Case{"null final block", 1, 4, 4, 5, 16, 16, {5, 0}, kDead},
        Case{"int64: the window's end passes 2^31", 8, 8, 8, 5, INT_MAX - 3, 1 << 30, {5, 6, 7}, {8, 7, 6, 4}},
        Case{"int64: the next boundary passes 2^31", 1, 8, 8, 5, INT_MAX - 20, 1 << 30, {5, 6}, {1, 6, 0, 21}},
        Case{"int64: a block as large as an int32", 4, 4, 4, 5, INT_MAX - 2, INT_MAX, {5, 6}, {4, 6, 5, 2}}));

std::vector<int> random_table_row(Pick& pick, int width) {
  std::vector<int> row;
  for (int i = 0; i < width; ++i) row.push_back(pick.chance(10) ? pick.between(-1, 2) : pick.between(3, 90));
  return row;
}

// A whole call: requests in any order, some without a window, dead rows with values nobody may read.
struct Call {
  int N = 0, R = 0, S = 1, B = 0, width = 0, null_id = 0;
  std::vector<int> offsets = {0}, source, request, accepted, computed;
  std::vector<std::vector<int>> table;
  bool mapped = false;
};

Call random_call(Pick& pick) {
  Call c;
  c.S = pick.between(1, 6);
  c.B = pick.chance(70) ? pick.between(c.S, 20) : 0;
  c.R = pick.between(1, 8);
  c.mapped = pick.chance(60);
  c.N = c.mapped ? pick.between(0, c.R) : c.R;
  c.null_id = pick.one_of({0, -1, 2});
  c.width = pick.between(1, 4);
  c.request = pick.permutation(c.R);
  c.request.resize(static_cast<std::size_t>(c.N));
  if (!c.mapped)
    for (int i = 0; i < c.N; ++i) c.request[static_cast<std::size_t>(i)] = i;
  c.offsets = {pick.between(0, 2)};
  for (int r = 0; r < c.R; ++r) {
    c.accepted.push_back(pick.between(-2, c.S + 3));
    c.computed.push_back(pick.between(0, std::max(0, c.width * std::max(c.B, 1) - c.S)));
    c.table.push_back(random_table_row(pick, c.width));
  }
  for (int i = 0; i < c.N; ++i) {
    const int length = pick.chance(15) ? 0 : pick.between(1, c.S);
    c.offsets.push_back(c.offsets.back() + length);
    c.source.push_back(length == 0 ? 1 << 20 : pick.chance(15) ? c.null_id : pick.between(c.null_id + 1, 90));
  }
  std::vector<bool> live(static_cast<std::size_t>(c.R), false);
  for (int i = 0; i < c.N; ++i) {
    const auto r = static_cast<std::size_t>(c.request[static_cast<std::size_t>(i)]);
    live[r] = c.source[static_cast<std::size_t>(i)] > c.null_id && c.accepted[r] > 0 &&
              c.offsets[static_cast<std::size_t>(i) + 1] > c.offsets[static_cast<std::size_t>(i)];
  }
  for (std::size_t r = 0; r < live.size(); ++r) {
    if (!live[r]) c.computed[r] = pick.one_of({-1, INT_MAX, INT_MIN});  // not read
  }
  return c;
}

Plan want_of(const Call& c, int i, const std::vector<int>& source, const std::vector<std::vector<int>>& table) {
  const auto u = static_cast<std::size_t>(i), r = static_cast<std::size_t>(c.request[u]);
  const Plan dead{0, c.null_id, c.null_id, 0};
  const int kept = std::min({std::max(c.accepted[r], 0), c.offsets[u + 1] - c.offsets[u], c.S});
  if (kept == 0 || source[u] <= c.null_id) return dead;
  if (c.B == 0) return {kept, source[u], c.null_id, 0};
  // Counted token by token, not by division: which column the last token is in, and where the first boundary is.
  int column = 0, next = c.B;
  for (int token = 1; token <= c.computed[r] + kept; ++token) {
    if (token > (column + 1) * c.B) ++column;
  }
  while (next <= c.computed[r]) next += c.B;
  Plan plan{kept, table[r][static_cast<std::size_t>(column)], c.null_id, next - c.computed[r]};
  if (plan.final_block <= c.null_id) return dead;
  if (c.computed[r] + kept >= next) plan.boundary_block = table[r][static_cast<std::size_t>(next / c.B - 1)];
  return plan;
}

struct CallTensors {
  Tensor offsets, source, request, accepted, computed, table;
};

CallTensors tensors_of(Pick& pick, const Call& c) {
  return {strided_i32(pick, c.offsets),
          strided_i32(pick, c.source),
          c.mapped ? strided_i32(pick, c.request) : Tensor(),
          strided_i32(pick, c.accepted),
          c.B > 0 ? strided_i32(pick, c.computed) : Tensor(),
          c.B > 0 ? strided_table(pick, c.table, c.width) : Tensor()};
}

TEST(CommitPlan, RandomPlans) {
  property(400, [](Pick& pick) {
    const Call c = random_call(pick);
    const CallTensors in = tensors_of(pick, c);
    const PlanTensors out = empty_outputs(pick, c.N);
    recoverssm::Counters counters;
    must_run(CommitPlanParams{.num_accepted = in.accepted,
                              .query_start_loc = in.offsets,
                              .state_indices = in.source,
                              .window_capacity = c.S,
                              .request_index = in.request,
                              .block_table = in.table,
                              .num_computed = in.computed,
                              .block_size = c.B > 0 ? std::optional(c.B) : std::nullopt,
                              .out = out.outputs(),
                              .null_block_id = c.null_id},
             {.counters = &counters});
    std::int64_t rows = 0, tokens = 0;
    for (int i = 0; i < c.N; ++i) {
      const Plan want = want_of(c, i, c.source, c.table), got = plan_at(out, i);
      require(got == want,
              ::testing::PrintToString(got) + " expected " + ::testing::PrintToString(want) + " row " + std::to_string(i));
      rows += want.commit_len > 0 ? 1 : 0;
      tokens += want.commit_len;
    }
    require(!counting() || (counters.rows == rows && counters.tokens == tokens && counters.total() == 0), "counters");
  });
}

// Each group of one call gets the plan it gets alone.
TEST(CommitPlan, GroupsEqualSeparatePlans) {
  property(200, [](Pick& pick) {
    Call c = random_call(pick);
    for (auto& row : c.table) {
      for (int& block : row) block = std::max(block, c.null_id + 1);  // the same rows are live in every group
    }
    const int G = pick.between(1, 3);
    const CallTensors in = tensors_of(pick, c);
    std::vector<std::vector<int>> sources;
    std::vector<std::vector<std::vector<int>>> tables;
    std::vector<Tensor> keep;
    std::vector<PlanTensors> out;
    std::vector<PlanGroup> groups;
    for (int g = 0; g < G; ++g) {
      sources.push_back(c.source);
      tables.push_back(c.table);
      for (int& block : sources.back()) block += block > c.null_id ? g : 0;
      for (auto& row : tables.back()) {
        for (int& block : row) block += 100 * g;
      }
      keep.push_back(strided_i32(pick, sources.back()));
      keep.push_back(c.B > 0 ? strided_table(pick, tables.back(), c.width) : Tensor());
      out.push_back(empty_outputs(pick, c.N));
      groups.push_back({keep[keep.size() - 2], keep.back(), out.back().outputs()});
    }
    must_run(CommitPlanGroupsParams{.num_accepted = in.accepted,
                                    .query_start_loc = in.offsets,
                                    .window_capacity = c.S,
                                    .request_index = in.request,
                                    .num_computed = in.computed,
                                    .block_size = c.B > 0 ? std::optional(c.B) : std::nullopt,
                                    .groups = groups,
                                    .null_block_id = c.null_id});
    for (int g = 0; g < G; ++g) {
      const auto u = static_cast<std::size_t>(g);
      for (int i = 0; i < c.N; ++i) {
        require(plan_at(out[u], i) == want_of(c, i, sources[u], tables[u]),
                "group " + std::to_string(g) + " row " + std::to_string(i));
      }
    }
  });
}

using Rows = std::vector<std::int32_t>;

recoverssm::WindowMap map(const Rows& drafts, const std::vector<std::uint8_t>& prefilling, const Rows& lengths) {
  return recoverssm::map_windows(drafts, prefilling, lengths);
}

TEST(MapWindows, Classes) {
  // drafts; a decode without drafts (a window of one); prefill; prefill with drafts; nothing to run; drafts but no tokens.
  const auto mixed = map({3, -1, -1, 2, -1, 0}, {0, 0, 1, 1, 0, 0}, {4, 1, 9, 3, 0, 0});
  EXPECT_EQ(mixed.rows, (Rows{0, 1, 3, 5}));
  EXPECT_FALSE(mixed.identity);
  const auto leading = map({1, -1, -1}, {0, 0, 1}, {2, 1, 7});
  EXPECT_EQ(leading.rows, (Rows{0, 1}));
  EXPECT_TRUE(leading.identity);  // the windows are exactly requests 0..N-1, whatever follows
  EXPECT_FALSE(map({-1, 1}, {1, 0}, {7, 2}).identity);
  const auto none = map({-1}, {1}, {7});
  EXPECT_TRUE(none.rows.empty());
  EXPECT_TRUE(none.identity);
  EXPECT_TRUE(map({}, {}, {}).rows.empty());
}

TEST(MapWindows, Refuses) {
  const auto refusal = [](const Rows& drafts, const std::vector<std::uint8_t>& prefilling, const Rows& lengths) {
    try {
      map(drafts, prefilling, lengths);
    } catch (const recoverssm::Error& error) {
      return std::string(recoverssm::name_of(error.kind())) + " " + error.what();
    }
    return std::string("accepted");
  };
  const auto says = [&](const std::string& text, const std::vector<const char*>& words) {
    for (const char* word : words) EXPECT_NE(text.find(word), std::string::npos) << text << " lacks " << word;
  };
  says(refusal({1, 1}, {0}, {1, 1}), {"invalid_argument", "map_windows", "prefilling", "1", "2"});
  says(refusal({1, 1}, {0, 0}, {1, 1, 1}), {"invalid_argument", "lengths", "3"});
  says(refusal({0, -2}, {0, 0}, {1, 1}), {"out_of_range", "draft_counts[1]", "-2"});
  says(refusal({0, 0}, {0, 0}, {1, -4}), {"out_of_range", "lengths[1]", "-4"});
}

}  // namespace
