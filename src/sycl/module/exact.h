// The self-check of a device's arithmetic.
#pragma once

#include <string>
#include <sycl/sycl.hpp>

namespace recoverssm::sycl_backend::module {

// Of the queue's device, found out once a context and device; the first call compiles and waits. Empty: exact.
const std::string& inexact_on(const ::sycl::queue& queue);
// Of the default device. Empty, too, where there is none.
std::string inexact();

}  // namespace recoverssm::sycl_backend::module
