// What single operations do with single numbers: one rounding in a multiply-add, nearest even in 16-bit results, subnormals.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "check/calls.h"

namespace recoverssm::check {

namespace {

using arithmetic::bits_of;
using arithmetic::float_of;

// Flushes subnormal inputs and results to zero and rounds towards zero in the calling thread, as some frameworks leave their threads.
class HostileMode {
 public:
#if defined(__x86_64__)
  static constexpr bool kAvailable = true;
  HostileMode() : saved_(_mm_getcsr()) { _mm_setcsr(kMode); }
  ~HostileMode() { _mm_setcsr(saved_); }
  // Whether the mode is as it was set: an operation gives it back.
  static bool intact() { return (_mm_getcsr() & ~kFlags) == kMode; }

 private:
  static constexpr unsigned kMode = 0x8000 | 0x0040 | 0x6000 | 0x1f80;  // FTZ, DAZ, towards zero, exceptions masked
  static constexpr unsigned kFlags = 0x3f;
  unsigned saved_;
#elif defined(__aarch64__)
  static constexpr bool kAvailable = true;
  HostileMode() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" : : "r"(kMode) : "memory");
  }
  ~HostileMode() { asm volatile("msr fpcr, %0" : : "r"(saved_) : "memory"); }
  static bool intact() {
    std::uint64_t mode = 0;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return (mode & kMode) == kMode;
  }

