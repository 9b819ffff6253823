// Makes what `recoverssm check` compares with (scripts/make_golden runs it):
//
//   recoverssm_make_golden traces FOLDER TRACE...   copies of traces into FOLDER, every tolerance replaced by the bits that the portable
//                                                   target gives once it is within that tolerance
//   recoverssm_make_golden functions                the table of src/check/functions.inc, on stdout
//
// The traces' tolerances come from an independent float64 reference; that the bits within them are the contract's is what
// tests/canonical shows. A tensor with a NaN keeps its tolerance: a NaN's payload is not promised.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "arithmetic/gates.h"
#include "check/material.h"
#include "check/tensor.h"
#include "trace/binding.h"
#include "trace/compare.h"
#include "trace/document.h"
#include "trace/json.h"

namespace {

using namespace recoverssm;
using nlohmann::json;

class GoldenMaker {
 public:
  explicit GoldenMaker(const std::string& path) : trace_(trace::read_trace(path)) {
    json_ = json::parse(trace_.file.metadata().at(trace::kDocumentKey));
    for (const auto& [name, tensor] : trace_.file.tensors()) tensors_[name] = tensor;
  }

  void write(const std::string& path) {
    for (const trace::BufferSpec& buffer : trace_.document.buffers) memory_.push_back(contents_of(buffer));
    Context context;
    context.target = Target::portable;
    for (std::size_t i = 0; i < trace_.document.calls.size(); ++i) {
      const trace::Call& call = trace_.document.calls[i];
      const trace::BoundCall bound = trace::bind(call, [&](std::int32_t b) { return memory_[static_cast<std::size_t>(b)].data(); });
      const Status status = trace::run(bound, context.launch(trace::workspace_size(bound, context.launch())));
      if (status.ok() == call.error.has_value()) throw std::runtime_error(fmt::format("{}: {}", call.id, status.message));
      replace(fmt::format("{}", i), call.expectations, json_["calls"][i]["expect"]);
    }
    replace("finally", trace_.document.finally, json_["finally"]);
    json_["description"] = fmt::format("golden bits of: {}", trace_.document.description);
    json_["source"] =
        fmt::format("{}; tolerances replaced by the bits of recoverssm {}'s portable target", trace_.document.source, version());
    json_["mode"] = "exact";
    drop_unused();
    trace::write_file(
        path, trace::safetensors_bytes({{trace::kVersionKey, trace::kVersion}, {trace::kDocumentKey, json_.dump()}}, tensors_));
    fmt::print("{}: {} expectations now to the bit, {} with NaN left\n", std::filesystem::path(path).filename().string(), replaced_,
               left_);
  }

 private:
  static std::vector<std::byte> contents_of(const trace::BufferSpec& buffer) {
    std::vector<std::byte> bytes(buffer.bytes());
    const auto size = static_cast<std::size_t>(size_of(buffer.dtype));
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      std::memcpy(bytes.data() + at, buffer.init != nullptr ? buffer.init->bytes.data() + at : buffer.fill.data(), size);
    }
    return bytes;
  }

  std::vector<std::byte> gather(const trace::View& view) const {
    const std::byte* base = memory_[static_cast<std::size_t>(view.buffer)].data();
    const std::int64_t size = size_of(view.dtype);
    std::vector<std::byte> dense(static_cast<std::size_t>(view.elements * size));
    for (std::int64_t i = 0; i < view.elements; ++i) {
      std::int64_t rest = i, at = view.offset;
      for (std::size_t d = view.shape.size(); d-- > 0;) {
        at += rest % view.shape[d] * view.strides[d];
        rest /= view.shape[d];
      }
      std::memcpy(dense.data() + i * size, base + at * size, static_cast<std::size_t>(size));
    }
    return dense;
  }

  void replace(const std::string& call, const std::vector<trace::Expectation>& expectations, json& texts) {
    for (std::size_t e = 0; e < expectations.size(); ++e) {
      const trace::Expectation& expectation = expectations[e];
      if (expectation.kind != trace::Expectation::Kind::tolerance) continue;
      const trace::Finding finding =
          trace::check_tolerance(expectation.view, memory_[static_cast<std::size_t>(expectation.view.buffer)].data(),
                                 expectation.tensor->bytes.data(), expectation.rtol, expectation.atol);
      if (!finding.holds) throw std::runtime_error(fmt::format("call {}: {}", call, finding.detail));
      std::vector<std::byte> bits = gather(expectation.view);
      bool has_nan = false;
      for (std::size_t at = 0; at < bits.size(); at += static_cast<std::size_t>(size_of(expectation.view.dtype))) {
        has_nan = has_nan || std::isnan(trace::value_of(expectation.view.dtype, bits.data() + at));
      }
      if (has_nan) {
        ++left_;
        continue;
      }
      const std::string name = fmt::format("golden.{}.{}", call, e);
      bits_.push_back(std::make_unique<std::vector<std::byte>>(std::move(bits)));
      tensors_[name] = {expectation.view.dtype, expectation.view.shape, *bits_.back()};
      texts[e]["tensor"] = name;
      texts[e]["match"] = "bits";
      ++replaced_;
    }
  }

