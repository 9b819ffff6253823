#include "trace/guarded.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

namespace recoverssm::trace {

namespace {

// Guard bytes differ from their neighbours, so that neither a copy of a constant nor of other guard bytes goes unseen.
std::byte guard_byte(std::size_t i) { return static_cast<std::byte>(0xC5U ^ (i * 29U)); }

const auto kPattern = [] {
  std::array<std::byte, GuardedMemory::kGuard> pattern{};
  for (std::size_t i = 0; i < pattern.size(); ++i) pattern[i] = guard_byte(i);
  return pattern;
}();

}  // namespace

GuardedMemory::GuardedMemory(std::size_t bytes) : size_(bytes) {
  std::size_t space = bytes + kAlignment;
  storage_ = std::make_unique_for_overwrite<std::byte[]>(space + 2 * kGuard);
  void* first = storage_.get() + kGuard;
  data_ = static_cast<std::byte*>(std::align(kAlignment, bytes, first, space));
  mend();
}

void GuardedMemory::mend() {
  std::copy(kPattern.begin(), kPattern.end(), begin());
  std::copy(kPattern.begin(), kPattern.end(), data_ + size_);
}

std::optional<std::string> GuardedMemory::damage() const {
  if (std::memcmp(begin(), kPattern.data(), kGuard) == 0 && std::memcmp(data_ + size_, kPattern.data(), kGuard) == 0) {
    return std::nullopt;
  }
  std::ptrdiff_t first = 0;
  std::size_t changed = 0;
  const auto scan = [&](const std::byte* guard) {
    for (std::size_t i = 0; i < kGuard; ++i) {
      if (guard[i] == kPattern[i]) continue;
      if (changed++ == 0) first = guard + i - data_;
    }
  };
  scan(begin());
  scan(data_ + size_);
  return fmt::format("wrote outside: {} bytes changed, the first at byte {} of {}", changed, first, size_);
}

}  // namespace recoverssm::trace
