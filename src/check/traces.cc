// Golden traces: every operation, compared to the bit with recorded results.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "check/check.h"
#include "trace/replay.h"

namespace recoverssm::check {

void check_traces(const Place& place, Report& report) {
  trace::ReplayOptions options;
  options.target = place.target;
  options.threads = place.threads;
  options.backend = name_of(place.backend);
  options.compare_cpu = place.backend != Backend::cpu;
  trace::Replayer replayer(options);
  for (const GoldenTrace& golden : report.material().traces) {
    auto bytes = std::make_unique_for_overwrite<std::byte[]>(golden.bytes.size());
    std::copy(golden.bytes.begin(), golden.bytes.end(), bytes.get());
    trace::ReplayResult result;
    try {
      result = replayer.replay(trace::parse_trace(trace::SafetensorsFile::parse(std::move(bytes), golden.bytes.size())));
    } catch (const std::exception& error) {
      result.error = error.what();
    }
    report.count(result.checks + result.compared);
    if (result.error) report.fail(fmt::format("{}: {}", golden.name, *result.error));
    if (result.skipped) report.fail(fmt::format("{}: skipped: {}", golden.name, *result.skipped));
    for (const trace::Failure& failure : result.failed) {
      report.fail(fmt::format("{}: call {}: {}", golden.name, failure.call, failure.detail));
    }
  }
}

}  // namespace recoverssm::check
