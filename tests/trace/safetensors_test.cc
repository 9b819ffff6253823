// The safetensors reader and writer, hostile files included.
#include "trace/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <random>
#include <tuple>

#include "trace/example.h"

namespace recoverssm::trace::test {
namespace {

TEST(Safetensors, RoundTripKeepsDtypesShapesAndBits) {
  Example e;
  e.add_tensor<std::uint32_t>("nan", DType::f32, {3}, {0x7fc12345U, 0x80000000U, 1U});  // NaN payload, -0, subnormal
  e.add_tensor<std::uint16_t>("half", DType::bf16, {1, 2}, {0x8000U, 0x0001U});
  e.add_tensor<std::int64_t>("wide", DType::i64, {1}, {INT64_MIN});
  e.add_tensor<std::uint8_t>("flags", DType::boolean, {3}, {0, 1, 1});
  e.add_tensor<double>("empty", DType::f64, {0, 5}, {});
  e.add_tensor<std::int32_t>("scalar", DType::i32, {}, {7});
  const SafetensorsFile file = parse_bytes(safetensors_bytes({{"key", "value \"quoted\""}}, e.tensors));
  EXPECT_EQ(file.metadata().at("key"), "value \"quoted\"");
  ASSERT_EQ(file.tensors().size(), e.tensors.size());
  for (const auto& [name, want] : e.tensors) {
    const Tensor* got = file.find(name);
    ASSERT_NE(got, nullptr) << name;
    EXPECT_EQ(got->dtype, want.dtype) << name;
    EXPECT_EQ(got->shape, want.shape) << name;
    ASSERT_EQ(got->bytes.size(), want.bytes.size()) << name;
    EXPECT_TRUE(std::equal(got->bytes.begin(), got->bytes.end(), want.bytes.begin())) << name;
  }
}

TEST(Safetensors, WriterAlignsEveryTensorInTheFile) {
  Example e;
  e.add_tensor<std::uint8_t>("a", DType::u8, {3}, {1, 2, 3});
  e.add_tensor<double>("b", DType::f64, {1}, {1.0});
  e.add_tensor<std::uint16_t>("c", DType::f16, {1}, {1});
  const std::vector<std::byte> bytes = safetensors_bytes({}, e.tensors);
  std::uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  EXPECT_EQ(header_size % 8, 0U);
  const json header =
      json::parse(reinterpret_cast<const char*>(bytes.data()) + 8, reinterpret_cast<const char*>(bytes.data()) + 8 + header_size);
  for (const auto& [name, tensor] : e.tensors) {
    EXPECT_EQ(header[name]["data_offsets"][0].get<std::int64_t>() % size_of(tensor.dtype), 0) << name;
  }
}

std::string reason_of(const std::vector<std::byte>& bytes) {
  try {
    parse_bytes(bytes);
  } catch (const Malformed& error) {
    return error.what();
  }
  return "";
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

TEST(Safetensors, EveryKindOfDamageHasAReason) {
  struct Case {
    const char* reason;
    std::vector<std::byte> file;
  };
  const std::string good = entry("\"F32\"", "[2]", "[0,8]");
  const auto one = [](const std::string& e, std::size_t data) { return raw_file(R"({"t":)" + e + "}", data); };
  const auto two = [](const std::string& x, const std::string& y, std::size_t data) {
    return raw_file(R"({"x":)" + x + R"(,"y":)" + y + "}", data);
  };
  std::string deep = "{\"t\":";
  for (int i = 0; i < 100000; ++i) deep += "[";
  const Case cases[] = {
      {"at least 8", {}},
      {"at least 8", std::vector<std::byte>(7)},
      {"does not begin with {", raw_file("")},
      {"does not begin with {", raw_file("[]")},
      {"does not begin with {", raw_file(" {}")},
      {"header of 100000001 bytes", raw_file("{}", 0, 100'000'001)},
      {"header of 18446744073709551615 bytes",
       [] {
         auto bytes = raw_file("{}");
         std::fill_n(bytes.begin(), 8, std::byte{0xFF});
         return bytes;
       }()},
      {"header of 3 bytes in a file of 10", raw_file("{}", 0, 3)},
      {"parse error", raw_file("{\"t\"")},
      {"parse error", raw_file("{}x")},
      {"parse error", raw_file("{\"\xff\":1}")},
      {"number overflow", raw_file("{\"t\":1e999}")},
      {"nested more than 64", raw_file(deep)},
      {"\"t\" twice", raw_file(R"({"t":)" + good + R"(,"t":)" + good + "}", 8)},
      {"\"dtype\" twice", raw_file(R"({"t":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8)},
      {"__metadata__: expected an object", raw_file(R"({"__metadata__":[]})")},
      {"__metadata__.k: number, expected a string", raw_file(R"({"__metadata__":{"k":1}})")},
      {"expected an object", one("3", 0)},
      {"\"dtype\" is missing", one(R"({"shape":[2],"data_offsets":[0,8]})", 8)},
      {"unknown name \"extra\"", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"extra":1})", 8)},
      {"dtype F8_E4M3", one(entry("\"F8_E4M3\"", "[2]", "[0,2]"), 2)},
      {"dtype: number, expected a string", one(entry("32", "[2]", "[0,8]"), 8)},
      {"shape: number, expected a list", one(entry("\"F32\"", "2", "[0,8]"), 8)},
      {"shape: -1, expected 0..", one(entry("\"F32\"", "[-1]", "[0,8]"), 8)},
      {"shape: 2.0, expected an integer", one(entry("\"F32\"", "[2.0]", "[0,8]"), 8)},
      {"shape: 18446744073709551615, expected an integer", one(entry("\"F32\"", "[18446744073709551615]", "[0,8]"), 8)},
      {"more than 17179869184 elements", one(entry("\"F32\"", "[4611686018427387905,4]", "[0,16]"), 16)},
      {"more than 17179869184 elements", one(entry("\"U8\"", "[4294967296,4294967296]", "[0,0]"), 0)},
      {"more than 17179869184 elements", one(entry("\"U8\"", "[4294967296,4294967296,0]", "[0,0]"), 0)},
      {"1 data_offsets, expected 2", one(entry("\"F32\"", "[2]", "[8]"), 8)},
      {"data_offsets: 16, expected 0..8", one(entry("\"F32\"", "[4]", "[0,16]"), 8)},
      {"data_offsets: -8, expected 0..8", one(entry("\"F32\"", "[2]", "[-8,0]"), 8)},
      {"data_offsets [8, 0], expected 8 bytes", one(entry("\"F32\"", "[2]", "[8,0]"), 8)},
      {"data_offsets [0, 7], expected 8 bytes", one(entry("\"F32\"", "[2]", "[0,7]"), 7)},
      {"tensors overlap", two(good, entry("\"F32\"", "[2]", "[4,12]"), 12)},
      {"tensors overlap", two(good, good, 8)},
      {"a hole before it", two(good, entry("\"F32\"", "[1]", "[12,16]"), 16)},
      {"a hole before it", one(entry("\"F32\"", "[1]", "[4,8]"), 8)},
      {"the file has 12 bytes of data, its tensors 8", one(good, 12)},
  };
  for (const Case& c : cases) {
    const std::string got = reason_of(c.file);
    EXPECT_NE(got.find(c.reason), std::string::npos) << "wanted: " << c.reason << "\ngot: " << got;
  }
}

TEST(Safetensors, TruncatedAtEveryByte) {
  const std::vector<std::byte> bytes = plan_example().bytes();
  ASSERT_EQ(reason(bytes), "");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(reason({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}), "") << size;
  }
  std::vector<std::byte> longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_NE(reason(longer), "");
}

// A damaged file is refused with a reason, or is still a trace; then it may be replayed. It never crashes.
TEST(Safetensors, RandomDamageNeverCrashes) {
  const std::vector<std::byte> good = plan_example().bytes();
  const unsigned seed = announced_seed();
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  Replayer replayer({});
  int refused = 0, replayed = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> bytes = good;
    for (std::size_t flips = 1 + below(3); flips-- > 0;) {
      std::byte& target = bytes[below(bytes.size())];
      switch (below(3)) {
        case 0:
          target ^= static_cast<std::byte>(1U << below(8));
          break;
        case 1:
          target = static_cast<std::byte>(below(256));
          break;
        default:
          target = static_cast<std::byte>("0123456789-.e[]{}\",:"[below(20)]);
          break;
      }
    }
    try {
      const Trace trace = parse_trace(parse_bytes(bytes));
      replayer.replay(trace);
      ++replayed;
    } catch (const Malformed& error) {
      EXPECT_STRNE(error.what(), "") << "seed " << seed << " round " << round;
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(replayed, 0);
}

// The reader once took time quadratic in the number of names: hours for a header within the limits, seconds now.
TEST(Safetensors, ManyTensorsAreNoTrouble) {
  Example e;
  for (int i = 0; i < 200'000; ++i) e.add_tensor<std::uint8_t>(std::to_string(i), DType::u8, {0}, {});
  EXPECT_EQ(parse_bytes(safetensors_bytes({}, e.tensors)).tensors().size(), e.tensors.size());
}

TEST(Safetensors, FilesThatCannotBeRead) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("recoverssm_test_" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const auto reason_of_path = [](const std::string& path) -> std::string {
    try {
      SafetensorsFile::read(path);
    } catch (const Malformed& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(reason_of_path(folder / "none").find("cannot open"), std::string::npos);
  EXPECT_NE(reason_of_path(folder).find("not a regular file"), std::string::npos);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_NE(reason_of_path(folder / "pipe").find("not a regular file"), std::string::npos);
  EXPECT_NE(reason_of_path("/dev/zero").find("not a regular file"), std::string::npos);

  const std::string large = folder / "large";  // sparse
  std::FILE* file = std::fopen(large.c_str(), "w");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(::ftruncate(fileno(file), static_cast<off_t>(kMaxFileBytes) + 1), 0);
  std::fclose(file);
  EXPECT_NE(reason_of_path(large).find("are refused"), std::string::npos);

  const std::string good = folder / "good";
  write_file(good, plan_example().bytes());
  EXPECT_EQ(reason_of_path(good), "");
  EXPECT_THROW(write_file(folder / "none" / "file", plan_example().bytes()), Error);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace recoverssm::trace::test
