#include "bench/device.h"

#include "recoverssm/cuda.hpp"

namespace recoverssm::bench {

std::unique_ptr<Device> open_device(Backend backend) {
  if (backend != Backend::cuda) {
    throw Error({ErrorKind::invalid_argument, std::string("bench: backend ") + name_of(backend) + ", expected cuda"});
  }
  if (const std::string reason = cuda::unavailable_reason(); !reason.empty()) {
    throw Error({ErrorKind::unsupported, "bench: cuda: " + reason});
  }
  return open_cuda();
}

}  // namespace recoverssm::bench
