// Faults that other systems had with the rows of a step: which kind a row is, how many tokens it has and keeps, in which order rows stand,
// whose blocks they use. One test an id of docs/reports.md, on its input and on its kind.
#include <algorithm>
#include <numeric>

#include "session/driver.h"
#include "session/pools.h"
#include "support/property.h"

namespace session_tests {
namespace {

using support::Pick;

// A step without drafts in an engine that speculates is a window of one.
TEST(Reports, B03_a_step_without_drafts_is_a_window_of_one) {
  for_all_shapes(4, [](const Shape& shape) {
    Driver d(shape);
    const RequestId r = started(d, 3, 2);
    d.run({window(r, 3, 3)});
    d.run({window(r, 1, 1)});
    d.run({window(r, 2, 1)});
    EXPECT_EQ(d.tokens(r), 7);
    d.check_export(r);
  });
  for (std::uint64_t seed = 1; seed <= 48; ++seed) {
    Pick pick(seed);
    const auto shapes = all_shapes(5);
    const Shape& shape = shapes[seed % shapes.size()];
    SCOPED_TRACE("seed " + std::to_string(seed) + " " + shape.text());
    Driver d(shape);
    const RequestId r = started(d, seed, pick.between(1, 9));
    for (int step = 0; step < 8; ++step) {
      const int length = pick.chance(40) ? 1 : pick.between(0, shape.S);
      d.run({window(r, length, length == 0 ? 0 : pick.between(1, length))});
    }
    d.check_export(r);
  }
}

// The count that is committed is the count that was emitted.
TEST(Reports, B05_a_stop_token_inside_the_window_cuts_state_and_count) {
  for_all_shapes(4, [](const Shape& shape) {
    for (std::int32_t emitted = 1; emitted <= 4; ++emitted) {
      Driver d(shape);
      const RequestId r = started(d, 5, 6);
      Step step = d.open({window(r, 4, emitted)});  // the sampler would have kept all four
      d.forward(step);
      d.commit(step);
      EXPECT_EQ(d.session.info(r).tokens, 6 + emitted);
      const Bytes saved = d.check_export(r);
      const RequestId next = d.session.admit();
      const Unchanged unchanged(d.session, {r, next});
      for (const std::int64_t text : {6 + emitted - 1, 6 + emitted + 1, 10}) {  // a text ahead of or behind the state
        if (text == 6 + emitted) continue;
        EXPECT_TRUE(refuses(ErrorKind::invalid_argument, "session.restore: checkpoint.tokens: ",
                            {std::to_string(6 + emitted), std::to_string(text)}, [&] { d.session.restore(next, saved, text, 9); }));
      }
      EXPECT_TRUE(unchanged.check());
      d.session.restore(next, saved, 6 + emitted, 9);
      d.restored(next, d.snapshot(r));
      d.check(next);
      d.run({window(next, 3, 3), decode(r)});
    }
  });
}

// Line and state always describe the same count; nothing kept leaves both as before the verify, or the request dead (rolled lines).
TEST(Reports, B06_nothing_kept_restores_line_and_state) {
  const auto run = [](const Shape& shape, const std::vector<std::vector<std::int32_t>>& kept, std::int32_t T) {
    Driver d(shape);
    std::vector<RequestId> requests;
    for (std::size_t r = 0; r < kept[0].size(); ++r) {
      requests.push_back(d.admit(60 + r));
      d.run({prefill(requests.back(), 3 + static_cast<std::int32_t>(r))});
    }
    for (const auto& step_kept : kept) {
      std::vector<Row> rows;
      for (std::size_t r = 0; r < requests.size(); ++r) {
        if (d.session.info(requests[r]).phase == Phase::live) rows.push_back(window(requests[r], T, step_kept[r]));
      }
      const std::int64_t dead = d.session.counters().dead_rows;
      const auto lost = std::ranges::count(rows, 0, &Row::kept);
      d.run(rows);
      EXPECT_EQ(d.session.counters().dead_rows - dead, shape.rolled() ? lost : 0);
    }
    for (const RequestId r : requests) {
      if (d.session.info(r).phase == Phase::dead) {
        EXPECT_TRUE(shape.rolled());
        EXPECT_TRUE(refuses(ErrorKind::bad_state, "session.open_step: request: ", {std::to_string(r), "lost its state"},
                            [&] { d.open({window(r, 1, 1)}); }));
        d.preempt(r);
        d.run({prefill(r, 5)});
      }
      d.check_export(r);
      d.run({decode(r)});
    }
  };
  for_all_shapes(4, [&](const Shape& shape) {
    run(shape, {{1, 3}, {0, 4}}, 4);
    run(shape, {{0, 0}, {0, 1}, {4, 0}}, 4);
  });
  for (std::uint64_t seed = 1; seed <= 32; ++seed) {
    Pick pick(seed);
    const auto shapes = all_shapes(4);
    SCOPED_TRACE("seed " + std::to_string(seed));
    const int T = pick.between(1, 4);
    std::vector<std::vector<std::int32_t>> kept(6);
    for (auto& step : kept) step = {pick.chance(40) ? 0 : pick.between(1, T), pick.between(0, T), pick.between(0, T)};
    run(shapes[seed % shapes.size()], kept, T);
  }
}

// The null block is never handed out, padding rows give zeros whatever they hold, and null_block_id = -1 makes block 0 a block.
TEST(Reports, B07_null_block_and_padding_rows) {
  for (const std::int32_t null : {0, -1, 3}) {
    for_all_shapes(4, [null](Shape shape) {
      shape.null_block_id = null, shape.blocks = null + 1 + 9;
      Pages pages(Model(shape).config());
      Driver d(shape, pages.pools);
      const Bytes null_block = null >= 0 ? pages.block(0, null) : Bytes();
      const RequestId a = d.admit(1), b = d.admit(2);
      d.run({padding(3, RowKind::prefill), prefill(a, 5), padding(2), prefill(b, 2), padding(1, RowKind::decode)});
      d.run({window(a, 3, 2), window(b, 2, 2), padding(4), padding(0)});
      d.run({padding(1), decode(b), window(a, 1, 1)});
      for (std::int32_t g = 0; g < static_cast<std::int32_t>(shape.block_sizes.size()); ++g) {
        std::vector<std::int32_t> seen;
        for (const RequestId r : {a, b}) seen.push_back(d.session.info(r).blocks[static_cast<std::size_t>(g)]);
        for (const std::int32_t block : seen) EXPECT_GT(block, null);
        for (std::int32_t block = 0; block <= null; ++block) {
          EXPECT_EQ(d.session.block_tag(g, block).references, 0);
          EXPECT_EQ(d.session.block_tag(g, block).owner, 0U);
        }
      }
      if (null < 0 && !shape.align()) {
        EXPECT_EQ(d.session.info(a).blocks[0], 0);
      }
      d.check_export(a), d.check_export(b);
      if (null >= 0 && !shape.lazy) {  // lazy: its pending count is 0
        EXPECT_EQ(pages.block(0, null), null_block);
      }
      EXPECT_TRUE(pages.gaps_intact());
    });
  }
}

// A prompt as long as a window is a prompt: rows are what the caller says, and only what the request's state allows.
TEST(Reports, B11_a_prompt_as_long_as_a_window_is_a_prefill) {
  for_all_shapes(16, [](const Shape& shape) {
    for (std::int32_t length = 1; length <= shape.S; ++length) {
      Pages pages(Model(shape).config());
      pages.fill(1e3F);  // stale contents
      Driver d(shape, pages.pools);
      const RequestId old = started(d, 1, length + 1), fresh = d.admit(2);
      const Unchanged unchanged(d.session, {old, fresh});
      // A request without state has no window, and no decode.
      EXPECT_TRUE(refuses(ErrorKind::bad_state,
                          "session.open_step: request: ", {std::to_string(fresh), "has no state", "prefilled or restored"},
                          [&] { d.open({window(fresh, length, length)}); }));
      EXPECT_TRUE(
          refuses(ErrorKind::bad_state, "session.open_step: request: ", {"has no state"}, [&] { d.open({decode(fresh)}); }));
      // The caller's own count of computed tokens is compared.
      EXPECT_TRUE(
          refuses(ErrorKind::bad_state, "session.open_step: rows[0].num_computed: ", {"0", std::to_string(length + 1)}, [&] {
            const recoverssm::StepRow row{old, RowKind::prefill, length, 0};
            d.session.open_step({&row, 1}, d.context);
          }));
      EXPECT_TRUE(unchanged.check());
      d.run({prefill(fresh, length), window(old, length, length)});
      d.check_export(fresh), d.check_export(old);
    }
  });
}

// Any mix of kinds in any order: each row as if it ran alone, outputs in the caller's order.
TEST(Reports, B13_prefill_decode_and_windows_in_any_order) {
  std::vector<std::size_t> order{0, 1, 2, 3};
  do {
    for_all_shapes(8, [&](const Shape& shape) {
      Driver d(shape);
      const RequestId spec = started(d, 1, 4), plain = started(d, 2, 7), prompt = d.admit(3), other = started(d, 4, 1);
      const std::vector<Row> rows{window(spec, 3, 2), decode(plain), prefill(prompt, 5), window(other, 4, 4)};
      std::vector<Row> ordered;
      for (const std::size_t i : order) ordered.push_back(rows[i]);
      d.run(ordered);
      for (const RequestId r : {spec, plain, prompt, other}) d.check_export(r);
    });
  } while (std::ranges::next_permutation(order).found);
}

// Uneven window lengths: each is verified and committed at its own length.
TEST(Reports, B14_uneven_window_lengths) {
  const auto run = [](const Shape& shape, const std::vector<std::int32_t>& lengths, Pick& pick) {
    Driver d(shape);
    std::vector<Row> rows;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      rows.push_back(
          window(started(d, i, 2 + static_cast<std::int32_t>(i)), lengths[i], lengths[i] == 0 ? 0 : pick.between(1, lengths[i])));
    }
    d.run(rows);
    d.check_all();
    for (const Row& row : rows) d.check_export(row.request);
  };
  for_all_shapes(4, [&](const Shape& shape) {
    Pick pick(1);
    run(shape, {4, 2, 3}, pick), run(shape, {2, 4, 3}, pick), run(shape, {0, 1, 4, 0}, pick);
  });
}

// Rows and steps without tokens touch nothing; a finished request's id is refused, never folded to a living one.
TEST(Reports, B17_empty_rows_empty_steps_and_stale_ids) {
  for_all_shapes(4, [](const Shape& shape) {
    Driver d(shape);
    const RequestId a = started(d, 1, 3), b = started(d, 2, 6), c = started(d, 3, 1), gone = started(d, 4, 2);
    d.run({window(b, 3, 2), window(a, 2, 2)});
    d.finish(gone);
    const Unchanged refused(d.session, {a, b, c});
    for (const std::int32_t length : {0, 1}) {
      EXPECT_TRUE(refuses(ErrorKind::bad_state, "session.open_step: request: ", {std::to_string(gone), "which is none"}, [&] {
        d.open({decode(a), window(gone, length, length)});
      }));
    }
    EXPECT_TRUE(refused.check());
    // qsl = [0, 2, 2, 5]: row 1 is empty.
    const Bytes before = d.memory(b);
    d.run({window(a, 2, 1), window(b, 0, 0), prefill(c, 3)});
    EXPECT_EQ(d.memory(b), before);
    // Steps of empty rows, of padding, and of nothing.
    const std::vector<std::vector<Row>> nothing{
        {}, {window(a, 0, 0)}, {prefill(a, 0), window(b, 0, 0), prefill(c, 0)}, {padding(0), padding(3)}};
    for (const auto& rows : nothing) {
      const std::vector<Bytes> memory{d.memory(a), d.memory(b), d.memory(c)};
      const std::int32_t free = d.session.free_blocks(0);
      d.run(rows);
      EXPECT_EQ(memory, (std::vector<Bytes>{d.memory(a), d.memory(b), d.memory(c)}));
      EXPECT_EQ(d.session.free_blocks(0), free);
    }
    // An empty row of a request without state leaves it without.
    const RequestId fresh = d.admit(5);
    d.run({prefill(fresh, 0), decode(a)});
    EXPECT_EQ(d.session.info(fresh).phase, Phase::empty);
    for (const RequestId r : {a, b, c}) d.check_export(r);
  });
}

}  // namespace
}  // namespace session_tests
