// Checkpoints: one request's state as bytes. Made by Session::export_checkpoint, read by Session::restore. They hold states and conv
// histories, never waiting records, so they fit every session with the same layers, whatever its S, line kind, groups and block sizes.
// The format: docs/sessions.md#checkpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "recoverssm/types.hpp"

namespace recoverssm {

constexpr std::uint32_t kCheckpointVersion = 1;

struct CheckpointInfo {
  std::uint32_t version = 0;
  std::int64_t tokens = 0;  // in the state
  std::uint64_t tag = 0;    // the caller's
  std::uint64_t owner = 0;  // request id in the session that exported it
  std::uint64_t step = 0;   // the step that wrote the state there; 0: none
  std::int32_t layers = 0;
  std::string layout;  // record layout ids of its layers, as BlockTag::layout
  std::int64_t bytes = 0;
};

// Throws Error: invalid_argument for bytes that are no whole, undamaged checkpoint, unsupported for another version.
CheckpointInfo inspect_checkpoint(std::span<const std::byte> checkpoint);

// Writes a file so that `path` is at every moment either what it was before or the whole new checkpoint, also after a crash or a kill:
// written beside it as `path`.PID.N.partial, flushed to the disk, renamed. Throws Error(device_error) with the system's reason;
// invalid_argument for bytes that are no checkpoint.
void write_checkpoint(const std::string& path, std::span<const std::byte> checkpoint);

// Reads a file that write_checkpoint wrote. Throws as inspect_checkpoint, and device_error with the system's reason.
std::vector<std::byte> read_checkpoint(const std::string& path);

}  // namespace recoverssm
