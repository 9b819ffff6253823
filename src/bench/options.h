// What `recoverssm bench` is asked for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "recoverssm/recoverssm.hpp"

namespace recoverssm::bench {

// beyond_cache: the data sets of a case together take more than twice the last-level cache, and every call runs on the next one.
// in_cache: one set of about half of the second-level caches of the cores in use.
enum class Size { beyond_cache, in_cache };

const char* name_of(Size size);  // "beyond-cache", "in-cache"

struct Options {
  Backend backend =
      Backend::cpu;  // a device measures each case at the shapes of its own list, unless rows, tokens or layers are given
  std::vector<std::string> ops;             // globs over case names; a name without a dot means the whole operation. Empty: all
  std::optional<int> rows, tokens, layers;  // in place of the case table's; tokens: not of decode cases
  int heads = 16, value_heads = 48, k = 128, v = 128, taps = 4;
  DType activation = DType::bf16, state = DType::f32;
  std::optional<Gate> gate;     // absent: both, where a case has a gate
  std::vector<Target> targets;  // empty: all of this machine, widest first
  std::vector<int> threads;     // empty: 1 and one a core
  std::vector<Size> sizes = {Size::beyond_cache, Size::in_cache};
  double min_time = 0.08;  // seconds a repetition
  int repetitions = 5;
  std::optional<double> memory_gib;  // most that the data sets of one case may take; absent: 4, on a device 16
  double compare_gib =
      0.5;  // a device: bytes of the largest set that is compared with the CPU before anything is timed; 0: none is
};

}  // namespace recoverssm::bench
