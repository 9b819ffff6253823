// Bundled traces with numbers of their documents and index tensors bent: the reader refuses them, an operation does, or they run. Nothing
// crashes, nothing is written outside a buffer, and a call that fails changes nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <random>

#include "trace/example.h"

namespace recoverssm::trace::test {
namespace {

constexpr int kTraces = 60;  // drawn at random
constexpr int kRounds = 15;  // damages of each

std::vector<std::string> small_traces() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(RECOVERSSM_SOURCE_DIR "/traces/synthetic")) {
    if (entry.path().string().ends_with(".rst.safetensors") && entry.file_size() < 60'000) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

class Bender {
 public:
  explicit Bender(unsigned seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }

  // Another value for an integer: a neighbour, or one of those that hurt.
  std::int64_t bent(std::int64_t n) {
    const std::int64_t values[] = {n - 1, n + 1,     n / 2,     2 * (n % (1 << 20)), -n,        0,         1,
                                   -1,    INT32_MAX, INT32_MIN, INT64_MAX,           INT64_MIN, 1LL << 32, 1LL << 62};
    return values[below(std::size(values))];
  }

  // Bends one number among the calls' arguments.
  void bend(json& document) {
    std::vector<json*> numbers;
    for (json& call : document["calls"]) collect(call["args"], numbers);
    if (numbers.empty()) return;
    json& number = *numbers[below(numbers.size())];
    number = bent(number.get<std::int64_t>());
  }

  // Bends one element of an int32 tensor: ids, offsets, counts.
  void bend(Example& e) {
    std::vector<Tensor*> tensors;
    for (auto& [name, tensor] : e.tensors) {
      if (tensor.dtype == DType::i32 && !tensor.bytes.empty()) tensors.push_back(&tensor);
    }
    if (tensors.empty()) return;
    Tensor& tensor = *tensors[below(tensors.size())];
    std::vector<std::byte> bytes(tensor.bytes.begin(), tensor.bytes.end());
    std::byte* element = bytes.data() + 4 * below(bytes.size() / 4);
    std::int32_t value = 0;
    std::memcpy(&value, element, sizeof value);
    value = static_cast<std::int32_t>(bent(value));
    std::memcpy(element, &value, sizeof value);
    e.storage->push_back(std::move(bytes));
    tensor.bytes = e.storage->back();
  }

 private:
  static void collect(json& value, std::vector<json*>& numbers) {
    if (value.is_number_integer()) numbers.push_back(&value);
    if (value.is_structured()) {
      for (json& item : value) collect(item, numbers);
    }
  }

  std::mt19937 random_;
};

TEST(Hostile, BentTracesNeverCrash) {
  const unsigned seed = announced_seed();
  Bender bender(seed);
  const std::vector<std::string> paths = small_traces();
  ASSERT_FALSE(paths.empty());
  ReplayOptions options;
  options.threads = 2;
  options.memory_limit = std::uint64_t{1} << 28;
  Replayer replayer(options);
  int refused = 0, failed = 0, held = 0;
  for (int t = 0; t < kTraces; ++t) {
    const std::string& path = paths[bender.below(paths.size())];
    const SafetensorsFile file = SafetensorsFile::read(path);
    const json document = json::parse(file.metadata().find(kDocumentKey)->second);
    for (int round = 0; round < kRounds; ++round) {
      Example e;
      e.document = document;
      for (const auto& [name, tensor] : file.tensors()) e.tensors.emplace(name, tensor);
      if (bender.below(2) == 0) {
        bender.bend(e.document);
      } else {
        bender.bend(e);
      }
      ReplayResult result;
      try {
        result = replayer.replay(parse(e));
      } catch (const Malformed&) {
        ++refused;
        continue;
      }
      ++(result.ok() ? held : failed);
      for (const Failure& failure : result.failed) {
        for (const char* fault : {"wrote outside", "failed, but changed"}) {
          EXPECT_EQ(failure.detail.find(fault), std::string::npos) << "seed " << seed << " " << path << ": " << failure.detail;
        }
      }
    }
  }
  std::printf("%d refused by the reader, %d failed, %d held\n", refused, failed, held);
  EXPECT_GT(refused, 0);
  EXPECT_GT(failed, 0);
}

}  // namespace
}  // namespace recoverssm::trace::test
