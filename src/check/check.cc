#include "check/check.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <memory>
#include <utility>

namespace recoverssm::check {

namespace {

constexpr Check kChecks[] = {
    {"function table", "exp, log and the gates give the bits they are defined by, and are within 1 ulp", check_functions_host,
     false},
    {"exact division", "compiled division and square root are correctly rounded in the hardest cases", check_division_host, false},
    {"golden traces", "every operation gives the recorded bits", check_traces, true, true},
    {"functions", "exp, log and the gates inside the operations give the same bits", check_functions, true},
    {"division and root", "division and square root inside the operations are correctly rounded", check_division, true},
    {"fma", "multiply-add rounds once", check_fma, true},
    {"rounding", "bf16 and fp16 are rounded to nearest even, ties, subnormals and overflow included", check_rounding, true},
    {"subnormals", "subnormals are kept, whatever floating-point mode the caller runs in", check_subnormals, true},
    {"session, eager", "verify and commit leave the bits of decoding token by token", check_session_eager, true},
    {"session, lazy", "the same with commits folded into the next verify", check_session_lazy, true},
    {"agreement", "a production-sized layer gives the bits of the portable target", check_agreement, true},
};

Result run_check(const Check& check, const Material& material, std::span<const std::unique_ptr<Context>> contexts,
                 std::span<const int> threads, Target target) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  Result result{check.name, check.what, check.every_target ? name_of(target) : "any", Report(check.name, material)};
  for (std::size_t i = 0; i < contexts.size(); ++i) {
    contexts[i]->target = target;
    const std::size_t before = result.report.failures.size();
    try {
      check.run({*contexts[i], target, threads[i]}, result.report);
    } catch (const std::exception& error) {
      result.report.fail(error.what());
    }
    for (std::size_t f = before; f < result.report.failures.size(); ++f) {
      result.report.failures[f] = fmt::format("{}, {} threads: {}", name_of(target), threads[i], result.report.failures[f]);
    }
    if (!check.every_target) break;
  }
  if (result.report.compared == 0 && result.report.failures.empty() && result.report.skipped.empty()) {
    result.report.fail("nothing was compared");
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

Result run_on_device(const Check& check, const Material& material, Backend backend) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  Result result{check.name, check.what, name_of(backend), Report(check.name, material)};
  Context context;
  try {
    check.run({context, Target::best, 1, backend}, result.report);
  } catch (const std::exception& error) {
    result.report.fail(error.what());
  }
  if (result.report.compared == 0 && result.report.failures.empty()) result.report.fail("nothing was compared");
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

}  // namespace

std::span<const Check> checks() { return kChecks; }

std::vector<Result> run_checks(const Material& material, const Options& options) {
  std::vector<std::unique_ptr<Context>> contexts;
  for (const int threads : options.threads) contexts.push_back(std::make_unique<Context>(threads));
  std::vector<Result> results;
  const auto run = [&](const Check& check, Target target) {
    results.push_back(run_check(check, material, contexts, options.threads, target));
    if (options.on_result) options.on_result(results.back());
  };
  if (options.backend != Backend::cpu) {
    for (const Check& check : kChecks) {
      if (!check.on_device) continue;
      results.push_back(run_on_device(check, material, options.backend));
      if (options.on_result) options.on_result(results.back());
    }
    return results;
  }
  for (const Check& check : kChecks) {
    if (!check.every_target) run(check, Target::portable);
  }
  for (const Target target : options.targets) {
    for (const Check& check : kChecks) {
      if (check.every_target) run(check, target);
    }
  }
  return results;
}

}  // namespace recoverssm::check
