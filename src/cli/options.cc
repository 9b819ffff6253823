#include "cli/options.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "cli/commands.h"

namespace recoverssm::cli {

namespace {

// The command line has been checked for the names there are.
Target target_named(const std::string& name) {
  for (const Target target : {Target::portable, Target::avx2, Target::avx512}) {
    if (name == name_of(target)) return target;
  }
  return Target::best;
}

}  // namespace

CLI::Option* add_target_option(CLI::App& command, const std::string& help, std::function<void(Target)> chosen) {
  return command
      .add_option_function<std::string>(
          "--target", [chosen = std::move(chosen)](const std::string& name) { chosen(target_named(name)); }, help)
      ->check(CLI::IsMember({"best", "portable", "avx2", "avx512"}));
}

int try_report(const std::string& subcommand, const std::string& path) {
  if (path.empty() || path == "-") return kOk;
  // A pipe would be closed for its reader by a trial.
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error) &&
      !std::filesystem::is_directory(path, error)) {
    return kOk;
  }
  if (std::ofstream(path, std::ios::binary | std::ios::app)) return kOk;
  fmt::print(stderr, "recoverssm {}: cannot write {}: {}\n", subcommand, path, std::strerror(errno));
  return kNotWritten;
}

int write_report(const std::string& subcommand, const std::string& path, const std::string& text) {
  if (path == "-") {
    const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
    return written ? kOk : kNotWritten;
  }
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return kOk;
  fmt::print(stderr, "recoverssm {}: cannot write {}: {}\n", subcommand, path, std::strerror(errno));
  return kNotWritten;
}

}  // namespace recoverssm::cli
