#include "cli/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace recoverssm::cli {

using nlohmann::ordered_json;
using trace::ReplayResult;
using trace::Traffic;

namespace {

constexpr std::size_t kFailuresShown = 10;  // a trace; the JSON report has all
constexpr std::size_t kMaxColumns = 4;      // traces shown side by side

ordered_json or_null(const std::optional<std::string>& text) { return text ? ordered_json(*text) : ordered_json(nullptr); }

double sum(const std::vector<const ReplayResult*>& results, const std::function<double(const ReplayResult&)>& of) {
  double total = 0;
  for (const ReplayResult* result : results) total += of(*result);
  return total;
}

using Figure = std::string (*)(const std::vector<const ReplayResult*>& results);

std::int64_t total(const std::vector<const ReplayResult*>& results, std::int64_t Traffic::*field) {
  std::int64_t n = 0;
  for (const ReplayResult* result : results) n += result->traffic.*field;
  return n;
}

// "23.59 MB (1.59 x)"
std::string with_ratio(const std::string& text, double figure, double base) {
  return base > 0 ? fmt::format("{} ({:.2f} x)", text, figure / base) : text;
}

std::string per_step(const std::vector<const ReplayResult*>& results, std::int64_t Traffic::*field) {
  const std::int64_t steps = total(results, &Traffic::steps);
  return steps == 0 ? "-" : bytes_text(static_cast<double>(total(results, field)) / static_cast<double>(steps));
}

// The same for all traces with windows, or nothing.
std::optional<trace::RequestMemory> memory(const std::vector<const ReplayResult*>& results) {
  std::optional<trace::RequestMemory> common;
  for (const ReplayResult* result : results) {
    if (!result->traffic.memory) continue;
    if (common && !(*common == *result->traffic.memory)) return std::nullopt;
    common = result->traffic.memory;
  }
  return common;
}

// A row of the summary: what it is, and its figure for one trace or for several together.
struct Row {
  const char* label;
  Figure figure;
};

constexpr Row kRows[] = {
    {"calls", [](const auto& r) { return count_text(static_cast<std::int64_t>(sum(r, [](const auto& x) { return x.calls; }))); }},
    {"checks", [](const auto& r) { return count_text(static_cast<std::int64_t>(sum(r, [](const auto& x) { return x.checks; }))); }},
    {"checks that failed",
     [](const auto& r) { return count_text(static_cast<std::int64_t>(sum(r, [](const auto& x) { return x.failed.size(); }))); }},
    {"worst error",
     [](const auto& r) {
       double worst = 0;
       for (const ReplayResult* result : r) worst = std::max(worst, result->max_error);
       return fmt::format("{:.2g}", worst);
     }},
    {"layers", [](const auto& r) { return r.size() == 1 ? count_text(r[0]->traffic.layers) : std::string("-"); }},
    {"steps with windows", [](const auto& r) { return count_text(total(r, &Traffic::steps)); }},
    {"windows", [](const auto& r) { return count_text(total(r, &Traffic::windows)); }},
    {"tokens verified", [](const auto& r) { return count_text(total(r, &Traffic::tokens)); }},
    {"tokens accepted",
     [](const auto& r) {
       const std::int64_t accepted = total(r, &Traffic::accepted);
       const std::int64_t windows = total(r, &Traffic::windows);
       if (windows == 0) return count_text(accepted);
       return fmt::format("{} ({:.2f}/window)", count_text(accepted), static_cast<double>(accepted) / static_cast<double>(windows));
     }},
    {"bytes a step moved", [](const auto& r) { return per_step(r, &Traffic::moved); }},
    {"  with snapshots",
     [](const auto& r) {
       return with_ratio(per_step(r, &Traffic::snapshots), static_cast<double>(total(r, &Traffic::snapshots)),
                         static_cast<double>(total(r, &Traffic::moved)));
     }},
    {"memory of a request",
     [](const auto& r) {
       const auto m = memory(r);
       return m ? bytes_text(static_cast<double>(m->records)) : std::string("-");
     }},
    {"  with snapshots",
     [](const auto& r) {
       const auto m = memory(r);
       if (!m) return std::string("-");
       const auto snapshots = static_cast<double>(m->snapshots);
       return with_ratio(bytes_text(snapshots), snapshots, static_cast<double>(m->records));
     }},
    {"time in operations",
     [](const auto& r) { return fmt::format("{:.2f} s", sum(r, [](const auto& x) { return x.operation_seconds; })); }},
    {"time with checks", [](const auto& r) { return fmt::format("{:.2f} s", sum(r, [](const auto& x) { return x.seconds; })); }},
};

}  // namespace

std::string count_text(std::int64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t at = digits.size(); at > 3 && digits[at - 4] != '-';) digits.insert(at -= 3, ",");
  return digits;
}

std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < std::size(kUnits)) {
    bytes /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.2f} {}", bytes, kUnits[unit]);
}

namespace {

std::string compared_text(std::int64_t compared, std::int64_t not_compared) {
  if (compared + not_compared == 0) return "";
  return fmt::format(", {} calls compared with the CPU{}", count_text(compared),
                     not_compared == 0 ? "" : fmt::format(" ({} not: it refuses their contents)", count_text(not_compared)));
}

}  // namespace

