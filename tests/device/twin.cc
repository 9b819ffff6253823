#include "device/twin.h"

#include <cstdio>
#include <cstring>
#include <new>
#include <stdexcept>

namespace device_test {

Runner Runner::device(const gpu::Stream& stream, const std::function<void(Runner&)>& measure, bool raw) {
  Runner runner;
  runner.context_.reset();
  runner.launch_ = {.backend = Backend::cuda, .stream = stream.handle()};
  runner.measuring_ = true;
  measure(runner);
  runner.measuring_ = false;
  if (runner.needed_ > 0) {
    runner.workspace_ = std::make_shared<gpu::Memory>(runner.needed_);
    if (!raw) gpu::fill(runner.workspace_->data(), 0xff, runner.needed_);
    runner.launch_.workspace = {runner.workspace_->data(), runner.needed_};
  }
  runner.flag_ = std::make_shared<gpu::Pinned>(sizeof(DeviceFlag));
  runner.launch_.flag = new (runner.flag_->data()) DeviceFlag;
  return runner;
}

Runner Runner::context(const gpu::Stream& stream) {
  Runner runner;
  *runner.context_ = Context::cuda(stream.handle());
  runner.flag_ = std::make_shared<gpu::Pinned>(sizeof(DeviceFlag));
  runner.context_->flag = new (runner.flag_->data()) DeviceFlag;
  return runner;
}

DeviceFlag Runner::flag() const {
  return flag_ == nullptr ? DeviceFlag{} : *std::launder(reinterpret_cast<const DeviceFlag*>(flag_->data()));
}

Twin::Twin(Scene& scene) : scene_(scene), memory_(scene.bytes.size()) { upload_all(); }

Side Twin::side() const {
  Side side = scene_.side();
  side.plain = memory_.data();
  side.pages = memory_.data() + scene_.pages_at;
  return side;
}

void Twin::upload_all() { gpu::upload(memory_.data(), scene_.bytes.data(), scene_.bytes.size()); }

void Twin::upload_inputs() {
  for (const Piece& piece : scene_.inputs) {
    gpu::upload(memory_.data() + piece.at, scene_.bytes.data() + piece.at, static_cast<std::size_t>(piece.bytes()));
  }
}

::testing::AssertionResult Twin::same() {
  std::vector<std::byte> got(scene_.bytes.size());
  gpu::download(got.data(), memory_.data(), got.size());
  compared_ += static_cast<std::int64_t>(got.size());
  return same_scene(scene_, got.data(), scene_.bytes.data());
}

::testing::AssertionResult same_scene(const Scene& scene, const std::byte* got, const std::byte* want) {
  const std::size_t size = scene.bytes.size();
  if (std::memcmp(got, want, size) == 0) return ::testing::AssertionSuccess();
  std::int64_t wrong = 0, first = -1;
  for (std::size_t i = 0; i < size; ++i) {
    if (got[i] == want[i]) continue;
    if (wrong++ == 0) first = static_cast<std::int64_t>(i);
  }
  return ::testing::AssertionFailure() << wrong << " of " << size << " bytes differ, the first in " << scene.where(first);
}

::testing::AssertionResult no_finding(const Runner& runner) {
  const DeviceFlag flag = runner.flag();
  if (flag.code == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "flag " << name_of(static_cast<recoverssm::ErrorKind>(flag.code)) << " of "
                                       << name_of(static_cast<recoverssm::Operation>(flag.op)) << ", layer " << flag.layer
                                       << ", row " << flag.row;
}

void saw(const std::string& text) {
  const char* const where = gpu::executes() ? (gpu::real() ? "" : "(fake device) ") : "(host code alone) ";
  std::printf("[ SAW      ] %s%s\n", where, text.c_str());
  std::fflush(stdout);
}

std::string millions(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

}  // namespace device_test