 private:
  static constexpr std::uint64_t kMode = (std::uint64_t{1} << 24) | (std::uint64_t{3} << 22);  // FZ, towards zero
  std::uint64_t saved_ = 0;
#else
  static constexpr bool kAvailable = false;
  static bool intact() { return true; }
#endif
};

struct Products {
  std::vector<float> x, weight, bias, want;
};

// Sums that are exact in double, so that their conversion is the one rounding an fma has.
Products single_roundings() {
  Products p;
  const auto add = [&](float x, float w, float c) {
    p.x.push_back(x);
    p.weight.push_back(w);
    p.bias.push_back(c);
    p.want.push_back(static_cast<float>(static_cast<double>(x) * static_cast<double>(w) + static_cast<double>(c)));
  };
  const float x = 1 + 0x1p-12F;
  add(x, x, -(1 + 0x1p-11F));              // 2^-24; two roundings give 0
  add(x, -x, 1 + 0x1p-11F);                // -2^-24
  add(1 + 0x1p-23F, 1 - 0x1p-23F, -1.0F);  // -2^-46
  Random random(81);
  for (int i = 0; i < 3000; ++i) {
    const float a = random.wide(-8, 8), b = random.wide(-8, 8);
    const double product = static_cast<double>(a) * static_cast<double>(b);
    add(a, b, -static_cast<float>(product));  // what the rounding of the product left
    // A sum of nearly the product's size: 48 bits and 24 bits within 52.
    const float near = static_cast<float>(-product * (1 + 0x1p-3 * static_cast<double>(random.uniform())));
    add(a, b, near);
  }
  return p;
}

// Results, products and summands among the subnormals. Exact in double but for the one rounding.
Products subnormal_products() {
  Products p;
  Random random(82);
  for (int i = 0; i < 3000; ++i) {
    float x = random.wide(-70, -60), w = random.wide(-80, -62),
          c = float_of(static_cast<std::uint32_t>(random.next() & 0x807fffffU));
    if (i % 3 == 1) {  // a subnormal factor
      x = float_of(static_cast<std::uint32_t>(random.next() & 0x807fffffU));
      w = random.uniform(2.0F);
      c = 0;
    } else if (i % 3 == 2) {
      c = 0;
    } else {
      x = w = 0;  // the summand alone
    }
    p.x.push_back(x);
    p.weight.push_back(w);
    p.bias.push_back(c);
    p.want.push_back(static_cast<float>(static_cast<double>(x) * static_cast<double>(w) + static_cast<double>(c)));
  }
  return p;
}

void expect_products(const Place& place, Report& report, const std::string& what, const Products& p) {
  Tensor out = convolve(place, Tensor::floats({1, static_cast<std::int64_t>(p.x.size())}, p.x), p.weight, p.bias, Activation::none);
  report.expect_bits(what, DType::f32, out.bytes(), bytes_of(p.want));
}

// A 16-bit format by its definition. Patterns count up through the positive values; the one of infinity continues them.
struct Format {
  DType dtype;
  int mantissa_bits;
  int bias;
  std::uint32_t infinity;
};
constexpr Format kFormats[] = {{DType::bf16, 7, 127, 0x7f80}, {DType::f16, 10, 15, 0x7c00}};

double value_of(const Format& format, std::uint32_t pattern) {
  const int field = static_cast<int>(pattern >> format.mantissa_bits);
  const int fraction = static_cast<int>(pattern & ((1U << format.mantissa_bits) - 1));
  const int whole = field == 0 ? 0 : 1 << format.mantissa_bits;
  return std::ldexp(whole + fraction, std::max(field, 1) - format.bias - format.mantissa_bits);
}

// Floats and the 16-bit pattern each must be rounded to.
struct Roundings {
  std::vector<float> from;
  std::vector<std::uint16_t> to;
};

Roundings roundings(const Format& format) {
  Roundings r;
  const auto add = [&](float from, std::uint32_t to) {
    for (const std::uint32_t sign : {0x0000U, 0x8000U}) {
      if (sign != 0 && from == 0) continue;  // -0 becomes +0 in the sum that brings it here
      r.from.push_back(sign != 0 ? -from : from);
      r.to.push_back(static_cast<std::uint16_t>(to | sign));
    }
  };
  // Every fifth value, its upper neighbour, and the middle between the two with the floats next to it. The edges of the format are
  // among them: the step is odd and the ends are added.
  std::vector<std::uint32_t> patterns{1, (1U << format.mantissa_bits) - 1, 1U << format.mantissa_bits, format.infinity - 1};
  for (std::uint32_t p = 0; p < format.infinity; p += 5) patterns.push_back(p);
  for (const std::uint32_t p : patterns) {
    const auto middle = static_cast<float>((value_of(format, p) + value_of(format, p + 1)) / 2);  // exact: fp32 has more bits
    add(static_cast<float>(value_of(format, p)), p);
    add(std::nextafter(middle, 0.0F), p);
    add(middle, p + (p & 1U));
    add(std::nextafter(middle, std::numeric_limits<float>::infinity()), p + 1);
  }
  add(std::numeric_limits<float>::infinity(), format.infinity);
  return r;
}

// Runs an operation in the caller's mode or in a hostile one, which it must give back. Nothing else may happen in that mode.
template <class Operation>
void run_in_mode(bool hostile, Report& report, Operation&& operation) {
  if (!hostile) return operation();
  bool intact = false;
  {
    const HostileMode mode;
    operation();
    intact = HostileMode::intact();
  }
  report.expect(intact, "the caller's floating-point mode was not given back");
}

const char* caller(bool hostile) { return hostile ? ", caller flushing to zero" : ""; }

// A state of subnormals under a decay of 1 stays what it is.
void check_subnormal_state(const Place& place, Report& report, bool hostile) {
  constexpr std::int64_t K = 48, V = 5;
  Random random(83);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    Tensor state(dtype, {2, 1, V, K});
    for (std::int64_t i = 0; i < state.elements(); ++i) {
      const auto bits = static_cast<std::uint32_t>(random.next()) | 1U;  // no zero: fma(0, 0, -0) is +0
      if (dtype == DType::f32) {
        state.set(i, float_of(bits & 0x807fffffU));
      } else {
        state.set_bits(i, static_cast<std::uint16_t>(bits & (dtype == DType::bf16 ? 0x807fU : 0x83ffU)));
      }
    }
    const Tensor before = state;
    const Tensor q(DType::f32, {1, 1, K}), v(DType::f32, {1, 1, V}), b(DType::f32, {1, 1}), out(DType::f32, {1, 1, V});
    const Tensor a = Tensor::filled(DType::f32, {1, 1}, -200.0F), zero(DType::f32, {1});
    const Tensor offsets = Tensor::ints({0, 1}), blocks = Tensor::ints({kBlock});
    run_in_mode(hostile, report, [&] {
      gated_delta_rule({.inputs = {.q = q, .k = q, .v = v, .a = a, .b = b, .A_log = zero, .dt_bias = zero},
                        .state = state,
                        .out = out,
                        .rows = {.query_start_loc = offsets, .state_indices = blocks}},
                       place.context);
    });
    report.expect_bits(fmt::format("{} state{}", name_of(dtype), caller(hostile)), dtype, state.bytes(), before.bytes());
  }
}

}  // namespace

void check_fma(const Place& place, Report& report) { expect_products(place, report, "fma", single_roundings()); }

void check_rounding(const Place& place, Report& report) {
  for (const Format& format : kFormats) {
    const Roundings r = roundings(format);
    const auto channels = static_cast<std::int64_t>(r.from.size());
    Tensor out = convolve(place, Tensor::filled(format.dtype, {1, channels}, 1.0F), r.from, {}, Activation::none);
    report.expect_bits(fmt::format("fp32 to {}", name_of(format.dtype)), format.dtype, out.bytes(), std::as_bytes(std::span(r.to)));
  }
}

void check_subnormals(const Place& place, Report& report) {
  const Products products = subnormal_products();
  const Tensor x = Tensor::floats({1, static_cast<std::int64_t>(products.x.size())}, products.x);
  for (const bool hostile : {false, true}) {
    if (hostile && !HostileMode::kAvailable) {
      report.skip("a caller that flushes to zero: not known how to set that on this architecture");
      return;
    }
    Tensor out;
    run_in_mode(hostile, report, [&] { out = convolve(place, x, products.weight, products.bias, Activation::none); });
    report.expect_bits(fmt::format("products{}", caller(hostile)), DType::f32, out.bytes(), bytes_of(products.want));
    check_subnormal_state(place, report, hostile);
  }
}

}  // namespace recoverssm::check
