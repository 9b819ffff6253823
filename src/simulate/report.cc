#include "simulate/report.h"

#include <fmt/format.h>

#include "recoverssm/info.hpp"

namespace recoverssm::simulate {

namespace {

std::string count_text(std::int64_t count) { return fmt::format("{}", fmt::group_digits(count)); }

}  // namespace

nlohmann::ordered_json to_json(const Result& result) {
  nlohmann::ordered_json counts, differences = nlohmann::ordered_json::array();
  for (const CountName& each : kCounts) counts[each.name] = result.counts.*each.count;
  for (const Difference& difference : result.differences) {
    differences.push_back({{"seed", difference.seed},
                           {"what", difference.what},
                           {"configuration", difference.setup},
                           {"command", difference.command}});
  }
  return {{"version", version()},
          {"seed", result.options.seed},
          {"faults", result.options.faults},
          {"committed_tokens", result.counts.committed_tokens()},
          {"counts", std::move(counts)},
          {"float64_worst", result.counts.float64_worst},
          {"differences", std::move(differences)},
          {"seconds", result.seconds},
          {"ok", result.ok()}};
}

std::string table_of(const Counts& counts) {
  std::string text;
  for (const CountName& each : kCounts) text += fmt::format("{:<52}{:>14}\n", each.text, count_text(counts.*each.count));
  return text + fmt::format("{:<52}{:>13.1f}%\n", "  largest error, of what the tolerance allows", 100 * counts.float64_worst);
}

std::string lines_of(const Difference& difference) {
  return fmt::format("DIFFERS  round {}: {}\n    {}\n    {}\n", difference.seed, difference.what, difference.setup,
                     difference.command);
}

std::string total_line(const Result& result) {
  const Options& o = result.options;
  const auto last = o.seed + static_cast<std::uint64_t>(std::max<std::int64_t>(result.counts.rounds, 1)) - 1;
  return fmt::format("recoverssm {}: {} committed tokens, {} rounds, seeds {} to {}, faults {}: {}, {:.1f} s\n", version(),
                     count_text(result.counts.committed_tokens()), result.counts.rounds, o.seed, last, o.faults ? "on" : "off",
                     result.ok() ? "no difference" : fmt::format("{} rounds DIFFER", result.differences.size()), result.seconds);
}

}  // namespace recoverssm::simulate
