// Align mode: a column counts as a boundary only if the state after its last token was written there. Before a window the state moves to the
// column of the window's last token, so a request whose count ends a block can have its state one column on.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "session/place.h"
#include "session/tiny.h"

namespace session_tests {
namespace {

using namespace recoverssm;

enum class Undone { kept_nothing, abandoned_before_it_ran, abandoned_after_it_ran };

class UndoneWindows : public ::testing::TestWithParam<std::tuple<bool, Undone>> {};

// 4 tokens of B = 4, a window of 2 (its last token is in column 1), nothing kept, then a chunk of 6 tokens: it ends in column 2. Column 1 never had
// the state after 8 tokens.
TEST_P(UndoneWindows, LeaveNoBoundary) {
  const auto [lazy, how] = GetParam();
  Tiny model(placed(TinyShape{.lazy = lazy, .block_size = 4, .S = 2, .kept_boundaries = 2}));
  Session session(model.config());
  Context context = context_of_calls();
  const RequestId request = session.admit();
  const auto run = [&](RowKind kind, std::int32_t tokens, std::uint32_t seed, std::vector<Accepted> accepted) {
    const StepRow row{request, kind, tokens, -1};
    const StepId step = session.open_step({&row, 1}, context);
    model.forward(session, step, tokens, seed, context);
    session.commit(step, accepted, context);
  };
  run(RowKind::prefill, 4, 100, {});
  if (how == Undone::kept_nothing) {
    run(RowKind::window, 2, 200, {{request, 0}});
  } else {
    const StepRow row{request, RowKind::window, 2, -1};
    const StepId step = session.open_step({&row, 1}, context);
    if (how == Undone::abandoned_after_it_ran) model.forward(session, step, 2, 200, context);
    session.abandon(step);
  }
  EXPECT_EQ(session.info(request).tokens, 4);
  session.materialize({&request, 1}, context);
  EXPECT_EQ(session.exportable(request), std::vector<std::int64_t>{4});
  run(RowKind::prefill, 6, 300, {});
  EXPECT_EQ(session.exportable(request), (std::vector<std::int64_t>{4, 10}));
  EXPECT_THROW((void)session.export_checkpoint(request, 8, 0, context), Error);
}

// A lazy window that ran is dead when it is abandoned.
INSTANTIATE_TEST_SUITE_P(All, UndoneWindows,
                         ::testing::Values(std::tuple(false, Undone::kept_nothing),
                                           std::tuple(false, Undone::abandoned_before_it_ran),
                                           std::tuple(false, Undone::abandoned_after_it_ran),
                                           std::tuple(true, Undone::kept_nothing),
                                           std::tuple(true, Undone::abandoned_before_it_ran)));

}  // namespace
}  // namespace session_tests
