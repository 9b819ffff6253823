#include "sycl/module/exact.h"

#include <bit>
#include <cstdio>
#include <list>
#include <mutex>
#include <vector>

#include "cpu/execution.h"
#include "sycl/kernels/exact.h"
#include "sycl/module/devices.h"
#include "sycl/module/runtime.h"

namespace recoverssm::sycl_backend::module {
namespace {

constexpr std::int64_t kItems = 64;

std::uint32_t next(std::uint64_t& state) {
  state = state * 6364136223846793005U + 1442695040888963407U;
  return static_cast<std::uint32_t>(state >> 32);
}

// Significands at random, with exponents near each other, so that results are rounded; every fourth case has tiny operands, whose quotients,
// products and sums are subnormal.
std::vector<ExactCase> make_cases() {
  std::vector<ExactCase> cases(8192);
  std::uint64_t state = 20260101;
  const auto value = [&](std::uint32_t exponent) {
    return arithmetic::float_of((next(state) & 0x807fffffU) | (exponent + next(state) % 8) << 23);
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    switch (i % 4) {
      case 0:  // a subnormal beside a subnormal
        cases[i] = {arithmetic::float_of(next(state) & 0x807fffffU), value(120), arithmetic::float_of(next(state) & 0x807fffffU)};
        break;
      case 1:  // normal operands, subnormal product and quotient
        cases[i] = {value(20), value(100), value(1)};
        break;
      case 2:  // as case 1, with a large divisor
        cases[i] = {value(40), value(170), value(80)};
        break;
      default:
        cases[i] = {value(124), value(124), value(124)};
    }
  }
  return cases;
}

bool same(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

std::string compare(const std::vector<ExactCase>& cases, const std::vector<ExactResults>& got) {
  const cpu::ScopedFpMode mode;
  struct Field {
    const char* name;
    float ExactResults::*value;
  };
  constexpr Field kFields[] = {{"division", &ExactResults::quotient},
                               {"square root", &ExactResults::root},
                               {"fused multiply-add", &ExactResults::fused},
                               {"multiplication", &ExactResults::product},
                               {"addition", &ExactResults::sum},
                               {"multiplication, then addition", &ExactResults::separate}};
  for (const Field& field : kFields) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const float want = exact_results(cases[i]).*field.value, found = got[i].*field.value;
      if (same(want, found)) continue;
      char text[160];
      std::snprintf(text, sizeof text, "%s is not exact on this device: x = %a, y = %a, z = %a gives %a, expected %a", field.name,
                    static_cast<double>(cases[i].x), static_cast<double>(cases[i].y), static_cast<double>(cases[i].z),
                    static_cast<double>(found), static_cast<double>(want));
      return text;
    }
  }
  return {};
}

// On a queue of its own: the caller's may be recording a graph.
std::string check(const ::sycl::context& context, const ::sycl::device& device) {
  const std::vector<ExactCase> cases = make_cases();
  std::vector<ExactResults> got(cases.size());
  try {
    ::sycl::queue queue(context, device, ::sycl::property::queue::in_order());
    const auto count = static_cast<std::int64_t>(cases.size());
    auto* const in = ::sycl::malloc_device<ExactCase>(cases.size(), queue);
    auto* const out = ::sycl::malloc_device<ExactResults>(cases.size(), queue);
    queue.memcpy(in, cases.data(), cases.size() * sizeof(ExactCase));
    launch_kernel(queue, kernel_of(queue, kExactProgram, "exact"), range_of(1, 1, ceil_div(count, kItems), kItems),
                  ExactArgs{in, out, count});
    queue.memcpy(got.data(), out, got.size() * sizeof(ExactResults)).wait_and_throw();
    ::sycl::free(in, queue);
    ::sycl::free(out, queue);
  } catch (const ::sycl::exception& error) {
    return std::string("the check of its arithmetic did not run: ") + error.what();
  }
  return compare(cases, got);
}

}  // namespace

const std::string& inexact_on(const ::sycl::queue& queue) {
  struct Checked {
    ::sycl::context context;
    ::sycl::device device;
    std::string reason;
  };
  static auto& all = *new std::list<Checked>;  // never taken down: the runtime may be gone by then
  static std::mutex lock;
  const ::sycl::context context = queue.get_context();
  const ::sycl::device device = queue.get_device();
  const std::scoped_lock held(lock);
  for (const Checked& each : all) {
    if (each.context == context && each.device == device) return each.reason;
  }
  return all.emplace_back(Checked{context, device, check(context, device)}).reason;
}

std::string inexact() { return unavailable_reason().empty() ? inexact_on(default_queue()) : std::string(); }

}  // namespace recoverssm::sycl_backend::module
