// The memory of the fake device.
#pragma once

#include <cstddef>

#include "recoverssm/types.hpp"

namespace fake_cuda {

// Device memory is open while one of these is there.
class Opened {
 public:
  Opened();
  ~Opened();
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
};

void* take(std::size_t bytes);
void give(void* memory);
void* take_shared(std::size_t bytes);
void give_shared(void* memory);

// Whether a kernel could reach all elements.
bool reachable(const recoverssm::TensorView& view);

// What a wait for the stream brings about: copies to the host arrive, copies from staging memory have read it.
void finish();

}  // namespace fake_cuda
