// Shares of limits, with made-up figures.
#include "bench/limits.h"

#include <gtest/gtest.h>

namespace recoverssm::bench {
namespace {

constexpr Limits kLimits = {.copy = 10, .read = 20, .issue = 100};  // bytes a second, bytes a second, slots a second

TEST(BenchLimits, EachBoundHasItsLimit) {
  const Share copy = share_of(Bound::copy, 40, 0, 8, kLimits);
  EXPECT_EQ(copy.limit, "best copy");
  EXPECT_DOUBLE_EQ(copy.seconds, 4);
  EXPECT_DOUBLE_EQ(copy.share, 0.5);

  const Share read = share_of(Bound::read, 40, 0, 8, kLimits);
  EXPECT_EQ(read.limit, "best read");
  EXPECT_DOUBLE_EQ(read.share, 0.25);

  const Share issue = share_of(Bound::issue, 40, 300, 4, kLimits);
  EXPECT_EQ(issue.limit, "FMA issue");
  EXPECT_DOUBLE_EQ(issue.share, 0.75);
}

TEST(BenchLimits, TheTighterOfTwoLimitsCounts) {
  EXPECT_EQ(share_of(Bound::read_or_issue, 40, 100, 4, kLimits).limit, "best read");
  EXPECT_DOUBLE_EQ(share_of(Bound::read_or_issue, 40, 100, 4, kLimits).share, 0.5);
  EXPECT_EQ(share_of(Bound::read_or_issue, 40, 300, 4, kLimits).limit, "FMA issue");
  EXPECT_DOUBLE_EQ(share_of(Bound::read_or_issue, 40, 300, 4, kLimits).share, 0.75);
}

TEST(BenchLimits, NothingMeasuredNothingSaid) {
  EXPECT_EQ(share_of(Bound::none, 40, 100, 4, kLimits).limit, "");
  EXPECT_EQ(share_of(Bound::copy, 40, 100, 4, {}).limit, "");
  EXPECT_EQ(share_of(Bound::copy, 0, 100, 4, kLimits).limit, "");
  EXPECT_EQ(share_of(Bound::issue, 40, 0, 4, kLimits).limit, "");
  EXPECT_EQ(share_of(Bound::copy, 40, 100, 0, kLimits).limit, "");
}

TEST(BenchLimits, SlotsOfAnElement) {
  EXPECT_EQ(slots_per_element(1, 0, true), 4);
  EXPECT_EQ(slots_per_element(4, 0, false), 15);  // the last update is not needed
  EXPECT_EQ(slots_per_element(4, 3, false), 21);  // three records folded first
  EXPECT_EQ(slots_per_element(0, 3, true), 6);    // commit
  EXPECT_EQ(slots_per_element(0, 3, false), 6);
}

TEST(BenchLimits, Spread) {
  EXPECT_DOUBLE_EQ(spread_of({3, 1, 2}).median, 2);
  EXPECT_DOUBLE_EQ(spread_of({4, 1, 2, 3}).median, 2.5);
  EXPECT_DOUBLE_EQ(spread_of({3, 1, 2}).best, 1);
  EXPECT_DOUBLE_EQ(spread_of({3, 1, 2}).worst, 3);
  EXPECT_DOUBLE_EQ(spread_of({}).median, 0);
}

}  // namespace
}  // namespace recoverssm::bench
