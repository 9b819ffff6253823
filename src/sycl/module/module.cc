// The module's one exported function, and what every operation has around it.
#include "sycl/module.h"

#include <exception>
#include <new>
#include <string>

#include "sycl/module/bench_calls.h"
#include "sycl/module/devices.h"
#include "sycl/module/exact.h"
#include "sycl/module/memory.h"
#include "sycl/module/operations.h"

namespace recoverssm::sycl_backend {
namespace {

template <class Params>
std::size_t scratch_size_of(const Params& params, const Launch& launch) {
  std::size_t bytes = 0;
  try {
    ::sycl::queue& queue = queue_of(launch);
    bytes = workspace_bytes(params, queue);
    prepare(params, queue);
  } catch (const std::exception&) {
    return bytes;  // the call itself will say so
  }
  return bytes;
}

std::string refusal(const ::sycl::queue& queue) {
  if (on_default_device(queue)) return {};
  std::string reason = unusable(queue.get_device());
  return reason.empty() ? module::inexact_on(queue) : reason;
}

template <class Params>
Status execute_on_queue(const char* op, const Params& params, const Launch& on) {
  try {
    ::sycl::queue& queue = queue_of(on);
    if (!queue.is_in_order()) {
      return {ErrorKind::invalid_argument, std::string(op) + ": stream: an out-of-order sycl::queue, expected an in-order one"};
    }
    // The default device has been asked for already, by query_support; the caller's queue may be of another.
    if (std::string reason = refusal(queue); !reason.empty()) return {ErrorKind::unsupported, std::string(op) + ": " + reason};
    launch(params, on, queue);
    return {};
  } catch (const std::bad_alloc&) {
    throw;  // the caller's own words for it
  } catch (const std::exception& error) {
    return {ErrorKind::device_error, std::string(op) + ": " + error.what()};
  }
}

Module make() {
  Module made;
  made.version = RECOVERSSM_MODULE_VERSION;
  made.calls = module::device_calls();
  made.memory = module::memory_calls();
  made.bench = make_bench_calls();
  made.devices = module::devices;
  made.inexact = module::inexact;
  made.runtime = module::runtime;
  made.set_sub_group_size = set_sub_group_size_wanted;
#define RECOVERSSM_OP(name, Params)                 \
  made.name.scratch_size = scratch_size_of<Params>; \
  made.name.execute = [](const Params& params, const Launch& on) { return execute_on_queue(#name, params, on); };
  RECOVERSSM_SYCL_WRITTEN(RECOVERSSM_OP)
#undef RECOVERSSM_OP
  return made;
}

}  // namespace
}  // namespace recoverssm::sycl_backend

extern "C" __attribute__((visibility("default"))) const recoverssm::sycl_backend::Module* recoverssm_sycl_module() {
  static const recoverssm::sycl_backend::Module only = recoverssm::sycl_backend::make();
  return &only;
}
