// The recoverssm command, run as a user runs it: exit codes, what goes to stdout.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "trace/example.h"

namespace recoverssm::trace::test {
namespace {

struct Outcome {
  int code = -1;
  std::string out;
};

// Runs the command through a shell; stderr is dropped unless the arguments redirect it.
Outcome command(const std::string& arguments) {
  const bool redirected = arguments.find("2>") != std::string::npos;
  const std::string line = std::string("'") + RECOVERSSM_COMMAND + "' " + arguments + (redirected ? "" : " 2>/dev/null");
  std::FILE* pipe = ::popen(line.c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  Outcome outcome;
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) outcome.out.append(buffer, got);
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

class Command : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("recoverssm_cli_" + std::to_string(::getpid()) + testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directory(folder_);
    write_file(good(), plan_example().bytes());
    Example wrong = plan_example();
    call(wrong)["expect"][2]["fill"] = 9;
    write_file(failing(), wrong.bytes());
    Example other = plan_example();
    other.document["backends"] = {"cuda"};
    write_file(skipped(), other.bytes());
    std::ofstream(malformed()) << "no trace";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string good() const { return folder_ / "good.rst.safetensors"; }
  std::string failing() const { return folder_ / "failing.rst.safetensors"; }
  std::string skipped() const { return folder_ / "skipped.rst.safetensors"; }
  std::string malformed() const { return folder_ / "malformed.rst.safetensors"; }
  std::string report() const { return folder_ / "report.json"; }

 private:
  std::filesystem::path folder_;
};

TEST_F(Command, ExitCodes) {
  EXPECT_EQ(command("replay " + good()).code, 0);
  EXPECT_EQ(command("replay " + skipped()).code, 0);
  EXPECT_EQ(command("replay " + failing()).code, 1);
  EXPECT_EQ(command("replay " + malformed()).code, 2);
  EXPECT_EQ(command("replay " + good() + ".none").code, 2);
  EXPECT_EQ(command("replay " + good() + " --backend cuda").code, 3);
  EXPECT_EQ(command("replay " + good() + " --backend toaster").code, 3);
  // The highest wins, wherever it stands.
  EXPECT_EQ(command("replay " + malformed() + " " + failing() + " " + good()).code, 2);
  EXPECT_EQ(command("replay " + good() + " " + failing() + " " + skipped()).code, 1);
  EXPECT_EQ(command("replay " + malformed() + " --backend sycl").code, 3);
}

TEST_F(Command, WrongCommandLines) {
  for (const char* arguments : {"", "replay", "replay x --repeat 0", "replay x --repeat many", "replay x --target sse",
                                "replay x --unknown", "replay x --mode slow", "replay x --threads -1", "explode"}) {
    EXPECT_EQ(command(arguments).code, 64) << arguments;
  }
}

TEST_F(Command, HelpAndVersion) {
  for (const char* arguments : {"--help", "replay --help", "info --help"}) {
    const Outcome help = command(arguments);
    EXPECT_EQ(help.code, 0);
    EXPECT_NE(help.out.find("Example:\n  recoverssm "), std::string::npos) << help.out;
  }
  const Outcome version = command("--version");
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.out.rfind("recoverssm ", 0), 0U);
}

TEST_F(Command, LinesForPeople) {
  const Outcome held = command("replay " + good());
  EXPECT_NE(held.out.find("plan example  1 calls, 5 checks, worst error 0"), std::string::npos) << held.out;
  const Outcome failed = command("replay " + failing());
  EXPECT_NE(failed.out.find("plan, check 2: buffer boundary offset 0 shape [2], index [0]: got 0, want 9"), std::string::npos)
      << failed.out;
  EXPECT_NE(command("replay " + skipped()).out.find("for backends cuda, not cpu"), std::string::npos);
  EXPECT_NE(command("replay " + malformed()).out.find("header of "), std::string::npos);
  EXPECT_EQ(command("replay " + good() + " 2>&1 >/dev/null").out, "") << "no progress bar without a terminal";
}

TEST_F(Command, JsonToStdoutIsOnlyJson) {
  const Outcome outcome =
      command("replay " + good() + " " + failing() + " " + skipped() + " " + malformed() + " --json - --summary");
  EXPECT_EQ(outcome.code, 2);
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report["ok"], false);
  ASSERT_EQ(report["traces"].size(), 4U);
  const json& held = report["traces"][0];
  EXPECT_EQ(held["file"], good());
  EXPECT_EQ(held["name"], "plan example");
  EXPECT_EQ(held["ok"], true);
  EXPECT_EQ(held["skipped"], nullptr);
  EXPECT_EQ(held["error"], nullptr);
  EXPECT_EQ(held["calls"], 1);
  EXPECT_EQ(held["checks"], 5);
  EXPECT_EQ(held["failed"], json::array());
  EXPECT_EQ(held["max_error"], 0.0);
  EXPECT_TRUE(held["seconds"].is_number());
  EXPECT_EQ(held.size(), 10U);
  const json& failed = report["traces"][1];
  EXPECT_EQ(failed["ok"], false);
  ASSERT_EQ(failed["failed"].size(), 1U);
  EXPECT_EQ(failed["failed"][0]["call"], "plan");
  EXPECT_EQ(failed["failed"][0]["check"], 2);
  EXPECT_TRUE(failed["failed"][0]["detail"].is_string());
  const json& skip = report["traces"][2];
  EXPECT_EQ(skip["ok"], true);
  EXPECT_TRUE(skip["skipped"].is_string());
  EXPECT_EQ(skip["calls"], 0);
  EXPECT_EQ(skip["checks"], 0);
  const json& bad = report["traces"][3];
  EXPECT_EQ(bad["ok"], false);
  EXPECT_EQ(bad["name"], nullptr);
  EXPECT_TRUE(bad["error"].is_string());
}

TEST_F(Command, JsonWhenTheBackendIsMissing) {
  const std::string reason = recoverssm::cuda::unavailable_reason();
  if (reason.empty()) GTEST_SKIP() << "there is a CUDA device here";
  const Outcome outcome = command("replay " + good() + " --backend cuda --compare cpu --json -");
  EXPECT_EQ(outcome.code, 3);
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report["ok"], false);
  EXPECT_EQ(report["traces"][0]["error"], "backend cuda: " + reason + "; available: cpu");
  EXPECT_EQ(command("replay " + good() + " --backend abacus").code, 3);
}

