#include "arithmetic/measure.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <thread>

namespace recoverssm::arithmetic_test {
namespace {

constexpr int kBlock = 4096;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

void merge(Worst& total, const Worst& part) {
  if (part.ulp > total.ulp) total = part;
}

template <typename Counts>
void merge_counts(Counts& total, const Counts& part) {
  if (total.wrong == 0) total.first_wrong = part.first_wrong;
  total.wrong += part.wrong;
  total.tested += part.tested;
}

void merge(Accuracy& total, const Accuracy& part) {
  merge(total.normal, part.normal);
  merge(total.subnormal, part.subnormal);
  merge_counts(total, part);
}

void merge(Mismatches& total, const Mismatches& part) { merge_counts(total, part); }

// Calls visit(result, x, n) for blocks of floats in rising order of their bit patterns, in two threads with a Result each, and
// merges.
template <typename Result, typename Visit>
Result sweep(std::uint32_t step, const Visit& visit) {
  constexpr std::uint64_t floats = std::uint64_t{1} << 32;
  std::atomic<std::uint64_t> next{0};
  std::mutex mutex;
  Result total;
  const auto work = [&] {
    Result mine;
    float x[kBlock];
    const std::uint64_t span = std::uint64_t{kBlock} * step;
    for (std::uint64_t first = next.fetch_add(span); first < floats; first = next.fetch_add(span)) {
      int n = 0;
      for (std::uint64_t bits = first; n < kBlock && bits < floats; bits += step)
        x[n++] = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
      visit(mine, x, n);
    }
    const std::lock_guard lock(mutex);
    merge(total, mine);
  };
  std::thread other(work);
  work();
  other.join();
  return total;
}

template <typename Counts>
void count(Counts& counts, bool right, float x) {
  ++counts.tested;
  if (right) return;
  if (counts.wrong++ == 0) counts.first_wrong = x;
}

// The error of a finite result whose exact value is neither 0 nor beyond the largest float.
void measure(Accuracy& accuracy, float x, float result, double exact) {
  int exponent;
  std::frexp(exact, &exponent);
  const double ulp = std::ldexp(1.0, std::max(exponent - 24, -149));
  const Worst here = {std::fabs(static_cast<double>(result) - exact) / ulp, x};
  merge(std::fabs(exact) < 0x1p-126 ? accuracy.subnormal : accuracy.normal, here);
}

bool is_bits(float x, float y) { return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y); }

void check_exp(Accuracy& accuracy, float x, float result) {
  if (std::isnan(x)) return count(accuracy, std::isnan(result), x);
  if (x > 88.72283f) return count(accuracy, result == kInfinity, x);
  if (x < -104.0f) return count(accuracy, is_bits(result, 0.0f), x);
  if (x == 0.0f) return count(accuracy, is_bits(result, 1.0f), x);
  // A decay never grows a state: results stay on their side of 1.
  count(accuracy, x < 0.0f ? result >= 0.0f && result <= 1.0f : result >= 1.0f && result < kInfinity, x);
  measure(accuracy, x, result, std::exp(static_cast<double>(x)));
}

void check_log(Accuracy& accuracy, float x, float result) {
  if (std::isnan(x) || x < 0.0f) return count(accuracy, std::isnan(result), x);
  if (x == 0.0f) return count(accuracy, result == -kInfinity, x);
  if (x == kInfinity) return count(accuracy, result == kInfinity, x);
  if (x == 1.0f) return count(accuracy, is_bits(result, 0.0f), x);
  count(accuracy, x < 1.0f ? result < 0.0f : result > 0.0f, x);
  measure(accuracy, x, result, std::log(static_cast<double>(x)));
}

template <typename Check>
Accuracy measure_loop(const FloatLoop& loop, std::uint32_t step, const Check& check) {
  return sweep<Accuracy>(step, [&](Accuracy& accuracy, const float* x, int n) {
    float y[kBlock];
    loop.run(x, y, n);
    for (int i = 0; i < n; ++i) check(accuracy, x[i], y[i]);
  });
}

// All magnitudes of a format in rising order; the last one stands for infinity and is what the next finite value would be.
std::vector<double> magnitudes(const NarrowFormat& format) {
  const int infinity = ((1 << format.exponent_bits) - 1) << format.mantissa_bits;
  std::vector<double> values;
  for (int pattern = 0; pattern < infinity; ++pattern) values.push_back(value_of(format, static_cast<std::uint16_t>(pattern)));
  values.push_back(std::ldexp(1.0, 1 << (format.exponent_bits - 1)));
  return values;
}

class NarrowOracle {
 public:
  explicit NarrowOracle(const NarrowFormat& format) : mantissa_bits_(format.mantissa_bits), values_(magnitudes(format)) {}

