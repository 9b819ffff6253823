// recoverssm sizes, against figures worked out by hand.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

namespace {

using nlohmann::json;

struct Outcome {
  int code = -1;
  std::string out;
};

Outcome sizes(const std::string& arguments) {
  const std::string line = fmt::format("'{}' sizes {} 2>&1", RECOVERSSM_COMMAND, arguments);
  std::FILE* pipe = ::popen(line.c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  Outcome outcome;
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) outcome.out.append(buffer, got);
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

json report(const std::string& arguments) {
  const Outcome outcome = sizes(arguments + " --json -");
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  return json::parse(outcome.out);
}

std::string config(const char* name) { return fmt::format("--config {}/tests/check/configs/{}.json", RECOVERSSM_SOURCE_DIR, name); }

// The contract's example: state 3,145,728, records 197,376, four states for snapshots.
TEST(Sizes, ContractExample) {
  const json r = report("--heads 16 --value-heads 48 --k 128 --v 128 --layers 36 --requests 8");
  const json& layer = r["per_layer"];
  EXPECT_EQ(layer["state"], 48 * 128 * 128 * 4);
  EXPECT_EQ(layer["state"], 3145728);
  EXPECT_EQ(layer["records"], 197376);
  EXPECT_EQ(layer["line"], 6 * 10240 * 2);  // W-1 + S-1 positions of 2*16*128 + 48*128 channels
  EXPECT_EQ(layer["page"], 3145728 + 197376 + 122880);
  EXPECT_EQ(layer["snapshots"], 4 * 3145728 + 122880);
  EXPECT_EQ(r["per_request"]["recoverssm"], 36LL * 3465984);
  EXPECT_EQ(r["per_request"]["snapshots"], 36LL * 12705792);
  EXPECT_EQ(r["all_requests"]["recoverssm"], 8LL * 36 * 3465984);
  EXPECT_EQ(r["all_requests"]["snapshots"], 8LL * 36 * 12705792);
  EXPECT_NEAR(layer["ratio"].get<double>(), 12705792.0 / 3465984.0, 1e-12);
}

TEST(Sizes, AnchoredLineKdaAndDtypes) {
  const json r =
      report("--heads 4 --value-heads 4 --k 64 --v 32 --gate kda --line anchored --window 3 --state-dtype bf16 --dtype f16");
  const json& layer = r["per_layer"];
  EXPECT_EQ(layer["state"], 4 * 32 * 64 * 2);
  EXPECT_EQ(layer["records"], 4 * 3 * (32 * 4 + 2 * 64 * 2));  // corrections in fp32, key and gate in fp16
  const int channels = 2 * 4 * 64 + 4 * 32;
  EXPECT_EQ(layer["line"], (3 + 3) * channels * 2);
  EXPECT_EQ(layer["page"], 16384 + 4608 + 6 * channels * 2);
  EXPECT_EQ(layer["snapshots"], 3 * 16384 + (3 + 2) * channels * 2);  // with their rolled line
  EXPECT_EQ(r["layers"], 1);
}

TEST(Sizes, ShortConvolutionAndCachedBlocks) {
  const json r = report(
      "--heads 1 --value-heads 2 --k 32 --v 16 --layers 5 --taps 0 --short-conv 96 --short-conv-taps 4 --short-conv-dilation 3 "
      "--short-conv-layers 2 --align-blocks 3 --requests 2 --line anchored");
  const long long state = 2 * 16 * 32 * 4, records = 2 * 4 * (16 + 32 + 1) * 4;
  const long long history = 9, line = (history + 4) * 96 * 2, rolled = (history + 3) * 96 * 2;
  EXPECT_EQ(r["per_layer"]["line"], 0);
  EXPECT_EQ(r["short_conv"]["history"], history);
  EXPECT_EQ(r["short_conv"]["line"], line);
  EXPECT_EQ(r["short_conv"]["line_with_snapshots"], rolled);
  const long long page = 5 * (state + records) + 2 * line, snapshots = 5 * 4 * state + 2 * rolled;
  EXPECT_EQ(r["per_request"]["recoverssm"], page);
  EXPECT_EQ(r["per_request"]["snapshots"], snapshots);
  EXPECT_EQ(r["align"]["recoverssm"], 4 * page);
  EXPECT_EQ(r["align"]["snapshots"], snapshots + 3 * (5 * state + 2 * rolled));
  EXPECT_EQ(r["all_requests"]["recoverssm"], 8 * page);
  const json alone = report("--short-conv 96");
  EXPECT_EQ(alone["layers"], 0);
  EXPECT_EQ(alone["per_request"]["recoverssm"], (3 + 3) * 96 * 2);
}

TEST(Sizes, Configs) {
  const json next = report(config("qwen3_next"));
  EXPECT_EQ(next["model"], "Qwen3NextForCausalLM");
  EXPECT_EQ(next["layers"], 9);  // every fourth of 12 is full attention
  EXPECT_EQ(next["all_layers"], 12);
  EXPECT_EQ(next["geometry"]["gate"], "gdn");
  EXPECT_EQ(next["per_layer"]["state"], 32 * 128 * 128 * 4);
  EXPECT_EQ(next["geometry"]["W"], 4);
  EXPECT_EQ(next["geometry"]["H"], 16);
  const json nested = report(config("qwen3_5") + " --window 2");
  EXPECT_EQ(nested["layers"], 2);  // counted in layer_types
  EXPECT_EQ(nested["geometry"]["HV"], 6);
  EXPECT_EQ(nested["geometry"]["V"], 96);
  EXPECT_EQ(nested["per_layer"]["records"], 6 * 2 * (96 + 64 + 1) * 4);
  const json kimi = report(config("kimi_linear"));
  EXPECT_EQ(kimi["layers"], 3);
  EXPECT_EQ(kimi["geometry"]["gate"], "kda");
  EXPECT_EQ(kimi["geometry"]["H"], 8);
  EXPECT_EQ(kimi["geometry"]["channels"], 0);  // 3*8*128 by the rule
  EXPECT_EQ(kimi["per_layer"]["line"], (4 - 1 + 3) * 3 * 8 * 128 * 2);
}

TEST(Sizes, ConfigsThatAreNone) {
  const Outcome unknown = sizes(config("llama"));
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.out.find("architecture LlamaForCausalLM: no gated delta rule settings found. Known: Qwen3-Next"),
            std::string::npos)
      << unknown.out;
  const Outcome part = sizes(config("incomplete"));
  EXPECT_EQ(part.code, 2);
  EXPECT_NE(part.out.find("config: linear_value_head_dim: missing"), std::string::npos) << part.out;
  const Outcome wrong = sizes(config("wrong_type"));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.out.find("config: linear_attn_config.num_heads: got \"eight\", expected a whole number from 1 to 2147483647"),
            std::string::npos)
      << wrong.out;
  EXPECT_EQ(sizes("--config /nowhere/config.json").code, 2);
  EXPECT_EQ(sizes(fmt::format("--config {}/README.md", RECOVERSSM_SOURCE_DIR)).code, 2);
}