  // Tensors that only the replaced expectations named.
  void drop_unused() {
    std::set<std::string> used;
    const auto look = [&](const json& expectations) {
      for (const json& e : expectations) {
        if (e.contains("tensor")) used.insert(e["tensor"].get<std::string>());
      }
    };
    for (const json& call : json_["calls"]) {
      if (call.contains("expect")) look(call["expect"]);
    }
    look(json_["finally"]);
    for (const auto& [name, buffer] : json_["buffers"].items()) {
      if (buffer.contains("init") && buffer["init"].is_string()) used.insert(buffer["init"].get<std::string>());
    }
    std::erase_if(tensors_, [&](const auto& entry) { return !used.contains(entry.first); });
  }

  trace::Trace trace_;
  json json_;
  std::vector<std::vector<std::byte>> memory_;
  std::map<std::string, trace::Tensor> tensors_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> bits_;
  int replaced_ = 0, left_ = 0;
};

// Special values, edges, and numbers of every size.
std::vector<float> arguments() {
  constexpr float kMax = std::numeric_limits<float>::max(), kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> x{0.0F,
                       -0.0F,
                       1.0F,
                       -1.0F,
                       kMax,
                       -kMax,
                       kInfinity,
                       -kInfinity,
                       std::numeric_limits<float>::quiet_NaN(),
                       0x1p-149F,
                       -0x1p-149F,
                       0x1p-126F,
                       -0x1p-126F,
                       1e-40F,
                       -1e-40F,
                       0x1p-24F,
                       -0x1p-24F,
                       0x1p-25F,
                       std::nextafter(1.0F, 0.0F),
                       std::nextafter(1.0F, 2.0F),
                       0x1.6a09e6p+0F,
                       0x1.6a09e8p+0F,
                       0x1.6a09e6p-1F,
                       0x1.6a09e8p-1F,
                       88.72283F,
                       std::nextafter(88.72283F, 100.0F),
                       89.0F,
                       -87.33655F,
                       -87.4F,
                       -103.9F,
                       -103.98F,
                       -104.0F,
                       -104.01F,
                       19.999F,
                       20.0F,
                       20.001F,
                       19.75F,
                       19.7500019F};
  check::Random random(61);
  for (int i = 0; i < 60; ++i) x.push_back(random.uniform(16.0F) + random.uniform(0x1p-9F));
  for (int i = 0; i < 40; ++i) x.push_back(random.uniform(128.0F) + random.uniform(0x1p-6F));
  for (int i = 0; i < 40; ++i) x.push_back(random.wide(-30, 6));
  for (int i = 0; i < 40; ++i) x.push_back(std::fabs(random.wide(-126, 127)));
  return x;
}

void print_functions() {
  using namespace arithmetic;
  fmt::print("// Made by scripts/make_golden from src/arithmetic. x, exp, log, sigmoid, silu, GDN decay, bounded KDA decay.\n");
  for (const float x : arguments()) {
    const auto bits = [](float y) { return std::isnan(y) ? 0x7fc00000U : bits_of(y); };
    fmt::print("{{{:#010x}, {:#010x}, {:#010x}, {:#010x}, {:#010x}, {:#010x}, {:#010x}}},\n", bits(x), bits(exp_f32(x)),
               bits(log_f32(x)), bits(sigmoid(x)), bits(silu(x)), bits(gdn_decay(x, check::kDtBias, check::kALog, 1, 20)),
               bits(kda_decay_bounded(x + check::kDtBias, exp_f32(check::kALog), check::kLowerBound)));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 1 && words[0] == "functions") {
    print_functions();
    return 0;
  }
  if (words.size() < 3 || words[0] != "traces") {
    fmt::print(stderr, "usage: recoverssm_make_golden traces FOLDER TRACE... | functions\n");
    return 64;
  }
  try {
    for (std::size_t i = 2; i < words.size(); ++i) {
      GoldenMaker(words[i]).write(std::filesystem::path(words[1]) / std::filesystem::path(words[i]).filename());
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "recoverssm_make_golden: {}\n", error.what());
    return 1;
  }
  return 0;
}
