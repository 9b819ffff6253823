// The benchmark's calls.
#include "sycl/bench.h"

#include "sycl/kernels/bench.h"
#include "sycl/module/bench_calls.h"
#include "sycl/module/runtime.h"

namespace recoverssm::sycl_backend {
namespace {

constexpr std::int64_t kBenchItems = 128;     // of a work-group
constexpr std::int64_t kGroupsAUnit = 8;      // work-groups a compute unit
constexpr std::int64_t kMultiplyGroups = 64;  // the same, for what computes only

::sycl::queue& queue_at(void* queue) { return *static_cast<::sycl::queue*>(queue); }

Status start(void* at, const char* kernel, std::int64_t groups_a_unit, const BenchArgs& args) {
  try {
    ::sycl::queue& queue = queue_at(at);
    const std::int64_t groups = groups_a_unit * traits_of(queue).compute_units;
    launch_kernel(queue, kernel_of(queue, kBenchProgram, kernel), range_of(1, 1, groups, kBenchItems), args);
    return {};
  } catch (const ::sycl::exception& error) {
    return {ErrorKind::device_error, std::string("bench: ") + kernel + ": " + error.what()};
  }
}

BenchHardware hardware(void* at) {
  namespace info = ::sycl::info::device;
  const ::sycl::device device = queue_at(at).get_device();
  return {.name = device.get_info<info::name>(),
          .driver = device.get_info<info::driver_version>(),
          .compute_units = static_cast<int>(device.get_info<info::max_compute_units>()),
          .cpu = device.is_cpu(),
          .cache_bytes = static_cast<std::size_t>(device.get_info<info::global_mem_cache_size>()),
          .memory_bytes = static_cast<std::size_t>(device.get_info<info::global_mem_size>())};
}

}  // namespace

BenchCalls make_bench_calls() {
  return {
      .hardware = hardware,
      .repeat =
          [](void* queue, void* to, std::size_t bytes, const void* pattern, std::size_t pattern_bytes) {
            return start(queue, "repeat", kGroupsAUnit,
                         {.to = static_cast<std::byte*>(to),
                          .from = static_cast<const std::byte*>(pattern),
                          .count = static_cast<std::int64_t>(bytes),
                          .pattern = static_cast<std::int64_t>(pattern_bytes)});
          },
      .set_words =
          [](void* queue, void* to, std::int32_t value, std::int64_t count) {
            return start(queue, "set_words", kGroupsAUnit, {.to = static_cast<std::byte*>(to), .count = count, .word = value});
          },
      .read =
          [](void* queue, const void* from, std::size_t bytes, void* sink) {
            return start(queue, "read_all", kGroupsAUnit,
                         {.to = static_cast<std::byte*>(sink),
                          .from = static_cast<const std::byte*>(from),
                          .count = static_cast<std::int64_t>(bytes / sizeof(float))});
          },
      .copy =
          [](void* queue, void* to, const void* from, std::size_t bytes) {
            return start(queue, "copy_all", kGroupsAUnit,
                         {.to = static_cast<std::byte*>(to),
                          .from = static_cast<const std::byte*>(from),
                          .count = static_cast<std::int64_t>(bytes / sizeof(float))});
          },
      .runtime_copy = [](void* queue, void* to, const void* from, std::size_t bytes) -> Status {
        try {
          queue_at(queue).memcpy(to, from, bytes);
          return {};
        } catch (const ::sycl::exception& error) {
          return {ErrorKind::device_error, std::string("bench: copy: ") + error.what()};
        }
      },
      .multiply_add =
          [](void* queue, void* sink, std::int64_t* issued) {
            *issued = kMultiplyGroups * traits_of(queue_at(queue)).compute_units * kBenchItems * kBenchChains * kBenchSteps;
            return start(queue, "multiply_add", kMultiplyGroups, {.to = static_cast<std::byte*>(sink), .a = 0.5F, .b = 0.25F});
          },
      .empty = [](void* queue) { return start(queue, "empty", 1, {}); },
  };
}

}  // namespace recoverssm::sycl_backend
