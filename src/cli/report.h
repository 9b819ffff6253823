// What a replay found: as JSON, and as tables and lines a person reads.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trace/replay.h"

namespace recoverssm::cli {

// The layout of docs/traces.md. A number that is not finite becomes null, bytes that are no UTF-8 become U+FFFD.
nlohmann::ordered_json to_json(const std::vector<trace::ReplayResult>& results);
std::string text_of(const nlohmann::ordered_json& json);

// "ok    name  141 calls, 90 checks, worst error 3.2e-05, 0.41 s", and a line for each of the first failures.
std::string lines_of(const trace::ReplayResult& result);

// "199 traces: 186 held, 13 skipped; 4120 checks, worst error 0.0012, 3.4 s".
std::string total_line(const std::vector<trace::ReplayResult>& results);

// What the traces' windows did and moved, against snapshots. Counts only what ran.
std::string summary(const std::vector<trace::ReplayResult>& results);

// 1234567 -> "1,234,567"; bytes -> "1.2 MB".
std::string count_text(std::int64_t count);
std::string bytes_text(double bytes);

}  // namespace recoverssm::cli
