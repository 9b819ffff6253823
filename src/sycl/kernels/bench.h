// Kernels of the benchmark: contents of memory, and what the device can do at most.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arithmetic/portable.h"
#include "sycl/kernels/entry.h"

namespace recoverssm::sycl_backend {

struct BenchArgs {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::int64_t count = 0, pattern = 0;
  std::int32_t word = 0;
  float a = 0, b = 0;
};

constexpr int kBenchChains = 8, kBenchSteps = 4096;

inline void repeat_body(const ::sycl::nd_item<3>& item, const BenchArgs& args) {
  const auto step = static_cast<std::int64_t>(item.get_global_range(2));
  for (auto i = static_cast<std::int64_t>(item.get_global_id(2)); i < args.count; i += step)
    args.to[i] = args.from[i % args.pattern];
}

inline void set_words_body(const ::sycl::nd_item<3>& item, const BenchArgs& args) {
  const auto step = static_cast<std::int64_t>(item.get_global_range(2));
  auto* const to = reinterpret_cast<std::int32_t*>(args.to);
  for (auto i = static_cast<std::int64_t>(item.get_global_id(2)); i < args.count; i += step) to[i] = args.word;
}

// A work-group reads a stretch of its own, so that the CPU's prefetchers see one stream a thread.
inline void read_body(const ::sycl::nd_item<3>& item, const BenchArgs& args) {
  const auto items = static_cast<std::int64_t>(item.get_local_range(2)),
             groups = static_cast<std::int64_t>(item.get_group_range(2));
  const std::int64_t stretch = args.count / groups, begin = stretch * static_cast<std::int64_t>(item.get_group(2));
  const auto* const from = reinterpret_cast<const float*>(args.from);
  float sum[4] = {};
  std::int64_t i = begin + static_cast<std::int64_t>(item.get_local_id(2));
  for (; i + 3 * items < begin + stretch; i += 4 * items) {
    for (int k = 0; k < 4; ++k) sum[k] = sum[k] + from[i + k * items];
  }
  const float all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  if (all == -1.5f) *reinterpret_cast<float*>(args.to) = all;  // so that nothing is left out
}

inline void copy_body(const ::sycl::nd_item<3>& item, const BenchArgs& args) {
  const auto items = static_cast<std::int64_t>(item.get_local_range(2)),
             groups = static_cast<std::int64_t>(item.get_group_range(2));
  const std::int64_t stretch = args.count / groups, begin = stretch * static_cast<std::int64_t>(item.get_group(2));
  const auto* const from = reinterpret_cast<const float*>(args.from);
  auto* const to = reinterpret_cast<float*>(args.to);
  for (std::int64_t i = begin + static_cast<std::int64_t>(item.get_local_id(2)); i < begin + stretch; i += items) to[i] = from[i];
}

inline void multiply_add_body(const ::sycl::nd_item<3>& item, const BenchArgs& args) {
  float x[kBenchChains];
  for (int c = 0; c < kBenchChains; ++c) x[c] = static_cast<float>(item.get_global_id(2) + static_cast<std::size_t>(c));
  for (int step = 0; step < kBenchSteps; ++step) {
    for (int c = 0; c < kBenchChains; ++c) x[c] = arithmetic::fused_multiply_add(x[c], args.a, args.b);
  }
  float sum = 0;
  for (int c = 0; c < kBenchChains; ++c) sum = sum + x[c];
  if (sum == -1.5f) *reinterpret_cast<float*>(args.to) = sum;
}

inline void empty_body(const ::sycl::nd_item<3>&, const BenchArgs&) {}

}  // namespace recoverssm::sycl_backend

#define RSSM_BENCH_KERNELS(KERNEL)                                                                       \
  KERNEL(repeat, recoverssm::sycl_backend::BenchArgs, recoverssm::sycl_backend::repeat_body)             \
  KERNEL(set_words, recoverssm::sycl_backend::BenchArgs, recoverssm::sycl_backend::set_words_body)       \
  KERNEL(read_all, recoverssm::sycl_backend::BenchArgs, recoverssm::sycl_backend::read_body)             \
  KERNEL(copy_all, recoverssm::sycl_backend::BenchArgs, recoverssm::sycl_backend::copy_body)             \
  KERNEL(multiply_add, recoverssm::sycl_backend::BenchArgs, recoverssm::sycl_backend::multiply_add_body) \
  KERNEL(empty, recoverssm::sycl_backend::BenchArgs, recoverssm::sycl_backend::empty_body)
#if defined(RSSM_AT_RUN_TIME)
RSSM_BENCH_KERNELS(RSSM_KERNEL)
#endif
