// Memory with watched surroundings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace recoverssm::trace {

// Bytes with guard bytes on both sides, the first one right after the last byte of the contents. Contents are aligned to
// kAlignment, and are not initialised. May be moved, not copied.
class GuardedMemory {
 public:
  static constexpr std::size_t kAlignment = 64;
  static constexpr std::size_t kGuard = 512;

  explicit GuardedMemory(std::size_t bytes = 0);

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

  // Contents and the guards around them, for copying all of it elsewhere and back.
  std::span<std::byte> with_guards() { return {begin(), end()}; }

  // Nothing while every guard byte is as it was; else which are not: "wrote outside: 4 bytes changed, the first at byte 128 of 128".
  std::optional<std::string> damage() const;
  // Makes the guards whole again.
  void mend();

 private:
  std::byte* begin() const { return data_ - kGuard; }
  std::byte* end() const { return data_ + size_ + kGuard; }

  std::unique_ptr<std::byte[]> storage_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace recoverssm::trace
