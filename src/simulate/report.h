// What a simulation found: as JSON, and as a table a person reads.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "simulate/simulation.h"

namespace recoverssm::simulate {

// Everything but `seconds` is the same for the same options. The layout: docs/simulate.md.
nlohmann::ordered_json to_json(const Result& result);

// Counts, one a line.
std::string table_of(const Counts& counts);
// "DIFFERS  round 7: ...", its configuration, and the command that runs this round alone.
std::string lines_of(const Difference& difference);
// "1,000,000 committed tokens in 230 rounds, seeds 1 to 230: no difference, ...".
std::string total_line(const Result& result);

}  // namespace recoverssm::simulate
