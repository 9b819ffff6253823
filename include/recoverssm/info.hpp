// What this build is and what this machine can run.
#pragma once

#include <string>
#include <vector>

#include "recoverssm/types.hpp"

namespace recoverssm {

const char* version();  // "0.1.0"

// Targets this build holds that this CPU can run, widest first.
std::vector<Target> available_targets();

// The target that `target` runs as here: best is resolved. unsupported if the build or the CPU lacks it.
Status resolve_target(Target target, Target& resolved);

}  // namespace recoverssm
