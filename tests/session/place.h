// Where the sessions of these tests are (support/backend.h): on the CPU, or on the device that RECOVERSSM_TEST_BACKEND names.
#pragma once

#include <cstddef>
#include <vector>

#include "api/backend_memory.h"
#include "recoverssm/recoverssm.hpp"
#include "session/tiny.h"
#include "support/backend.h"

namespace session_tests {

inline void* stream_of_calls() { return support::on_device() ? support::device_launch().stream : nullptr; }

inline recoverssm::Context context_of_calls() {
  return support::on_device() ? recoverssm::Context::cuda(stream_of_calls()) : recoverssm::Context(1);
}

inline recoverssm::SessionConfig placed(recoverssm::SessionConfig config) {
  config.backend = support::backend();
  config.stream = stream_of_calls();
  return config;
}

inline TinyShape placed(TinyShape shape) {
  shape.backend = support::backend();
  shape.stream = stream_of_calls();
  shape.memory = support::memory_of_calls();
  return shape;
}

// A view whose elements the host may read: the same one on the CPU, a copy of the elements and what lies between on a device. Waits for it.
class OnHost {
 public:
  explicit OnHost(const recoverssm::TensorView& view);
  recoverssm::TensorView view;

 private:
  std::vector<std::byte> bytes_;
};
// The views of a layer's pool.
struct PoolOnHost {
  explicit PoolOnHost(const recoverssm::LayerPool& pool)
      : line(pool.line),
        state(pool.state),
        pending(pool.pending),
        packed(pool.records.packed),
        corrections(pool.records.corrections),
        key_gate(pool.records.key_gate) {}
  OnHost line, state, pending, packed, corrections, key_gate;
};

}  // namespace session_tests
