#include "simulate/device.h"

#include <algorithm>
#include <string>

#include "api/devices.h"

namespace recoverssm::simulate {

namespace {

void must(Status status) {
  if (!status.ok()) throw Error(std::move(status));
}

}  // namespace

Device::Device(Backend backend) : backend_(backend) {
  if (!elsewhere()) return;
  const std::string name = name_of(backend);
  if (std::string reason = unavailable_reason(backend); !reason.empty())
    throw Error({ErrorKind::unsupported, name + ": " + reason});
  stream_ = device_calls(backend).create_stream();
  if (stream_ == nullptr) throw Error({ErrorKind::device_error, name + ": the device gives no stream"});
}

Device::~Device() {
  pieces_.clear(), parameters_.clear();
  if (stream_ != nullptr) device_calls(backend_).destroy_stream(stream_);
}

void Device::copy(void* to, const void* from, std::size_t bytes) const {
  must(memory().copy({.to = to, .from = from, .width = static_cast<std::int64_t>(bytes)}, stream_));
}

void Device::wait() const { must(memory().wait(stream_)); }

TensorView Device::up(std::size_t index, std::span<const std::byte> host, const TensorView& view) {
  if (!elsewhere() || !view.present()) return view;
  if (pieces_.size() <= index) pieces_.resize(index + 1);
  Piece& piece = pieces_[index];
  if (piece.bytes < host.size()) {
    piece.memory.reset();
    piece.memory = {static_cast<std::byte*>(memory().allocate(host.size(), stream_)), Release(this)};
    if (piece.memory == nullptr) throw Error({ErrorKind::device_error, "simulate: no device memory left"});
    piece.bytes = host.size();
  }
  if (!host.empty()) copy(piece.memory.get(), host.data(), host.size());
  TensorView there = view;
  // Nothing is read of what has no elements, but a null pointer is no tensor.
  if (view.data != nullptr) there.data = piece.memory.get() + (static_cast<std::byte*>(view.data) - host.data());
  return there;
}

void Device::down(std::size_t piece, std::span<std::byte> host) const {
  if (!host.empty()) copy(host.data(), pieces_[piece].memory.get(), host.size());
  wait();
}

TensorView Device::read(const TensorView& view, Bytes& bytes) const {
  TensorView here;
  must(read_back(backend_, stream_, view, bytes, here));
  return here;
}

SessionConfig Device::placed(const SessionConfig& config, const std::vector<LayerModel>& layers) {
  SessionConfig there = config;
  if (!elsewhere()) return there;
  there.backend = backend_;
  there.stream = stream_;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const LayerModel& layer = layers[l];
    LayerConfig& c = there.layers[l];
    for (const auto& [view, tensor] :
         {std::pair{&c.weight, &layer.weight}, {&c.bias, &layer.bias}, {&c.A_log, &layer.A_log}, {&c.dt_bias, &layer.dt_bias}}) {
      if (view->present()) *view = up(pieces_.size(), tensor->bytes(), *view);
    }
  }
  parameters_ = std::move(pieces_);
  pieces_.clear();
  return there;
}

}  // namespace recoverssm::simulate
