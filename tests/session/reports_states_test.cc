// Faults that other systems had with saved states: which boundaries have one, what is in it, who may use it, and when. One test an id of
// docs/reports.md, on its input and on its kind.
#include <algorithm>
#include <set>

#include "session/driver.h"
#include "session/pools.h"
#include "support/property.h"

namespace session_tests {
namespace {

using recoverssm::prefix_hit;
using support::Pick;
using Counts = std::vector<std::int64_t>;

std::vector<Shape> align_shapes(std::int32_t B, std::int32_t kept_boundaries = 1) {
  std::vector<Shape> shapes;
  for (Shape shape : all_shapes(B)) {
    shape.kept_boundaries = kept_boundaries;
    if (shape.align()) shapes.push_back(shape);
  }
  return shapes;
}

// What lies in the blocks that are not the request's.
std::vector<Bytes> other_blocks(const Driver& d, const Pages& pages) {
  std::vector<Bytes> blocks;
  for (std::int32_t g = 0; g < static_cast<std::int32_t>(d.model.shape().block_sizes.size()); ++g) {
    for (std::int32_t b = 0; b < d.model.shape().blocks; ++b) {
      const recoverssm::BlockTag tag = d.session.block_tag(g, b);
      if (tag.references == 0) blocks.push_back(pages.block(g, b));
    }
  }
  return blocks;
}

// One step that keeps tokens up to, onto or past a block's edge: the edge has its own state, the running state has the request's count,
// and no other block changes.
void cross_edge(const Shape& shape, std::int32_t computed, const Row& last, std::int32_t kept) {
  SCOPED_TRACE(shape.text() + ": " + std::to_string(computed) + " tokens, then " + std::to_string(last.tokens) + " of which " +
               std::to_string(kept));
  Pages pages(Model(shape).config());
  Driver d(shape, pages.pools);
  const RequestId r = started(d, 18, computed);
  pages.fill_free(1e9F, [&](std::int32_t group, std::int32_t block) { return d.session.block_tag(group, block).references == 0; });
  Row row = last;
  row.request = r;
  Step step = d.open({row});
  const std::vector<Bytes> others = other_blocks(d, pages);
  d.forward(step);
  EXPECT_EQ(others, other_blocks(d, pages));
  d.commit(step);
  const std::int32_t B = *shape.block_sizes[0];
  const std::int32_t after = computed + kept;
  EXPECT_EQ(d.session.info(r).tokens, after);
  d.check_export(r);
  const Counts exportable = d.session.exportable(r);
  EXPECT_EQ(exportable.back(), after);
  const std::int32_t edge = after / B * B;
  // A plain row passes edges without stopping there; the edge it ends on, and any edge a window reaches, has a state.
  const bool has_edge = edge > 0 && (edge == computed || edge == after || (edge > computed && row.kind == RowKind::window));
  EXPECT_EQ(std::ranges::count(exportable, edge), has_edge ? 1 : 0);
  for (const std::int64_t tokens : exportable) d.check_export(r, tokens);
  d.run({decode(r)});
  d.run({window(r, 3, 2)});
  d.check_export(r);
  EXPECT_TRUE(pages.gaps_intact());
}

TEST(Reports, B18_kept_tokens_on_a_block_edge) {
  for (const Shape& shape : align_shapes(16)) {
    cross_edge(shape, 30, window(0, 3, 2), 2);
    cross_edge(shape, 14, window(0, 3, 2), 2);
    cross_edge(shape, 15, window(0, 4, 1), 1);
    cross_edge(shape, 16, window(0, 4, 3), 3);
  }
  for (const Shape& shape : align_shapes(4)) {
    for (std::int32_t computed = 1; computed <= 9; ++computed) {
      for (std::int32_t length = 1; length <= 4; ++length) {
        for (std::int32_t kept = 1; kept <= length; ++kept) cross_edge(shape, computed, window(0, length, kept), kept);
      }
      cross_edge(shape, computed, decode(0), 1);
      cross_edge(shape, computed, prefill(0, 7), 7);
    }
  }
}

// Nothing is kept of a window that was moved past an edge: the block beyond the edge holds the state before it, and is no boundary.
TEST(Reports, B18_nothing_kept_beside_a_block_edge) {
  for (const Shape& shape : align_shapes(4)) {
    if (shape.rolled()) continue;  // dead then
    for (std::int32_t computed = 2; computed <= 9; ++computed) {
      for (std::int32_t length = 1; length <= 4; ++length) {
        for (const bool abandoned : {false, true}) {
          if (abandoned && shape.lazy) continue;  // dead then
          SCOPED_TRACE(shape.text() + ": " + std::to_string(computed) + " tokens, window of " + std::to_string(length));
          Driver d(shape);
          const RequestId r = started(d, 18, computed);
          Step step = d.open({window(r, length, 0)});
          d.forward(step);
          abandoned ? d.abandon(step) : d.commit(step);
          d.check_export(r);
          // A long chunk leaves the block of the window behind: it must not pass for the edge of its column.
          d.run({prefill(r, 9)});
          const std::int64_t after = computed + 9;
          for (const std::int64_t tokens : d.session.exportable(r)) {
            EXPECT_TRUE(tokens == after || tokens == computed / 4 * 4) << "after " << tokens;
            if (tokens == computed / 4 * 4) {
              EXPECT_EQ(computed % 4, 0);
            }
            d.check_export(r, tokens);
          }
        }
      }
    }
  }
}

// Only boundaries that a step ended on have a state.
TEST(Reports, B21_only_boundaries_with_a_state_are_exported) {
  for (const Shape& shape : align_shapes(16)) {
    Driver d(shape);
    const RequestId r = d.admit(21);
    d.run({prefill(r, 16)});
    EXPECT_EQ(d.session.exportable(r), (Counts{16}));
    d.run({prefill(r, 29)});
    EXPECT_EQ(d.session.exportable(r), (Counts{16, 45}));
    d.check_export(r, 16), d.check_export(r, 45);
    const Unchanged unchanged(d.session, {r});
    for (const std::int64_t tokens : {32, 0, -1, 15, 44, 46, 48, 64}) {
      EXPECT_TRUE(refuses(ErrorKind::bad_state, "session.export_checkpoint: tokens: ", {std::to_string(tokens), "exportable()"},
                          [&] { (void)d.session.export_checkpoint(r, tokens, 0, d.context); }));
      EXPECT_TRUE(refuses(ErrorKind::bad_state, "session.hold: tokens: ", {std::to_string(tokens), "exportable()"},
                          [&] { d.session.hold(r, tokens, d.context); }));
    }
    EXPECT_TRUE(unchanged.check());
  }
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Pick pick(seed);
    const std::int32_t B = pick.between(4, 7), kept_boundaries = pick.between(0, 3);
    const auto shapes = align_shapes(B, kept_boundaries);
    const Shape& shape = shapes[seed % shapes.size()];
    SCOPED_TRACE("seed " + std::to_string(seed) + " " + shape.text());
    Driver d(shape);
    const RequestId r = d.admit(seed);
    std::set<std::int64_t> real;
    std::int64_t tokens = 0;
    for (int i = 0; i < 14; ++i) {
      Row row = prefill(r, pick.between(1, 2 * B));
      if (i > 0 && pick.chance(60)) {
        const int length = pick.between(1, shape.S);
        row = window(r, length, pick.between(shape.rolled() ? 1 : 0, length));
      }
      d.run({row});
      const std::int64_t edge = (tokens / B + 1) * B;
      tokens += row.kept;
      if (tokens == edge || (row.kind == RowKind::window && tokens >= edge)) real.insert(edge);
      if (tokens % B == 0) real.insert(tokens);
      if (pick.chance(50)) d.check_export(r);
      for (const std::int64_t t : d.session.exportable(r)) {
        EXPECT_TRUE(t == tokens || real.contains(t)) << t << " of " << tokens;
        d.check_export(r, t);
      }
      // The latest ones are kept.
      d.check_export(r);
      std::int64_t expected = 0;
      for (const std::int64_t t : real) expected += t < tokens ? 1 : 0;
      const auto listed = static_cast<std::int64_t>(d.session.exportable(r).size()) - 1;
      EXPECT_EQ(listed, std::min<std::int64_t>(expected, kept_boundaries)) << "after " << tokens;
    }
  }
}

// A hit is as long as the longest state that every group has, never longer than attention's.
TEST(Reports, B23_prefix_hits) {
  constexpr std::int64_t kBlock = 16;
  EXPECT_EQ(prefix_hit(2 * kBlock, std::vector<Counts>{{kBlock}}), kBlock);
  EXPECT_EQ(prefix_hit(kBlock, std::vector<Counts>{{kBlock, 2 * kBlock}}), kBlock);
  EXPECT_EQ(prefix_hit(2 * kBlock, std::vector<Counts>{{2 * kBlock}, {kBlock, 2 * kBlock}, {kBlock}}), 0);
  EXPECT_EQ(prefix_hit(5, {}), 5);
  EXPECT_EQ(prefix_hit(-5, {}), 0);
  EXPECT_EQ(prefix_hit(100, std::vector<Counts>{{}, {1}}), 0);
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Pick pick(seed);
    std::vector<Counts> groups(static_cast<std::size_t>(pick.between(1, 4)));
    for (Counts& counts : groups) {
      for (int i = pick.between(0, 8); i > 0; --i) counts.push_back(pick.between(1, 10));
    }
    const std::int64_t attention = pick.between(0, 12), hit = prefix_hit(attention, groups);
    std::int64_t longest = 0;
    for (std::int64_t t = 1; t <= attention; ++t) {
      if (std::ranges::all_of(groups, [t](const Counts& g) { return std::ranges::count(g, t) > 0; })) longest = t;
    }
    EXPECT_EQ(hit, longest) << "seed " << seed;
  }
  // What one session lists, as the hit of a request over it.
  for (const Shape& shape : align_shapes(8)) {
    Driver d(shape);
    const RequestId r = started(d, 23, 8);
    d.run({prefill(r, 12)});
    const std::vector<Counts> groups{d.session.exportable(r)};
    EXPECT_EQ(prefix_hit(16, groups), 8);
    EXPECT_EQ(prefix_hit(7, groups), 0);
    const RequestId again = d.admit(230, d.hold(r, prefix_hit(16, groups)));
    d.check(again);
    d.run({window(again, 4, 3), prefill(r, 1)});
    d.check_export(again), d.check_export(r);
  }
}

