// commit_plan, commit_plan_groups, align_advance and map_windows against the cases of the text.
#include "support/plan.h"

#include <gtest/gtest.h>

#include "reference/reference.h"
#include "support/call.h"

namespace {

using namespace support;

struct PlanCase {
  int n = 0, requests = 0, S = 1, B = 0, null_id = 0;
  bool align = false;
  std::vector<int> accepted, computed;  // per request
  std::vector<int> request_index;       // per row, or empty
  std::vector<int> offsets = {0};
  std::vector<std::vector<int>> sources;              // per group, per row
  std::vector<std::vector<std::vector<int>>> tables;  // per group, per request
  int width = 0;

  reference::Plan expected(int group, int i) const {
    const auto u = static_cast<std::size_t>(i);
    const auto g = static_cast<std::size_t>(group);
    const auto r = static_cast<std::size_t>(request_index.empty() ? i : request_index[u]);
    reference::PlanRow row;
    row.accepted = accepted[r];
    row.length = offsets[u + 1] - offsets[u];
    row.capacity = S;
    row.source = sources[g][u];
    row.null_id = null_id;
    row.align = align;
    if (align) {
      row.computed = computed[r];
      row.block_size = B;
      row.table = tables[g][r];
    }
    return reference::plan(row);
  }
  bool fails(int group) const {
    for (int i = 0; i < n; ++i) {
      if (expected(group, i).out_of_range) return true;
    }
    return false;
  }
};

PlanCase random_plan(Pick& pick, int groups) {
  PlanCase c;
  c.n = pick.between(0, 5);
  c.S = pick.between(1, 8);
  c.align = pick.chance(70);
  c.null_id = pick.one_of({0, -1, 3});
  c.B = c.S + pick.between(0, 12);
  c.width = pick.between(1, 6);
  const bool mapped = pick.chance(50);
  c.requests = c.n + (mapped ? pick.between(0, 3) : 0);
  if (mapped) {
    c.request_index = pick.permutation(c.requests);
    c.request_index.resize(static_cast<std::size_t>(c.n));
  }
  c.offsets[0] = pick.between(0, 3);
  for (int i = 0; i < c.n; ++i) c.offsets.push_back(c.offsets.back() + pick.between(0, c.S));
  for (int r = 0; r < c.requests; ++r) {
    c.accepted.push_back(pick.between(-1, c.S + 3));  // a sampler may count past the window
    c.computed.push_back(pick.between(0, std::max(0, c.width * c.B - c.S)));
    if (pick.chance(4)) c.computed.back() = pick.one_of({-1, c.width * c.B});
  }
  int next = c.null_id + 1;
  for (int g = 0; g < groups; ++g) {
    c.sources.emplace_back();
    for (int i = 0; i < c.n; ++i)
      c.sources.back().push_back(pick.chance(groups == 1 ? 12 : 3) ? c.null_id - pick.between(0, 2) : next++);
    c.tables.emplace_back();
    for (int r = 0; r < c.requests; ++r) {
      c.tables.back().emplace_back();
      for (int k = 0; k < c.width; ++k) c.tables.back().back().push_back(pick.chance(groups == 1 ? 10 : 2) ? c.null_id : next++);
    }
  }
  return c;
}

struct Outputs {
  Tensor commit_len, final_indices, boundary_indices, boundary_len;
  recoverssm::PlanOutputs views() const { return {commit_len, final_indices, boundary_indices, boundary_len}; }
};

Outputs outputs(Pick& pick, int n) {
  const std::vector<int> junk(static_cast<std::size_t>(n), 777);
  return {strided_i32(pick, junk), strided_i32(pick, junk), strided_i32(pick, junk), strided_i32(pick, junk)};
}

// On a device a row that the CPU refuses the call for is dead.
void matches(const PlanCase& c, int group, const Outputs& out) {
  for (int i = 0; i < c.n; ++i) {
    reference::Plan e = c.expected(group, i);
    if (e.out_of_range) e = {.commit_len = 0, .final_block = c.null_id, .boundary_block = c.null_id, .boundary_len = 0};
    const std::string row = "row " + std::to_string(i) + " ";
    require(out.commit_len.get(i) == e.commit_len, row + "commit_len");
    require(out.final_indices.get(i) == e.final_block, row + "final");
    require(out.boundary_indices.get(i) == e.boundary_block, row + "boundary");
    require(out.boundary_len.get(i) == e.boundary_len, row + "boundary_len");
  }
}

Tensor optional_i32(Pick& pick, const std::vector<int>& values, bool present) {
  return present ? strided_i32(pick, values) : Tensor{};
}

TEST(Plan, MatchesTheCases) {
  property(300, [](Pick& pick) {
    const PlanCase c = random_plan(pick, 1);
    const Tensor accepted = strided_i32(pick, c.accepted);
    const Tensor offsets = strided_i32(pick, c.offsets);
    const Tensor sources = strided_i32(pick, c.sources[0]);
    const Tensor mapping = optional_i32(pick, c.request_index, !c.request_index.empty());
    const Tensor computed = optional_i32(pick, c.computed, c.align);
    const Tensor table = c.align ? strided_table(pick, c.tables[0], c.width) : Tensor{};
    const Outputs out = outputs(pick, c.n);
    recoverssm::CommitPlanParams p{accepted, offsets, sources, c.S, mapping, table, computed, {}, out.views(), c.null_id};
    if (c.align) p.block_size = c.B;
    const Untouched untouched(
        {{"a", out.commit_len}, {"b", out.final_indices}, {"c", out.boundary_indices}, {"d", out.boundary_len}});
    const recoverssm::Status status = try_run(p, random_how(pick));
    if (c.fails(0)) {
      require(status.kind == recoverssm::ErrorKind::out_of_range,
              "a column beyond the table or a negative num_computed is out_of_range, got " + std::string(name_of(status.kind)) +
                  " " + status.message);
      if (on_device()) {
        matches(c, 0, out);
      } else {
        require(untouched.check());
      }
      return;
    }
    require(status.ok(), status.message);
    matches(c, 0, out);
  });
}

TEST(Plan, GroupsEqualOneCallEach) {
  property(150, [](Pick& pick) {
    const int groups = pick.between(1, 3);
    const PlanCase c = random_plan(pick, groups);
    const Tensor accepted = strided_i32(pick, c.accepted);
    const Tensor offsets = strided_i32(pick, c.offsets);
    const Tensor mapping = optional_i32(pick, c.request_index, !c.request_index.empty());
    const Tensor computed = optional_i32(pick, c.computed, c.align);
    std::vector<Tensor> keep;
    std::vector<Outputs> outs;
    std::vector<recoverssm::PlanGroup> plan_groups;
    for (int g = 0; g < groups; ++g) {
      const auto u = static_cast<std::size_t>(g);
      keep.push_back(strided_i32(pick, c.sources[u]));
      const Tensor sources = keep.back();
      keep.push_back(c.align ? strided_table(pick, c.tables[u], c.width) : Tensor{});
      outs.push_back(outputs(pick, c.n));
      plan_groups.push_back({sources, keep.back(), outs.back().views()});
    }
    recoverssm::CommitPlanGroupsParams p{accepted, offsets, c.S, mapping, computed, {}, plan_groups, c.null_id};
    if (c.align) p.block_size = c.B;
    const recoverssm::Status status = try_run(p, random_how(pick));
    bool refused = false;
    for (int g = 0; g < groups; ++g) {
      refused = refused || c.fails(g);
      for (int i = 0; i < c.n; ++i) refused = refused || c.expected(g, i).commit_len != c.expected(0, i).commit_len;
    }
    if (refused) {
      require(status.kind == recoverssm::ErrorKind::out_of_range,
              "refused groups are out_of_range, got " + std::string(name_of(status.kind)));
      return;
    }
    require(status.ok(), status.message);
    for (int g = 0; g < groups; ++g) matches(c, g, outs[static_cast<std::size_t>(g)]);
  });
}

TEST(Plan, AdvanceSetsTheColumnOfTheLastToken) {
  property(150, [](Pick& pick) {
    const int requests = pick.between(0, 6);
    const int n = pick.between(0, requests);
    const int B = pick.between(1, 20);
    std::vector<int> mapping = pick.permutation(requests);
    mapping.resize(static_cast<std::size_t>(n));
    const bool mapped = n != requests || pick.chance(50);
    std::vector<int> lengths, sources, computed, column, accepted;
    for (int i = 0; i < n; ++i) {
      lengths.push_back(pick.between(0, 5));
      sources.push_back(pick.chance(20) ? 0 : i + 1);
    }
    for (int r = 0; r < requests; ++r) {
      computed.push_back(pick.between(0, 100));
      column.push_back(pick.between(0, 9));
      accepted.push_back(pick.between(0, 9));
    }
    const Tensor t_len = strided_i32(pick, lengths), t_sources = strided_i32(pick, sources),
                 t_computed = strided_i32(pick, computed);
    const Tensor t_column = strided_i32(pick, column), t_accepted = strided_i32(pick, accepted);
    const Tensor t_mapping = optional_i32(pick, mapping, mapped);
    must_run(recoverssm::AlignAdvanceParams{t_len, t_sources, t_mapping, t_computed, B, t_column, t_accepted, 0}, random_how(pick));
    for (int i = 0; i < n; ++i) {
      const auto u = static_cast<std::size_t>(i);
      const int r = mapped ? mapping[u] : i;
      if (lengths[u] == 0 || sources[u] <= 0) continue;
      int last = computed[static_cast<std::size_t>(r)] + lengths[u] - 1;  // the last committed token
      int expected = 0;
      for (; last >= B; last -= B) ++expected;
      column[static_cast<std::size_t>(r)] = expected;
      accepted[static_cast<std::size_t>(r)] = 1;
    }
    for (int r = 0; r < requests; ++r) {
      require(t_column.get(r) == column[static_cast<std::size_t>(r)], "running_column of request " + std::to_string(r));
      require(t_accepted.get(r) == accepted[static_cast<std::size_t>(r)], "num_accepted of request " + std::to_string(r));
    }
  });
}

TEST(Plan, WindowsAreSpeculatingOrDecodingRequests) {
  property(150, [](Pick& pick) {
    const int requests = pick.between(0, 6);
    std::vector<std::int32_t> drafts, lengths, expected;
    std::vector<std::uint8_t> prefilling;
    for (int r = 0; r < requests; ++r) {
      drafts.push_back(pick.between(-1, 3));
      prefilling.push_back(pick.chance(40) ? 1 : 0);
      lengths.push_back(pick.between(0, 4));
      if (drafts.back() != -1 || (prefilling.back() == 0 && lengths.back() != 0)) expected.push_back(r);
    }
    const recoverssm::WindowMap map = recoverssm::map_windows(drafts, prefilling, lengths);
    require(map.rows == expected, "rows");
    bool identity = true;
    for (std::size_t i = 0; i < expected.size(); ++i) identity = identity && expected[i] == static_cast<int>(i);
    require(map.identity == identity, "identity");
  });
}

}  // namespace
