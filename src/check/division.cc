// Division and square root: as compiled here, and inside the operations on each target, against integer arithmetic.
#include <fmt/format.h>

#include <cmath>

#include "arithmetic/gates.h"
#include "check/calls.h"
#include "check/exact.h"

namespace recoverssm::check {

namespace {

// Integers (24 significant bits) whose square roots lie nearest to the middle between two floats, of all significands and both
// parities of the exponent; eight from below and eight from above each. Found by trying every root.
constexpr std::uint32_t kHardRoots[] = {0x1000002, 0x1000006, 0x1618d86, 0x100000a, 0x19683d2, 0x17198cc, 0x100000e, 0x1a8c3e2,
                                        0x1f82294, 0x124b0b2, 0x152f7de, 0x1e05156, 0x19b5d64, 0x1e1b39c, 0x1a8cb02, 0x176c3ee,
                                        0xffffff,  0xfffffd,  0xd51dbf,  0xfffffb,  0xc1bc4e,  0xfffff9,  0x8fe042,  0xbb8e2a,
                                        0xee9372,  0xdae03b,  0xaa177f,  0xbb8bcc,  0xcd142a,  0xdf5fa5,  0xd15a77,  0xb302be};

void expect(Report& report, const std::string& what, std::vector<float>& got, const std::vector<float>& want) {
  report.expect_bits(what, DType::f32, bytes_of(got), bytes_of(want));
}

// A key of 32 integers whose squares sum to s exactly, in whatever order the canonical dot adds them: one of them 1 (the last), the
// two largest in different halves of the tree.
void put_squares(std::uint32_t s, float* key) {
  key[31] = 1;
  std::uint32_t left = s - 1;
  for (int i = 0; left > 0; ++i) {
    auto root = static_cast<std::uint32_t>(std::min(exact_root(static_cast<float>(left)), 4095.0F));
    while (root * root > left) --root;
    key[i == 0 ? 0 : 15 + i] = static_cast<float>(root);
    left -= root * root;
  }
}

// 1 / sqrt(s) where s is so large that the norm's 1e-6 vanishes, and every element times it.
void check_norm(const Place& place, Report& report) {
  constexpr int K = 32;
  constexpr std::size_t kKeys = std::size(kHardRoots);
  std::vector<float> keys(kKeys * K);
  for (std::size_t i = 0; i < kKeys; ++i) put_squares(kHardRoots[i], &keys[i * K]);
  std::vector<float> want;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const float inverse = exact_quotient(1.0F, exact_root(static_cast<float>(kHardRoots[i / K])));
    want.push_back(keys[i] * inverse);
  }
  std::vector<float> got = normalised(place, keys, K);
  expect(report, "normalised keys", got, want);
}

// beta and silu at random arguments: 1 / (1 + exp(-x)) and x / (1 + exp(-x)).
void check_sigmoids(const Place& place, Report& report) {
  Random random(71);
  std::vector<float> x;
  for (int i = 0; i < 6000; ++i) x.push_back(std::ldexp(random.wide(-1, -1), random.between(-3, 7)));
  std::vector<float> beta, silu;
  for (float& value : x) {
    if (std::fabs(value) > 80.0F) value = value / 2;
    const float below = 1.0F + arithmetic::exp_f32(-value);
    beta.push_back(exact_quotient(1.0F, below));
    silu.push_back(std::copysign(exact_quotient(std::fabs(value), below), value));
  }
  std::vector<float> got = betas(place, x);
  expect(report, "sigmoid", got, beta);
  Tensor out = convolve(place, Tensor::floats({1, static_cast<std::int64_t>(x.size())}, x), std::vector<float>(x.size(), 1.0F), {},
                        Activation::silu);
  report.expect_bits("silu", DType::f32, out.bytes(), bytes_of(silu));
}

// lower_bound / (1 + exp(-y)) with bounds chosen for the hardest quotients; exp then shows every bit, since the quotient is 8 to 32.
void check_bounded_gate(const Place& place, Report& report) {
  Random random(72);
  for (int call = 0; call < 24; ++call) {
    std::vector<float> y, below;
    while (y.size() < 128) {
      y.push_back(random.wide(-4, 1));
      below.push_back(1.0F + arithmetic::exp_f32(-y.back()));
    }
    const Parts denominator = parts_of(below[0]);
    const HardQuotient hard = hard_quotient(static_cast<std::uint32_t>(denominator.significand), (call & 1) != 0);
    const float bound = -std::ldexp(hard.x, denominator.exponent + 4);
    std::vector<float> want;
    for (const float d : below) want.push_back(arithmetic::exp_f32(-exact_quotient(-bound, d)));
    std::vector<float> got = kda_decays(place, y, {.lower_bound = bound});
    expect(report, "quotient in the bounded gate", got, want);
  }
}

}  // namespace

void check_division_host(const Place&, Report& report) {
  Random random(73);
  std::vector<float> got, want;
  const auto divide = [&](float x, float y) {
    const volatile float a = x, b = y;  // not for the compiler to work out
    got.push_back(arithmetic::divide(a, b));
    want.push_back(exact_quotient(x, y));
  };
  for (int i = 0; i < 4000; ++i) {
    const HardQuotient hard = hard_quotient(static_cast<std::uint32_t>(random.next()), (i & 1) != 0);
    divide(hard.x, hard.y);
    divide(std::fabs(random.wide(-20, 20)), std::fabs(random.wide(-20, 20)));
  }
  expect(report, "division", got, want);
  got.clear();
  want.clear();
  const auto root = [&](float x) {
    const volatile float a = x;
    got.push_back(arithmetic::square_root(a));
    want.push_back(exact_root(x));
  };
  for (const std::uint32_t s : kHardRoots) root(static_cast<float>(s));
  for (int i = 0; i < 4000; ++i) root(std::fabs(random.wide(-60, 60)));
  expect(report, "square root", got, want);
}

void check_division(const Place& place, Report& report) {
  check_norm(place, report);
  check_sigmoids(place, report);
  check_bounded_gate(place, report);
}

}  // namespace recoverssm::check
