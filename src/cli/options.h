// Options that several subcommands have, and how their reports are written.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "recoverssm/types.hpp"

namespace recoverssm::cli {

// --target NAME. `chosen` is called with best, portable, avx2 or avx512.
CLI::Option* add_target_option(CLI::App& command, const std::string& help, std::function<void(Target)> chosen);

// Whether a report can be written there, without touching one that is there: asked before minutes of work. Gives kOk or, having
// said why on stderr, kNotWritten. "-" and the empty path are fine.
int try_report(const std::string& subcommand, const std::string& path);

// Writes a report to a file, or to stdout for "-". Gives kOk or, having said why on stderr, kNotWritten.
int write_report(const std::string& subcommand, const std::string& path, const std::string& text);

}  // namespace recoverssm::cli
