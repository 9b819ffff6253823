// Pools that the simulation gives to a session: a page a block, tensors of several layers beside each other with gaps between them.
// Nothing but the session's own tensors may ever be written.
#pragma once

#include <cstdint>
#include <vector>

#include "recoverssm/session_config.hpp"
#include "simulate/buffers.h"
#include "simulate/device.h"
#include "simulate/model.h"

namespace recoverssm::simulate {

class GivenPools {
 public:
  // On `device`, which outlives them.
  GivenPools(Random& random, const SessionConfig& config, const std::vector<LayerModel>& layers, Device& device);

  const std::vector<LayerPool>& pools() const { return pools_; }
  // Bytes that belong to no tensor, or to a block that is never handed out, and are not as they were. 0: all is well.
  std::int64_t damaged_bytes() const;
  void append_to(Bytes& bytes) const {
    look();
    for (const Group& group : groups_) bytes.insert(bytes.end(), group.memory.begin(), group.memory.end());
  }

 private:
  struct Group {
    std::int64_t page = 0;      // bytes of a block
    mutable Bytes memory;       // on a device: what it was when the host last looked
    std::vector<bool> used;     // bytes of a page that belong to a tensor
    std::vector<bool> pending;  // the same, to a pending count: set to 0 by the session, in all blocks
  };

  void look() const;
  // `bytes` of each page, aligned. Gives the offset.
  static std::int64_t place(Random& random, Group& group, std::int64_t bytes, bool pending);

  Device& device_;
  std::int32_t null_block_id_;
  std::vector<Group> groups_;
  std::vector<LayerPool> pools_;
};

}  // namespace recoverssm::simulate
