// The self-check of a device's arithmetic.
#pragma once

#include <string>

namespace recoverssm::sycl_backend::module {

// Of the default device, found out once. Empty: exact.
std::string inexact();

}  // namespace recoverssm::sycl_backend::module