  // x is narrowed rightly to pattern. `cursor` is where the last x was found: neighbouring floats have neighbouring places.
  bool accepts(float x, std::uint16_t pattern, std::size_t& cursor) const {
    const std::size_t infinity = values_.size() - 1;
    if (std::signbit(x) != (pattern >> 15 != 0)) return false;
    const std::size_t magnitude = pattern & 0x7fffu;
    if (std::isnan(x)) {
      const std::size_t quiet_bit = std::size_t{1} << (mantissa_bits_ - 1);
      return magnitude > infinity && (magnitude & quiet_bit) != 0;
    }
    const double wanted = std::fabs(static_cast<double>(x));
    if (wanted >= values_[infinity]) return magnitude == infinity;
    while (values_[cursor] > wanted) --cursor;
    while (values_[cursor + 1] <= wanted) ++cursor;
    const double below = wanted - values_[cursor];
    const double above = values_[cursor + 1] - wanted;
    const bool up = above < below || (above == below && cursor % 2 == 1);
    return magnitude == cursor + (up ? 1 : 0);
  }

  const std::vector<double>& values() const { return values_; }

 private:
  int mantissa_bits_;
  std::vector<double> values_;
};

void check_block(Mismatches& mismatches, const NarrowOracle& oracle, const NarrowLoop& loop, const float* x, int n) {
  std::uint16_t y[kBlock];
  loop.run(x, y, n);
  // Found by bisection once a block, then followed.
  const auto& values = oracle.values();
  const auto place = std::upper_bound(values.begin(), values.end() - 1, std::fabs(static_cast<double>(x[0])));
  std::size_t cursor = place == values.begin() ? 0 : static_cast<std::size_t>(place - values.begin()) - 1;
  cursor = std::min(cursor, values.size() - 2);
  for (int i = 0; i < n; ++i) count(mismatches, oracle.accepts(x[i], y[i], cursor), x[i]);
}

}  // namespace

std::uint32_t step_from_environment() {
  const char* exhaustive = std::getenv("RECOVERSSM_EXHAUSTIVE");
  return exhaustive != nullptr && std::strcmp(exhaustive, "1") == 0 ? 1 : kSampleStep;
}

std::string describe_sample(std::uint32_t step) {
  if (step == 1) return "all 4294967296 floats";
  return "bit patterns 0, " + std::to_string(step) + ", " + std::to_string(2 * std::uint64_t{step}) + ", ... of all 2^32 (" +
         std::to_string((std::uint64_t{1} << 32) / step + 1) + " floats)";
}

Accuracy measure_exp(const FloatLoop& loop, std::uint32_t step) { return measure_loop(loop, step, check_exp); }

Accuracy measure_log(const FloatLoop& loop, std::uint32_t step) { return measure_loop(loop, step, check_log); }

double value_of(const NarrowFormat& format, std::uint16_t pattern) {
  const int mantissa = pattern & ((1 << format.mantissa_bits) - 1);
  const int exponent = (pattern & 0x7fff) >> format.mantissa_bits;
  const int largest = (1 << format.exponent_bits) - 1;
  const int bias = largest / 2;
  const double sign = pattern >> 15 != 0 ? -1.0 : 1.0;
  if (exponent == largest)
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  const double fraction = std::ldexp(mantissa, -format.mantissa_bits);
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1.0 + fraction, exponent - bias));
}

Mismatches check_narrowing(const NarrowLoop& loop, const NarrowFormat& format, std::uint32_t step) {
  const NarrowOracle oracle(format);
  return sweep<Mismatches>(step,
                           [&](Mismatches& mismatches, const float* x, int n) { check_block(mismatches, oracle, loop, x, n); });
}

Mismatches check_ties(const NarrowLoop& loop, const NarrowFormat& format) {
  const NarrowOracle oracle(format);
  const std::vector<double>& values = oracle.values();
  Mismatches mismatches;
  for (std::size_t i = 0; i + 1 < values.size(); ++i) {
    // Both are exact in fp32; the largest midpoint is the one to infinity.
    for (const double center : {values[i], (values[i] + values[i + 1]) / 2}) {
      const float c = static_cast<float>(center);
      const float around[] = {c, std::nextafter(c, kInfinity), std::nextafter(c, -kInfinity)};
      for (const float x : around) {
        const float both[] = {x, -x};
        check_block(mismatches, oracle, loop, both, 2);
      }
    }
  }
  return mismatches;
}

Mismatches compare(const FloatLoop& one, const FloatLoop& other, std::uint32_t step) {
  return sweep<Mismatches>(step, [&](Mismatches& mismatches, const float* x, int n) {
    float a[kBlock];
    float b[kBlock];
    one.run(x, a, n);
    other.run(x, b, n);
    for (int i = 0; i < n; ++i) count(mismatches, is_bits(a[i], b[i]) || (std::isnan(a[i]) && std::isnan(b[i])), x[i]);
  });
}

Mismatches compare(const NarrowLoop& one, const NarrowLoop& other, std::uint32_t step) {
  return sweep<Mismatches>(step, [&](Mismatches& mismatches, const float* x, int n) {
    std::uint16_t a[kBlock];
    std::uint16_t b[kBlock];
    one.run(x, a, n);
    other.run(x, b, n);
    for (int i = 0; i < n; ++i) count(mismatches, a[i] == b[i], x[i]);
  });
}

}  // namespace recoverssm::arithmetic_test
