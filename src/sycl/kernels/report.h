// Raises the caller's flag.
#pragma once

#include "device/rows.h"
#include "sycl/kernels/entry.h"

namespace recoverssm::sycl_backend {

// First writer wins. Any number of work items may report one finding.
RSSM_HOST_DEVICE void report(const device::Reporter& reporter, ErrorKind code, std::int64_t row, std::int64_t layer = 0) {
  if (reporter.flag == nullptr || code == ErrorKind::ok) return;
  ::sycl::atomic_ref<std::int32_t, ::sycl::memory_order::relaxed, ::sycl::memory_scope::device> shared(reporter.flag->code);
  std::int32_t none = 0;
  if (!shared.compare_exchange_strong(none, static_cast<std::int32_t>(code))) return;
  reporter.flag->op = static_cast<std::int32_t>(reporter.op);
  reporter.flag->layer = static_cast<std::int32_t>(layer);
  reporter.flag->row = static_cast<std::int32_t>(row);
}

}  // namespace recoverssm::sycl_backend
