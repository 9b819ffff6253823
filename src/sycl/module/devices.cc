#include "sycl/module/devices.h"

#include <memory>

#include "sycl/module/runtime.h"

namespace recoverssm::sycl_backend {
namespace {

// What the default queue is, or why there is none. Never taken down: the runtime may be gone by the time statics are.
struct Default {
  std::unique_ptr<::sycl::queue> queue;
  std::string reason;
};

}  // namespace

std::string unusable(::sycl::device device) {
  if (!device.has(::sycl::aspect::usm_device_allocations)) return "no device memory (usm_device_allocations)";
  if (!device.ext_oneapi_can_build(::sycl::ext::oneapi::experimental::source_language::sycl)) {
    return "kernels cannot be compiled for it at run time";
  }
  if (sub_group_size(device) == 0) return "no sub-groups of 8, 16 or 32";
  return {};
}

namespace {

Default make_default() {
  Default made;
  try {
    const ::sycl::device device(::sycl::default_selector_v);
    made.reason = unusable(device);
    if (!made.reason.empty()) made.reason = device.get_info<::sycl::info::device::name>() + ": " + made.reason;
    made.queue = std::make_unique<::sycl::queue>(device, ::sycl::property::queue::in_order());
  } catch (const ::sycl::exception& error) {
    made.reason = std::string("no SYCL device: ") + error.what();
  }
  return made;
}

const Default& the_default() {
  static const Default& only = *new Default(make_default());
  return only;
}

std::string kind_of(const ::sycl::device& device) {
  if (device.is_gpu()) return "gpu";
  return device.is_cpu() ? "cpu" : "accelerator";
}

Device describe(const ::sycl::device& device, int index) {
  namespace info = ::sycl::info::device;
  Device described;
  described.index = index;
  described.name = device.get_info<info::name>();
  described.platform = device.get_platform().get_info<::sycl::info::platform::name>();
  described.driver = device.get_info<info::driver_version>();
  described.kind = kind_of(device);
  described.compute_units = static_cast<int>(device.get_info<info::max_compute_units>());
  described.memory_bytes = static_cast<std::int64_t>(device.get_info<info::global_mem_size>());
  for (const std::size_t size : device.get_info<info::sub_group_sizes>())
    described.sub_group_sizes.push_back(static_cast<int>(size));
  described.chosen = the_default().queue != nullptr && the_default().queue->get_device() == device;
  described.unusable = unusable(device);
  return described;
}

::sycl::queue& queue_of(void* stream) { return stream == nullptr ? default_queue() : *static_cast<::sycl::queue*>(stream); }

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

constexpr std::size_t kMemoryAlignment = 256;

}  // namespace

::sycl::queue& default_queue() {
  if (the_default().queue == nullptr) throw ::sycl::exception(::sycl::make_error_code(::sycl::errc::runtime), the_default().reason);
  return *the_default().queue;
}

bool on_default_device(const ::sycl::queue& queue) {
  const ::sycl::queue* const ours = the_default().queue.get();
  return ours != nullptr && queue.get_context() == ours->get_context() && queue.get_device() == ours->get_device();
}

}  // namespace recoverssm::sycl_backend

namespace recoverssm::sycl_backend::module {

std::vector<Device> devices() {
  std::vector<Device> all;
  try {
    for (const ::sycl::device& device : ::sycl::device::get_devices())
      all.push_back(describe(device, static_cast<int>(all.size())));
  } catch (const ::sycl::exception&) {
    return all;  // unavailable_reason says why
  }
  return all;
}

std::string unavailable_reason() { return the_default().reason; }

std::string runtime() {
  return "libsycl " + std::to_string(__LIBSYCL_MAJOR_VERSION) + "." + std::to_string(__LIBSYCL_MINOR_VERSION) + "." +
         std::to_string(__LIBSYCL_PATCH_VERSION);
}

// Memory is of the default context, but for a workspace, which is of its queue's.
DeviceCalls device_calls() {
  return {
      .unavailable_reason = unavailable_reason,
      .allocate = [](void* stream, std::size_t bytes) -> void* {
        return memory_or_null([&] { return ::sycl::aligned_alloc_device(kMemoryAlignment, bytes, queue_of(stream)); });
      },
      .release =
          [](void* stream, void* memory) {
            // Kernels on the queue may still use it, and free does not wait by itself. The pointer is freed whatever they came to.
            ::sycl::queue& queue = queue_of(stream);
            (void)status_of("wait", [&] { queue.wait(); });
            ::sycl::free(memory, queue);
          },
      .allocate_shared = [](SharedMemory kind, std::size_t bytes) -> void* {
        return memory_or_null([&] {
          return kind == SharedMemory::pinned ? ::sycl::aligned_alloc_host(kMemoryAlignment, bytes, default_queue())
                                              : ::sycl::aligned_alloc_shared(kMemoryAlignment, bytes, default_queue());
        });
      },
      .release_shared = [](SharedMemory, void* memory) { ::sycl::free(memory, default_queue()); },
      .create_stream = []() -> void* {
        return memory_or_null([]() -> void* {
          ::sycl::queue& original = default_queue();
          return new ::sycl::queue(original.get_context(), original.get_device(), ::sycl::property::queue::in_order());
        });
      },
      .destroy_stream = [](void* stream) { delete static_cast<::sycl::queue*>(stream); },
      .synchronize = [](void* stream) { return status_of("wait", [&] { queue_of(stream).wait_and_throw(); }); },
      .copy_to_device =
          [](void* device, const void* host, std::size_t bytes) {
            return status_of("copy to the device", [&] { default_queue().memcpy(device, host, bytes).wait_and_throw(); });
          },
      .copy_to_host =
          [](void* host, const void* device, std::size_t bytes) {
            return status_of("copy from the device", [&] { default_queue().memcpy(host, device, bytes).wait_and_throw(); });
          },
  };
}

}  // namespace recoverssm::sycl_backend::module
