// traces/golden, compiled in. The source file is generated (src/check/CMakeLists.txt).
#pragma once

#include <vector>

#include "check/material.h"

namespace recoverssm::check {

std::vector<GoldenTrace> golden_traces();

}  // namespace recoverssm::check
