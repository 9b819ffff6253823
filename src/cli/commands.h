// The recoverssm command: one file a subcommand.
#pragma once

#include <CLI/CLI.hpp>

namespace recoverssm::cli {

// Exit codes. Of several the highest wins.
enum Exit : int {
  kOk = 0,
  kFailed = 1,       // an expectation did not hold
  kMalformed = 2,    // a file is malformed or unreadable
  kUnavailable = 3,  // the backend or target is not in this build or on this machine
  kUsage = 64,       // the command line; as in sysexits.h
  kNotWritten = 74,  // the report could not be written; as in sysexits.h
};

// Add a subcommand to the command. When it has been chosen, the function pointed to by the result runs it and returns the exit code.
std::function<int()> add_replay(CLI::App& app);
std::function<int()> add_info(CLI::App& app);
std::function<int()> add_bench(CLI::App& app);
std::function<int()> add_check(CLI::App& app);
std::function<int()> add_sizes(CLI::App& app);
std::function<int()> add_simulate(CLI::App& app);

}  // namespace recoverssm::cli
