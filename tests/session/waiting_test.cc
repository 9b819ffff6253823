// Copies refused while records wait: folding gives up boundaries for later ones, so a refusal must come before it.
#include <algorithm>

#include "session/driver.h"

namespace session_tests {
namespace {

// Random windows of one request; between them copies of every count, most of which exist nowhere. The pool is small: many find no room.
void try_every_copy(const Shape& shape, std::uint64_t seed, int& refused, int& taken) {
  Driver d(shape);
  const RequestId r = started(d, seed, 5);
  const auto attempt = [&](const std::function<void()>& call) {
    const bool waits = d.session.info(r).waiting > 0;
    const Unchanged unchanged(d.session, {r});
    try {
      call();
      ++taken;
    } catch (const recoverssm::Error&) {
      refused += waits ? 1 : 0;
      EXPECT_TRUE(unchanged.check()) << shape.text() << " seed " << seed;
    }
  };
  for (std::uint64_t i = 0; i < 12; ++i) {
    const std::uint64_t random = mixed(seed, i);
    const auto length = static_cast<std::int32_t>(1 + random % 4);
    const std::vector<Row> rows{
        window(r, length, static_cast<std::int32_t>(1 + (random >> 8U) % static_cast<std::uint64_t>(length)))};
    if (!d.session.fits(d.step_rows(rows))) return;
    d.run(rows);
    const std::int64_t tokens = d.tokens(r);
    for (const std::int64_t count :
         {tokens + 1, tokens + 700, tokens - 1, tokens - 2, tokens - 3, std::int64_t{0}, std::int64_t{-4}}) {
      attempt([&] { d.session.release(d.hold(r, count)); });
      attempt([&] { d.check_export(r, count); });
    }
    attempt([&] { d.finish(d.fork(r, 99)); });
    // What is listed can be had.
    for (const std::int64_t count : d.session.exportable(r)) d.check_export(r, count);
    // Holds without end: at last there is no room.
    if (i % 4 == 3) attempt([&] { d.hold(r, d.tokens(r)); });
  }
}

TEST(Session, RefusedCopiesFoldNothing) {
  int refused = 0, taken = 0;
  for (const std::vector<std::optional<std::int32_t>>& sizes :
       {std::vector<std::optional<std::int32_t>>{4}, {4, 4}, {4, 8}, {std::nullopt}}) {
    for (const std::int32_t kept : {0, 1, 2}) {
      for (const std::int32_t blocks : {4, 5, 6}) {
        for (std::uint64_t seed = 1; seed <= 2; ++seed) {
          Shape shape{.lazy = true, .block_sizes = sizes, .blocks = blocks, .kept_boundaries = kept};
          shape.line = seed % 2 == 0 ? LineKind::rolled : LineKind::anchored;
          try_every_copy(shape, seed, refused, taken);
        }
      }
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(taken, 500);
}

// The smallest: boundary 4 is there, 9 tokens wait past boundary 8, the state after 7 is nowhere.
TEST(Session, ARefusedHoldKeepsTheBoundary) {
  Driver d({.lazy = true, .block_sizes = {4}});
  const RequestId r = started(d, 1, 4);
  d.run({window(r, 3, 1)});
  d.run({window(r, 4, 4)});
  ASSERT_EQ(d.session.exportable(r), std::vector<std::int64_t>{4});
  EXPECT_TRUE(
      refuses(ErrorKind::bad_state, "session.hold: tokens: 7", {"one of exportable()"}, [&] { d.session.hold(r, 7, d.context); }));
  EXPECT_EQ(d.session.info(r).waiting, 4);
  d.check_export(r, 4);
  EXPECT_EQ(d.session.tokens(d.hold(r, 4)), 4);
}

}  // namespace
}  // namespace session_tests
