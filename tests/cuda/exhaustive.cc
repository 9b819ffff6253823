// All 2^32 floats through exp, log, the gates' functions and the roundings, on the device and on the host: the same bits, but for the payload
// and sign of a computed NaN. Prints a line a function; exit status 1 if one differs, 77 where there is no device.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "arithmetic/gates.h"
#include "arithmetic/rounding.h"
#include "cuda/functions.h"
#include "recoverssm/cuda.hpp"

namespace {

using namespace recoverssm;
using cuda_test::Function;

std::uint32_t on_host(Function f, std::uint32_t pattern) {
  const float x = arithmetic::float_of(pattern);
  const auto half = static_cast<std::uint16_t>(pattern);
  switch (f) {
    case Function::exp:
      return arithmetic::bits_of(arithmetic::exp_f32(x));
    case Function::log:
      return arithmetic::bits_of(arithmetic::log_f32(x));
    case Function::sigmoid:
      return arithmetic::bits_of(arithmetic::sigmoid(x));
    case Function::silu:
      return arithmetic::bits_of(arithmetic::silu(x));
    case Function::softplus:
      return arithmetic::bits_of(arithmetic::softplus(x, 1.5F, 20.0F));
    case Function::softplus_of_one:
      return arithmetic::bits_of(arithmetic::softplus(x, 1.0F, 20.0F));
    case Function::inverse_norm:
      return arithmetic::bits_of(arithmetic::inverse_norm(x));
    case Function::to_bf16:
      return arithmetic::to_bf16(x);
    case Function::to_f16:
      return arithmetic::to_f16(x);
    case Function::from_bf16:
      return arithmetic::bits_of(arithmetic::from_bf16(half));
    case Function::from_f16:
      return arithmetic::bits_of(arithmetic::from_f16(half));
  }
  return 0;
}

bool is_nan(Function f, std::uint32_t result) {
  if (f == Function::to_bf16) return (result & 0x7fffU) > 0x7f80U;
  if (f == Function::to_f16) return (result & 0x7fffU) > 0x7c00U;
  return (result & 0x7fffffffU) > 0x7f800000U;
}

struct Finding {
  std::uint64_t wrong = 0;
  std::uint32_t first = 0;
};

Finding compare(Function f, std::uint32_t first, const std::vector<std::uint32_t>& device) {
  const unsigned threads = std::max(1U, std::thread::hardware_concurrency());
  std::vector<Finding> found(threads);
  std::vector<std::thread> pool;
  for (unsigned t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      for (std::size_t i = device.size() * t / threads; i < device.size() * (t + 1) / threads; ++i) {
        const std::uint32_t pattern = first + static_cast<std::uint32_t>(i), want = on_host(f, pattern);
        if (device[i] == want || (is_nan(f, want) && is_nan(f, device[i]))) continue;
        if (found[t].wrong++ == 0) found[t].first = pattern;
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  Finding all;
  for (const Finding& part : found) {
    if (part.wrong != 0 && all.wrong == 0) all.first = part.first;
    all.wrong += part.wrong;
  }
  return all;
}

}  // namespace

int main() {
  if (const std::string reason = cuda::unavailable_reason(); !reason.empty()) {
    std::printf("skipped: %s\n", reason.c_str());
    return 77;
  }
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 26;
  int status = 0;
  for (int n = 0; n < cuda_test::kFunctions; ++n) {
    const auto f = static_cast<Function>(n);
    const std::uint64_t patterns = cuda_test::is_16_bit(f) ? 1ULL << 16 : 1ULL << 32;
    Finding all;
    for (std::uint64_t first = 0; first < patterns; first += kPiece) {
      std::vector<std::uint32_t> device(std::min(kPiece, patterns - first));
      const char* why = nullptr;
      if (!cuda_test::run_on_device(f, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(device.size()), device.data(),
                                    &why)) {
        std::printf("%s: the device failed: %s\n", cuda_test::kNames[n], why);
        return 1;
      }
      const Finding part = compare(f, static_cast<std::uint32_t>(first), device);
      if (part.wrong != 0 && all.wrong == 0) all.first = part.first;
      all.wrong += part.wrong;
    }
    std::printf("%-12s over %llu bit patterns: %llu differ", cuda_test::kNames[n], static_cast<unsigned long long>(patterns),
                static_cast<unsigned long long>(all.wrong));
    if (all.wrong != 0) {
      std::printf(", the first 0x%08x", all.first);
      status = 1;
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  return status;
}
