// recoverssm check: the self-test for a new machine.
#include "check/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/devices.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/report.h"

namespace recoverssm::cli {

namespace {

using check::Result;
using nlohmann::ordered_json;

constexpr std::size_t kFailuresShown = 5;  // a check; the JSON report has all

struct Arguments {
  Target target = Target::best;  // best: every target of this machine
  bool one_target = false;
  std::string backend = "cpu";
  std::string report;  // a path, "-": stdout, empty: none
  bool quiet = false;
};

std::string lines_of(const Result& result) {
  const check::Report& report = result.report;
  std::string text =
      fmt::format("{:<8}{:<10}{:<20}{:>10} compared  {:.2f} s{}{}\n", result.ok() ? "ok" : "FAILED", result.target, result.check,
                  count_text(report.compared), result.seconds, report.skipped.empty() ? "" : "  left out: ", report.skipped);
  for (std::size_t i = 0; i < std::min(report.failures.size(), kFailuresShown); ++i)
    text += fmt::format("    {}\n", report.failures[i]);
  if (report.failures.size() > kFailuresShown) text += fmt::format("    and {} more\n", report.failures.size() - kFailuresShown);
  return text;
}

ordered_json to_json(const std::vector<Result>& results) {
  ordered_json checks = ordered_json::array();
  for (const Result& result : results) {
    const check::Report& report = result.report;
    checks.push_back({{"check", result.check},
                      {"what", result.what},
                      {"target", result.target},
                      {"ok", result.ok()},
                      {"compared", report.compared},
                      {"left_out", report.skipped.empty() ? ordered_json(nullptr) : ordered_json(report.skipped)},
                      {"failures", report.failures},
                      {"seconds", result.seconds}});
  }
  return {{"version", version()}, {"checks", std::move(checks)}, {"ok", std::ranges::all_of(results, &Result::ok)}};
}

std::string total_line(const std::vector<Result>& results, const check::Options& options) {
  const auto failed = std::ranges::count_if(results, [](const Result& result) { return !result.ok(); });
  double seconds = 0;
  std::int64_t compared = 0;
  for (const Result& result : results) {
    seconds += result.seconds;
    compared += result.report.compared;
  }
  if (options.backend != Backend::cpu) {
    std::string left_out;
    for (const check::Check& each : check::checks()) {
      if (!each.on_device) left_out += fmt::format("{}{}", left_out.empty() ? "" : ", ", each.name);
    }
    return fmt::format("recoverssm {}: {} on {}, {} failed; {} compared, {:.1f} s\nof the CPU alone, not run here: {}\n", version(),
                       failed == 0 ? "all passed" : "FAILED", name_of(options.backend), failed, count_text(compared), seconds,
                       left_out);
  }
  std::string targets;
  for (const Target target : options.targets) targets += fmt::format("{}{}", targets.empty() ? "" : ", ", name_of(target));
  return fmt::format("recoverssm {}: {}, {} checks, {} failed; targets {}; 1 and {} threads; {} compared, {:.1f} s\n", version(),
                     failed == 0 ? "all passed" : "FAILED", results.size(), failed, targets, options.threads.back(),
                     count_text(compared), seconds);
}

int run(const Arguments& arguments) {
  check::Options options;
  options.targets = available_targets();
  if (arguments.one_target) {
    Target resolved = Target::best;
    if (const Status status = resolve_target(arguments.target, resolved); !status.ok()) {
      fmt::print(stderr, "recoverssm check: {}\n", status.message);
      return kUnavailable;
    }
    options.targets = {resolved};
  }
  for (const Backend backend : {Backend::cuda, Backend::sycl}) {
    if (arguments.backend != name_of(backend)) continue;
    if (const std::string reason = unavailable_reason(backend); !reason.empty()) {
      fmt::print(stderr, "recoverssm check: backend {}: {}; available: cpu\n", arguments.backend, reason);
      return kUnavailable;
    }
    options.backend = backend;
  }
  if (const int code = try_report("check", arguments.report); code != kOk) return code;
  options.threads = {1, std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 3, 8)};
  const bool only_json = arguments.report == "-";
  FILE* people = only_json ? stderr : stdout;
  options.on_result = [&](const Result& result) {
    if (result.ok() && (arguments.quiet || only_json)) return;
    fmt::print(people, "{}", lines_of(result));
    std::fflush(people);
  };
  const std::vector<Result> results = check::run_checks(check::embedded(), options);
  if (!only_json) fmt::print("{}", total_line(results, options));
  int code = std::ranges::all_of(results, &Result::ok) ? kOk : kFailed;
  if (!arguments.report.empty()) code = std::max(code, write_report("check", arguments.report, text_of(to_json(results))));
  return code;
}

}  // namespace

std::function<int()> add_check(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("check", "Self-test for a new machine: golden bits, arithmetic, a small session");
  add_target_option(*command, "Check this instruction set only; best: the widest. Default: all that run here",
                    [arguments](Target target) {
                      arguments->target = target;
                      arguments->one_target = true;
                    });
  command
      ->add_option("--backend", arguments->backend,
                   "cpu, or cuda or sycl: every operation on the device, against recorded bits and the CPU")
      ->check(CLI::IsMember({"cpu", "cuda", "sycl"}))
      ->capture_default_str();
  command->add_option("--json", arguments->report, "Write a JSON report to this file; - writes it, and nothing else, to stdout")
      ->type_name("REPORT");
  command->add_flag("--quiet", arguments->quiet, "Print what failed and the last line only");
  std::string names;
  for (const check::Check& each : check::checks()) names += fmt::format("  {:<20}{}\n", each.name, each.what);
  command->footer("Checks, on each target, with one thread and with several:\n" + names +
                  "Exit codes: 0 all passed, 1 something did not, 3 target not available, 64 wrong command line,\n"
                  "74 the report could not be written.\n"
                  "Example:\n  recoverssm check --json check.json");
  return [arguments] { return run(*arguments); };
}

}  // namespace recoverssm::cli
