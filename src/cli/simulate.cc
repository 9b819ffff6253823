// recoverssm simulate: a seeded scheduler drives sessions and compares them with plain decoding.
#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <memory>

#include "api/devices.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "simulate/report.h"
#include "simulate/simulation.h"

namespace recoverssm::cli {

namespace {

// 138,000 took 13 s of processor time on a Xeon: about a minute.
constexpr std::int64_t kDefaultTokens = 500000;

struct Arguments {
  simulate::Options options;
  std::string report;  // a path, "-": stdout, empty: none
  bool calls = false;
};

int run(const Arguments& arguments) {
  if (const int code = try_report("simulate", arguments.report); code != kOk) return code;
  const Backend backend = arguments.options.backend;
  if (const std::string reason = unavailable_reason(backend); !reason.empty()) {
    fmt::print(stderr, "recoverssm simulate: backend {}: {}; available: cpu\n", name_of(backend), reason);
    return kUnavailable;
  }
  const bool only_json = arguments.report == "-";
  FILE* const people = only_json ? stderr : stdout;
  simulate::Options options = arguments.options;
  if (options.tokens == 0 && options.rounds == 0) options.tokens = kDefaultTokens;
  const bool by_rounds = options.rounds > 0;
  if (!only_json) {
    fmt::print(people, "seed {}, faults {}, until {} {}\n", options.seed, options.faults ? "on" : "off",
               count_text(by_rounds ? options.rounds : options.tokens), by_rounds ? "rounds are done" : "tokens are committed");
    std::fflush(people);
  }
  ProgressBar bar(by_rounds ? options.rounds : options.tokens);
  std::size_t shown = 0;
  simulate::Listener listener;
  listener.round = [&](const simulate::Result& result) {
    for (; shown < result.differences.size(); ++shown) {
      bar.clear();
      fmt::print(people, "{}", simulate::lines_of(result.differences[shown]));
      std::fflush(people);
    }
    bar.show(static_cast<double>(by_rounds ? result.counts.rounds : result.counts.committed_tokens()),
             fmt::format("round {}", result.counts.rounds));
  };
  if (arguments.calls) listener.calls = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  const simulate::Result result = simulate::simulate(options, listener);
  bar.clear();
  if (!only_json) fmt::print(people, "{}{}", simulate::table_of(result.counts), simulate::total_line(result));
  int code = result.ok() ? kOk : kFailed;
  if (!arguments.report.empty())
    code = std::max(code, write_report("simulate", arguments.report, text_of(simulate::to_json(result))));
  return code;
}

const std::map<std::string, DType> kDTypes = {{"f32", DType::f32}, {"bf16", DType::bf16}, {"f16", DType::f16}};
const std::map<std::string, LineKind> kLines = {{"anchored", LineKind::anchored}, {"rolled", LineKind::rolled}};

const std::map<std::string, Backend> kBackends = {{"cpu", Backend::cpu}, {"cuda", Backend::cuda}, {"sycl", Backend::sycl}};

// An option whose value is a word of a map.
template <class Value>
CLI::Option* add_word(CLI::App* command, const char* name, const std::map<std::string, Value>& map, std::optional<Value>& value,
                      const char* help) {
  std::vector<std::string> words;
  for (const auto& [word, meaning] : map) words.push_back(word);
  return command
      ->add_option_function<std::string>(
          name, [&map, &value](const std::string& word) { value = map.at(word); }, help)
      ->check(CLI::IsMember(words));
}

// --yes and --no, of which neither need be given.
void add_either(CLI::App* command, const char* yes, const char* no, std::optional<bool>& value, const char* yes_help,
                const char* no_help) {
  CLI::Option* const first = command->add_flag_callback(
      yes, [&value] { value = true; }, yes_help);
  command
      ->add_flag_callback(
          no, [&value] { value = false; }, no_help)
      ->excludes(first);
}

}  // namespace

std::function<int()> add_simulate(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  simulate::Options& o = arguments->options;
  CLI::App* command =
      app.add_subcommand("simulate", "Drive sessions with a seeded scheduler and compare every token with plain decoding");
  CLI::Option* const tokens = command->add_option("--tokens", o.tokens, "Go on until so many tokens are committed; 500000")
                                  ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  command->add_option("--rounds", o.rounds, "Go on until so many rounds are done")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->excludes(tokens);
  command->add_option("--seed", o.seed, "Seed of the first round; the next ones count up")->capture_default_str();
  command->add_flag("--faults,!--no-faults", o.faults, "Bad calls, aborts, preemptions, abandoned steps; on");
  command->add_option("--steps", o.steps, "Steps a round opens")->check(CLI::Range(1, 1000000));
  command->add_option("--concurrency,--requests", o.concurrency, "Requests at once")->check(CLI::Range(1, 256));
  command->add_option("--depth", o.depth, "Steps open at once")->check(CLI::Range(1, 64));
  command->add_option("--window", o.window, "Window capacity S: 1 + the most drafts")->check(CLI::Range(1, 64));
  command->add_option("--layers", o.layers, "Layers of the model")->check(CLI::Range(1, 32));
  command->add_option("--groups", o.groups, "Cache groups, at most one a layer")->check(CLI::Range(1, 32));
  add_either(command, "--lazy", "--eager", o.lazy, "Commit lazily: the next step folds", "Commit at once");
  add_either(command, "--align", "--no-align", o.align, "Blocks of a prefix cache", "One block a request");
  add_word(command, "--line", kLines, o.line, "Kind of conv lines");
  add_word(command, "--state-dtype", kDTypes, o.state, "Dtype of states");
  add_word(command, "--dtype", kDTypes, o.activation, "Dtype of activations");
  command
      ->add_option_function<std::string>(
          "--backend", [&o](const std::string& word) { o.backend = kBackends.at(word); },
          "Where the sessions are: cpu, cuda or sycl; cpu")
      ->check(CLI::IsMember({"cpu", "cuda", "sycl"}));
  command->add_option("--threads", o.threads, "Threads; 0: one a core")->check(CLI::Range(0, 1024));
  command->add_flag("--calls", arguments->calls, "Print every call to stderr");
  command->add_option("--json", arguments->report, "Write a JSON report to this file; - writes it, and nothing else, to stdout")
      ->type_name("REPORT");
  command->footer(
      "What no option fixes is drawn anew for each round.\n"
      "Exit codes: 0 no difference, 1 a difference, 3 backend not available, 64 wrong command line, 74 the report could not be "
      "written.\n"
      "Example:\n  recoverssm simulate --tokens 1000000 --seed 7 --json simulation.json");
  return [arguments] { return run(*arguments); };
}

}  // namespace recoverssm::cli
