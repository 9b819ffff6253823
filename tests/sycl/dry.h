// The module with two things in place of compilation (dry.cc), so that the library's own calls show what they ask of it: kernels from ahead of
// time are all there and do nothing, and what is not among them is "compiled" by a function of the test's.
#pragma once

#include <functional>
#include <set>
#include <string>

#define DRY_CALL __attribute__((visibility("default")))

namespace dry {

// "verify of delta_program.h RSSM_SUB_GROUP=16 ...". Sub-groups of a work-group are left out: those from ahead of time are a GPU's.
using Names = std::set<std::string>;

DRY_CALL Names ahead();     // the list of src/sycl/ahead/kernels.cc
DRY_CALL Names launched();  // those of it that calls have launched

// Programs of these headers ("plan.h") are not there from ahead of time, for contexts that have not asked for one yet.
DRY_CALL void withhold(std::set<std::string> headers);
// Called in place of the compiler; a program that has to be compiled fails in the end, with what this throws if it does. Of any thread.
DRY_CALL void set_compiler(std::function<void(const std::string& header)> compiler);

}  // namespace dry
