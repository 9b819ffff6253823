#include "trace/device.h"

#include <algorithm>
#include <utility>

#include "cuda/device.h"
#include "cuda/ops.h"

namespace recoverssm::trace {

namespace {

void must(Status status) {
  if (!status.ok()) throw Error(std::move(status));
}

}  // namespace

DeviceMemory::DeviceMemory(std::size_t bytes) : memory_(static_cast<std::byte*>(cuda::allocate(std::max<std::size_t>(bytes, 1)))) {
  if (memory_ == nullptr) {
    const std::string reason = cuda::unavailable_reason();
    throw Error({ErrorKind::device_error, "device memory: none for " + std::to_string(bytes) + " bytes" +
                                              (reason.empty() ? ", or an earlier kernel failed" : ": " + reason)});
  }
}

void DeviceMemory::Release::operator()(std::byte* memory) const { cuda::release(memory); }

DeviceCopy::DeviceCopy(std::size_t bytes, bool guards)
    : guards_(guards), memory_(guards ? bytes + 2 * GuardedMemory::kGuard : bytes) {}

std::span<std::byte> DeviceCopy::part(GuardedMemory& host) const {
  return guards_ ? host.with_guards() : std::span(host.data(), host.size());
}

void DeviceCopy::upload(GuardedMemory& host) const {
  must(cuda::copy_to_device(memory_.data(), part(host).data(), part(host).size()));
}

void DeviceCopy::download(GuardedMemory& host) const {
  must(cuda::copy_to_host(part(host).data(), memory_.data(), part(host).size()));
}

DeviceStream::DeviceStream() : stream_(cuda::create_stream()), flag_(sizeof(DeviceFlag)) {
  const DeviceFlag clear;
  must(cuda::copy_to_device(flag_.data(), &clear, sizeof clear));
}

DeviceStream::~DeviceStream() {
  if (stream_ != nullptr) cuda::destroy_stream(stream_);
}

Launch DeviceStream::launch() const {
  return {.backend = Backend::cuda, .stream = stream_, .flag = reinterpret_cast<DeviceFlag*>(flag_.data())};
}

Status DeviceStream::wait() const { return cuda::synchronize(stream_); }

DeviceFlag DeviceStream::flag() const {
  DeviceFlag flag;
  must(cuda::copy_to_host(&flag, flag_.data(), sizeof flag));
  return flag;
}

}  // namespace recoverssm::trace