// Before the commit has run there is nothing to look up, and after a cancel there never is.
TEST(Reports, B24_no_state_before_its_commit) {
  for (const Shape& shape : align_shapes(16)) {
    for (const bool cancel_early : {true, false}) {
      Driver d(shape);
      const RequestId r = d.admit(24);
      Step step = d.open({prefill(r, 32)});
      EXPECT_TRUE(d.session.exportable(r).empty());
      if (!cancel_early) d.forward(step);
      EXPECT_TRUE(d.session.exportable(r).empty());
      const Unchanged unchanged(d.session, {r});
      EXPECT_TRUE(refuses(ErrorKind::bad_state, "session.hold: request: ", {std::to_string(r), "open step"},
                          [&] { d.session.hold(r, 32, d.context); }));
      EXPECT_TRUE(refuses(ErrorKind::bad_state, "session.fork: request: ", {"open step"}, [&] { d.session.fork(r, d.context); }));
      EXPECT_TRUE(unchanged.check());
      d.abandon(step);
      EXPECT_TRUE(d.session.exportable(r).empty());
      EXPECT_EQ(d.session.info(r).phase, cancel_early ? Phase::empty : Phase::dead);
      // A slot that was never filled can't be decoded from.
      EXPECT_TRUE(refuses(ErrorKind::bad_state, "session.open_step: request: ", {std::to_string(r)}, [&] { d.open({decode(r)}); }));
      d.preempt(r);
      d.run({prefill(r, 32)});
      EXPECT_EQ(d.session.exportable(r), (Counts{32}));
      d.check_export(r, 32);
    }
  }
  // A copy that is refused half-way binds nothing: the request is as empty as before.
  for_all_shapes(4, [](const Shape& shape) {
    Driver d(shape);
    const RequestId r = started(d, 1, 5);
    Bytes saved = d.check_export(r);
    const RequestId next = d.admit(2);
    const Unchanged unchanged(d.session, {r, next});
    for (std::size_t at = 0; at < saved.size(); at += 1 + saved.size() / 40) {
      Bytes damaged = saved;
      damaged[at] ^= std::byte{16};
      EXPECT_THROW(d.session.restore(next, damaged, 5, 9), recoverssm::Error) << "byte " << at;
      EXPECT_TRUE(refuses(ErrorKind::invalid_argument, "checkpoint: bytes: ", {std::to_string(at) + " bytes"},
                          [&] { d.session.restore(next, std::span(saved).first(at), 5, 9); }));
    }
    EXPECT_TRUE(unchanged.check());
    EXPECT_TRUE(refuses(ErrorKind::bad_state, "session.open_step: request: ", {"has no state"}, [&] { d.open({decode(next)}); }));
    d.run({prefill(next, 3), decode(r)});
  });
}

