#include "simulate/simulation.h"

#include <fmt/format.h>

#include <chrono>

#include "simulate/round.h"
#include "simulate/setup.h"

namespace recoverssm::simulate {

namespace {

constexpr std::size_t kMostDifferences = 10;

}  // namespace

std::string command_of(const Options& options, std::uint64_t seed) {
  std::string text = fmt::format("recoverssm simulate --seed {} --rounds 1", seed);
  if (options.backend != Backend::cpu) text += fmt::format(" --backend {}", name_of(options.backend));
  if (!options.faults) text += " --no-faults";
  const auto number = [&](const char* name, const auto& value) {
    if (value) text += fmt::format(" {} {}", name, *value);
  };
  number("--steps", options.steps);
  number("--concurrency", options.concurrency);
  number("--depth", options.depth);
  number("--window", options.window);
  number("--layers", options.layers);
  number("--groups", options.groups);
  number("--threads", options.threads);
  if (options.lazy) text += *options.lazy ? " --lazy" : " --eager";
  if (options.align) text += *options.align ? " --align" : " --no-align";
  if (options.line) text += *options.line == LineKind::anchored ? " --line anchored" : " --line rolled";
  if (options.state) text += fmt::format(" --state-dtype {}", name_of(*options.state));
  if (options.activation) text += fmt::format(" --dtype {}", name_of(*options.activation));
  return text;
}

Result simulate(const Options& options, const Listener& listener) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  Result result;
  result.options = options;
  for (std::uint64_t seed = options.seed;; ++seed) {
    if (options.rounds > 0 && result.counts.rounds >= options.rounds) break;
    if (options.rounds == 0 && result.counts.committed_tokens() >= options.tokens) break;
    if (result.differences.size() >= kMostDifferences) break;
    const Setup setup = random_setup(options, seed);
    if (listener.calls) listener.calls(fmt::format("round {}: {}", seed, text_of(setup)));
    RoundResult round = run_round(setup, listener.calls);
    add(result.counts, round.counts);
    if (!round.difference.empty()) {
      result.differences.push_back({seed, std::move(round.difference), text_of(setup), command_of(options, seed)});
    }
    result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (listener.round) listener.round(result);
  }
  return result;
}

}  // namespace recoverssm::simulate
