// Layers of commit, materialize and align_move: rows of a table in the workspace, so that one launch does many of them.
#pragma once

#include <cstdint>

#include "device/layers.h"
#include "recoverssm/commit.hpp"

namespace recoverssm::sycl_backend {

constexpr std::size_t kLayersAtOnce = 16;  // of a table made on the host's stack

device::LayerArgs layer_args(const Layer& layer, std::int64_t index);

}  // namespace recoverssm::sycl_backend