// A packed prefill of several requests: every state is the one its own request has alone, under its own count.
TEST(Reports, B25_states_of_a_packed_prefill) {
  const auto run = [](const Shape& shape, const std::vector<std::int32_t>& lengths, std::int32_t unit) {
    Driver d(shape);
    std::vector<Row> first, rest;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const RequestId r = d.admit(250 + i);
      const std::int32_t edge = lengths[i] / unit * unit;
      first.push_back(prefill(r, edge)), rest.push_back(prefill(r, lengths[i] - edge));
    }
    d.run(first), d.run(rest);
    std::vector<Bytes> saved;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const RequestId r = first[i].request;
      const std::int64_t edge = first[i].tokens;
      if (edge > 0) {
        EXPECT_EQ(d.session.exportable(r).front(), edge);
        saved.push_back(d.check_export(r, edge));
      }
      d.check_export(r, lengths[i]);
    }
    for (std::size_t i = 0; i < saved.size(); ++i) {  // another key than its own
      const RequestId next = d.session.admit();
      EXPECT_TRUE(refuses(ErrorKind::invalid_argument, "session.restore: checkpoint.tokens: ",
                          {std::to_string(lengths[i] / unit * unit)}, [&] { d.session.restore(next, saved[i], 96, 9); }));
      d.session.finish(next);
    }
  };
  Shape shape{.block_sizes = {128}};
  run(shape, {500, 700, 900}, 128);
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    Pick pick(seed);
    const std::int32_t unit = pick.between(4, 8);
    const auto shapes = align_shapes(unit);
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::vector<std::int32_t> lengths(static_cast<std::size_t>(pick.between(2, 5)));
    for (auto& length : lengths) length = pick.between(unit, 5 * unit + 1);
    run(shapes[seed % shapes.size()], lengths, unit);
  }
}

