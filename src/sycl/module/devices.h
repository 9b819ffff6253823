// Devices, the default queue, and the calls of api/devices.h.
#pragma once

#include <sycl/sycl.hpp>

#include "sycl/module.h"

namespace recoverssm::sycl_backend::module {

std::vector<Device> devices();
std::string unavailable_reason();
std::string runtime();
DeviceCalls device_calls();

}  // namespace recoverssm::sycl_backend::module

namespace recoverssm::sycl_backend {

// In order, of the device the runtime's default selector picks. Throws ::sycl::exception if there is none.
::sycl::queue& default_queue();
bool on_default_device(const ::sycl::queue& queue);  // and in its context

// Why operations do not run on a device, or empty.
std::string unusable(::sycl::device device);

}  // namespace recoverssm::sycl_backend
