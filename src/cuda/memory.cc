// Memory of the current device and copies on a stream, for sessions.
#include <cuda_runtime.h>

#include "cuda/device.h"
#include "cuda/error.h"

namespace recoverssm::cuda {
namespace {

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

void* allocate_memory(std::size_t bytes, void*) {
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes) == cudaSuccess) return memory;
  cudaGetLastError();
  return nullptr;
}

// cudaFree waits for the device.
void release_memory(void* memory, void*) { cudaFree(memory); }

void* allocate_staging(std::size_t bytes, void*) { return allocate_shared(SharedMemory::pinned, bytes); }
void release_staging(void* memory, void* stream) {
  (void)cudaStreamSynchronize(stream_of(stream));
  release_shared(SharedMemory::pinned, memory);
}

// What the driver takes as one copy or fill of several rows. cudaDevAttrMaxPitch is 2^31 - 1 on every device.
bool one_call(std::int64_t pitch, std::int64_t width) { return pitch >= width && pitch <= INT32_MAX; }

Status copy(const RowCopy& c, void* stream) {
  if (c.width == 0 || c.rows == 0) return {};
  const auto width = static_cast<std::size_t>(c.width);
  if (c.rows > 1 && one_call(c.to_pitch, c.width) && one_call(c.from_pitch, c.width)) {
    return status_of(
        "copy", cudaMemcpy2DAsync(c.to, static_cast<std::size_t>(c.to_pitch), c.from, static_cast<std::size_t>(c.from_pitch), width,
                                  static_cast<std::size_t>(c.rows), cudaMemcpyDefault, stream_of(stream)));
  }
  for (std::int64_t row = 0; row < c.rows; ++row) {
    if (Status status = status_of("copy", cudaMemcpyAsync(static_cast<std::byte*>(c.to) + row * c.to_pitch,
                                                          static_cast<const std::byte*>(c.from) + row * c.from_pitch, width,
                                                          cudaMemcpyDefault, stream_of(stream)));
        !status.ok()) {
      return status;
    }
  }
  return {};
}

Status fill(void* to, std::int64_t pitch, std::byte value, std::int64_t width, std::int64_t rows, void* stream) {
  if (width == 0 || rows == 0) return {};
  if (rows > 1 && one_call(pitch, width)) {
    return status_of("fill", cudaMemset2DAsync(to, static_cast<std::size_t>(pitch), static_cast<int>(value),
                                               static_cast<std::size_t>(width), static_cast<std::size_t>(rows), stream_of(stream)));
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    if (Status status = status_of("fill", cudaMemsetAsync(static_cast<std::byte*>(to) + row * pitch, static_cast<int>(value),
                                                          static_cast<std::size_t>(width), stream_of(stream)));
        !status.ok()) {
      return status;
    }
  }
  return {};
}

void* create_mark(void*) {
  cudaEvent_t event = nullptr;
  if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess) return event;
  cudaGetLastError();
  return nullptr;
}
void destroy_mark(void* mark) { cudaEventDestroy(static_cast<cudaEvent_t>(mark)); }
Status mark_stream(void* mark, void* stream) {
  return status_of("mark", cudaEventRecord(static_cast<cudaEvent_t>(mark), stream_of(stream)));
}
bool passed(void* mark) {
  const bool done = cudaEventQuery(static_cast<cudaEvent_t>(mark)) == cudaSuccess;
  if (!done) cudaGetLastError();  // "not ready" is no error
  return done;
}

constexpr BackendMemory kMemory{.allocate = allocate_memory,
                                .release = release_memory,
                                .allocate_staging = allocate_staging,
                                .release_staging = release_staging,
                                .copy = copy,
                                .fill = fill,
                                .wait = synchronize,
                                .create_mark = create_mark,
                                .destroy_mark = destroy_mark,
                                .mark = mark_stream,
                                .passed = passed};

}  // namespace

const BackendMemory& memory() { return kMemory; }

}  // namespace recoverssm::cuda
