// Every trace of the tree's traces/ folder, on every target this machine runs, with 1, 2 and 4 threads, every call twice.
// Skips are printed with their reason, and are only those whose backends or mode exclude the CPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "recoverssm/recoverssm.hpp"
#include "trace/binding.h"
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

// The sanitizers and the emulated machines run these traces and nothing else: every operation must be among the calls that succeed, in
// each of its forms.
TEST(BundledTraces, CoverEveryOperation) {
  std::map<std::string, int> forms;
  const auto word = [](const std::vector<Member>& members, const char* name) -> std::string {
    for (const Member& member : members) {
      if (member.name != name) continue;
      if (const auto* text = std::get_if<std::string>(&member.argument.value)) return *text;
      return std::holds_alternative<std::monostate>(member.argument.value) ? "" : "given";
    }
    return "";
  };
  for (const std::string& path : traces()) {
    const Trace trace = read_trace(path);
    for (const Call& call : trace.document.calls) {
      if (call.error) continue;
      ++forms[call.op];
      for (const char* argument : {"gate", "line_kind", "layout", "pending", "token_index", "outer_residual", "block_table"}) {
        if (const std::string form = word(call.arguments, argument); !form.empty()) {
          ++forms[fmt::format("{} {} {}", call.op, argument, form)];
        }
      }
      for (const Member& member : call.arguments) {
        if (member.name == "windows") {
          if (const auto* part = std::get_if<std::vector<Member>>(&member.argument.value)) {
            ++forms[fmt::format("{} {}", call.op, word(*part, "mode"))];
          }
        } else if (member.name == "layers") {
          for (const Argument& layer : std::get<std::vector<Argument>>(member.argument.value)) {
            const auto& fields = std::get<std::vector<Member>>(layer.value);
            ++forms[fmt::format("{} {} {}", call.op, word(fields, "gate"), word(fields, "line_kind"))];
          }
        }
      }
    }
  }
  for (const auto& [form, calls] : forms) fmt::print("{:6} {}\n", calls, form);
  for (const std::string& operation : operation_names()) EXPECT_GT(forms[operation], 0) << operation;
  for (const char* form : {"causal_conv1d line_kind anchored",
                           "causal_conv1d_window line_kind anchored",
                           "causal_conv1d_window line_kind rolled",
                           "gated_delta_rule gate gdn",
                           "gated_delta_rule gate kda",
                           "gated_delta_rule pending given",
                           "gated_delta_rule_snapshots gate gdn",
                           "gated_delta_rule_snapshots gate kda",
                           "gated_delta_rule_verify gate gdn",
                           "gated_delta_rule_verify gate kda",
                           "gated_delta_rule_verify pending given",
                           "commit_plan block_table given",
                           "commit gdn anchored",
                           "commit gdn rolled",
                           "commit kda anchored",
                           "commit kda rolled",
                           "materialize gdn anchored",
                           "materialize kda rolled",
                           "align_move gdn rolled",
                           "align_move kda anchored",
                           "short_conv line_kind plain",
                           "short_conv line_kind rolled",
                           "short_conv line_kind anchored",
                           "split_projections layout interleaved",
                           "split_projections layout flat",
                           "gdn_attention snapshots",
                           "gdn_attention verify"}) {
    EXPECT_GT(forms[form], 0) << form;
  }
}

INSTANTIATE_TEST_SUITE_P(Traces, Bundled,
                         testing::Combine(testing::Values(Target::portable, Target::avx2, Target::avx512),
                                          testing::Values(1, 2, 4)),
                         [](const auto& instance) {
                           return fmt::format("{}_{}_threads", name_of(std::get<0>(instance.param)), std::get<1>(instance.param));
                         });

}  // namespace
}  // namespace recoverssm::trace
