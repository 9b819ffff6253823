#include "bench/device.h"

#include "api/devices.h"

namespace recoverssm::bench {

std::unique_ptr<Device> open_device(Backend backend) {
  if (backend != Backend::cuda && backend != Backend::sycl) {
    throw Error({ErrorKind::invalid_argument, std::string("bench: backend ") + name_of(backend) + ", expected cuda or sycl"});
  }
  if (const std::string reason = unavailable_reason(backend); !reason.empty()) {
    throw Error({ErrorKind::unsupported, std::string("bench: ") + name_of(backend) + ": " + reason});
  }
  return backend == Backend::cuda ? open_cuda() : open_sycl();
}

}  // namespace recoverssm::bench
