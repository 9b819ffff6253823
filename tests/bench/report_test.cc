// The fields that bench/docs/make.py and others read, on made-up figures.
#include "bench/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace recoverssm::bench {
namespace {

Report example() {
  Options options;
  options.ops = {"commit.in_place.gdn"};
  Report report;
  report.hardware.cpu = "a CPU";
  report.hardware.cores = 2;
  Ceilings ceilings;
  ceilings.read = {"read x", 2e9};
  ceilings.copy = ceilings.memcpy_ = {"memcpy", 1e9};
  ceilings.update = {"update x", 1.5e9};
  ceilings.issue[Target::portable] = 5e8;
  ceilings.all = {ceilings.read, ceilings.copy};
  report.ceilings.push_back(ceilings);
  Result result;
  result.job = jobs_of(options).at(0);
  result.target = Target::portable;
  result.seconds = {0.5, 0.25, 1};
  result.repetitions = 3;
  result.iterations = 7;
  result.counters.state_read = 300;
  result.counters.state_written = 200;
  result.share = share_of(Bound::copy, 500, 0, 0.5, limits_of(ceilings, Target::portable));
  report.results.push_back(result);
  result.skipped = "needs 9.0 GiB of data, more than --memory allows";
  result.seconds = {};
  result.share = {};
  report.results.push_back(result);
  return report;
}

// Cells of a CSV line; quotes around a cell keep its commas.
std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> all(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      all.emplace_back();
    } else if (c != '\n') {
      all.back() += c;
    }
  }
  return all;
}

std::string cell(const std::string& line, const std::string& column) {
  const std::vector<std::string> columns = cells(csv_header());
  const auto at = std::find(columns.begin(), columns.end(), column) - columns.begin();
  return cells(line).at(static_cast<std::size_t>(at));
}

TEST(BenchReport, JsonHasHardwareCeilingsAndResults) {
  const nlohmann::ordered_json json = to_json(example(), "recoverssm bench");
  EXPECT_EQ(json["format"], "recoverssm-bench");
  EXPECT_EQ(json["format_version"], 1);
  EXPECT_EQ(json["command"], "recoverssm bench");
  for (const char* field : {"library", "commit", "compiler", "date"})
    EXPECT_FALSE(json.at(field).get<std::string>().empty()) << field;
  EXPECT_EQ(json["hardware"]["cpu"], "a CPU");
  for (const char* field :
       {"cores", "l2_bytes", "last_level_bytes", "memory_bytes", "huge_pages", "governor", "kernel", "load_before"}) {
    EXPECT_TRUE(json["hardware"].contains(field)) << field;
  }
  const auto& ceilings = json.at("ceilings").at(0);
  EXPECT_EQ(ceilings["read"]["rate"], 2e9);
  EXPECT_EQ(ceilings["copy"]["kernel"], "memcpy");
  EXPECT_EQ(ceilings["issue_slots_per_second"]["portable"], 5e8);
  EXPECT_EQ(ceilings["kernels"].size(), 2U);
  const auto& result = json.at("results").at(0);
  EXPECT_EQ(result["case"], "commit.in_place.gdn");
  EXPECT_EQ(result["op"], "commit");
  EXPECT_EQ(result["gate"], "gdn");
  EXPECT_EQ(result["target"], "portable");
  EXPECT_EQ(result["size"], "beyond-cache");
  EXPECT_EQ(result["shape"]["layers"], 12);
  EXPECT_EQ(result["seconds"]["median"], 0.5);
  EXPECT_EQ(result["bytes"]["total"], 500);
  EXPECT_EQ(result["bytes_per_second"], 1000.0);
  EXPECT_EQ(result["limit"], "best copy");
  EXPECT_DOUBLE_EQ(result["share"].get<double>(), 1e-6);
  EXPECT_TRUE(result["skipped"].is_null());
  EXPECT_TRUE(json["results"][1]["seconds"]["median"].is_null());
  EXPECT_EQ(json["results"][1]["skipped"], "needs 9.0 GiB of data, more than --memory allows");
}

