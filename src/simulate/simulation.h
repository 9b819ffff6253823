// Rounds, one after the other, each with a seed and a configuration of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "simulate/counts.h"
#include "simulate/options.h"

namespace recoverssm::simulate {

// A round in which session and plain run differed; it ended there.
struct Difference {
  std::uint64_t seed = 0;  // of the round
  std::string what;
  std::string setup;
  std::string command;  // runs this round alone
};

struct Result {
  Options options;
  Counts counts;
  std::vector<Difference> differences;
  double seconds = 0;

  bool ok() const { return differences.empty(); }
};

struct Listener {
  std::function<void(const Result&)> round;       // optional: after each round
  std::function<void(const std::string&)> calls;  // optional: a line for every call
};

// Ends early after ten rounds with differences.
Result simulate(const Options& options, const Listener& listener = {});

// "recoverssm simulate --seed 7 --rounds 1 --lazy".
std::string command_of(const Options& options, std::uint64_t seed);

}  // namespace recoverssm::simulate
