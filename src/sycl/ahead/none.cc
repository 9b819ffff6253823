// In place of kernels.cc where no SYCL compiler was found, or none is wanted: everything is compiled at run time.
#include "sycl/ahead/kernels.h"

namespace recoverssm::sycl_backend {

std::span<const AheadKernel> ahead_kernels() { return {}; }

}  // namespace recoverssm::sycl_backend
