// Host side of a launch on SYCL: the queue, kernels (compiled at run time, once a device and program), and workspace.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <sycl/sycl.hpp>
#include <type_traits>

#include "recoverssm/recoverssm.hpp"
#include "sycl/module.h"
#include "sycl/select.h"

namespace recoverssm::sycl_backend {

// The launch's queue; the default device's where it names none.
::sycl::queue& queue_of(const Launch& launch);

// Sizes kernels are written for, the preferred one first: a row of 32 partial sums is two registers of an AVX-512 machine, and of Xe.
constexpr int kSubGroupSizes[] = {16, 8, 32};

// Size of the sub-groups of kernels that use them; 0 if the device has none of these.
int sub_group_size(const ::sycl::device& device);
// What select.h asks of a queue's device; looked up once.
DeviceTraits traits_of(const ::sycl::queue& queue);
void set_sub_group_size_wanted(int size);

// Kernels that are compiled together: a header of src/sycl/kernels, after lines that define what it is to be compiled for.
struct Define {
  const char* name = nullptr;
  int value = 0;
};
constexpr std::size_t kDefines = 6;
struct Program {
  const char* header = nullptr;  // "plan.h"; always with the same names in the same order
  std::array<Define, kDefines> defines{};
};

// A kernel of it; compiles the program if this device does not have it yet. Throws ::sycl::exception with the compiler's words.
const ::sycl::kernel& kernel_of(::sycl::queue& queue, const Program& program, const char* name);

// Work items of a launch, and of a work-group: the last dimension is the fastest.
inline ::sycl::nd_range<3> range_of(std::int64_t layers, std::int64_t rows, std::int64_t groups, std::int64_t group_size) {
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  return {{size(layers), size(rows), size(groups * group_size)}, {1, 1, size(group_size)}};
}

constexpr std::size_t kMaxParameters = 2048;  // what an Intel GPU takes; the CPU device has 3840

template <class Args>
void launch_kernel(::sycl::queue& queue, const ::sycl::kernel& kernel, const ::sycl::nd_range<3>& range, const Args& args) {
  static_assert(std::is_trivially_copyable_v<Args> && sizeof(Args) <= kMaxParameters);
  queue.submit([&](::sycl::handler& handler) {
    handler.set_arg(0, args);
    handler.parallel_for(range, kernel);
  });
}

// With local memory, for kernels that are RSSM_SUB_GROUP_KERNEL.
template <class Args>
void launch_kernel(::sycl::queue& queue, const ::sycl::kernel& kernel, const ::sycl::nd_range<3>& range, const Args& args,
                   std::int64_t local_floats) {
  static_assert(std::is_trivially_copyable_v<Args> && sizeof(Args) <= kMaxParameters - 16);
  queue.submit([&](::sycl::handler& handler) {
    ::sycl::ext::oneapi::experimental::work_group_memory<float[]> local(static_cast<std::size_t>(local_floats), handler);
    handler.set_arg(0, args);
    handler.set_arg(1, local);
    handler.parallel_for(range, kernel);
  });
}

// Copies a host table into the workspace by launches (kernels/table.h), so that the next kernel on the queue finds it. Both a multiple of
// eight bytes.
void write_table(::sycl::queue& queue, void* to, const void* from, std::size_t bytes);
void prepare_table(::sycl::queue& queue);

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace recoverssm::sycl_backend
