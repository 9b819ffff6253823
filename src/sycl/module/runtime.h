// Host side of a launch on SYCL: the queue, kernels (of one device and context, found or compiled once), and workspace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <sycl/sycl.hpp>
#include <type_traits>

#include "recoverssm/recoverssm.hpp"
#include "sycl/ahead/kernels.h"
#include "sycl/module.h"
#include "sycl/program.h"
#include "sycl/select.h"

namespace recoverssm::sycl_backend {

// The launch's queue; the default device's where it names none.
::sycl::queue& queue_of(const Launch& launch);

// Size of the sub-groups of kernels that use them; 0 if the device has none of these.
int sub_group_size(const ::sycl::device& device);
// What select.h asks of a queue's device; looked up once.
DeviceTraits traits_of(const ::sycl::queue& queue);
void set_sub_group_size_wanted(int size);

// One of the two.
struct Kernel {
  std::optional<::sycl::kernel> compiled;  // at run time
  AheadLaunch ahead = nullptr;
};

// A kernel of a program. Where this device has the program neither yet nor from ahead of time it is compiled; who asks for it meanwhile
// waits, and nobody else. Throws ::sycl::exception with the compiler's words; what has failed to compile is not tried again.
const Kernel& kernel_of(::sycl::queue& queue, const Program& program, const char* name);

// Work items of a launch, and of a work-group: the last dimension is the fastest.
inline ::sycl::nd_range<3> range_of(std::int64_t layers, std::int64_t rows, std::int64_t groups, std::int64_t group_size) {
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  return {{size(layers), size(rows), size(groups * group_size)}, {1, 1, size(group_size)}};
}

constexpr std::size_t kMaxParameters = 2048;  // what an Intel GPU takes; the CPU device has 3840

template <class Args>
void launch_kernel(::sycl::queue& queue, const Kernel& kernel, const ::sycl::nd_range<3>& range, const Args& args) {
  static_assert(std::is_trivially_copyable_v<Args> && sizeof(Args) <= kMaxParameters);
  if (kernel.ahead != nullptr) return kernel.ahead(queue, range, &args, 0);
  queue.submit([&](::sycl::handler& handler) {
    handler.set_arg(0, args);
    handler.parallel_for(range, *kernel.compiled);
  });
}

// With local memory, for kernels that are RSSM_SUB_GROUP_KERNEL.
template <class Args>
void launch_kernel(::sycl::queue& queue, const Kernel& kernel, const ::sycl::nd_range<3>& range, const Args& args,
                   std::int64_t local_floats) {
  static_assert(std::is_trivially_copyable_v<Args> && sizeof(Args) <= kMaxParameters - 16);
  if (kernel.ahead != nullptr) return kernel.ahead(queue, range, &args, static_cast<std::size_t>(local_floats));
  queue.submit([&](::sycl::handler& handler) {
    ::sycl::ext::oneapi::experimental::work_group_memory<float[]> local(static_cast<std::size_t>(local_floats), handler);
    handler.set_arg(0, args);
    handler.set_arg(1, local);
    handler.parallel_for(range, *kernel.compiled);
  });
}

// Copies a host table into the workspace by launches (kernels/table.h), so that the next kernel on the queue finds it. Both a multiple of
// eight bytes.
void write_table(::sycl::queue& queue, void* to, const void* from, std::size_t bytes);
void prepare_table(::sycl::queue& queue);

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace recoverssm::sycl_backend
