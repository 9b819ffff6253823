// What a caller of the simulation fixes. Everything left open is drawn anew for each round.
#pragma once

#include <cstdint>
#include <optional>

#include "recoverssm/session_config.hpp"

namespace recoverssm::simulate {

struct Options {
  std::uint64_t seed = 1;                     // of the first round; round i has seed + i
  std::int64_t tokens = 0;                    // rounds go on until so many tokens are committed
  std::int64_t rounds = 0;                    // or until so many rounds are done; both 0: nothing runs
  bool faults = true;                         // bad calls, aborts, preemptions, abandoned steps
  std::optional<std::int32_t> steps{};        // a round opens so many steps
  std::optional<std::int32_t> concurrency{};  // requests at once
  std::optional<std::int32_t> depth{};        // steps open at once
  std::optional<std::int32_t> window{};       // S
  std::optional<std::int32_t> layers{};
  std::optional<std::int32_t> groups{};
  std::optional<bool> lazy{};
  std::optional<bool> align{};
  std::optional<LineKind> line{};  // rolled or anchored
  std::optional<DType> state{};
  std::optional<DType> activation{};
  std::optional<int> threads{};
  Backend backend = Backend::cpu;  // where the sessions are; the plain runs are always on the CPU
};

}  // namespace recoverssm::simulate
