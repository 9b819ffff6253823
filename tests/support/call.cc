#include "support/call.h"

#include <cstdint>
#include <map>
#include <memory>

namespace support {

namespace {

constexpr std::size_t kGuard = 256;
constexpr auto kGuardByte = static_cast<std::byte>(0xC3);

recoverssm::Launch launch_with(int threads) {
  if (on_device()) return device_launch();
  static std::map<int, std::unique_ptr<recoverssm::Context>> contexts;
  std::unique_ptr<recoverssm::Context>& context = contexts[threads];
  if (context == nullptr) context = std::make_unique<recoverssm::Context>(threads);
  return context->launch();
}

bool counting_for(const How& how) { return how.counters != nullptr && counting(); }

}  // namespace

GuardedLaunch::GuardedLaunch(const How& how) : launch(launch_with(how.threads)), bytes_(memory_of_calls()) {
  launch.target = how.target;
  launch.counters = counting_for(how) ? how.counters : nullptr;
  launch.workspace = {};
}

recoverssm::Launch GuardedLaunch::sized(std::size_t bytes) {
  size_ = bytes;
  bytes_.assign(bytes + 2 * kGuard + recoverssm::kWorkspaceAlignment, kGuardByte);
  auto address = reinterpret_cast<std::uintptr_t>(bytes_.data() + kGuard);
  address = (address + recoverssm::kWorkspaceAlignment - 1) / recoverssm::kWorkspaceAlignment * recoverssm::kWorkspaceAlignment;
  data_ = reinterpret_cast<std::byte*>(address);
  for (std::size_t i = 0; i < bytes; ++i) data_[i] = static_cast<std::byte>(0xFF);
  launch.workspace = {data_, bytes};
  return launch;
}

bool GuardedLaunch::guards_intact() const {
  for (const std::byte* p = bytes_.data(); p < data_; ++p) {
    if (*p != kGuardByte) return false;
  }
  for (const std::byte* p = data_ + size_; p < bytes_.data() + bytes_.size(); ++p) {
    if (*p != kGuardByte) return false;
  }
  return true;
}

How random_how(Pick& pick) {
  How how;
  how.threads = pick.one_of({1, 2, 4});
  const std::vector<recoverssm::Target> targets = recoverssm::available_targets();
  how.target = targets[static_cast<std::size_t>(pick.between(0, static_cast<int>(targets.size()) - 1))];
  return how;
}

}  // namespace support
