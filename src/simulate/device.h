// Where the session under test is, and copies there of what the simulation has in host memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "api/backend_memory.h"
#include "recoverssm/context.hpp"
#include "recoverssm/session_config.hpp"
#include "simulate/buffers.h"
#include "simulate/model.h"

namespace recoverssm::simulate {

// Pieces of device memory: from 0 on a forward's tensors, from here on the pools of the groups.
constexpr std::size_t kPoolPieces = 8;

// A stream of the backend's current device. Throws Error(unsupported) if the backend does not run here.
class Device {
 public:
  explicit Device(Backend backend);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  bool elsewhere() const { return backend_ != Backend::cpu; }
  Context context(int threads) const {
    if (!elsewhere()) return Context(threads);
    return backend_ == Backend::cuda ? Context::cuda(stream_) : Context::sycl(stream_);
  }
  // The configuration with this place, and parameters that its operations reach.
  SessionConfig placed(const SessionConfig& config, const std::vector<LayerModel>& layers);
  // A view for the session's calls of `view`, which lies in `host`: on a device one into piece `piece` of its memory, where the bytes are now.
  TensorView up(std::size_t piece, std::span<const std::byte> host, const TensorView& view);
  // The bytes of a piece. Waits.
  void down(std::size_t piece, std::span<std::byte> host) const;
  // The view, or one of a copy of its elements that the host may read, which lies in `bytes`. Waits.
  TensorView read(const TensorView& view, Bytes& bytes) const;

 private:
  struct Release {
    const Device* of;
    Release() : of(nullptr) {}
    explicit Release(const Device* of_) : of(of_) {}
    void operator()(std::byte* memory) const { of->memory().release(memory, of->stream_); }
  };
  struct Piece {
    std::unique_ptr<std::byte, Release> memory;
    std::size_t bytes = 0;
  };
  const BackendMemory& memory() const { return backend_memory(backend_); }
  void copy(void* to, const void* from, std::size_t bytes) const;
  void wait() const;

  Backend backend_;
  void* stream_ = nullptr;
  std::vector<Piece> pieces_, parameters_;
};

}  // namespace recoverssm::simulate
