// Memory for sessions: the module's api/backend_memory.h.
#pragma once

#include "api/backend_memory.h"

namespace recoverssm::sycl_backend::module {

BackendMemory memory_calls();

}  // namespace recoverssm::sycl_backend::module