// Preempted: from nothing, or from what was saved, to the bit.
TEST(Reports, B61_preempted_and_resumed) {
  for_all_shapes(8, [](const Shape& shape) {
    Driver d(shape);
    const RequestId r = started(d, 61, 6);
    d.run({window(r, 3, 2)});
    const std::vector<std::int32_t> slot = d.session.info(r).blocks;
    const Bytes saved = d.check_export(r);
    d.preempt(r);
    EXPECT_EQ(d.session.info(r).tokens, 0);
    EXPECT_EQ(d.session.info(r).phase, Phase::empty);
    EXPECT_EQ(d.session.free_blocks(0), shape.blocks - 1);
    d.run({prefill(r, 6)});  // in a slot full of the old state
    if (!shape.align()) {
      EXPECT_EQ(d.session.info(r).blocks, slot);
    }
    d.check_export(r);
    d.preempt(r);
    d.session.restore(r, saved, 8, 9);
    const Bytes again = d.session.export_checkpoint(r, 8, 9, d.context);
    EXPECT_TRUE(std::equal(saved.begin() + 56, saved.end() - 8, again.begin() + 56));  // all but header and checksum
  });
  for (std::uint64_t seed = 1; seed <= 48; ++seed) {
    Pick pick(seed);
    const auto shapes = all_shapes(5);
    const Shape& shape = shapes[seed % shapes.size()];
    SCOPED_TRACE("seed " + std::to_string(seed) + " " + shape.text());
    Driver d(shape);
    const RequestId a = started(d, 1, pick.between(1, 8)), b = started(d, 2, pick.between(1, 8));
    for (int i = 0; i < 10; ++i) {
      const std::int64_t before = d.tokens(a);
      if (pick.chance(40)) {
        const Bytes saved = pick.chance(50) ? d.check_export(a) : Bytes();
        const auto history = d.snapshot(a);
        d.preempt(a);
        if (pick.chance(50)) d.run({window(b, 2, 1)});
        if (saved.empty()) {
          d.run({prefill(a, pick.between(1, 6))});
        } else {
          d.session.restore(a, saved, before, 9);
          d.restored(a, history);
        }
        d.check(a);
      }
      const int length = pick.between(1, shape.S);
      d.run({window(a, length, pick.between(1, length)), decode(b)});
    }
    d.check_export(a), d.check_export(b);
  }
}

