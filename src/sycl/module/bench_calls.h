// The benchmark's part of the module's table.
#pragma once

#include "sycl/bench.h"

namespace recoverssm::sycl_backend {

BenchCalls make_bench_calls();

}  // namespace recoverssm::sycl_backend
