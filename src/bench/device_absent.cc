// What a build without CUDA answers. CMake takes this file in place of device_cuda.cu.
#include "bench/device.h"

namespace recoverssm::bench {

std::unique_ptr<Device> open_cuda() { throw Error({ErrorKind::unsupported, "bench: this build has no CUDA backend"}); }

}  // namespace recoverssm::bench