// A slot's next owner sees nothing of the last one: no waiting records, no counts, no state.
TEST(Reports, B64_a_slot_starts_anew) {
  for_all_shapes(8, [](const Shape& shape) {
    for (std::int32_t kept = 1; kept <= 4; ++kept) {
      for (const bool preempted : {false, true}) {
        Shape small = shape;
        small.blocks = shape.align() ? 4 : 2;  // one request at a time
        Driver d(small);
        const RequestId first = started(d, 1, 5);
        d.run({window(first, 4, kept)});
        if (shape.lazy) {
          EXPECT_EQ(d.session.info(first).waiting, kept);
        }
        preempted ? d.preempt(first) : d.finish(first);
        const RequestId second = preempted ? first : d.admit(2);
        EXPECT_EQ(d.session.info(second).waiting, 0);
        d.run({prefill(second, 1)});
        EXPECT_EQ(d.session.info(second).waiting, 0);
        d.run({window(second, 2, 1)});
        d.run({window(second, 4, 4), padding(1)});
        d.check_export(second);
        // The same with a restored state.
        const Bytes saved = d.check_export(second);
        d.run({window(second, 4, kept)});
        d.preempt(second);
        d.session.restore(second, saved, 6, 9);
        EXPECT_EQ(d.session.info(second).waiting, 0);
        const RequestId id = second;
        EXPECT_EQ(d.session.export_checkpoint(id, 6, 9, d.context).size(), saved.size());
      }
    }
  });
}

// Copies, forks and moves take waiting records along, by folding them first.
TEST(Reports, B66_copies_while_records_wait) {
  for_all_shapes(4, [](const Shape& shape) {
    for (std::int32_t computed = 1; computed <= 5; ++computed) {
      for (std::int32_t kept = shape.rolled() ? 1 : 0; kept <= 4; ++kept) {
        SCOPED_TRACE(std::to_string(computed) + " tokens, " + std::to_string(kept) + " waiting");
        const auto waiting = [&](Driver& d) {
          const RequestId r = started(d, 66, computed);
          d.run({window(r, 4, kept)});
          EXPECT_EQ(d.session.info(r).waiting, shape.lazy ? kept : 0);
          return r;
        };
        const auto same_next = [&](Driver& d, RequestId a, RequestId b) {  // with one text from here on: equal outputs and states
          d.check(a), d.check(b);
          d.run({window(b, 3, 2), window(a, 3, 2)});
          d.check_export(a), d.check_export(b);
          EXPECT_EQ(d.memory(a), d.memory(b));
        };
        {
          Driver d(shape);
          const RequestId r = waiting(d);
          same_next(d, r, d.fork(r, 66));
        }
        {
          Driver d(shape);
          const RequestId r = waiting(d);
          same_next(d, r, d.admit(66, d.hold(r, computed + kept)));
        }
        {
          Driver d(shape);
          const RequestId r = waiting(d);
          const PrefixId prefix = d.finish_and_hold(r);
          EXPECT_EQ(d.session.tokens(prefix), computed + kept);
          const RequestId a = d.admit(66, prefix), b = d.admit(66, prefix);
          same_next(d, a, b);
          d.session.release(prefix);
        }
        {
          Driver d(shape);
          const RequestId r = waiting(d);
          const Bytes saved = d.session.export_checkpoint(r, computed + kept, 9, d.context);
          const RequestId next = d.session.admit();
          d.session.restore(next, saved, computed + kept, 9);
          d.folded(r);
          d.restored(next, d.snapshot(r));
          same_next(d, r, next);
        }
        {
          Driver d(shape);
          const RequestId r = waiting(d);
          d.session.materialize({&r, 1}, d.context);
          d.folded(r);
          d.check(r);
        }
        {
          Driver d(shape);  // align mode moves the state to the next block, twice
          const RequestId r = waiting(d);
          d.run({prefill(r, 5)});
          d.run({window(r, 4, 1)});
          d.run({prefill(r, 6)});
          d.check_export(r);
        }
      }
    }
  });
}

}  // namespace
}  // namespace session_tests