TEST(BenchReport, CsvLinesHaveTheHeadersCells) {
  const Report report = example();
  const std::size_t columns = cells(csv_header()).size();
  for (const Result& result : report.results) EXPECT_EQ(cells(csv_line(result)).size(), columns);
  const std::string line = csv_line(report.results[0]);
  EXPECT_EQ(cell(line, "case"), "commit.in_place.gdn");
  EXPECT_EQ(cell(line, "layers"), "12");
  EXPECT_EQ(cell(line, "median_s"), "0.5");
  EXPECT_EQ(cell(line, "bytes"), "500");
  EXPECT_EQ(cell(line, "bytes_per_s"), "1000");
  EXPECT_EQ(cell(line, "limit"), "best copy");
  EXPECT_EQ(cell(line, "share"), "1e-06");
  EXPECT_EQ(cell(line, "skipped"), "");
  EXPECT_EQ(cell(csv_line(report.results[1]), "median_s"), "");
  EXPECT_EQ(cell(csv_line(report.results[1]), "skipped"), "needs 9.0 GiB of data, more than --memory allows");
}

TEST(BenchReport, TableSaysWhatWasSkipped) {
  const Report report = example();
  EXPECT_NE(table_line(report.results[0]).find("500 ms"), std::string::npos) << table_line(report.results[0]);
  EXPECT_NE(table_line(report.results[1]).find("skipped: needs 9.0 GiB"), std::string::npos);
}

TEST(BenchReport, ADeviceIsNamedWithItsCeilings) {
  Report report = example();
  report.device = {"a device", "5, CUDA 13.0", "CUDA 13.0", "unknown", 132, std::size_t{60} << 20, std::size_t{140} << 30};
  Ceilings& ceilings = report.ceilings[0];
  ceilings.device_issue = 3e13;
  ceilings.launch_seconds = 5e-7;
  Result& result = report.results[0];
  result.backend = Backend::cuda;
  result.host_seconds = 2e-6;
  result.compared = "bits as the CPU's at 4 rows, 1 layers";
  const nlohmann::ordered_json json = to_json(report, "recoverssm bench");
  EXPECT_EQ(json["device"]["name"], "a device");
  EXPECT_EQ(json["device"]["driver"], "5, CUDA 13.0");
  EXPECT_EQ(json["ceilings"][0]["issue_slots_per_second"], 3e13);
  EXPECT_EQ(json["ceilings"][0]["launch_seconds"], 5e-7);
  EXPECT_EQ(json["results"][0]["target"], "cuda");
  EXPECT_EQ(json["results"][0]["host_seconds"], 2e-6);
  const std::string line = csv_line(result);
  EXPECT_EQ(cells(line).size(), cells(csv_header()).size());
  EXPECT_EQ(cell(line, "target"), "cuda");
  EXPECT_EQ(cell(line, "host_s"), "2e-06");
  EXPECT_EQ(cell(line, "compared"), result.compared);
  EXPECT_NE(table_line(result).find("host 2 us, bits as the CPU's"), std::string::npos) << table_line(result);
  EXPECT_NE(ceiling_lines(ceilings).find("30.00 T/s"), std::string::npos) << ceiling_lines(ceilings);
  EXPECT_NE(device_lines(report.device).find("a device, 132 multiprocessors, L2 60 MiB"), std::string::npos);
  EXPECT_TRUE(to_json(example(), "")["device"].is_null());
}

TEST(BenchReport, Times) {
  EXPECT_EQ(time_text(1.5), "1.5 s");
  EXPECT_EQ(time_text(0.0123), "12.3 ms");
  EXPECT_EQ(time_text(4.56e-6), "4.56 us");
  EXPECT_EQ(time_text(7e-9), "7 ns");
}

}  // namespace
}  // namespace recoverssm::bench
