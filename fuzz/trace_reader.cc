// Bytes into the reader of traces, as `recoverssm replay` does it: safetensors, document, arguments bound to operations. What it takes
// for a trace is then asked of each operation: shapes, support, workspace. No buffer is allocated and nothing runs, so that a few bytes
// cannot ask for gigabytes or hours; tests/trace/hostile_test.cc runs bent traces.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "trace/binding.h"
#include "trace/document.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using namespace recoverssm;
using nlohmann::json;

void ask(const trace::Document& document) {
  const trace::Locate nowhere = [](std::int32_t) { return static_cast<std::byte*>(nullptr); };
  for (const trace::Call& call : document.calls) {
    const trace::BoundCall bound = trace::bind(call, nowhere);
    if (!bound.refusal.ok()) continue;
    const Launch launch;
    std::visit(
        [&](const auto& params) {
          if (validate(params).ok() && query_support(params).supported) (void)trace::workspace_size(bound, launch);
        },
        bound.params);
  }
}

std::uint64_t header_size(const std::uint8_t* data) {
  std::uint64_t size = 0;
  std::memcpy(&size, data, sizeof size);
  return size;
}

// Changes `text` by libFuzzer's own means, to at most `most` bytes.
void mutate(std::string& text, std::size_t most) {
  const std::size_t size = std::min(text.size(), most);
  text.resize(std::max(most, size));
  text.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(text.data()), size, text.size()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto bytes = std::make_unique<std::byte[]>(size);
  std::copy_n(reinterpret_cast<const std::byte*>(data), size, bytes.get());
  try {
    ask(trace::parse_trace(trace::SafetensorsFile::parse(std::move(bytes), size)).document);
  } catch (const trace::Malformed&) {
  }
  return 0;
}

// A plain mutation rarely keeps the header's length right. So, one time in four each: the bytes as they are; the header, with its length
// put right; the document alone, put back into the header; one number of the document.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed) {
  constexpr std::size_t kLength = sizeof(std::uint64_t);
  if (seed % 4 == 0 || size < kLength || header_size(data) > size - kLength) return LLVMFuzzerMutate(data, size, max_size);
  const auto* begin = reinterpret_cast<const char*>(data) + kLength;
  std::string header(begin, begin + header_size(data));
  const std::string contents(begin + header.size(), reinterpret_cast<const char*>(data) + size);
  if (kLength + contents.size() >= max_size) return LLVMFuzzerMutate(data, size, max_size);
  const std::size_t most = max_size - kLength - contents.size();
  json parsed = json::parse(header, nullptr, false);
  json* document = nullptr;
  if (parsed.is_object() && parsed.contains("__metadata__") && parsed["__metadata__"].is_object()) {
    json& metadata = parsed["__metadata__"];
    if (metadata.contains("document") && metadata["document"].is_string()) document = &metadata["document"];
  }
  if (seed % 4 == 1 || document == nullptr) {
    mutate(header, most);
  } else {
    auto text = document->get<std::string>();
    json call_tree = seed % 4 == 3 ? json::parse(text, nullptr, false) : json();
    std::vector<json::json_pointer> numbers;
    if (call_tree.is_structured()) {
      const json flat = call_tree.flatten();
      for (const auto& item : flat.items()) {
        if (item.value().is_number_integer()) numbers.emplace_back(item.key());
      }
    }
    if (numbers.empty()) {
      mutate(text, most);
    } else {
      json& number = call_tree[numbers[seed / 4 % numbers.size()]];
      std::int64_t value = number.get<std::int64_t>();
      LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(&value), sizeof value, sizeof value);
      number = value;
      text = call_tree.dump(-1, ' ', false, json::error_handler_t::replace);
    }
    *document = text;
    header = parsed.dump(-1, ' ', false, json::error_handler_t::replace);
  }
  if (header.size() > most) return LLVMFuzzerMutate(data, size, max_size);
  const std::uint64_t length = header.size();
  std::memcpy(data, &length, kLength);
  std::copy(header.begin(), header.end(), reinterpret_cast<char*>(data) + kLength);
  std::copy(contents.begin(), contents.end(), reinterpret_cast<char*>(data) + kLength + header.size());
  return kLength + header.size() + contents.size();
}
