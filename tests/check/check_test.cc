// The self-test, tested: it passes here, and it fails when anything it looks at is wrong.
#include "check/check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "trace/binding.h"
#include "trace/document.h"

namespace recoverssm::check {
namespace {

Options quick() {
  Options options;
  options.targets = {Target::portable};
  options.threads = {1};
  return options;
}

trace::Trace parsed(std::span<const std::byte> file) {
  auto bytes = std::make_unique<std::byte[]>(file.size());
  std::copy(file.begin(), file.end(), bytes.get());
  return trace::parse_trace(trace::SafetensorsFile::parse(std::move(bytes), file.size()));
}

// A copy of the golden traces that may be damaged.
struct Copies {
  Copies() {
    for (GoldenTrace& golden : material.traces) {
      files.emplace_back(golden.bytes.begin(), golden.bytes.end());
      golden.bytes = files.back();
    }
  }
  Material material = embedded();
  std::list<std::vector<std::byte>> files;
};

TEST(Check, PassesOnEveryTargetWithOneAndFourThreads) {
  Options options;
  options.targets = available_targets();
  const std::vector<Result> results = run_checks(embedded(), options);
  const auto once = std::ranges::count_if(checks(), [](const Check& check) { return !check.every_target; });
  const auto each = static_cast<std::ptrdiff_t>(checks().size()) - once;
  EXPECT_EQ(std::ssize(results), once + each * std::ssize(options.targets));
  for (const Result& result : results) {
    EXPECT_TRUE(result.ok()) << result.check << ": " << result.report.failures.front();
    EXPECT_GT(result.report.compared, 0) << result.check;
  }
}

// One wrong bit in any single result is found: every comparison of every check gets its last element changed.
TEST(Check, EveryComparisonCanFail) {
  std::map<std::string, std::size_t> tampered;
  Material material = embedded();
  material.tamper = [&](const std::string& check, const std::string&, std::span<std::byte> result) {
    ++tampered[check];
    result.back() ^= std::byte{0x01};  // the last element's high byte: an exponent bit
  };
  for (const Result& result : run_checks(material, quick())) {
    if (result.check == "golden traces") continue;  // below
    EXPECT_EQ(result.report.failures.size(), tampered[result.check]) << result.check;
    EXPECT_GT(tampered[result.check], 0U) << result.check;
    for (const std::string& failure : result.report.failures) {
      EXPECT_NE(failure.find(": got "), std::string::npos) << failure;
      EXPECT_TRUE(failure.starts_with("portable, 1 threads: ")) << failure;
    }
  }
}

TEST(Check, FailureNamesElementAndBits) {
  Material material = embedded();
  material.tamper = [](const std::string&, const std::string& what, std::span<std::byte> result) {
    if (what == "fma") std::memset(result.data() + 2 * sizeof(float), 0, sizeof(float));
  };
  std::vector<std::string> failures;
  for (const Result& result : run_checks(material, quick())) {
    failures.insert(failures.end(), result.report.failures.begin(), result.report.failures.end());
  }
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_EQ(failures[0].substr(0, 48), "portable, 1 threads: fma: element 2: got 0 (0x00") << failures[0];
  EXPECT_NE(failures[0].find("want -1.4210855e-14 (0xa8800000); 1 of "), std::string::npos) << failures[0];
}

// A changed bit in an expected tensor of any golden trace.
TEST(Check, EveryGoldenTraceCanFail) {
  Copies copies;
  std::set<std::string> damaged;
  auto file = copies.files.begin();
  for (const GoldenTrace& golden : copies.material.traces) {
    std::vector<std::byte>& bytes = *file++;
    const trace::Trace trace = parsed(bytes);
    const std::byte* base = nullptr;  // the first byte of any tensor, to find the others by
    std::uint64_t total = 0;
    for (const auto& [name, tensor] : trace.file.tensors()) {
      if (base == nullptr || tensor.bytes.data() < base) base = tensor.bytes.data();
      total += tensor.bytes.size();
    }
    const auto damage = [&](const std::vector<trace::Expectation>& expectations) {
      for (const trace::Expectation& e : expectations) {
        if (e.kind != trace::Expectation::Kind::bits || e.tensor->bytes.empty()) continue;
        bytes[bytes.size() - total + static_cast<std::size_t>(e.tensor->bytes.data() - base)] ^= std::byte{0x10};
        damaged.insert(golden.name);
        return;
      }
    };
    for (const trace::Call& call : trace.document.calls) {
      if (!damaged.contains(golden.name)) damage(call.expectations);
    }
  }
  EXPECT_EQ(damaged.size(), copies.material.traces.size());
  for (const Result& result : run_checks(copies.material, quick())) {
    EXPECT_EQ(result.ok(), result.check != "golden traces") << result.check;
    if (result.check != "golden traces") continue;
    for (const std::string& name : damaged) {
      EXPECT_TRUE(std::ranges::any_of(result.report.failures, [&](const std::string& f) {
        return f.find(name + ": call ") != std::string::npos && f.find("got ") != std::string::npos;
      })) << name;
    }
  }
}

TEST(Check, UnreadableTraceFails) {
  Material material = embedded();
  material.traces[0].bytes = material.traces[0].bytes.first(100);
  for (const Result& result : run_checks(material, quick()))
    EXPECT_EQ(result.ok(), result.check != "golden traces") << result.check;
}

TEST(Check, WrongFunctionTableFails) {
  Material material = embedded();
  std::vector<FunctionRow> rows(material.functions.begin(), material.functions.end());
  for (const auto column :
       {&FunctionRow::exp, &FunctionRow::sigmoid, &FunctionRow::silu, &FunctionRow::decay, &FunctionRow::bounded}) {
    std::vector<FunctionRow> wrong = rows;
    wrong[3].*column ^= 1U;  // x = -1
    material.functions = wrong;
    for (const Result& result : run_checks(material, quick())) {
      if (result.check == "functions") {
        EXPECT_FALSE(result.ok());
      }
    }
  }
  rows[2].log ^= 1U;
  material.functions = rows;
  for (const Result& result : run_checks(material, quick()))
    EXPECT_EQ(result.ok(), result.check != "function table") << result.check;
}

// A check that compares nothing must not pass.
TEST(Check, NothingComparedFails) {
  Material material = embedded();
  material.traces.clear();
  for (const Result& result : run_checks(material, quick())) {
    if (result.check != "golden traces") continue;
    ASSERT_EQ(result.report.failures.size(), 1U);
    EXPECT_EQ(result.report.failures[0], "nothing was compared");
  }
}

TEST(Check, NansAreEqualZerosAreNot) {
  const auto bytes = [](const std::vector<std::uint32_t>& bits) { return std::as_bytes(std::span(bits)); };
  const std::vector<std::uint32_t> nan{0x7fc00000}, other{0xff800001}, zero{0}, negative{0x80000000};
  EXPECT_EQ(difference("x", DType::f32, bytes(nan), bytes(other)), "");
  EXPECT_EQ(difference("x", DType::f32, bytes(zero), bytes(negative)),
            "x: element 0: got 0 (0x00000000), want -0 (0x80000000); 1 of 1 differ");
  EXPECT_NE(difference("x", DType::i32, bytes(nan), bytes(other)), "");
  EXPECT_EQ(difference("x", DType::f32, bytes(zero), {}), "x: 4 bytes, want 0");
}

// The golden traces are the reference's traces in everything but how results are compared. Both are replayed by the bundled-trace
// tests: golden bits are thus within the reference's tolerances.
TEST(Golden, AreTheReferencesTraces) {
  for (const GoldenTrace& golden : embedded().traces) {
    const trace::Trace ours = parsed(golden.bytes);
    const trace::Trace theirs =
        trace::read_trace(fmt::format("{}/traces/synthetic/{}.rst.safetensors", RECOVERSSM_SOURCE_DIR, golden.name));
    const auto document = [](const trace::Trace& t) { return nlohmann::json::parse(t.file.metadata().at(trace::kDocumentKey)); };
    nlohmann::json a = document(ours), b = document(theirs);
    EXPECT_EQ(a["buffers"], b["buffers"]) << golden.name;
    for (nlohmann::json* json : {&a, &b}) {
      for (nlohmann::json& call : (*json)["calls"]) {
        for (nlohmann::json& expectation : call["expect"]) {
          expectation.erase("match");
          expectation.erase("tensor");
        }
      }
    }
    EXPECT_EQ(a["calls"], b["calls"]) << golden.name;
    for (const trace::BufferSpec& buffer : ours.document.buffers) {
      if (buffer.init == nullptr) continue;
      const std::string name = a["buffers"][buffer.name]["init"];
      ASSERT_NE(theirs.file.find(name), nullptr);
      EXPECT_TRUE(std::ranges::equal(buffer.init->bytes, theirs.file.find(name)->bytes)) << golden.name << " " << name;
    }
  }
}

// Every operation, both gates, every state dtype; and few expectations left that are not to the bit.
TEST(Golden, CoverTheContract) {
  std::set<std::string> operations, gates, states;
  int tolerances = 0, bits = 0;
  for (const GoldenTrace& golden : embedded().traces) {
    const trace::Trace trace = parsed(golden.bytes);
    for (const trace::Call& call : trace.document.calls) {
      operations.insert(call.op);
      for (const trace::Member& member : call.arguments) {
        if (const auto* text = std::get_if<std::string>(&member.argument.value); text != nullptr && member.name == "gate")
          gates.insert(*text);
        if (const auto* view = std::get_if<trace::View>(&member.argument.value); view != nullptr && member.name == "state") {
          states.insert(name_of(view->dtype));
        }
      }
      for (const trace::Expectation& e : call.expectations) {
        tolerances += e.kind == trace::Expectation::Kind::tolerance;
        bits += e.kind == trace::Expectation::Kind::bits;
      }
    }
  }
  const std::vector<std::string> all = trace::operation_names();
  EXPECT_EQ(operations, std::set<std::string>(all.begin(), all.end()));
  EXPECT_EQ(gates, (std::set<std::string>{"gdn", "kda"}));
  EXPECT_EQ(states, (std::set<std::string>{"bf16", "f16", "f32"}));
  EXPECT_GT(bits, 300);
  EXPECT_LE(tolerances, 4);  // tensors with a NaN
}

}  // namespace
}  // namespace recoverssm::check
