// Every trace of the tree's traces/ folder, on every target this machine runs, with 1, 2 and 4 threads, every call twice.
// Skips are printed with their reason, and are only those whose backends or mode exclude the CPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "recoverssm/recoverssm.hpp"
#include "trace/replay.h"

namespace recoverssm::trace {
namespace {

std::vector<std::string> traces() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(RECOVERSSM_SOURCE_DIR "/traces")) {
    if (entry.path().string().ends_with(".rst.safetensors")) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

class Bundled : public testing::TestWithParam<std::tuple<Target, int>> {};

TEST_P(Bundled, Holds) {
  const auto [target, threads] = GetParam();
  Target resolved = Target::best;
  if (const Status status = resolve_target(target, resolved); !status.ok()) GTEST_SKIP() << status.message;
  ReplayOptions options;
  options.target = target;
  options.threads = threads;
  options.repeat = 2;
  Replayer replayer(options);
  const std::vector<std::string> paths = traces();
  ASSERT_GE(paths.size(), 190U) << "the tree's traces are missing";
  std::size_t skipped = 0;
  for (const std::string& path : paths) {
    const ReplayResult result = replayer.replay_file(path);
    EXPECT_FALSE(result.error) << path << ": " << *result.error;
    for (const Failure& failure : result.failed) ADD_FAILURE() << path << " " << failure.call << ": " << failure.detail;
    if (result.skipped) {
      ++skipped;
      fmt::print("skipped {}: {}\n", path, *result.skipped);
      EXPECT_TRUE(result.skipped->starts_with("for backends ") || result.skipped->starts_with("for mode fast")) << *result.skipped;
    } else if (!result.error) {
      EXPECT_GT(result.checks, 0) << path;
    }
  }
  EXPECT_LT(skipped, paths.size() / 4);
}

INSTANTIATE_TEST_SUITE_P(Traces, Bundled,
                         testing::Combine(testing::Values(Target::portable, Target::avx2, Target::avx512),
                                          testing::Values(1, 2, 4)),
                         [](const auto& instance) {
                           return fmt::format("{}_{}_threads", name_of(std::get<0>(instance.param)), std::get<1>(instance.param));
                         });

}  // namespace
}  // namespace recoverssm::trace
