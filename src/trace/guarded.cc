#include "trace/guarded.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

// GCC says so with a macro of its own, clang with __has_feature.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace recoverssm::trace {

namespace {

// Guard bytes differ from their neighbours, so that neither a copy of a constant nor of other guard bytes goes unseen.
std::byte guard_byte(std::size_t i) { return static_cast<std::byte>(0xC5U ^ (i * 29U)); }

const auto kPattern = [] {
  std::array<std::byte, GuardedMemory::kGuard> pattern{};
  for (std::size_t i = 0; i < pattern.size(); ++i) pattern[i] = guard_byte(i);
  return pattern;
}();

// Under the address sanitizer nobody may even read a guard byte, and its report says who did. This class itself opens them for a moment.
struct Open {
  Open(std::byte* first_guard, std::byte* last_guard) : guards{first_guard, last_guard} {
#ifdef __SANITIZE_ADDRESS__
    for (std::byte* guard : guards) ASAN_UNPOISON_MEMORY_REGION(guard, GuardedMemory::kGuard);
#endif
  }
  ~Open() {
#ifdef __SANITIZE_ADDRESS__
    for (std::byte* guard : guards) ASAN_POISON_MEMORY_REGION(guard, GuardedMemory::kGuard);
#endif
  }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;

  std::array<std::byte*, 2> guards;
};

}  // namespace

GuardedMemory::GuardedMemory(std::size_t bytes) : size_(bytes) {
  std::size_t space = bytes + kAlignment;
  storage_ = std::make_unique_for_overwrite<std::byte[]>(space + 2 * kGuard);
  void* first = storage_.get() + kGuard;
  data_ = static_cast<std::byte*>(std::align(kAlignment, bytes, first, space));
  mend();
}

void GuardedMemory::mend() {
  const Open open(begin(), data_ + size_);
  std::copy(kPattern.begin(), kPattern.end(), begin());
  std::copy(kPattern.begin(), kPattern.end(), data_ + size_);
}

std::optional<std::string> GuardedMemory::damage() const {
  const Open open(begin(), data_ + size_);
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
