#include "trace/device.h"

#include <algorithm>
#include <utility>

#include "api/devices.h"

namespace recoverssm::trace {

namespace {

void must(Status status) {
  if (!status.ok()) throw Error(std::move(status));
}

}  // namespace

DeviceMemory::DeviceMemory(Backend backend, std::size_t bytes)
    : memory_(static_cast<std::byte*>(device_calls(backend).allocate(nullptr, std::max<std::size_t>(bytes, 1))), {backend}) {
  if (memory_ == nullptr) {
    const std::string reason = unavailable_reason(backend);
    throw Error({ErrorKind::device_error, "device memory: none for " + std::to_string(bytes) + " bytes" +
                                              (reason.empty() ? ", or an earlier kernel failed" : ": " + reason)});
  }
}

void DeviceMemory::Release::operator()(std::byte* memory) const { device_calls(backend).release(nullptr, memory); }

DeviceCopy::DeviceCopy(Backend backend, std::size_t bytes, bool guards)
    : guards_(guards), memory_(backend, guards ? bytes + 2 * GuardedMemory::kGuard : bytes) {}

std::span<std::byte> DeviceCopy::part(GuardedMemory& host) const {
  return guards_ ? host.with_guards() : std::span(host.data(), host.size());
}

void DeviceCopy::upload(GuardedMemory& host) const {
  must(device_calls(memory_.backend()).copy_to_device(memory_.data(), part(host).data(), part(host).size()));
}

void DeviceCopy::download(GuardedMemory& host) const {
  must(device_calls(memory_.backend()).copy_to_host(part(host).data(), memory_.data(), part(host).size()));
}

DeviceStream::DeviceStream(Backend backend) : stream_(device_calls(backend).create_stream()), flag_(backend, sizeof(DeviceFlag)) {
  const DeviceFlag clear;
  must(device_calls(backend).copy_to_device(flag_.data(), &clear, sizeof clear));
}

DeviceStream::~DeviceStream() {
  if (stream_ != nullptr) device_calls(backend()).destroy_stream(stream_);
}

Launch DeviceStream::launch() const {
  return {.backend = backend(), .stream = stream_, .flag = reinterpret_cast<DeviceFlag*>(flag_.data())};
}

Status DeviceStream::wait() const { return device_calls(backend()).synchronize(stream_); }

DeviceFlag DeviceStream::flag() const {
  DeviceFlag flag;
  must(device_calls(backend()).copy_to_host(&flag, flag_.data(), sizeof flag));
  return flag;
}

}  // namespace recoverssm::trace
