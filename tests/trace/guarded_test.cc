// Guard bytes around buffers: a write outside is seen, one inside is not.
#include "trace/guarded.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace recoverssm::trace {
namespace {

TEST(GuardedMemory, WritesInsideAreFine) {
  for (const std::size_t bytes : {0U, 1U, 7U, 64U, 1000U}) {
    const GuardedMemory memory(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % GuardedMemory::kAlignment, 0U);
    std::memset(memory.data(), 0, bytes);
    EXPECT_FALSE(memory.damage()) << bytes;
  }
}

TEST(GuardedMemory, EveryByteOutsideIsWatched) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the address sanitizer stops these writes first";
#endif
  GuardedMemory memory(13);
  const auto reach = static_cast<std::ptrdiff_t>(GuardedMemory::kGuard);
  for (std::ptrdiff_t at = -reach; at < 13 + reach; ++at) {
    if (at >= 0 && at < 13) continue;
    memory.data()[at] ^= std::byte{1};
    const auto damage = memory.damage();
    ASSERT_TRUE(damage) << at;
    EXPECT_EQ(*damage, "wrote outside: 1 bytes changed, the first at byte " + std::to_string(at) + " of 13");
    memory.mend();
    EXPECT_FALSE(memory.damage());
  }
}

TEST(GuardedMemory, ConstantsDoNotLookLikeGuards) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the address sanitizer stops these writes first";
#endif
  for (int value = 0; value < 256; ++value) {
    GuardedMemory memory(8);
    std::memset(memory.data() + 8, value, 2);
    EXPECT_TRUE(memory.damage()) << value;
  }
}

}  // namespace
}  // namespace recoverssm::trace
