// The backend's programs: kernels that are compiled together, and what they can be compiled for. A call asks for a kernel of one
// (module/runtime.h); it is compiled then, unless it was ahead of time (ahead/kernels.cc, which makes all of these).
#pragma once

#include <array>
#include <cstddef>

#include "recoverssm/rows.hpp"
#include "sycl/select.h"

namespace recoverssm::sycl_backend {

struct Define {
  const char* name = nullptr;
  int value = 0;
};
constexpr std::size_t kDefines = 6;

// A header of src/sycl/kernels, after lines that define what it is compiled for: always the same names in the same order.
struct Program {
  const char* header = nullptr;
  std::array<Define, kDefines> defines{};
};

constexpr Program kAlignProgram = {.header = "align.h", .defines = {}};
constexpr Program kAttentionProgram = {.header = "attention.h", .defines = {}};
constexpr Program kBenchProgram = {.header = "bench.h", .defines = {}};
constexpr Program kExactProgram = {.header = "exact.h", .defines = {}};
constexpr Program kPendingProgram = {.header = "pending.h", .defines = {}};
constexpr Program kPlanProgram = {.header = "plan.h", .defines = {}};
constexpr Program kProjectionsProgram = {.header = "projections.h", .defines = {}};
constexpr Program kShortConvProgram = {.header = "short_conv.h", .defines = {}};
constexpr Program kTableProgram = {.header = "table.h", .defines = {}};

constexpr Program conv_program(bool packed) { return {.header = "conv.h", .defines = {{{"RSSM_PACKED", packed ? 1 : 0}}}}; }

constexpr Program delta_program(const DeltaShape& shape, Gate gate, const DeviceTraits& traits) {
  return {.header = "delta_program.h",
          .defines = {{{"RSSM_SUB_GROUP", traits.sub_group},
                       {"RSSM_SUB_GROUPS", sub_groups_of(traits)},
                       {"RSSM_CHUNKS", shape.chunks},
                       {"RSSM_WHOLE", shape.whole ? 1 : 0},
                       {"RSSM_KDA", gate == Gate::kda ? 1 : 0}}}};
}

}  // namespace recoverssm::sycl_backend
