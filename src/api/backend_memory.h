// Memory of a backend, for whoever keeps tensors there itself: sessions, the simulation, tests. Operations need none of this. One table of plain
// functions a backend; a new backend (SYCL: USM and a queue for `stream`) adds a table and a case to backend_memory().
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "recoverssm/types.hpp"

namespace recoverssm {

// Rows of bytes from one place to another. Pitches, from row to row, may be anything; rows of one copy do not overlap.
struct RowCopy {
  void* to = nullptr;
  std::int64_t to_pitch = 0;
  const void* from = nullptr;
  std::int64_t from_pitch = 0;
  std::int64_t width = 0;  // bytes of a row
  std::int64_t rows = 1;
};

// What is given a stream is put on it, and is in order with the kernels there. What can fail says so in the driver's words (device_error).
struct BackendMemory {
  // Where operations read and write, aligned to kWorkspaceAlignment, not initialised. Null: none left.
  void* (*allocate)(std::size_t bytes, void* stream);
  // Waits for what still uses it, where the driver does not.
  void (*release)(void* memory, void* stream);
  // Memory of the host which a copy on a stream reads later than the call, and which kernels reach at the same address. Null: none left.
  void* (*allocate_staging)(std::size_t bytes, void* stream);
  void (*release_staging)(void* memory, void* stream);
  // Between any two of host, staging and device. Host memory that is not staging: a copy from it has read it when the call returns; one to the host
  // is there after wait().
  Status (*copy)(const RowCopy& copy, void* stream);
  Status (*fill)(void* to, std::int64_t pitch, std::byte value, std::int64_t width, std::int64_t rows, void* stream);
  // The host waits for all that is on the stream.
  Status (*wait)(void* stream);
  // A place on a stream. passed(): whether the stream has come by what was there at the last mark().
  void* (*create_mark)(void* stream);  // null: none left
  void (*destroy_mark)(void* mark);
  Status (*mark)(void* mark, void* stream);
  bool (*passed)(void* mark);
};

// The CPU's for a backend that is none.
const BackendMemory& backend_memory(Backend backend);

// For whoever looks at a tensor of a backend from the host: the view itself on the CPU, else one of a copy of its elements and of what lies between
// them, in `bytes`. Waits for the stream.
Status read_back(Backend backend, void* stream, const TensorView& view, std::vector<std::byte>& bytes, TensorView& here);

}  // namespace recoverssm
