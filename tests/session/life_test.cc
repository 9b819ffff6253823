// The life of requests, steps and prefixes, beyond what the reports ask.
#include <algorithm>

#include "session/driver.h"
#include "session/pools.h"
#include "support/property.h"

namespace session_tests {
namespace {

using recoverssm::CheckpointInfo;
using recoverssm::Session;
using support::Pick;
using Counts = std::vector<std::int64_t>;

std::int32_t groups_of(const Shape& shape) { return static_cast<std::int32_t>(shape.block_sizes.size()); }

// All blocks but the null block's are free.
void expect_all_free(const Driver& d) {
  for (std::int32_t g = 0; g < groups_of(d.model.shape()); ++g) {
    EXPECT_EQ(d.session.free_blocks(g), d.model.shape().blocks - d.model.shape().null_block_id - 1) << "group " << g;
  }
}

// ---- abandoned steps -------------------------------------------------------------------------------------------------------------

TEST(Session, AbandonBeforeAnyLayerChangesNothing) {
  for_all_shapes(4, [](const Shape& shape) {
    for (std::int32_t tokens = 1; tokens <= 5; ++tokens) {
      for (std::int32_t kept = 1; kept <= 4; ++kept) {
        Driver d(shape);
        const RequestId live = started(d, 1, tokens), empty = d.admit(2), other = started(d, 3, 2);
        d.run({window(live, 4, kept), window(other, 2, 1)});
        const Counts exportable = d.session.exportable(live);
        for (const Row& row :
             {window(live, 4, 0), window(live, 1, 0), prefill(live, 6), decode(live), prefill(live, 0), window(live, 0, 0)}) {
          Step step = d.open({row, prefill(empty, 3), padding(1)});
          EXPECT_EQ(d.session.info(live).open_step, step.id);
          EXPECT_TRUE(d.session.exportable(live).empty());
          d.abandon(step);
          EXPECT_EQ(d.session.info(live).open_step, 0U);
          EXPECT_EQ(d.session.info(live).phase, Phase::live);
          EXPECT_EQ(d.session.info(empty).phase, Phase::empty);
          EXPECT_EQ(d.session.info(live).tokens, tokens + kept);
          // Folding for the step may have happened: what could be exported before can be still, in a lazy session perhaps more.
          if (!shape.lazy) {
            EXPECT_EQ(d.session.exportable(live), exportable);
          }
          const auto blocks = d.session.info(live).blocks;
          for (std::int32_t g = 0; g < groups_of(shape); ++g) {
            EXPECT_GE(d.session.block_tag(g, blocks[static_cast<std::size_t>(g)]).tokens, tokens)
                << "a closed step writes no block";
          }
        }
        d.run({prefill(empty, 2), window(live, 3, 2)});
        for (const RequestId r : {live, empty, other}) d.check_export(r);
        EXPECT_EQ(d.session.counters().steps_abandoned, 6);
        for (const RequestId r : {live, empty, other}) d.finish(r);
        expect_all_free(d);
      }
    }
  });
}

TEST(Session, AbandonAfterALayerKeepsOnlyEagerWindowsOnAnchoredLines) {
  for_all_shapes(4, [](const Shape& shape) {
    const bool survives = !shape.lazy && !shape.rolled();
    for (std::int32_t ran = 1; ran <= 4; ++ran) {
      for (std::int32_t tokens = 2; tokens <= 5; ++tokens) {
        Driver d(shape);
        const RequestId w = started(d, 1, tokens), chunk = started(d, 2, tokens), single = started(d, 3, tokens),
                        fresh = d.admit(4), still = started(d, 5, tokens);
        d.run({window(w, 2, 1)});
        Step step = d.open({window(w, 4, 0), prefill(chunk, 3), decode(single), prefill(fresh, 2), window(still, 0, 0)});
        for (std::int32_t l = 0; l < ran; ++l) d.forward(step, l);
        const std::int64_t dead = d.session.counters().dead_rows;
        d.abandon(step);
        EXPECT_EQ(d.session.info(w).phase, survives ? Phase::live : Phase::dead);
        for (const RequestId r : {chunk, single, fresh}) {
          EXPECT_EQ(d.session.info(r).phase, Phase::dead);
          EXPECT_EQ(d.session.info(r).tokens, 0);
          EXPECT_TRUE(d.session.exportable(r).empty());
        }
        EXPECT_EQ(d.session.counters().dead_rows - dead, survives ? 3 : 4);
        d.check_export(still);
        if (survives) {
          d.check_export(w);
          d.run({window(w, 4, 3)});
          d.check_export(w);
        }
        for (const RequestId r : {chunk, single}) {  // the ways out of death
          d.preempt(r);
          EXPECT_EQ(d.session.info(r).phase, Phase::empty);
        }
        d.run({prefill(chunk, 3)});
        const Bytes saved = d.check_export(chunk);
        d.session.restore(fresh, saved, 3, 9);
        d.restored(fresh, d.snapshot(chunk));
        d.check(fresh);
        for (const RequestId r : {w, chunk, single, fresh, still}) d.finish(r);
        expect_all_free(d);
      }
    }
  });
}

// ---- requests freed in the middle of a step --------------------------------------------------------------------------------------

TEST(Session, FreedInTheMiddleOfAStep) {
  for_all_shapes(4, [](const Shape& shape) {
    for (const bool finished : {true, false}) {
      for (const bool committed : {true, false}) {
        for (const bool early : {true, false}) {  // before the layers run
          Driver d(shape);
          const RequestId gone = started(d, 1, 3), stays = started(d, 2, 5), fresh = d.admit(3);
          d.run({window(gone, 3, 3)});
          Step step = d.open({window(gone, 4, 2), prefill(fresh, 4), window(stays, 2, 1)});
          if (!early) d.forward(step);
          std::vector<std::int32_t> free;
          for (std::int32_t g = 0; g < groups_of(shape); ++g) free.push_back(d.session.free_blocks(g));
          for (const RequestId r : {gone, fresh}) finished ? d.finish(r) : d.preempt(r);
          for (std::int32_t g = 0; g < groups_of(shape); ++g)
            EXPECT_EQ(d.session.free_blocks(g), free[static_cast<std::size_t>(g)]);
          RequestId again = gone;
          if (finished) {
            EXPECT_TRUE(
                refuses(ErrorKind::bad_state, "session.info: request: ", {"which is none"}, [&] { (void)d.session.info(gone); }));
            again = d.admit(6);
          } else {
            EXPECT_EQ(d.session.info(gone).open_step, 0U);
            EXPECT_EQ(d.session.info(gone).phase, Phase::empty);
          }
          // A new row of a preempted request, while its old row is in an open step.
          Step second = d.open({prefill(again, 3)});
          d.forward(second);
          if (early) d.forward(step);  // dead rows still run
          d.commit(second);
          if (committed) {
            d.commit(step, std::vector<Accepted>{{stays, 1}});
            d.check_export(stays);
          } else {
            d.abandon(step);
            EXPECT_EQ(d.session.info(stays).phase, shape.lazy || shape.rolled() ? Phase::dead : Phase::live);
          }
          d.check_export(again);
          EXPECT_EQ(d.session.counters().window_rows, 1 + (committed ? 1 : 0));  // dead rows are not counted
          for (const RequestId r : d.requests()) d.finish(r);
          expect_all_free(d);
        }
      }
    }
  });
}

TEST(Session, GivesUpWithStepsOpen) {
  for_all_shapes(4, [](const Shape& shape) {  // what is left behind: address sanitizer's to see
    Pages pages(Model(shape).config());
    Driver d(shape, pages.pools);
    const RequestId a = started(d, 1, 3), b = started(d, 2, 5), c = started(d, 3, 4);
    (void)d.hold(a, 3);
    Step one = d.open({window(a, 3, 2)}), two = d.open({prefill(b, 6)});
    d.forward(one);
    d.forward(two, 0);
    d.finish(b);
    EXPECT_EQ(d.session.open_steps(), 2);
    d.check(c);
  });
}

// ---- prefixes and forks ----------------------------------------------------------------------------------------------------------

TEST(Session, HeldPrefixes) {
  for_all_shapes(4, [](const Shape& shape) {
    for (std::int32_t tokens = 1; tokens <= 9; ++tokens) {
      SCOPED_TRACE(std::to_string(tokens) + " tokens");
      Driver d(shape);
      const RequestId r = started(d, 1, tokens);
      const bool shared = shape.align() && tokens % 4 == 0;
      const std::int32_t free = d.session.free_blocks(0);
      const std::int64_t moved = d.session.counters().moved_rows;
      const PrefixId prefix = d.hold(r, tokens);
      EXPECT_EQ(d.session.free_blocks(0), free - (shared ? 0 : 1));
      EXPECT_EQ(d.session.counters().moved_rows - moved, shared ? 0 : groups_of(shape));
      EXPECT_EQ(d.session.tokens(prefix), tokens);
      EXPECT_EQ(d.session.prefixes(), 1);
      if (shared) {
        EXPECT_EQ(d.session.block_tag(0, d.session.info(r).blocks[0]).references, 2);
      }
      // Its owner goes on and away; several requests start from it in one step.
      d.run({window(r, 4, 3)});
      d.finish(r);
      std::vector<RequestId> users;
      for (std::uint64_t u = 0; u < 3; ++u) {
        users.push_back(d.admit(10 + u, prefix));
        d.check(users.back());
        EXPECT_EQ(d.session.exportable(users.back()), (Counts{tokens}));
      }
      d.run({window(users[0], 4, 2), prefill(users[1], 5), decode(users[2])});
      for (const RequestId u : users) d.check_export(u);
      // Held again at the same place: in align mode the boundary is still there, beside the running state.
      if (shared) {
        const PrefixId second = d.hold(users[2], tokens);
        EXPECT_EQ(d.session.tokens(second), tokens);
        d.session.release(second);
      }
      d.session.release(prefix);
      EXPECT_TRUE(refuses(ErrorKind::bad_state, "session.release: prefix: ",
                          {std::to_string(prefix), "which is none", "a held prefix"}, [&] { d.session.release(prefix); }));
      d.run({window(users[0], 2, 2)});
      for (const RequestId u : users) {
        d.check_export(u);
        d.finish(u);
      }
      expect_all_free(d);
    }
  });
}

TEST(Session, FinishAndHoldContinues) {
  for_all_shapes(4, [](const Shape& shape) {
    for (std::int32_t tokens = 1; tokens <= 5; ++tokens) {
      for (std::int32_t kept = shape.rolled() ? 1 : 0; kept <= 4; ++kept) {
        Driver d(shape);
        const RequestId r = started(d, 1, tokens);
        d.run({window(r, 4, kept)});
        const PrefixId prefix = d.finish_and_hold(r);
        EXPECT_EQ(d.session.requests(), 0);
        EXPECT_EQ(d.session.free_blocks(0), shape.blocks - 2);  // the state's own block and no other
        const RequestId next = d.admit(2, prefix);
        d.session.release(prefix);
        EXPECT_EQ(d.session.info(next).tokens, tokens + kept);
        d.run({prefill(next, 3)});
        d.run({window(next, 3, 1)});
        d.check_export(next);
        d.finish(next);
        expect_all_free(d);
      }
    }
  });
}

TEST(Session, ForksGoTheirOwnWays) {
  for_all_shapes(4, [](const Shape& shape) {
    for (std::int32_t tokens = 1; tokens <= 9; ++tokens) {
      Driver d(shape);
      const RequestId a = started(d, 1, tokens);
      d.run({window(a, 3, 2)});
      const RequestId b = d.fork(a, 2), c = d.fork(b, 3);
      d.check(a), d.check(b), d.check(c);
      d.run({window(a, 4, 4), window(c, 4, 1), prefill(b, 3)});
      d.finish(a);
      d.run({window(c, 4, 3), window(b, 1, 1)});
      for (const RequestId r : {b, c}) {
        for (const std::int64_t t : d.session.exportable(r)) d.check_export(r, t);
        d.check_export(r);
        d.finish(r);
      }
      expect_all_free(d);
    }
  });
}

// ---- checkpoints -----------------------------------------------------------------------------------------------------------------

TEST(Session, ACheckpointFitsEverySessionOverTheSameLayers) {
  std::vector<Shape> shapes = all_shapes(4);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    Shape& shape = shapes[i];
    shape.S = 1 + static_cast<std::int32_t>(i % 4);
    shape.blocks = 10 + static_cast<std::int32_t>(i), shape.null_block_id = static_cast<std::int32_t>(i % 3) - 1;
    if (i % 5 == 4 && shape.align()) shape.block_sizes.back() = 7;
  }
  for (const DType state : {DType::f32, DType::bf16}) {
    for (Shape from : shapes) {
      from.state = state, from.T = DType::bf16;
      Driver d(from);
      const RequestId r = started(d, 1, 5);
      d.run({window(r, from.S, 1)});
      const Bytes saved = d.check_export(r);
      EXPECT_EQ(static_cast<std::int64_t>(saved.size()), session_sizes(d.model.config()).checkpoint);
      for (Shape to : shapes) {
        to.state = state, to.T = DType::bf16;
        SCOPED_TRACE(from.text() + " to " + to.text());
        Driver e(to);
        const RequestId other = started(e, 7, 3), next = e.admit(8);
        e.session.restore(next, saved, 6, 9);
        e.restored(next, d.snapshot(r));
        e.check(next);
        EXPECT_EQ(e.session.exportable(next), (Counts{6}));
        e.run({window(next, to.S, to.S), decode(other)});
        e.run({prefill(next, 3)});
        e.check_export(next), e.check_export(other);
      }
    }
  }
}

TEST(Session, ACheckpointSaysWhatItIs) {
  for_all_shapes(4, [](const Shape& shape) {
    Driver d(shape);
    const RequestId r = started(d, 1, 3);
    Step step = d.open({window(r, 4, 2)});  // over the edge at 4
    d.forward(step);
    d.commit(step);
    const Bytes saved = d.session.export_checkpoint(r, 5, 77, d.context);
    const CheckpointInfo info = recoverssm::inspect_checkpoint(saved);
    EXPECT_EQ(info.version, recoverssm::kCheckpointVersion);
    EXPECT_EQ(info.tokens, 5);
    EXPECT_EQ(info.tag, 77U);
    EXPECT_EQ(info.owner, r);
    EXPECT_EQ(info.step, step.id);
    EXPECT_EQ(info.layers, d.model.layers());
    EXPECT_EQ(info.layout, "gdn_f32+kda_act");
    EXPECT_EQ(info.bytes, static_cast<std::int64_t>(saved.size()));
    if (shape.align()) {  // the boundary that the same step wrote
      EXPECT_EQ(recoverssm::inspect_checkpoint(d.session.export_checkpoint(r, 4, 1, d.context)).step, step.id);
    }
  });
}

// ---- align mode ------------------------------------------------------------------------------------------------------------------

TEST(Session, KeptBoundaries) {
  for (Shape shape : all_shapes(4)) {
    if (!shape.align()) continue;
    for (const std::int32_t kept : {0, 1, 3}) {
      shape.kept_boundaries = kept;
      SCOPED_TRACE(shape.text());
      Driver d(shape);
      const std::int32_t most = session_sizes(d.model.config()).blocks_per_request;
      EXPECT_EQ(most, 2 + kept);
      const RequestId r = d.admit(1);
      for (std::int64_t tokens = 0; tokens < 24;) {
        const Row row = tokens % 3 == 0 ? prefill(r, 1) : window(r, 4, tokens % 5 == 0 ? 1 : 2);
        d.run({row});
        tokens += row.kept;
        EXPECT_GE(d.session.free_blocks(0), shape.blocks - 1 - most);
        d.check_export(r);
        Counts want;
        for (std::int64_t edge = 4; edge < tokens; edge += 4) want.push_back(edge);
        if (static_cast<std::int32_t>(want.size()) > kept) want.erase(want.begin(), want.end() - kept);
        for (const std::int64_t edge : want) d.check_export(r, edge);
        want.push_back(tokens);
        EXPECT_EQ(d.session.exportable(r), want);
      }
    }
  }
}

// Groups of unequal block sizes have the multiples of all of them in common; the smaller size needs as many kept boundaries as fit
// between two of those (docs/sessions.md#prefixes-and-boundaries).
TEST(Session, KeptBoundariesOfUnequalGroups) {
  struct Sizes {
    std::int32_t first, second, common;
  };
  for (const Sizes& sizes : {Sizes{4, 8, 8}, {8, 4, 8}, {4, 6, 12}, {12, 4, 12}, {4, 4, 4}}) {
    for (const bool lazy : {false, true}) {
      const std::int32_t enough = sizes.common / std::min(sizes.first, sizes.second);
      for (std::int32_t kept = enough - 1; kept <= enough; ++kept) {
        Driver d({.lazy = lazy, .block_sizes = {sizes.first, sizes.second}, .kept_boundaries = kept});
        const RequestId r = d.admit(1);
        bool always = true;
        for (std::int64_t tokens = 0; tokens < 40;) {
          const Row row = tokens % 3 == 0 ? prefill(r, 1) : window(r, 4, tokens % 5 == 0 ? 1 : 2);
          d.run({row});
          tokens += row.kept;
          d.check_export(r);
          const std::int64_t common = (tokens - 1) / sizes.common * sizes.common;
          if (common == 0) continue;
          const Counts listed = d.session.exportable(r);
          if (std::ranges::find(listed, common) == listed.end()) {
            always = false;
          } else {
            d.check_export(r, common);
          }
        }
        EXPECT_EQ(always, kept == enough) << sizes.first << ' ' << sizes.second << " kept " << kept << (lazy ? " lazy" : " eager");
      }
    }
  }
}

// Nothing kept of a window: what could be exported can be still, and the block it was moved to is free again.
TEST(Session, AWindowThatKeptNothingCostsNoBoundary) {
  for (const Shape& shape : all_shapes(4)) {
    if (!shape.align() || shape.lazy || shape.rolled()) continue;
    SCOPED_TRACE(shape.text());
    for (std::int32_t tokens = 5; tokens <= 9; ++tokens) {
      Driver d(shape);
      const RequestId r = started(d, 1, 4);
      d.run({prefill(r, tokens - 4)});
      const Counts exportable = d.session.exportable(r);
      const std::int32_t free = d.session.free_blocks(0);
      const auto blocks = d.session.info(r).blocks;
      d.run({window(r, 4, 0)});
      EXPECT_EQ(d.session.exportable(r), exportable);
      EXPECT_EQ(d.session.free_blocks(0), free);
      EXPECT_EQ(d.session.info(r).blocks, blocks);
      for (const std::int64_t t : exportable) d.check_export(r, t);
    }
  }
}

// A lazy request's fold gives up a boundary, whose block the step may then use: unless someone else holds it.
TEST(Session, RoomIsCountedAfterFolding) {
  for (Shape shape : all_shapes(4)) {
    if (!shape.align() || !shape.lazy) continue;
    SCOPED_TRACE(shape.text());
    shape.blocks = 4;
    for (const bool held : {false, true}) {
      Driver d(shape);
      const RequestId r = started(d, 1, 4);
      if (held) (void)d.hold(r, 4);  // shares the boundary's block
      d.run({window(r, 3, 3)});
      d.run({window(r, 3, 2)});  // over the edge at 8; columns 0, 1 and 2 have blocks
      EXPECT_EQ(d.session.free_blocks(0), 0);
      const Unchanged unchanged(d.session, {r});
      EXPECT_EQ(d.session.fits(d.step_rows({prefill(r, 8)})), !held);  // column 4
      EXPECT_EQ(d.session.fits(d.step_rows({window(r, 4, 1)})), !held);
      EXPECT_TRUE(d.session.fits(d.step_rows({decode(r)})));
      if (held) {
        EXPECT_TRUE(refuses(ErrorKind::bad_state, "session.open_step: groups[0]: 0 free blocks", {"at least 1"},
                            [&] { d.open({prefill(r, 8)}); }));
      }
      EXPECT_TRUE(unchanged.check());
      d.run({held ? decode(r) : prefill(r, 8)});
      d.check_export(r);
    }
  }
}

// A lazy request's block is not being written any more once its step is closed.
TEST(Session, TagsAfterAnAbandonedStepOfALazyRequest) {
  for (Shape shape : all_shapes(16)) {
    if (!shape.lazy) continue;
    shape.short_conv = false;  // with one, its records would be folded first
    SCOPED_TRACE(shape.text());
    Driver d(shape);
    const RequestId r = started(d, 1, 3);
    d.run({window(r, 4, 2)});
    const auto tag = [&] { return d.session.block_tag(0, d.session.info(r).blocks[0]); };
    const StepId wrote = tag().step;
    Step step = d.open({prefill(r, 2)});
    EXPECT_EQ(tag().tokens, -1);
    d.abandon(step);
    EXPECT_EQ(tag().tokens, 3);
    EXPECT_EQ(tag().step, wrote);
    EXPECT_EQ(d.session.info(r).waiting, 2);
    d.run({decode(r)});
    d.check_export(r);
  }
}

TEST(Session, FoldsWhatItMustAndNoMore) {
  for (Shape shape : all_shapes(8)) {
    if (!shape.lazy) continue;
    for (const bool short_conv : {true, false}) {
      shape.short_conv = short_conv;
      SCOPED_TRACE(shape.text());
      Driver d(shape);
      const RequestId r = started(d, 1, 1);
      d.run({window(r, 2, 2)});
      d.run({window(r, 2, 1)});  // the forward folds
      d.run({window(r, 0, 0)});  // touches nothing
      EXPECT_EQ(d.session.info(r).waiting, 1);
      EXPECT_EQ(d.session.counters().folded_rows, 0);
      EXPECT_EQ(d.session.counters().grouped_calls + d.session.counters().per_group_calls, 0);
      d.run({decode(r)});
      EXPECT_EQ(d.session.counters().folded_rows, short_conv ? 1 : 0);  // a plain short_conv row knows no count
      d.run({window(r, 2, 1)});
      const std::int64_t folded = d.session.counters().folded_rows;
      const std::vector<RequestId> twice{r, r};
      d.session.materialize(twice, d.context);
      d.folded(r);
      d.check(r);
      d.session.materialize(twice, d.context);
      EXPECT_EQ(d.session.counters().folded_rows, folded + 1);
      d.check_export(r);
    }
  }
}

}  // namespace
}  // namespace session_tests
