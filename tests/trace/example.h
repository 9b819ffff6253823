// A small trace to bend: one commit_plan call over int32 buffers, and helpers that make files of documents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "trace/document.h"
#include "trace/replay.h"
#include "trace/safetensors.h"

namespace recoverssm::trace::test {

using nlohmann::json;

// A document and its tensors, before they are a file.
struct Example {
  json document;
  std::map<std::string, Tensor> tensors;
  std::shared_ptr<std::deque<std::vector<std::byte>>> storage = std::make_shared<std::deque<std::vector<std::byte>>>();

  template <class T>
  void add_tensor(const std::string& name, DType dtype, std::vector<std::int64_t> shape, const std::vector<T>& values) {
    std::vector<std::byte> bytes(values.size() * sizeof(T));
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    storage->push_back(std::move(bytes));
    tensors[name] = Tensor{dtype, std::move(shape), storage->back()};
  }

  std::vector<std::byte> bytes() const {
    return safetensors_bytes({{kVersionKey, kVersion}, {kDocumentKey, document.dump()}}, tensors);
  }
};

// A seed for one run of a randomised test, told before anything can crash. RECOVERSSM_TEST_SEED=N repeats a run.
inline unsigned announced_seed() {
  const char* given = std::getenv("RECOVERSSM_TEST_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
  std::printf("RECOVERSSM_TEST_SEED=%u\n", seed);
  std::fflush(stdout);
  return seed;
}

inline json vector_view(const std::string& buffer, std::int64_t n) {
  return {{"buffer", buffer}, {"offset", 0}, {"shape", {n}}, {"strides", {1}}};
}

// Two windows of 3 and 2 tokens in blocks 1 and 2, of which 2 and 1 were accepted.
inline Example plan_example() {
  Example e;
  e.add_tensor<std::int32_t>("counts.init", DType::i32, {2}, {2, 1});
  e.add_tensor<std::int32_t>("offsets.init", DType::i32, {3}, {0, 3, 5});
  e.add_tensor<std::int32_t>("blocks.init", DType::i32, {2}, {1, 2});
  e.add_tensor<std::int32_t>("want.commit_len", DType::i32, {2}, {2, 1});
  const auto filled = [](std::int64_t n) { return json{{"dtype", "I32"}, {"elements", n}, {"init", {{"bytes", 255}}}}; };
  e.document = {{"name", "plan example"},
                {"description", "one plan"},
                {"source", "tests/trace"},
                {"geometry", {{"S", 4}}},
                {"buffers",
                 {{"counts", {{"dtype", "I32"}, {"elements", 2}, {"init", "counts.init"}}},
                  {"offsets", {{"dtype", "I32"}, {"elements", 3}, {"init", "offsets.init"}}},
                  {"blocks", {{"dtype", "I32"}, {"elements", 2}, {"init", "blocks.init"}}},
                  {"commit_len", filled(2)},
                  {"final", filled(2)},
                  {"boundary", filled(2)},
                  {"boundary_len", filled(2)}}},
                {"calls",
                 {{{"id", "plan"},
                   {"op", "commit_plan"},
                   {"args",
                    {{"num_accepted", vector_view("counts", 2)},
                     {"query_start_loc", vector_view("offsets", 3)},
                     {"state_indices", vector_view("blocks", 2)},
                     {"window_capacity", 4},
                     {"request_index", nullptr},
                     {"block_table", nullptr},
                     {"num_computed", nullptr},
                     {"block_size", nullptr},
                     {"commit_len", vector_view("commit_len", 2)},
                     {"final_indices", vector_view("final", 2)},
                     {"boundary_indices", vector_view("boundary", 2)},
                     {"boundary_len", vector_view("boundary_len", 2)}}},
                   {"expect",
                    {{{"view", vector_view("commit_len", 2)}, {"tensor", "want.commit_len"}, {"match", "bits"}},
                     {{"view", vector_view("final", 2)}, {"same_as", vector_view("blocks", 2)}},
                     {{"view", vector_view("boundary", 2)}, {"fill", 0}},
                     {{"view", vector_view("counts", 2)}, {"unchanged_since", "start"}}}},
                   {"error", nullptr}}}},
                {"finally", {{{"view", vector_view("commit_len", 2)}, {"unchanged_since", "plan"}}}}};
  return e;
}

inline json& call(Example& e, std::size_t i = 0) { return e.document["calls"][i]; }

inline SafetensorsFile parse_bytes(const std::vector<std::byte>& bytes) {
  auto copy = std::make_unique_for_overwrite<std::byte[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), copy.get());
  return SafetensorsFile::parse(std::move(copy), bytes.size());
}

inline Trace parse(const Example& e) { return parse_trace(parse_bytes(e.bytes())); }

inline ReplayResult replay(const Example& e, ReplayOptions options = {}) { return Replayer(std::move(options)).replay(parse(e)); }

// Why it is no trace; empty if it is one.
inline std::string reason(const std::vector<std::byte>& bytes) {
  try {
    parse_trace(parse_bytes(bytes));
  } catch (const Malformed& error) {
    return error.what();
  }
  return "";
}

// A safetensors file with this header text and data.
inline std::vector<std::byte> raw_file(const std::string& header, std::size_t data_bytes = 0, std::int64_t header_size = -1) {
  const auto size = static_cast<std::uint64_t>(header_size < 0 ? static_cast<std::int64_t>(header.size()) : header_size);
  std::vector<std::byte> bytes(8 + header.size() + data_bytes);
  std::memcpy(bytes.data(), &size, sizeof size);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  return bytes;
}

}  // namespace recoverssm::trace::test
