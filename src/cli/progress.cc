#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace recoverssm::cli {

ProgressBar::ProgressBar(std::int64_t total) : terminal_(::isatty(STDERR_FILENO) != 0), total_(std::max<std::int64_t>(total, 1)) {}

void ProgressBar::show(double done, const std::string& what) {
  if (!terminal_) return;
  const auto now = Clock::now();
  if (now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  drawn_ = true;
  constexpr int kWidth = 30;
  const auto filled = static_cast<std::size_t>(std::clamp(done / static_cast<double>(total_), 0.0, 1.0) * kWidth);
  fmt::print(stderr, "\r\033[K[{:<{}}] {}/{} {:.60}", std::string(filled, '#'), kWidth, static_cast<std::int64_t>(done), total_,
             what);
  std::fflush(stderr);
}

void ProgressBar::clear() {
  if (!drawn_) return;
  drawn_ = false;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
}

}  // namespace recoverssm::cli
