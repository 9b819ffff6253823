// Properties: a body that is run for many random cases. RapidCheck chooses the shapes and shrinks them when the body fails; the data
// come from a seeded generator, so a case is small to print and quick to repeat.
//
//   TEST(Verify, LeavesTheCheckpointAlone) {
//     property(60, [](Pick& pick) {
//       const RuleShape shape = random_rule_shape(pick);
//       ...
//       require(same_bits(before, after));
//     });
//   }
//
// A property runs with a fixed seed. RECOVERSSM_TEST_SEED=n takes another one (a failure prints the one it had),
// RECOVERSSM_TEST_SCALE=x runs x times as many cases.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

namespace support {

// Where a test's random choices come from. Made by property(), or from a seed in a plain test.
class Pick {
 public:
  explicit Pick(std::uint64_t seed);           // a plain test
  static Pick rapid(std::uint64_t data_seed);  // inside property()

  // Shape choices; these shrink, to `low`, to false and to the first item.
  int between(int low, int high);  // both included
  bool chance(int percent);
  template <class T>
  T one_of(std::initializer_list<T> items) {
    return *(items.begin() + choice(static_cast<int>(items.size())));
  }
  std::vector<int> permutation(int n);
  std::vector<int> distinct(int count, int low, int high);  // `count` different numbers of low..high

  // Data; never shrunk.
  double uniform(double low, double high);
  double normal();
  std::uint64_t bits() { return data_(); }

  // Shown when the case fails.
  void log(const std::string& text);

 private:
  int choice(int n);

  bool rapid_ = false;
  std::mt19937_64 data_;
};

void property(int runs, const std::function<void(Pick&)>& body);

// Fails the case. Also usable in plain tests, where it fails the test and ends it by an exception.
void require(const ::testing::AssertionResult& result, const std::string& what = {});
void require(bool condition, const std::string& what);

}  // namespace support
