// recoverssm bench: how fast the operations run here, held against what the machine can do.
#include "bench/bench.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <sstream>

#include "bench/report.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/report.h"

namespace recoverssm::cli {
namespace {

struct Arguments {
  bench::Options options;
  std::string json, csv;  // paths; "-": stdout, for JSON only
  bool list = false;
};

const std::map<std::string, DType> kDTypes = {{"f32", DType::f32}, {"bf16", DType::bf16}, {"f16", DType::f16}};
const std::map<std::string, Target> kTargets = {
    {"best", Target::best}, {"portable", Target::portable}, {"avx2", Target::avx2}, {"avx512", Target::avx512}};
const std::map<std::string, Backend> kBackends = {{"cpu", Backend::cpu}, {"cuda", Backend::cuda}, {"sycl", Backend::sycl}};
const std::map<std::string, Gate> kGates = {{"gdn", Gate::gdn}, {"kda", Gate::kda}};

template <class Value>
std::vector<std::string> words(const std::map<std::string, Value>& map) {
  std::vector<std::string> names;
  for (const auto& [name, value] : map) names.push_back(name);
  return names;
}

// The words of this process's command line, as they would be typed again.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string line;
  for (std::string word; std::getline(file, word, '\0');) {
    const bool plain = word.find_first_of(" *?[]'\"$&|;<>()\\") == std::string::npos && !word.empty();
    line += (line.empty() ? "" : " ") + (plain ? word : "'" + word + "'");
  }
  return line;
}

// Each line behind a "# ", empty ones left out: what readers of CSV skip.
std::string comment_lines(const std::string& text) {
  std::string lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) lines += "# " + line + "\n";
  }
  return lines;
}

void print_list(const bench::Options& options) {
  for (const bench::Job& job : bench::jobs_of(options)) fmt::print("{:<34}{}\n", job.name, bench::text_of(job));
}

int run(const Arguments& arguments) {
  bench::resolved(arguments.options, bench::read_hardware());  // refuses before anything is printed
  if (arguments.list) {
    print_list(arguments.options);
    return kOk;
  }
  for (const std::string& path : {arguments.json, arguments.csv}) {
    if (const int code = try_report("bench", path); code != kOk) return code;
  }
  const bool only_json = arguments.json == "-";
  FILE* people = only_json ? stderr : stdout;
  const std::string hardware = bench::hardware_lines(bench::read_hardware());
  fmt::print(people, "{}", hardware);
  ProgressBar bar(1);
  std::string csv = comment_lines(command_line() + "\n" + hardware), figures = bench::csv_header();
  bool table = false;
  bench::Listener listener;
  listener.progress = [&](const std::string& what, std::size_t done, std::size_t total) {
    bar.show(static_cast<double>(done) / static_cast<double>(std::max<std::size_t>(total, 1)), what);
  };
  listener.device = [&](const bench::DeviceHardware& device) {
    bar.clear();
    fmt::print(people, "{}", bench::device_lines(device));
    csv += comment_lines(bench::device_lines(device));
  };
  listener.ceilings = [&](const bench::Ceilings& ceilings) {
    bar.clear();
    fmt::print(people, "{}", bench::ceiling_lines(ceilings));
    std::fflush(people);
    if (arguments.options.backend != Backend::cpu) csv += comment_lines(bench::ceiling_lines(ceilings));
  };
  listener.result = [&](const bench::Result& result) {
    bar.clear();
    if (!std::exchange(table, true)) fmt::print(people, "{}", bench::table_header());
    fmt::print(people, "{}", bench::table_line(result));
    std::fflush(people);
    figures += bench::csv_line(result);
    // A lent device may be taken away before the end: what there is so far. The last write says whether it could be written.
    if (!arguments.csv.empty() && arguments.options.backend != Backend::cpu) {
      static_cast<void>(write_report("bench", arguments.csv, csv + figures));
    }
  };
  const bench::Report report = bench::run(arguments.options, listener);
  bar.clear();
  int code = kOk;
  for (const bench::Result& result : report.results) {
    if (!result.different) continue;
    fmt::print(stderr, "recoverssm bench: {}, {}: {}\n", result.job.name, bench::text_of(result.job), result.skipped);
    code = kFailed;
  }
  if (!arguments.json.empty())
    code = std::max(code, write_report("bench", arguments.json, text_of(bench::to_json(report, command_line()))));
  if (!arguments.csv.empty()) code = std::max(code, write_report("bench", arguments.csv, csv + figures));
  return code;
}

