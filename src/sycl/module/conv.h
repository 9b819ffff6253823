// The convolutions' launch, for causal_conv1d, causal_conv1d_window and gdn_attention.
#pragma once

#include "device/conv_args.h"
#include "sycl/module/runtime.h"

namespace recoverssm::sycl_backend {

void prepare_conv(::sycl::queue& queue, bool packed);
void launch_conv(::sycl::queue& queue, const device::ConvArgs& args, bool packed);

}  // namespace recoverssm::sycl_backend