TEST(Sizes, ConfigsWithWrongValues) {
  const std::string path = fmt::format("{}/recoverssm_config_{}.json", std::filesystem::temp_directory_path().string(), ::getpid());
  std::ifstream good(fmt::format("{}/tests/check/configs/qwen3_next.json", RECOVERSSM_SOURCE_DIR));
  const json base = json::parse(good);
  const std::tuple<const char*, json, const char*> wrong[] = {
      {"layer_types", 5, "layer_types: got 5, expected a list of names"},
      {"layer_types", {1, 2}, "layer_types: got 1, expected names only"},
      {"architectures", 7, "architectures: got 7, expected a list of names"},
      {"architectures", json::array({3}), "architectures: got 3, expected names only"},
      {"text_config", "x", "text_config: got \"x\", expected an object"},
      {"linear_num_key_heads", 0, "linear_num_key_heads: got 0, expected a whole number from 1 to 2147483647"},
      {"linear_num_value_heads", 2147483648LL,
       "linear_num_value_heads: got 2147483648, expected a whole number from 1 to 2147483647"},
      {"linear_num_value_heads", 17, "HV"},
  };
  for (const auto& [key, value, message] : wrong) {
    json config = base;
    config[key] = value;
    std::ofstream(path) << config;
    const Outcome outcome = sizes("--config " + path);
    EXPECT_EQ(outcome.code, 2) << key;
    EXPECT_NE(outcome.out.find(message), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find(path), std::string::npos) << outcome.out;
  }
  std::filesystem::remove(path);
  const Outcome directory = sizes(fmt::format("--config {}/tests", RECOVERSSM_SOURCE_DIR));
  EXPECT_EQ(directory.code, 2);
  EXPECT_NE(directory.out.find("/tests: a directory"), std::string::npos) << directory.out;
}

TEST(Sizes, RefusesWhatDoesNotFitIn64Bits) {
  const std::string small = "--heads 1 --value-heads 1 --k 1 --v 1 ";
  for (const char* huge : {"--requests 2147483647 --align-blocks 2147483647 --layers 2147483647",
                           "--requests 2147483647 --align-blocks 2147483647 --layers 2147483647 --json -",
                           "--window 2147483647 --requests 2147483647 --layers 2147483647"}) {
    const Outcome outcome = sizes(small + huge);
    EXPECT_EQ(outcome.code, 64) << huge;
    EXPECT_NE(outcome.out.find("more bytes than fit in 64 bits"), std::string::npos) << outcome.out;
  }
  const Outcome conv = sizes("--short-conv 10 --short-conv-taps 2147483647 --short-conv-dilation 2147483647");
  EXPECT_EQ(conv.code, 64);
  EXPECT_NE(conv.out.find("4611686011984936963 positions, expected at most 2147483647"), std::string::npos) << conv.out;
  // The most blocks there can be are no overflow by themselves.
  EXPECT_EQ(report(small + "--taps 0 --align-blocks 2147483647")["align"]["recoverssm"], 2147483648LL * (4 + 4 * 3 * 4));
}

TEST(Sizes, WrongCommandLines) {
  EXPECT_EQ(sizes("").code, 64);
  EXPECT_NE(sizes("").out.find("give --config, or a geometry"), std::string::npos);
  EXPECT_EQ(sizes("--heads 3 --value-heads 4 --k 2 --v 2").code, 64);
  EXPECT_EQ(sizes("--heads 0").code, 64);
  EXPECT_EQ(sizes("--heads 2").code, 64);
  EXPECT_EQ(sizes(config("qwen3_next") + " --heads 2").code, 64);
  EXPECT_EQ(sizes("--heads 1 --value-heads 1 --k 2 --v 2 --line bent").code, 64);
  EXPECT_EQ(sizes("--heads 1 --value-heads 1 --k 2 --v 2 --json /nowhere/at/all").code, 74);
}

TEST(Sizes, Table) {
  const Outcome text = sizes("--heads 16 --value-heads 48 --k 128 --v 128");
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(text.out.find("state                             3.00 MiB     12.00 MiB     4.00 x"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("records                         192.75 KiB           0 B\n"), std::string::npos) << text.out;
}

}  // namespace
