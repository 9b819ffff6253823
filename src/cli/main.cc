// recoverssm: replays traces, checks this machine, and says what this build can do and what it takes.
#include <fmt/format.h>

#include <exception>
#include <functional>
#include <utility>

#include "cli/commands.h"
#include "recoverssm/recoverssm.hpp"

int main(int argc, char** argv) {
  using namespace recoverssm;
  CLI::App app("Speculative decoding for gated-delta-rule layers: replay traces, check a machine, size memory.", "recoverssm");
  app.footer("Example:\n  recoverssm replay traces/real/*.rst.safetensors --summary");
  app.set_version_flag("--version", fmt::format("recoverssm {}", version()), "Print the version and leave");
  app.require_subcommand(1);
  const std::pair<const char*, std::function<int()>> commands[] = {
      {"replay", cli::add_replay(app)}, {"check", cli::add_check(app)},       {"sizes", cli::add_sizes(app)},
      {"bench", cli::add_bench(app)},   {"simulate", cli::add_simulate(app)}, {"info", cli::add_info(app)}};
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? cli::kOk : cli::kUsage;
  }
  try {
    for (const auto& [name, run] : commands) {
      if (app.got_subcommand(name)) return run();
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "recoverssm: {}\n", error.what());
    return cli::kFailed;
  }
  return cli::kUsage;  // not reached: a subcommand is required
}
