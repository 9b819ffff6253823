// A progress bar for people: drawn on stderr, and only if that is a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace recoverssm::cli {

class ProgressBar {
 public:
  explicit ProgressBar(std::int64_t total);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `done` of the total, and a word on what is being done. Draws at most ten times a second.
  void show(double done, const std::string& what);
  // Takes the bar away, so that a line can be printed in its place.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  bool terminal_;
  bool drawn_ = false;
  std::int64_t total_;
  Clock::time_point last_{};
};

}  // namespace recoverssm::cli
