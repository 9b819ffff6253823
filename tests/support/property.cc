#include "support/property.h"

#include <rapidcheck.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <sstream>
#include <stdexcept>

namespace support {

namespace {

bool inside_property = false;

std::uint64_t hash_of(const std::string& text) {  // FNV-1a: a test's seed stays the same when other tests come and go
  std::uint64_t hash = 1469598103934665603U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

}  // namespace

Pick::Pick(std::uint64_t seed) : data_(seed) {}

Pick Pick::rapid(std::uint64_t data_seed) {
  Pick pick(data_seed);
  pick.rapid_ = true;
  return pick;
}

int Pick::between(int low, int high) {
  if (low > high) throw std::logic_error("Pick::between: empty range");
  if (low == high) return low;
  if (rapid_) return *rc::gen::inRange(low, high + 1);
  return low + static_cast<int>(data_() % static_cast<std::uint64_t>(high - low + 1));
}

int Pick::choice(int n) {
  if (rapid_) return *rc::gen::resize(100, rc::gen::inRange(0, n));
  return static_cast<int>(data_() % static_cast<std::uint64_t>(n));
}

bool Pick::chance(int percent) { return choice(100) >= 100 - percent; }

std::vector<int> Pick::permutation(int n) {
  std::vector<int> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[data_() % i]);
  return order;
}

std::vector<int> Pick::distinct(int count, int low, int high) {
  std::vector<int> numbers = permutation(high - low + 1);
  if (static_cast<int>(numbers.size()) < count) throw std::logic_error("Pick::distinct: range too small");
  numbers.resize(static_cast<std::size_t>(count));
  for (int& number : numbers) number += low;
  return numbers;
}

double Pick::uniform(double low, double high) { return low + (high - low) * static_cast<double>(data_() >> 11) * 0x1p-53; }

double Pick::normal() {  // the sum of twelve uniform numbers: the same on every C++ library
  double sum = -6.0;
  for (int i = 0; i < 12; ++i) sum += static_cast<double>(data_() >> 11) * 0x1p-53;
  return sum;
}

void Pick::log(const std::string& text) {
  if (rapid_) RC_LOG() << text << std::endl;
}

void property(int runs, const std::function<void(Pick&)>& body) {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = std::string(info->test_suite_name()) + "/" + info->name();
  rc::detail::TestParams params;
  params.seed = hash_of(name);
  if (const char* seed = std::getenv("RECOVERSSM_TEST_SEED")) params.seed = std::strtoull(seed, nullptr, 0);
  params.maxSuccess = runs;
  if (const char* scale = std::getenv("RECOVERSSM_TEST_SCALE")) {
    params.maxSuccess = std::max(1, static_cast<int>(std::strtod(scale, nullptr) * runs));
  }
  params.disableShrinking = std::getenv("RECOVERSSM_TEST_NO_SHRINK") != nullptr;
  rc::detail::TestMetadata metadata;
  metadata.id = name;
  metadata.description = info->name();

  const auto result = rc::detail::checkTestable(
      [&] {
        inside_property = true;
        Pick pick = Pick::rapid(*rc::gen::noShrink(rc::gen::resize(100, rc::gen::arbitrary<std::uint64_t>())));
        body(pick);
      },
      metadata, params);
  inside_property = false;
  if (result.template is<rc::detail::SuccessResult>()) return;
  std::ostringstream text;
  rc::detail::printResultMessage(result, text);
  FAIL() << text.str() << "\nRECOVERSSM_TEST_SEED=" << params.seed << " repeats it";
}

void require(const ::testing::AssertionResult& result, const std::string& what) {
  if (result) return;
  const std::string text = what + (what.empty() ? "" : ": ") + result.message();
  if (inside_property) RC_FAIL(text);
  throw std::runtime_error(text);
}

void require(bool condition, const std::string& what) {
  if (!condition) require(::testing::AssertionFailure() << "does not hold", what);
}

}  // namespace support