// An option whose value is a word of a map.
template <class Value, class Set>
CLI::Option* add_word(CLI::App* command, const char* name, const std::map<std::string, Value>& map, const char* help, Set set) {
  return command
      ->add_option_function<std::string>(
          name, [&map, set](const std::string& word) { set(map.at(word)); }, help)
      ->check(CLI::IsMember(words(map)));
}

}  // namespace

std::function<int()> add_bench(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  bench::Options& o = arguments->options;
  CLI::App* command = app.add_subcommand("bench", "Measure the operations against this machine's copy, read and FMA limits");
  const CLI::Range positive(1, 1 << 20);
  add_word(command, "--backend", kBackends, "Where the operations run", [&o](Backend backend) {
    o.backend = backend;
  })->default_str("cpu");
  command->add_option("--op", o.ops, "Operation, case, or glob over either (repeatable); all")
      ->type_name("GLOB")
      ->expected(1)
      ->take_all();
  command->add_flag("--list", arguments->list, "List the cases and leave");
  command->add_option("--rows", o.rows, "Rows of a call, in place of the case's")->check(positive);
  command->add_option("--tokens", o.tokens, "Tokens a row, in place of the case's (decode: always 1)")->check(positive);
  command->add_option("--layers", o.layers, "Layers, in place of the case's, where a call takes several")->check(positive);
  command->add_option("--heads", o.heads, "Query and key heads, H")->check(positive)->capture_default_str();
  command->add_option("--value-heads", o.value_heads, "Value heads, HV, a multiple of H")->check(positive)->capture_default_str();
  command->add_option("--k", o.k, "Key head size, K")->check(positive)->capture_default_str();
  command->add_option("--v", o.v, "Value head size, V")->check(positive)->capture_default_str();
  command->add_option("--taps", o.taps, "Convolution taps, W")->check(positive)->capture_default_str();
  add_word(command, "--state-dtype", kDTypes, "Dtype of states", [&o](DType d) { o.state = d; })->default_str("f32");
  add_word(command, "--dtype", kDTypes, "Dtype of activations", [&o](DType d) { o.activation = d; })->default_str("bf16");
  add_word(command, "--gate", kGates, "Only this gate; both", [&o](Gate gate) { o.gate = gate; });
  command
      ->add_option_function<std::vector<std::string>>(
          "--target",
          [&o](const std::vector<std::string>& names) {
            for (const std::string& name : names) o.targets.push_back(kTargets.at(name));
          },
          "Instruction set (repeatable); all of this machine")
      ->check(CLI::IsMember(words(kTargets)))
      ->expected(1)
      ->take_all();
  command->add_option("--threads", o.threads, "Threads, each pinned to a core (repeatable); 1 and one a core")
      ->check(positive)
      ->expected(1)
      ->take_all();
  command
      ->add_option_function<std::string>(
          "--size",
          [&o](const std::string& name) {
            if (name != "both") o.sizes = {name == "in-cache" ? bench::Size::in_cache : bench::Size::beyond_cache};
          },
          "Data beyond the last-level cache, in cache, or both")
      ->check(CLI::IsMember({"beyond-cache", "in-cache", "both"}))
      ->default_str("both");
  command->add_option("--min-time", o.min_time, "Seconds of a repetition")->capture_default_str();
  command->add_option("--repetitions", o.repetitions, "Repetitions, of which the median is reported; fewer for slow calls")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--memory", o.memory_gib, "GiB that the data of one case may take")
      ->type_name("GIB")
      ->default_str("4; of a device 16");
  command->add_option("--compare", o.compare_gib, "On a device: GiB of the largest set compared with the CPU, bit by bit; 0: none")
      ->type_name("GIB")
      ->capture_default_str();
  command->add_option("--json", arguments->json, "Write a JSON report to this file; - writes it, and nothing else, to stdout")
      ->type_name("REPORT");
  command->add_option("--csv", arguments->csv, "Write a line a result to this file")->type_name("FILE");
  command->footer(
      "Exit codes: 0 measured, 1 an operation or the machine failed, or a device's bits differ, 3 target or backend not available, "
      "64 wrong command line,\n"
      "74 a report could not be written.\n"
      "On a device targets, threads, sizes and repetitions do not apply: docs/benchmarks.md.\n"
      "Example:\n  recoverssm bench --op 'gated_delta_rule_verify*' --target best --threads 2 --size beyond-cache");
  return [arguments] {
    try {
      return run(*arguments);
    } catch (const Error& error) {
      fmt::print(stderr, "recoverssm {}\n", error.what());
      return static_cast<int>(error.kind() == ErrorKind::unsupported        ? kUnavailable
                              : error.kind() == ErrorKind::invalid_argument ? kUsage
                                                                            : kFailed);
    }
  };
}

}  // namespace recoverssm::cli