TEST_F(Command, ReportFile) {
  EXPECT_EQ(command("replay " + good() + " --json " + report()).code, 0);
  std::ifstream file(report());
  EXPECT_EQ(json::parse(file)["ok"], true);
  EXPECT_EQ(command("replay " + good() + " --json " + report() + "/none").code, 74);
}

TEST_F(Command, OptionsReachTheReplay) {
  EXPECT_EQ(command("replay " + good() + " --repeat 3 --threads 2 --target portable --mode fast").code, 0);
  EXPECT_EQ(command("replay " + good() + " --memory-limit 0.000000001").code, 2);
  const Outcome summary = command("replay " + good() + " --summary");
  EXPECT_NE(summary.out.find("bytes a step moved"), std::string::npos) << summary.out;
}

TEST_F(Command, Info) {
  const Outcome text = command("info");
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(text.out.find("gated_delta_rule_verify"), std::string::npos);
  const json info = json::parse(command("info --json -").out);
  EXPECT_EQ(info["backends"][0]["name"], "cpu");
  EXPECT_EQ(info["backends"][0]["available"], true);
  EXPECT_EQ(info["backends"][1]["name"], "cuda");
  EXPECT_EQ(info["backends"][1]["available"], recoverssm::cuda::unavailable_reason().empty());
  EXPECT_EQ(info["backends"][1]["architectures"], json(recoverssm::cuda::architectures()));
  EXPECT_EQ(info["backends"][1]["devices"].size(), recoverssm::cuda::devices().size());
  EXPECT_NE(std::find(info["targets"].begin(), info["targets"].end(), "portable"), info["targets"].end());
  for (const json& entry : info["support"]) EXPECT_TRUE(entry["supported"]) << entry;
}

}  // namespace
}  // namespace recoverssm::trace::test
