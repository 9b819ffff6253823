// Faults that other systems had with steps in flight: who owns a step's data, which step a commit belongs to, what several groups share, and
// what is refused when blocks run out. One test an id of docs/reports.md, on its input and on its kind.
#include <algorithm>
#include <cstring>
#include <limits>

#include "session/driver.h"
#include "session/pools.h"
#include "support/property.h"

namespace session_tests {
namespace {

using recoverssm::StepRow;
using support::Pick;

std::vector<RequestId> ids(const std::vector<Row>& rows) {
  std::vector<RequestId> requests;
  for (const Row& row : rows) {
    if (row.request != 0) requests.push_back(row.request);
  }
  return requests;
}

// A kept-count below 0 keeps nothing, one past the window keeps the window: never a position outside it.
TEST(Reports, B01_counts_outside_the_window) {
  for_all_shapes(8, [](const Shape& shape) {
    for (const std::int32_t count :
         {-1, -7, std::numeric_limits<std::int32_t>::min(), 0, 5, 100, std::numeric_limits<std::int32_t>::max()}) {
      Driver d(shape);
      const RequestId a = started(d, 1, 3), b = started(d, 2, 2);
      Step step = d.open({window(a, 3, count > 0 ? 3 : 0), window(b, 3, 2)});
      d.forward(step);
      d.commit(step, std::vector<Accepted>{{a, count}, {b, 2}});
      EXPECT_EQ(d.session.counters().kept_tokens, (count > 0 ? 3 : 0) + 2);
      EXPECT_EQ(d.session.info(a).phase, count <= 0 && shape.rolled() ? Phase::dead : Phase::live);
      if (d.session.info(a).phase == Phase::live) d.check_export(a);
      d.check_export(b);
    }
  });
}

// Blocks are the session's own: near the end of a text nothing is read past a table, and a step that finds no blocks changes nothing.
TEST(Reports, B20_blocks_run_out) {
  Shape reported{.block_sizes = {16}, .blocks = 4};  // 64 tokens, no column for drafts
  Driver end(reported);
  const RequestId last = started(end, 20, 61);
  end.run({window(last, 4, 1)}), end.run({window(last, 4, 3)});
  EXPECT_EQ(end.tokens(last), 65);
  end.check_export(last);
  // A second request finds two of its three blocks: refused before anything is folded, moved or taken.
  for_all_shapes(4, [](Shape shape) {
    shape.blocks = shape.align() ? 5 : 3;
    Driver d(shape);
    const RequestId a = started(d, 1, 3), b = started(d, 2, 2);
    d.run({window(a, 4, 2), window(b, 1, 1)});
    const RequestId c = d.admit(3);
    const std::vector<std::vector<Row>> too_much{{prefill(c, 1), window(a, 4, 1), window(b, 4, 1)},
                                                 {window(b, 3, 3), window(a, 4, 4), prefill(c, 9)}};
    const Unchanged unchanged(d.session, {a, b, c});
    for (const auto& rows : too_much) {
      EXPECT_FALSE(d.session.fits(d.step_rows(rows)));
      EXPECT_TRUE(
          refuses(ErrorKind::bad_state, "session.open_step: groups[0]: ", {" free blocks", "at least "}, [&] { d.open(rows); }));
    }
    EXPECT_TRUE(unchanged.check());
    d.run({decode(a), window(b, 2, 2)});
    d.check_export(a), d.check_export(b);
  });
  // Random small pools: fits says what open_step does, and room is made by preempting.
  for (std::uint64_t seed = 1; seed <= 64; ++seed) {
    Pick pick(seed);
    auto shapes = all_shapes(4);
    Shape shape = shapes[seed % shapes.size()];
    if (shape.align() && seed % 3 == 0) shape.block_sizes.back() = 5;
    shape.kept_boundaries = pick.between(0, 2);
    shape.blocks = 1 + (shape.align() ? pick.between(2 + shape.kept_boundaries, 10) : pick.between(1, 3));
    SCOPED_TRACE("seed " + std::to_string(seed) + " " + shape.text());
    Driver d(shape);
    std::vector<RequestId> requests;
    for (std::uint64_t r = 0; r < 3; ++r) requests.push_back(d.admit(r));
    int ran = 0;
    for (int i = 0; i < 40; ++i) {
      std::vector<Row> rows;
      for (const RequestId r : requests) {
        if (pick.chance(30)) continue;
        const int length = pick.between(0, shape.S);
        const bool live = d.session.info(r).phase == Phase::live;
        rows.push_back(live && pick.chance(70) ? window(r, length, length == 0 ? 0 : pick.between(shape.rolled() ? 1 : 0, length))
                                               : prefill(r, pick.between(1, 9)));
      }
      const bool fits = d.session.fits(d.step_rows(rows));
      const Unchanged unchanged(d.session, requests);
      if (fits) {
        d.run(rows);
        ++ran;
        continue;
      }
      EXPECT_TRUE(
          refuses(ErrorKind::bad_state, "session.open_step: groups[", {" free blocks", "at least "}, [&] { d.open(rows); }));
      EXPECT_TRUE(unchanged.check());
      // A request alone always has room: that is what blocks_per_request says.
      const RequestId only = requests[static_cast<std::size_t>(pick.between(0, 2))];
      for (const RequestId r : requests) {
        if (r != only) d.preempt(r);
      }
      EXPECT_TRUE(d.session.fits(d.step_rows({prefill(only, 7)})));
      d.run({prefill(only, pick.between(1, 9))});
    }
    EXPECT_GT(ran, 0);
    for (const RequestId r : requests) d.finish(r);
    for (std::int32_t g = 0; g < static_cast<std::int32_t>(shape.block_sizes.size()); ++g)
      EXPECT_EQ(d.session.free_blocks(g), shape.blocks - 1);
  }
}

// What a call was given counts as it was at the call: rows, counts and request lists are copied.
TEST(Reports, B28_the_caller_reuses_its_arrays) {
  const auto scribble = [](auto& values) {
    std::memset(static_cast<void*>(values.data()), 0x5A, values.size() * sizeof values[0]);
  };
  for_all_shapes(8, [&](const Shape& shape) {
    for (std::int32_t kept = 1; kept <= 4; ++kept) {
      Driver d(shape);
      const RequestId a = started(d, 1, 3), b = started(d, 2, 6), c = started(d, 3, 1);
      const auto open = [&](const std::vector<Row>& rows) {
        // The driver opens the step with rows that are overwritten as soon as the call returns.
        Step step = d.open_with(rows, scribble);
        return step;
      };
      Step first = open({window(b, 4, kept), prefill(c, 3)});
      Step second = open({window(a, 3, 2), padding(2)});
      d.forward(second), d.forward(first);
      std::vector<Accepted> accepted = d.counts(first);
      d.session.commit(first.id, accepted, d.context);
      scribble(accepted);
      d.committed(first);
      d.commit(second);
      std::vector<RequestId> fold{a, b, c};
      d.session.materialize(fold, d.context);
      scribble(fold);
      for (const RequestId r : {a, b, c}) d.check_export(r);
    }
  });
}

// Groups have tables of their own and one count a request.
TEST(Reports, B30_groups_use_their_own_tables_and_the_same_counts) {
  const auto run = [](Driver& d, Pick& pick, int steps) {
    const RequestId a = started(d, 1, 5), b = started(d, 2, 9);
    d.run({window(a, 3, 3), window(b, 3, 2)});
    for (int i = 0; i < steps; ++i) {
      const int la = pick.between(1, 4), lb = pick.between(1, 4);
      d.run({window(b, lb, pick.between(1, lb)), window(a, la, pick.between(1, la))});
      if (pick.chance(30)) d.run({prefill(a, pick.between(1, 7)), decode(b)});
    }
    for (const RequestId r : {a, b}) {
      const auto blocks = d.session.info(r).blocks;
      for (std::int32_t g = 0; g < static_cast<std::int32_t>(blocks.size()); ++g) {
        const recoverssm::BlockTag tag = d.session.block_tag(g, blocks[static_cast<std::size_t>(g)]);
        EXPECT_EQ(tag.owner, r);
        if (d.session.info(r).waiting == 0) {
          EXPECT_EQ(tag.tokens, d.tokens(r)) << "group " << g;
        }
      }
      for (const std::int64_t tokens : d.session.exportable(r)) d.check_export(r, tokens);
      d.check_export(r);
    }
  };
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Pick pick(seed);
    auto shapes = all_shapes(4);
    Shape shape = shapes[seed % shapes.size()];
    if (shape.block_sizes.size() == 1) shape.block_sizes.push_back(shape.block_sizes[0]);
    const bool differ = shape.align() && pick.chance(60);
    if (differ) shape.block_sizes[1] = pick.between(5, 9);
    SCOPED_TRACE("seed " + std::to_string(seed) + " " + shape.text());
    Driver d(shape);
    run(d, pick, 8);
    const auto& counters = d.session.counters();
    EXPECT_GT(differ ? counters.per_group_calls : counters.grouped_calls, 0);
    EXPECT_EQ(differ ? counters.grouped_calls : counters.per_group_calls, 0);
    EXPECT_EQ(counters.per_group_reason, differ ? "block sizes differ" : "");
  }
}

// States go from one kind of row to another: chunks, decodes and windows in any order are one run.
TEST(Reports, B38_one_kind_of_row_hands_over_to_another) {
  for_all_shapes(8, [](const Shape& shape) {
    Driver d(shape);
    const RequestId r = started(d, 38, 5);
    for (int i = 0; i < 3; ++i) d.run({decode(r)});
    d.check_export(r);
    const RequestId other = started(d, 39, 5);
    d.run({window(other, 3, 3)});
    d.check_export(other);
  });
  for (const DType state : {DType::f32, DType::bf16, DType::f16}) {
    for (const DType T : {DType::f32, DType::bf16, DType::f16}) {
      for (std::uint64_t seed = 1; seed <= 16; ++seed) {
        Pick pick(seed);
        const auto shapes = all_shapes(6);
        Shape shape = shapes[seed % shapes.size()];
        shape.state = state, shape.T = T;
        SCOPED_TRACE("seed " + std::to_string(seed) + " " + shape.text());
        Driver d(shape);
        const RequestId r = started(d, seed, pick.between(1, 9));
        for (int i = 0; i < 12; ++i) {
          const int length = pick.between(0, shape.S);
          switch (pick.between(0, 2)) {
            case 0:
              d.run({prefill(r, pick.between(1, 9))});
              break;
            case 1:
              d.run({decode(r)});
              break;
            default:
              d.run({window(r, length, length == 0 ? 0 : pick.between(shape.rolled() ? 1 : 0, length))});
          }
        }
        d.check_export(r);
      }
    }
  }
}

// Nothing was kept in the step before, for every window length.
TEST(Reports, B58_nothing_kept_in_the_step_before) {
  for (std::int32_t S = 1; S <= 9; ++S) {
    for (Shape shape : all_shapes(9)) {
      if (shape.rolled()) continue;
      shape.S = S;
      SCOPED_TRACE(shape.text());
      Driver d(shape);
      const RequestId r = started(d, 58, 4);
      for (std::int32_t length = 1; length <= S; ++length) {
        d.run({window(r, length, 0)});
        d.run({window(r, S + 1 - length, (S + 2 - length) / 2)});
      }
      d.check_export(r);
    }
  }
}

// A late commit belongs to its step: its rows, its blocks, its counts.
TEST(Reports, B59_late_commit_uses_the_blocks_of_its_step) {
  for_all_shapes(8, [](const Shape& shape) {
    Driver d(shape);
    const RequestId a = started(d, 1, 4), b = started(d, 2, 2);
    Step late = d.open({window(a, 3, 2), window(b, 3, 3)});
    d.forward(late);
    const std::vector<std::int32_t> slots_a = d.session.info(a).blocks, slots_b = d.session.info(b).blocks;
    // The next step's rows: a is gone, c has come.
    d.finish(a);
    const RequestId c = d.admit(3);
    d.run({prefill(c, 5)});
    Step next = d.open({window(c, 2, 1)});
    d.forward(next);
    for (std::size_t g = 0; g < slots_a.size(); ++g) {
      EXPECT_NE(d.session.info(c).blocks[g], slots_a[g]);  // a's block is not free before its step is closed
      EXPECT_NE(d.session.info(c).blocks[g], slots_b[g]);
    }
    const Bytes of_c = d.memory(c);
    const Unchanged unchanged(d.session, {b, c});
    EXPECT_TRUE(refuses(ErrorKind::bad_state, "session.commit: accepted[1].request: ",
                        {std::to_string(c), "no row in this step", "a request of the step"}, [&] {
                          d.session.commit(late.id, std::vector<Accepted>{{b, 3}, {c, 2}}, d.context);
                        }));
    EXPECT_TRUE(unchanged.check());
    d.commit(late, std::vector<Accepted>{{b, 3}});
    EXPECT_EQ(d.memory(c), of_c);
    EXPECT_EQ(d.session.info(b).tokens, 5);
    d.commit(next);
    d.check_export(b), d.check_export(c);
  });
  // Several steps open at once, closed in any order, counts in any order, requests freed and admitted in between.
  for (std::uint64_t seed = 1; seed <= 96; ++seed) {
    Pick pick(seed);
    const auto shapes = all_shapes(5);
    Shape shape = shapes[seed % shapes.size()];
    shape.blocks = 64;
    SCOPED_TRACE("seed " + std::to_string(seed) + " " + shape.text());
    Driver d(shape);
    std::vector<RequestId> idle;
    std::uint64_t texts = 0;
    std::vector<Step> open;
    for (int i = 0; i < 40; ++i) {
      while (idle.size() < 4) idle.push_back(d.admit(++texts));
      switch (pick.between(0, 4)) {
        case 0:
        case 1: {  // open a step with some idle requests
          std::vector<Row> rows;
          for (std::size_t k = idle.size(); k-- > 0;) {
            if (pick.chance(50)) continue;
            const RequestId r = idle[k];
            idle.erase(idle.begin() + static_cast<std::ptrdiff_t>(k));
            const int length = pick.between(0, shape.S);
            rows.push_back(d.session.info(r).phase == Phase::live && pick.chance(75)
                               ? window(r, length, length == 0 ? 0 : pick.between(shape.rolled() ? 1 : 0, length))
                               : prefill(r, pick.between(1, 6)));
          }
          open.push_back(d.open(rows));
          if (pick.chance(70)) d.forward(open.back());
          break;
        }
        case 2: {  // free a request of an open step
          if (open.empty()) break;
          const auto& rows = open[static_cast<std::size_t>(pick.between(0, static_cast<int>(open.size()) - 1))].rows;
          if (rows.empty()) break;
          const RequestId r = rows[static_cast<std::size_t>(pick.between(0, static_cast<int>(rows.size()) - 1))].request;
          if (!d.knows(r) || d.session.info(r).open_step == 0 || std::ranges::count(idle, r) > 0) break;
          if (pick.chance(50)) {
            d.finish(r);
          } else {
            d.preempt(r);
            idle.push_back(r);
          }
          break;
        }
        default: {  // close one
          if (open.empty()) break;
          const auto which = static_cast<std::size_t>(pick.between(0, static_cast<int>(open.size()) - 1));
          Step step = open[which];
          open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));
          std::vector<RequestId> survivors;
          for (const RequestId r : ids(step.rows)) {
            if (d.knows(r) && d.session.info(r).open_step == step.id) survivors.push_back(r);
          }
          if (step.io[0].x.present() || step.keys.empty()) {
            if (step.keys.empty() && !step.io[0].x.present()) d.forward(step);
            std::vector<Accepted> counts = d.counts(step);
            std::ranges::reverse(counts);
            d.commit(step, counts);
          } else {
            d.abandon(step);  // no layer has run: as before
          }
          idle.insert(idle.end(), survivors.begin(), survivors.end());
          d.check_all();
        }
      }
    }
    for (Step& step : open) d.abandon(step);
    EXPECT_EQ(d.session.open_steps(), 0);
    for (const RequestId r : d.requests()) d.finish(r);
    for (std::int32_t g = 0; g < static_cast<std::int32_t>(shape.block_sizes.size()); ++g)
      EXPECT_EQ(d.session.free_blocks(g), shape.blocks - 1);
  }
}

