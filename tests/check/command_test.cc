// The commands check and sizes, run as a user runs them.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "check/material.h"
#include "trace/document.h"

namespace {

using nlohmann::json;

struct Outcome {
  int code = -1;
  std::string out;
};

Outcome run(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  Outcome outcome;
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) outcome.out.append(buffer, got);
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

Outcome command(const std::string& arguments) { return run(fmt::format("'{}' {} 2>&1", RECOVERSSM_COMMAND, arguments)); }

TEST(CheckCommand, PassesHere) {
  const Outcome text = command("check --target portable");
  EXPECT_EQ(text.code, 0) << text.out;
  EXPECT_NE(text.out.find("ok      portable  golden traces"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find(": all passed, 11 checks, 0 failed; targets portable; 1 and "), std::string::npos) << text.out;
  const Outcome quiet = command("check --target portable --quiet");
  EXPECT_EQ(quiet.code, 0);
  EXPECT_EQ(std::ranges::count(quiet.out, '\n'), 1) << quiet.out;
}

TEST(CheckCommand, Json) {
  const Outcome outcome = command("check --target portable --json -");
  EXPECT_EQ(outcome.code, 0);
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report["ok"], true);
  ASSERT_EQ(report["checks"].size(), 11U);
  for (const json& check : report["checks"]) {
    EXPECT_EQ(check["ok"], true);
    EXPECT_EQ(check["failures"], json::array());
    EXPECT_GT(check["compared"], 0);
    EXPECT_EQ(check["left_out"], nullptr);
  }
}

TEST(CheckCommand, WrongCommandLines) {
  for (const char* arguments : {"check --target sse", "check --unknown", "check file"}) EXPECT_EQ(command(arguments).code, 64);
  const Outcome nowhere = command("check --target portable --json /nowhere/at/all");
  EXPECT_EQ(nowhere.code, 74);
  EXPECT_EQ(nowhere.out.find("compared"), std::string::npos) << nowhere.out;  // nothing ran
}

TEST(BenchCommand, WrongCommandLines) {
  const std::pair<const char*, const char*> wrong[] = {
      {"--k 257", "257"},
      {"--memory nan", "--memory nan, expected more than 0 and at most 1048576"},
      {"--memory inf", "--memory inf"},
      {"--memory 0", "--memory 0"},
      {"--min-time nan", "--min-time nan, expected more than 0 and at most 3600"},
      {"--min-time -1", "--min-time -1"},
      {"--rows 1048576 --layers 1048576 --memory 1048576", "tokens in all, expected at most 2147483647"},
      {"--op commit --rows 1048576 --layers 1048576 --memory 1048576", "GiB, expected at most this machine's"},
      {"--op commit_plan_groups --rows 1048576 --layers 1048576", "GiB, expected at most this machine's"},
      {"--rows 1000 --tokens 1000000 --v 1048576 --value-heads 1048576", "more than 2^52 elements"},
  };
  for (const auto& [arguments, message] : wrong) {
    const Outcome outcome = command(fmt::format("bench {}", arguments));
    EXPECT_EQ(outcome.code, 64) << arguments << ": " << outcome.out;
    EXPECT_NE(outcome.out.find(message), std::string::npos) << outcome.out;
  }
  for (const char* option : {"--json", "--csv"}) {
    const Outcome outcome = command(fmt::format("bench {} /nowhere/at/all", option));
    EXPECT_EQ(outcome.code, 74);
    EXPECT_EQ(outcome.out.find("best copy"), std::string::npos) << outcome.out;  // nothing was measured
    EXPECT_EQ(std::ranges::count(outcome.out, '\n'), 1) << outcome.out;
  }
}

// The command with one bit of one compiled-in vector changed says so, and its exit status is 1.
TEST(CheckCommand, FailsWithAWrongGoldenVector) {
  std::ifstream file(RECOVERSSM_COMMAND, std::ios::binary);
  std::string binary((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto material = recoverssm::check::embedded();
  const auto golden = std::ranges::find(material.traces, "bits.gdn.k64.fp32_bf16", &recoverssm::check::GoldenTrace::name);
  ASSERT_NE(golden, material.traces.end());
  const std::string_view bytes(reinterpret_cast<const char*>(golden->bytes.data()), golden->bytes.size());
  const std::size_t at = binary.find(bytes);
  ASSERT_NE(at, std::string::npos) << "the trace is not in the command";
  // An element of the expected records.
  const recoverssm::trace::Trace trace =
      recoverssm::trace::read_trace(fmt::format("{}/traces/golden/{}.rst.safetensors", RECOVERSSM_SOURCE_DIR, golden->name));
  const std::span<const std::byte> tensor = trace.document.calls[0].expectations[0].tensor->bytes;
  const std::size_t in_trace = bytes.find(std::string_view(reinterpret_cast<const char*>(tensor.data()), tensor.size()));
  ASSERT_NE(in_trace, std::string_view::npos);
  binary[at + in_trace + 8] = static_cast<char>(binary[at + in_trace + 8] ^ 1);

  const std::filesystem::path wrong = std::filesystem::temp_directory_path() / fmt::format("recoverssm_wrong_{}", ::getpid());
  std::ofstream(wrong, std::ios::binary) << binary;
  std::filesystem::permissions(wrong, std::filesystem::perms::owner_all);
  const Outcome outcome = run(fmt::format("'{}' check --quiet --target portable 2>&1", wrong.string()));
  std::filesystem::remove(wrong);
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_NE(outcome.out.find("FAILED  portable  golden traces"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("portable, 1 threads: bits.gdn.k64.fp32_bf16: call "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("11 checks, 1 failed"), std::string::npos) << outcome.out;
}

}  // namespace
