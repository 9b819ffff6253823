// recoverssm: replays traces, and says what this build and machine can do.
#include <fmt/format.h>

#include <exception>

#include "cli/commands.h"
#include "recoverssm/recoverssm.hpp"

int main(int argc, char** argv) {
  using namespace recoverssm;
  CLI::App app("Speculative decoding for gated-delta-rule layers: replay traces, show what this build can do.", "recoverssm");
  app.footer("Example:\n  recoverssm replay traces/real/*.rst.safetensors --summary");
  app.set_version_flag("--version", fmt::format("recoverssm {}", version()), "Print the version and leave");
  app.require_subcommand(1);
  const std::function<int()> replay = cli::add_replay(app);
  const std::function<int()> info = cli::add_info(app);
  const std::function<int()> bench = cli::add_bench(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? cli::kOk : cli::kUsage;
  }
  try {
    if (app.got_subcommand("bench")) return bench();
    return app.got_subcommand("replay") ? replay() : info();
  } catch (const std::exception& error) {
    fmt::print(stderr, "recoverssm: {}\n", error.what());
    return cli::kFailed;
  }
}
