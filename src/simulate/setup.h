// One round's configuration, drawn from its seed and from what the caller fixed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recoverssm/session_config.hpp"
#include "recoverssm/types.hpp"
#include "simulate/model.h"
#include "simulate/options.h"

namespace recoverssm::simulate {

struct Setup {
  std::uint64_t seed = 0;
  std::vector<LayerModel> layers;
  SessionConfig session;     // its views point into `layers`
  bool given_pools = false;  // the caller's: with gaps, interleaved, lines in either order
  bool faults = true;
  std::int32_t steps = 0;        // to open
  std::int32_t concurrency = 0;  // requests at once
  std::int32_t depth = 1;        // steps open at once
  std::int32_t longest_prompt = 0;
  std::int32_t longest_text = 0;  // prompt and answer
  int acceptance = 0;             // percent: how likely the next draft is kept
  int float64_share = 0;          // percent of the requests that are held against the float64 reference
  int threads = 1;
  Backend backend = Backend::cpu;
  Target plain_target = Target::best;  // of the plain run
  // For the tests: in this bitwise comparison, counted from 0, one bit of what was got is flipped.
  std::optional<std::int64_t> flipped_comparison{};

  bool align() const { return session.groups[0].block_size.has_value(); }
};

Setup random_setup(const Options& options, std::uint64_t seed);

// "S 4, anchored, lazy, align 8/12, ...; gdn H 1 HV 2 ...; ...".
std::string text_of(const Setup& setup);

}  // namespace recoverssm::simulate
