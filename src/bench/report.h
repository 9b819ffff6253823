// What was measured: as JSON, as CSV, and as lines a person reads.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bench/bench.h"

namespace recoverssm::bench {

// docs/benchmarks.md says what the fields mean.
nlohmann::ordered_json to_json(const Report& report, const std::string& command_line);

std::string csv_header();
std::string csv_line(const Result& result);  // both with their line end

std::string hardware_lines(const Hardware& hardware);
std::string device_lines(const DeviceHardware& device);
std::string ceiling_lines(const Ceilings& ceilings);
std::string table_header();
std::string table_line(const Result& result);

std::string time_text(double seconds);  // "1.23 ms"

}  // namespace recoverssm::bench
