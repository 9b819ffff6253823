// Kernels that a SYCL compiler made ahead of time (cmake/sycl.cmake): what the module looks at before it compiles one at run time.
#pragma once

#include <cstddef>
#include <span>
#include <sycl/sycl.hpp>

#include "sycl/program.h"

namespace recoverssm::sycl_backend {

// Puts the kernel on the queue. args: what the kernel takes, copied before this returns. local_floats: of a work-group.
using AheadLaunch = void (*)(::sycl::queue& queue, const ::sycl::nd_range<3>& range, const void* args, std::size_t local_floats);

struct AheadKernel {
  Program program;
  const char* name;
  bool (*runs_on)(
      const ::sycl::device& device);  // whether there is code for it. Throws ::sycl::exception where there is none at all
  AheadLaunch launch;
};

// Empty in a build without.
std::span<const AheadKernel> ahead_kernels();

}  // namespace recoverssm::sycl_backend
