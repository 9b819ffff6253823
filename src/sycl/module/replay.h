// commit and materialize: layers sorted by program, their table in the workspace, a launch a program.
#pragma once

#include <span>

#include "device/layers.h"
#include "recoverssm/commit.hpp"
#include "sycl/module/runtime.h"

namespace recoverssm::sycl_backend {

// Bytes of the tables of a call.
std::size_t replay_bytes(std::size_t layers, std::size_t groups);

void prepare_replay(std::span<const Layer> layers, ::sycl::queue& queue);

// groups: of the call, already in the workspace. rows: of the longest of them. tokens: the most a window has. table: room for all layers.
struct ReplayCall {
  device::ReplayArgs args;
  std::int64_t tokens = 0;
  device::LayerArgs* table = nullptr;
};

void launch_replay(std::span<const Layer> layers, const ReplayCall& call, ::sycl::queue& queue);

}  // namespace recoverssm::sycl_backend
