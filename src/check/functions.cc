// exp, log and the gates: as compiled here, and inside the operations on each target, against the bits that were compiled in.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "arithmetic/gates.h"
#include "check/calls.h"

namespace recoverssm::check {

namespace {

using arithmetic::float_of;

using Column = std::uint32_t FunctionRow::*;

std::vector<float> column_of(std::span<const FunctionRow> rows, Column column) {
  std::vector<float> values;
  for (const FunctionRow& row : rows) values.push_back(float_of(row.*column));
  return values;
}

// |got - exact| in units of the last place of an fp32 number near exact.
double ulps(float got, double exact) {
  const int exponent = std::max(std::ilogb(exact), -126);
  return std::fabs(static_cast<double>(got) - exact) / std::ldexp(1.0, exponent - 23);
}

bool is_number(double x) { return std::isfinite(x) && std::fabs(x) <= static_cast<double>(std::numeric_limits<float>::max()); }

}  // namespace

void check_functions_host(const Place&, Report& report) {
  std::vector<float> exps, logs;
  for (const FunctionRow& row : report.material().functions) {
    // volatile: this is about the code that runs, not about the compiler's own arithmetic.
    const volatile float x = float_of(row.x);
    exps.push_back(arithmetic::exp_f32(x));
    logs.push_back(arithmetic::log_f32(x));
    const double exact_exp = std::exp(static_cast<double>(x)), exact_log = std::log(static_cast<double>(x));
    if (is_number(exact_exp) && exact_exp > 0 && std::isfinite(exps.back())) {
      report.expect(ulps(exps.back(), exact_exp) <= 1.0,
                    fmt::format("exp({:#x}) is {} ulp off", row.x, ulps(exps.back(), exact_exp)));
    }
    if (is_number(exact_log) && exact_log != 0) {
      report.expect(ulps(logs.back(), exact_log) <= 1.0,
                    fmt::format("log({:#x}) is {} ulp off", row.x, ulps(logs.back(), exact_log)));
    }
  }
  report.expect_bits("exp", DType::f32, bytes_of(exps), bytes_of(column_of(report.material().functions, &FunctionRow::exp)));
  report.expect_bits("log", DType::f32, bytes_of(logs), bytes_of(column_of(report.material().functions, &FunctionRow::log)));
}

void check_functions(const Place& place, Report& report) {
  // Arguments that the call brings to the function as they are: -0 becomes +0 in a sum with +0; a state of one NaN channel is NaN;
  // and the largest floats are not above any threshold.
  std::vector<FunctionRow> rows;
  for (const FunctionRow& row : report.material().functions) {
    const float x = float_of(row.x);
    if (row.x != 0x80000000U && std::isfinite(x) && std::fabs(x) < std::numeric_limits<float>::max()) rows.push_back(row);
  }
  const std::vector<float> x = column_of(rows, &FunctionRow::x);
  const auto expect = [&](const char* what, std::vector<float> got, Column column) {
    report.expect_bits(what, DType::f32, bytes_of(got), bytes_of(column_of(rows, column)));
  };

  // Above its threshold softplus is the identity: decay = exp(-1 * a).
  std::vector<float> negated;
  for (const float value : x) negated.push_back(-value);
  expect("exp in a GDN gate", gdn_decays(place, negated, {.softplus_threshold = std::numeric_limits<float>::lowest()}),
         &FunctionRow::exp);
  expect("GDN gate", gdn_decays(place, x, {.A_log = kALog, .dt_bias = kDtBias}), &FunctionRow::decay);
  expect("KDA gate", kda_decays(place, x, {.A_log = kALog, .dt_bias = kDtBias}), &FunctionRow::decay);
  expect("bounded KDA gate", kda_decays(place, x, {.A_log = kALog, .dt_bias = kDtBias, .lower_bound = kLowerBound}),
         &FunctionRow::bounded);
  expect("sigmoid in beta", betas(place, x), &FunctionRow::sigmoid);
  Tensor silu = convolve(place, Tensor::floats({1, static_cast<std::int64_t>(x.size())}, x), std::vector<float>(x.size(), 1.0F), {},
                         Activation::silu);
  report.expect_bits("silu in a convolution", DType::f32, silu.bytes(), bytes_of(column_of(rows, &FunctionRow::silu)));
}

}  // namespace recoverssm::check
