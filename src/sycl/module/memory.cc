// USM of a queue's context and copies on the queue, for sessions. A stream is a sycl::queue*; null: the default queue.
#include "sycl/module/memory.h"

#include <algorithm>
#include <string>
#include <sycl/sycl.hpp>

#include "sycl/module/devices.h"

namespace recoverssm::sycl_backend::module {
namespace {

::sycl::queue& queue_at(void* stream) { return stream == nullptr ? default_queue() : *static_cast<::sycl::queue*>(stream); }

template <class F>
void* memory_or_null(F&& allocate) {
  try {
    return allocate();
  } catch (const ::sycl::exception&) {
    return nullptr;
  }
}

template <class F>
Status status_of(const char* what, F&& f) {
  try {
    f();
    return {};
  } catch (const ::sycl::exception& error) {
    return {ErrorKind::device_error, std::string(what) + ": " + error.what()};
  }
}

void* allocate(std::size_t bytes, void* stream) {
  return memory_or_null(
      [&] { return ::sycl::aligned_alloc_device(kWorkspaceAlignment, std::max<std::size_t>(bytes, 1), queue_at(stream)); });
}
void* allocate_staging(std::size_t bytes, void* stream) {
  return memory_or_null(
      [&] { return ::sycl::aligned_alloc_host(kWorkspaceAlignment, std::max<std::size_t>(bytes, 1), queue_at(stream)); });
}
// free does not wait for kernels.
void release(void* memory, void* stream) {
  if (memory == nullptr) return;
  ::sycl::queue& queue = queue_at(stream);
  (void)status_of("wait", [&] { queue.wait(); });
  ::sycl::free(memory, queue);
}

Status copy(const RowCopy& c, void* stream) {
  if (c.width == 0 || c.rows == 0) return {};
  return status_of("copy", [&] {
    ::sycl::queue& queue = queue_at(stream);
    const bool dense = c.to_pitch == c.width && c.from_pitch == c.width;
    const std::int64_t rows = dense ? 1 : c.rows, width = dense ? c.width * c.rows : c.width;
    ::sycl::event last;
    for (std::int64_t row = 0; row < rows; ++row) {
      last = queue.memcpy(static_cast<std::byte*>(c.to) + row * c.to_pitch,
                          static_cast<const std::byte*>(c.from) + row * c.from_pitch, static_cast<std::size_t>(width));
    }
    // Memory the runtime does not know may change when the call returns.
    if (::sycl::get_pointer_type(c.from, queue.get_context()) == ::sycl::usm::alloc::unknown) last.wait();
  });
}

Status fill(void* to, std::int64_t pitch, std::byte value, std::int64_t width, std::int64_t rows, void* stream) {
  if (width == 0 || rows == 0) return {};
  return status_of("fill", [&] {
    ::sycl::queue& queue = queue_at(stream);
    const bool dense = pitch == width;
    const std::int64_t times = dense ? 1 : rows, bytes = dense ? width * rows : width;
    for (std::int64_t row = 0; row < times; ++row)
      queue.memset(static_cast<std::byte*>(to) + row * pitch, static_cast<int>(value), static_cast<std::size_t>(bytes));
  });
}

Status wait(void* stream) {
  return status_of("wait", [&] { queue_at(stream).wait_and_throw(); });
}

void* create_mark(void*) { return new ::sycl::event; }
void destroy_mark(void* mark) { delete static_cast<::sycl::event*>(mark); }
Status mark(void* mark, void* stream) {
  return status_of("mark", [&] { *static_cast<::sycl::event*>(mark) = queue_at(stream).ext_oneapi_submit_barrier(); });
}
bool passed(void* mark) {
  namespace info = ::sycl::info;
  return static_cast<::sycl::event*>(mark)->get_info<info::event::command_execution_status>() ==
         info::event_command_status::complete;
}

}  // namespace

BackendMemory memory_calls() {
  return {.allocate = allocate,
          .release = release,
          .allocate_staging = allocate_staging,
          .release_staging = release,
          .copy = copy,
          .fill = fill,
          .wait = wait,
          .create_mark = create_mark,
          .destroy_mark = destroy_mark,
          .mark = mark,
          .passed = passed};
}

}  // namespace recoverssm::sycl_backend::module
