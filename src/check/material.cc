#include "check/material.h"

#include "check/golden_traces.h"

namespace recoverssm::check {

namespace {

constexpr FunctionRow kFunctions[] = {
#include "check/functions.inc"
};

}  // namespace

Material embedded() { return {golden_traces(), kFunctions, {}}; }

}  // namespace recoverssm::check
