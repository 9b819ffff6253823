// Which operations this build runs for which dtypes on a backend, found by asking the library.
#pragma once

#include <string>
#include <vector>

#include "recoverssm/types.hpp"

namespace recoverssm::cli {

struct SupportEntry {
  std::string operation;
  DType activation = DType::bf16;
  DType state = DType::f32;
  bool has_activation = true;  // index-only operations have none
  bool has_state = true;
  Support support;
};

// A line for each operation and each activation and state dtype it takes; the example has H 2, HV 4, K = V = 128, W 4, S 4.
std::vector<SupportEntry> support_table(Backend backend);

}  // namespace recoverssm::cli
