// Which limit of the machine an operation is held against, and how near it comes. Pure functions of measured figures.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace recoverssm::bench {

// none: bookkeeping of a few index arrays, where only the time says something.
enum class Bound { none, copy, read, read_or_issue, issue };

// Of one number of threads and one size; bytes a second, multiply-add slots a second (instructions x fp32 lanes). 0: not measured.
struct Limits {
  double copy = 0;   // bytes read + bytes written
  double read = 0;   // bytes read
  double issue = 0;  // of the target that runs
};

struct Share {
  std::string limit;   // "best copy", "best read", "FMA issue"; empty: none
  double seconds = 0;  // what the call would take at the limit
  double share = 0;    // seconds / measured seconds; 1: at the limit
};

inline double over(double amount, double rate) { return rate > 0 ? amount / rate : 0; }

inline Share share_of(Bound bound, double bytes, double slots, double measured_seconds, const Limits& limits) {
  const double copy = over(bytes, limits.copy), read = over(bytes, limits.read), issue = over(slots, limits.issue);
  Share share;
  switch (bound) {
    case Bound::none:
      break;
    case Bound::copy:
      share = {"best copy", copy, 0};
      break;
    case Bound::read:
      share = {"best read", read, 0};
      break;
    case Bound::issue:
      share = {"FMA issue", issue, 0};
      break;
    case Bound::read_or_issue:  // min of two rates for the same work is the longer of two times
      share = issue > read ? Share{"FMA issue", issue, 0} : Share{"best read", read, 0};
      break;
  }
  if (share.seconds <= 0 || measured_seconds <= 0) return {};
  share.share = share.seconds / measured_seconds;
  return share;
}

// Issue slots a state element takes: a token multiplies by the decay, feeds two dots and updates (4); the last token of a window whose
// state nobody keeps needs no update; a replayed record multiplies and updates (2).
constexpr std::int64_t slots_per_element(std::int64_t tokens, std::int64_t replayed, bool keeps_state) {
  return 2 * replayed + 4 * tokens - (tokens > 0 && !keeps_state ? 1 : 0);
}

struct Spread {
  double median = 0, best = 0, worst = 0;
};

inline Spread spread_of(std::vector<double> seconds) {
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  const std::size_t half = seconds.size() / 2;
  const double median = seconds.size() % 2 != 0 ? seconds[half] : (seconds[half - 1] + seconds[half]) / 2;
  return {median, seconds.front(), seconds.back()};
}

}  // namespace recoverssm::bench
