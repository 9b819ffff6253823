// Finds and loads the module, once a process.
#pragma once

#include "api/backend_memory.h"
#include "api/devices.h"
#include "sycl/ops.h"

namespace recoverssm::sycl_backend {

// Without the module: unavailable, for the reason it could not be loaded.
const DeviceCalls& calls();
// Only where the backend is available.
const BackendMemory& memory();

// Whether this machine can run the operation at all: module, device, exact arithmetic.
#define RECOVERSSM_OP(name, Params) Support machine_support(const Params& params);
RECOVERSSM_SYCL_OPERATIONS(RECOVERSSM_OP)
#undef RECOVERSSM_OP

}  // namespace recoverssm::sycl_backend
