// What the backends' support answers are made of: sizes against the most that a backend's kernels take.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "recoverssm/types.hpp"

namespace recoverssm {

struct SizeLimit {
  const char* name;
  std::int64_t value;
  std::int64_t most;
};

// where: "on the CPU", ...
inline Support within_limits(const char* op, const std::string& argument, std::initializer_list<SizeLimit> sizes,
                             const char* where) {
  for (const SizeLimit& size : sizes) {
    if (size.value <= size.most) continue;
    return {false, std::string(op) + ": " + argument + ": " + size.name + " = " + std::to_string(size.value) +
                       ", expected at most " + std::to_string(size.most) + " " + where};
  }
  return {};
}

// Sizes of a view that validate accepts. Of others nothing is asked.
inline std::int64_t size_at(const TensorView& view, int dims, std::size_t dim) { return view.dims == dims ? view.shape[dim] : 0; }

}  // namespace recoverssm