// A window is committed once. A commit without a verify is an error.
TEST(Reports, B65_a_stray_commit) {
  for_all_shapes(8, [](const Shape& shape) {
    for (std::int32_t kept = 1; kept <= 4; ++kept) {
      Driver d(shape);
      const RequestId r = started(d, 65, 4);
      Step step = d.open({window(r, 4, kept)});
      d.forward(step);
      d.commit(step);
      for (int plain = 0; plain <= 3; ++plain) {
        const Unchanged unchanged(d.session, {r});
        for (const StepId stray : {step.id, step.id + 100, StepId{0}}) {
          EXPECT_TRUE(refuses(ErrorKind::bad_state, "session.commit: step: ",
                              {std::to_string(stray), "not open", "neither committed nor abandoned"}, [&] {
                                d.session.commit(stray, std::vector<Accepted>{{r, kept}}, d.context);
                              }));
          EXPECT_TRUE(refuses(ErrorKind::bad_state, "session.abandon: step: ", {std::to_string(stray), "not open"},
                              [&] { d.session.abandon(stray); }));
        }
        EXPECT_TRUE(unchanged.check());
        d.run({decode(r)});
      }
      // Layers that have not been verified can't be committed.
      Step next = d.open({window(r, 4, kept)});
      for (std::int32_t l = 0; l < d.model.layers(); ++l) {
        const Unchanged unchanged(d.session, {r});
        EXPECT_TRUE(refuses(ErrorKind::bad_state, "session.commit: step: ",
                            {std::to_string(d.model.layers() - l) + " layers", "all layers to have run"}, [&] {
                              d.session.commit(next.id, std::vector<Accepted>{{r, kept}}, d.context);
                            }));
        EXPECT_TRUE(unchanged.check());
        d.forward(next, l);
      }
      d.commit(next);
      d.check_export(r);
    }
  });
}

}  // namespace
}  // namespace session_tests
