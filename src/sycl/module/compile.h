// Compilation of a program at run time: a second or more.
#pragma once

#include <sycl/sycl.hpp>

#include "sycl/program.h"

namespace recoverssm::sycl_backend {

using Bundle = ::sycl::kernel_bundle<::sycl::bundle_state::executable>;

// Throws ::sycl::exception with the compiler's words.
Bundle compile(const ::sycl::context& context, const ::sycl::device& device, const Program& program);

}  // namespace recoverssm::sycl_backend