ordered_json to_json(const std::vector<ReplayResult>& results) {
  ordered_json traces = ordered_json::array();
  bool all_ok = true;
  for (const ReplayResult& result : results) {
    ordered_json failed = ordered_json::array();
    for (const trace::Failure& failure : result.failed) {
      failed.push_back({{"call", failure.call},
                        {"check", failure.check ? ordered_json(*failure.check) : ordered_json(nullptr)},
                        {"detail", failure.detail}});
    }
    traces.push_back({{"file", result.file},
                      {"name", or_null(result.name)},
                      {"ok", result.ok()},
                      {"skipped", or_null(result.skipped)},
                      {"error", or_null(result.error)},
                      {"calls", result.calls},
                      {"checks", result.checks},
                      {"failed", std::move(failed)},
                      {"max_error", result.max_error},
                      {"seconds", result.seconds}});
    if (result.compared + result.not_compared > 0) {
      traces.back()["compared"] = result.compared;
      traces.back()["not_compared"] = result.not_compared;
    }
    all_ok = all_ok && result.ok();
  }
  return {{"traces", std::move(traces)}, {"ok", all_ok}};
}

std::string text_of(const ordered_json& json) { return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n"; }

std::string lines_of(const ReplayResult& result) {
  if (result.error) return fmt::format("ERROR {}: {}\n", result.file, *result.error);
  if (result.skipped) return fmt::format("skip  {}: {}\n", *result.name, *result.skipped);
  std::string text = fmt::format("{}  {}  {} calls, {} checks{}, worst error {:.2g}, {:.2f} s\n", result.ok() ? "ok  " : "FAIL",
                                 *result.name, result.calls, result.checks, compared_text(result.compared, result.not_compared),
                                 result.max_error, result.seconds);
  for (std::size_t i = 0; i < result.failed.size() && i < kFailuresShown; ++i) {
    const trace::Failure& failure = result.failed[i];
    text += fmt::format("      {}{}: {}\n", failure.call, failure.check ? fmt::format(", check {}", *failure.check) : "",
                        failure.detail);
  }
  if (result.failed.size() > kFailuresShown) {
    text += fmt::format("      and {} more (all of them: --json REPORT)\n", result.failed.size() - kFailuresShown);
  }
  return text;
}

std::string total_line(const std::vector<ReplayResult>& results) {
  std::int64_t held = 0, skipped = 0, failed = 0, errors = 0, checks = 0, compared = 0, not_compared = 0;
  double worst = 0, seconds = 0;
  for (const ReplayResult& result : results) {
    if (result.error) {
      ++errors;
    } else if (result.skipped) {
      ++skipped;
    } else {
      ++(result.failed.empty() ? held : failed);
    }
    checks += result.checks;
    compared += result.compared;
    not_compared += result.not_compared;
    worst = std::max(worst, result.max_error);
    seconds += result.seconds;
  }
  std::string text = fmt::format("{} traces: {} held", results.size(), held);
  if (skipped > 0) text += fmt::format(", {} skipped", skipped);
  if (failed > 0) text += fmt::format(", {} FAILED", failed);
  if (errors > 0) text += fmt::format(", {} unreadable", errors);
  return text + fmt::format("; {} checks{}, worst error {:.2g}, {:.2f} s\n", count_text(checks),
                            compared_text(compared, not_compared), worst, seconds);
}

std::string summary(const std::vector<ReplayResult>& results) {
  std::vector<const ReplayResult*> ran;
  for (const ReplayResult& result : results) {
    if (!result.error && !result.skipped) ran.push_back(&result);
  }
  if (ran.empty()) return "Nothing was replayed.\n";

  std::vector<std::pair<std::string, std::vector<const ReplayResult*>>> columns;
  if (ran.size() <= kMaxColumns) {
    for (const ReplayResult* result : ran) columns.push_back({*result->name, {result}});
  }
  if (ran.size() > 1) columns.push_back({fmt::format("all {}", ran.size()), ran});

  constexpr std::size_t kLabelWidth = 24;
  std::vector<std::size_t> widths;
  std::vector<std::vector<std::string>> cells;
  for (const auto& [title, traces] : columns) {
    std::vector<std::string> column;
    std::size_t width = title.size();
    for (const Row& row : kRows) {
      column.push_back(row.figure(traces));
      width = std::max(width, column.back().size());
    }
    cells.push_back(std::move(column));
    widths.push_back(width + 2);
  }
  std::string text = fmt::format("\n{:<{}}", "", kLabelWidth);
  for (std::size_t c = 0; c < columns.size(); ++c) text += fmt::format("{:>{}}", columns[c].first, widths[c]);
  text += "\n";
  for (std::size_t r = 0; r < std::size(kRows); ++r) {
    text += fmt::format("{:<{}}", kRows[r].label, kLabelWidth);
    for (std::size_t c = 0; c < columns.size(); ++c) text += fmt::format("{:>{}}", cells[c][r], widths[c]);
    text += "\n";
  }
  text +=
      "\nBytes a step moved: states and records that verify read and wrote, states, records and conv lines that commit did, all "
      "layers.\n"
      "Snapshots: for the same windows one state read and a state written for each token. Activations and weights are the same for "
      "both.\n";
  for (const ReplayResult* result : ran) {
    if (ran.size() <= kMaxColumns && !result->description.empty()) {
      text += fmt::format("{}: {}\n", *result->name, result->description.substr(0, result->description.find(". ")));
    }
  }
  return text;
}

}  // namespace recoverssm::cli
