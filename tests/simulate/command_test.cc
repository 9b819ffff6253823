// recoverssm simulate, run as a user runs it.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <nlohmann/json.hpp>

namespace {

using nlohmann::json;

struct Outcome {
  int code = -1;
  std::string out;
};

Outcome command(const std::string& arguments) {
  std::FILE* pipe = ::popen(fmt::format("'{}' simulate {} 2>&1", RECOVERSSM_COMMAND, arguments).c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  Outcome outcome;
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) outcome.out.append(buffer, got);
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

TEST(SimulateCommand, SaysWhatItDid) {
  const Outcome outcome = command("--rounds 2 --steps 40 --seed 11");
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_NE(outcome.out.find("seed 11, faults on, until 2 rounds are done"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("2 rounds, seeds 11 to 12, faults on: no difference"), std::string::npos) << outcome.out;
}

TEST(SimulateCommand, Json) {
  const Outcome outcome = command("--rounds 2 --steps 40 --seed 11 --no-faults --lazy --json -");
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report["ok"], true);
  EXPECT_EQ(report["seed"], 11);
  EXPECT_EQ(report["faults"], false);
  EXPECT_EQ(report["counts"]["rounds"], 2);
  EXPECT_EQ(report["counts"]["refused"], 0);
  EXPECT_GT(report["committed_tokens"], 0);
  EXPECT_EQ(report["differences"], json::array());
}

TEST(SimulateCommand, PrintsEveryCall) {
  const Outcome outcome = command("--rounds 1 --steps 10 --calls");
  EXPECT_EQ(outcome.code, 0);
  for (const char* line : {"round 1: S ", "\nadmit ", "\nopen ", "\nforward ", "\ncommit "}) {
    EXPECT_NE(outcome.out.find(line), std::string::npos) << line;
  }
}

TEST(SimulateCommand, TokensEndTheRun) {
  const json report = json::parse(command("--tokens 1 --steps 20 --json -").out);
  EXPECT_EQ(report["counts"]["rounds"], 1);
}

TEST(SimulateCommand, WrongCommandLines) {
  for (const char* arguments :
       {"--rounds 0", "--rounds 1 --tokens 5", "--lazy --eager", "--line plain", "--window 0", "--unknown"}) {
    EXPECT_EQ(command(arguments).code, 64) << arguments;
  }
  const Outcome nowhere = command("--rounds 1 --json /nowhere/at/all");
  EXPECT_EQ(nowhere.code, 74);
  EXPECT_EQ(nowhere.out.find("no difference"), std::string::npos) << nowhere.out;  // nothing ran
}

}  // namespace
