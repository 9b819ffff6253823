// recoverssm replay: runs traces and checks what they expect.
#include "trace/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "api/devices.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "recoverssm/recoverssm.hpp"

namespace recoverssm::cli {

namespace {

struct Arguments {
  std::vector<std::string> files;
  trace::ReplayOptions options;
  std::string report;  // a path, "-": stdout, empty: none
  double memory_gib = 0;
  bool summary = false;
  bool no_guards = false;
  std::string compare;  // "cpu", or empty
  int sub_group = 0;    // sycl; 0: the backend's choice
};

// Whether the device that runs the calls has sub-groups of this size.
bool has_sub_group(int size) {
  for (const sycl_backend::Device& device : sycl_backend::devices()) {
    if (!device.chosen) continue;
    return std::find(device.sub_group_sizes.begin(), device.sub_group_sizes.end(), size) != device.sub_group_sizes.end();
  }
  return false;
}

// Why nothing can run here, or nothing.
std::string unavailable(const Arguments& arguments) {
  const trace::ReplayOptions& options = arguments.options;
  for (const Backend backend : {Backend::cuda, Backend::sycl}) {
    if (options.backend != name_of(backend)) continue;
    const std::string reason = unavailable_reason(backend);
    if (!reason.empty()) return fmt::format("backend {}: {}; available: cpu", options.backend, reason);
    const bool offered = backend != Backend::sycl || arguments.sub_group == 0 || has_sub_group(arguments.sub_group);
    return offered ? "" : fmt::format("backend sycl: this device has no sub-groups of {}", arguments.sub_group);
  }
  if (options.backend != "cpu") return fmt::format("backend {} is not one, there are: cpu, cuda, sycl", options.backend);
  Target resolved = Target::best;
  const Status status = resolve_target(options.target, resolved);
  return status.ok() ? "" : status.message;
}

int exit_code(const trace::ReplayResult& result) {
  if (result.error) return kMalformed;
  return result.failed.empty() ? kOk : kFailed;
}

int run(Arguments& arguments) {
  const bool only_json = arguments.report == "-";
  std::vector<trace::ReplayResult> results;
  int code = kOk;
  const std::string reason = unavailable(arguments);
  if (!reason.empty()) {
    fmt::print(stderr, "recoverssm replay: {}\n", reason);
    for (const std::string& path : arguments.files) {
      trace::ReplayResult result;
      result.file = path;
      result.error = reason;
      results.push_back(std::move(result));
    }
    code = kUnavailable;
  } else {
    ProgressBar bar(static_cast<std::int64_t>(arguments.files.size()));
    std::string path;
    arguments.options.progress = [&](std::int64_t done, std::int64_t calls) {
      bar.show(static_cast<double>(results.size()) + static_cast<double>(done) / static_cast<double>(calls), path);
    };
    trace::Replayer replayer(arguments.options);
    for (const std::string& file : arguments.files) {
      path = file;
      bar.show(static_cast<double>(results.size()), path);
      results.push_back(replayer.replay_file(file));
      code = std::max(code, exit_code(results.back()));
      if (only_json && results.back().ok()) continue;
      bar.clear();
      fmt::print(only_json ? stderr : stdout, "{}", lines_of(results.back()));
      std::fflush(stdout);
    }
  }
  FILE* people = only_json ? stderr : stdout;
  if (reason.empty() && !only_json && results.size() > 1) fmt::print(people, "{}", total_line(results));
  if (reason.empty() && arguments.summary) fmt::print(people, "{}", summary(results));
  std::fflush(people);
  if (!arguments.report.empty()) code = std::max(code, write_report("replay", arguments.report, text_of(to_json(results))));
  return code;
}

}  // namespace

std::function<int()> add_replay(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("replay", "Run traces and check what they expect");
  command->add_option("files", arguments->files, "Trace files (*.rst.safetensors)")->required()->type_name("FILE...");
  command->add_option("--backend", arguments->options.backend, "Backend that runs the calls: cpu, cuda or sycl")
      ->capture_default_str();
  command->add_option("--compare", arguments->compare, "cuda, sycl: run every call on this backend as well; all bits must agree")
      ->check(CLI::IsMember({"cpu"}));
  command->add_option("--sub-group", arguments->sub_group, "sycl: size of the kernels' sub-groups; all give the same bits")
      ->check(CLI::IsMember({8, 16, 32}));
  command->add_flag("--no-guards", arguments->no_guards,
                    "cuda: allocations of exactly their size, a workspace nobody has written: for compute-sanitizer");
  command->add_option("--mode", arguments->options.mode, "Arithmetic: exact, or fast")
      ->check(CLI::IsMember({"exact", "fast"}))
      ->capture_default_str();
  command->add_option("--json", arguments->report, "Write a JSON report to this file; - writes it, and nothing else, to stdout")
      ->type_name("REPORT");
  command
      ->add_option("--repeat", arguments->options.repeat, "Run every call N times from the same contents; all results must agree")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command->add_option("--threads", arguments->options.threads, "Threads; 0: one a core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  add_target_option(*command, "Instruction set; all give the same bits", [arguments](Target target) {
    arguments->options.target = target;
  })->default_str("best");
  command->add_option("--memory-limit", arguments->memory_gib, "GiB a trace's buffers may take")
      ->check(CLI::PositiveNumber)
      ->type_name("GIB");
  command->add_flag("--summary", arguments->summary, "At the end, a table of what was replayed and what it moved");
  command->footer(
      "Exit codes: 0 all held or were skipped, 1 something did not hold, 2 a file is malformed or unreadable,\n"
      "3 backend or target not available, 64 wrong command line, 74 the report could not be written. The highest wins.\n"
      "Example:\n  recoverssm replay session.rst.safetensors --repeat 10 --threads 4 --json report.json");
  return [arguments] {
    if (arguments->memory_gib > 0) {
      arguments->options.memory_limit = static_cast<std::uint64_t>(std::min(arguments->memory_gib, 1e6) * 0x1p30);
    }
    arguments->options.compare_cpu = !arguments->compare.empty();
    arguments->options.guards = !arguments->no_guards;
    if (arguments->sub_group != 0) sycl_backend::set_sub_group_size(arguments->sub_group);
    return run(*arguments);
  };
}

}  // namespace recoverssm::cli
