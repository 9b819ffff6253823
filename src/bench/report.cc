#include "bench/report.h"

#include <fmt/format.h>

namespace recoverssm::bench {
namespace {

using nlohmann::ordered_json;

constexpr double kGiga = 1e9;

const char* name_of(Gate gate) { return gate == Gate::gdn ? "gdn" : "kda"; }

ordered_json json_of(const Sample& sample) { return {{"kernel", sample.kernel}, {"rate", sample.rate}}; }

ordered_json json_of(const Ceilings& c) {
  ordered_json issue = ordered_json::object(), all = ordered_json::array();
  for (const auto& [target, rate] : c.issue) issue[recoverssm::name_of(target)] = rate;
  for (const Sample& sample : c.all) all.push_back(json_of(sample));
  if (c.device_issue > 0) {
    return {{"size", bench::name_of(c.size)},    {"bytes", c.bytes},
            {"read", json_of(c.read)},           {"copy", json_of(c.copy)},
            {"memcpy", json_of(c.memcpy_)},      {"issue_slots_per_second", c.device_issue},
            {"launch_seconds", c.launch_seconds}};
  }
  return {{"threads", c.threads},
          {"size", bench::name_of(c.size)},
          {"bytes", c.bytes},
          {"read", json_of(c.read)},
          {"copy", json_of(c.copy)},
          {"memcpy", json_of(c.memcpy_)},
          {"update", json_of(c.update)},
          {"issue_slots_per_second", std::move(issue)},
          {"kernels", std::move(all)}};
}

ordered_json or_null(double value) { return value > 0 ? ordered_json(value) : ordered_json(nullptr); }

ordered_json json_of(const Shape& s) {
  return {{"rows", s.rows},
          {"tokens", s.tokens},
          {"layers", s.layers},
          {"groups", s.groups},
          {"records", s.waiting},
          {"H", s.H},
          {"HV", s.HV},
          {"K", s.K},
          {"V", s.V},
          {"W", s.W},
          {"activation", recoverssm::name_of(s.activation)},
          {"state", recoverssm::name_of(s.state)}};
}

ordered_json json_of(const Result& r) {
  const Counters& c = r.counters;
  return {
      {"case", r.job.name},
      {"op", r.job.row->op},
      {"gate", r.job.row->gates == Gates::none ? ordered_json(nullptr) : ordered_json(name_of(r.job.shape.gate))},
      {"target", where(r)},
      {"threads", r.threads},
      {"size", bench::name_of(r.size)},
      {"shape", json_of(r.job.shape)},
      {"sets", r.sets},
      {"set_bytes", r.set_bytes},
      {"skipped", r.skipped.empty() ? ordered_json(nullptr) : ordered_json(r.skipped)},
      {"seconds", {{"median", or_null(r.seconds.median)}, {"best", or_null(r.seconds.best)}, {"worst", or_null(r.seconds.worst)}}},
      {"repetitions", r.repetitions},
      {"iterations", r.iterations},
      {"bytes",
       {{"state_read", c.state_read},
        {"state_written", c.state_written},
        {"record_read", c.record_read},
        {"record_written", c.record_written},
        {"line_read", c.line_read},
        {"line_written", c.line_written},
        {"activation_read", c.activation_read},
        {"activation_written", c.activation_written},
        {"total", c.total()}}},
      {"bytes_per_second", or_null(r.bytes_per_second())},
      {"issue_slots", r.issue_slots},
      {"limit", r.share.limit.empty() ? ordered_json(nullptr) : ordered_json(r.share.limit)},
      {"limit_seconds", or_null(r.share.seconds)},
      {"share", or_null(r.share.share)},
      {"scaling", or_null(r.scaling)},
      {"host_seconds", or_null(r.host_seconds)},
      {"compared", r.compared.empty() ? ordered_json(nullptr) : ordered_json(r.compared)}};
}

std::string number_or_nothing(double value) { return value > 0 ? fmt::format("{:.6g}", value) : ""; }

}  // namespace

ordered_json to_json(const Report& report, const std::string& command_line) {
  const Hardware& h = report.hardware;
  ordered_json ceilings = ordered_json::array(), results = ordered_json::array();
  for (const Ceilings& c : report.ceilings) ceilings.push_back(json_of(c));
  for (const Result& r : report.results) results.push_back(json_of(r));
  ordered_json device = nullptr;
  if (const DeviceHardware& d = report.device; !d.name.empty()) {
    device = {{"name", d.name},
              {"driver", d.driver},
              {"runtime", d.runtime},
              {"clocks", d.clocks},
              {"multiprocessors", d.multiprocessors},
              {"l2_bytes", d.l2_bytes},
              {"memory_bytes", d.memory_bytes}};
  }
  return {{"format", "recoverssm-bench"},
          {"format_version", 1},
          {"library", version()},
          {"commit", tree_commit()},
          {"compiler", compiler()},
          {"date", utc_now()},
          {"command", command_line},
          {"hardware",
           {{"cpu", h.cpu},
            {"cores", h.cores},
            {"l2_bytes", h.l2_bytes},
            {"last_level_bytes", h.last_level_bytes},
            {"memory_bytes", h.memory_bytes},
            {"huge_pages", h.huge_pages},
            {"governor", h.governor},
            {"kernel", h.kernel},
            {"load_before", h.load}}},
          {"device", std::move(device)},
          {"ceilings", std::move(ceilings)},
          {"results", std::move(results)}};
}

std::string csv_header() {
  return "case,op,gate,target,threads,size,rows,tokens,layers,records,H,HV,K,V,W,activation,state,median_s,best_s,worst_s,"
         "repetitions,"
         "iterations,bytes,bytes_per_s,issue_slots,limit,limit_s,share,scaling,skipped,groups,host_s,"
         "compared\n";
}

std::string csv_line(const Result& r) {
  const Shape& s = r.job.shape;
  std::string line =
      fmt::format("{},{},{},{},{},{},", r.job.name, r.job.row->op, r.job.row->gates == Gates::none ? "" : name_of(s.gate), where(r),
                  r.threads, bench::name_of(r.size));
  line += fmt::format("{},{},{},{},{},{},{},{},{},{},{},", s.rows, s.tokens, s.layers, s.waiting, s.H, s.HV, s.K, s.V, s.W,
                      recoverssm::name_of(s.activation), recoverssm::name_of(s.state));
  line += fmt::format("{},{},{},{},{},{},{},{},", number_or_nothing(r.seconds.median), number_or_nothing(r.seconds.best),
                      number_or_nothing(r.seconds.worst), r.repetitions, r.iterations, r.counters.total(),
                      number_or_nothing(r.bytes_per_second()), r.issue_slots);
  // Free text has commas but no quotes.
  const auto quoted = [](const std::string& text) { return text.empty() ? "" : '"' + text + '"'; };
  line +=
      fmt::format("{},{},{},{},{},{},{},{}\n", r.share.limit, number_or_nothing(r.share.seconds), number_or_nothing(r.share.share),
                  number_or_nothing(r.scaling), quoted(r.skipped), s.groups, number_or_nothing(r.host_seconds), quoted(r.compared));
  return line;
}

std::string time_text(double seconds) {
  constexpr struct {
    double scale;
    const char* unit;
  } kUnits[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}};
  for (const auto& unit : kUnits) {
    if (seconds >= unit.scale) return fmt::format("{:.3g} {}", seconds / unit.scale, unit.unit);
  }
  return fmt::format("{:.3g} ns", seconds / 1e-9);
}

std::string hardware_lines(const Hardware& h) {
  std::string text = fmt::format("recoverssm {} ({}), {}\n", version(), tree_commit(), compiler());
  text += fmt::format("{}, {} cores, L2 {} KiB, last-level cache {} MiB, memory {:.1f} GiB, {}\n", h.cpu, h.cores, h.l2_bytes >> 10,
                      h.last_level_bytes >> 20, static_cast<double>(h.memory_bytes) / 0x1p30, h.kernel);
  return text +
         fmt::format("transparent huge pages: {}, frequency governor: {}, load before: {:.2f}\n", h.huge_pages, h.governor, h.load);
}

std::string device_lines(const DeviceHardware& d) {
  return fmt::format(
      "{}, {} multiprocessors, L2 {} MiB, memory {:.1f} GiB, driver {}, runtime {}\nclocks (SM, its most, memory, its most): {}\n",
      d.name, d.multiprocessors, d.l2_bytes >> 20, static_cast<double>(d.memory_bytes) / 0x1p30, d.driver, d.runtime, d.clocks);
}

std::string ceiling_lines(const Ceilings& c) {
  if (c.device_issue > 0) {
    return fmt::format(
        "\nceilings: read {:.0f} GB/s, copy {:.0f} GB/s ({}; the driver's {:.0f}), multiply-adds {:.2f} T/s, an empty kernel in a "
        "graph {}\n",
        c.read.rate / kGiga, c.copy.rate / kGiga, c.copy.kernel, c.memcpy_.rate / kGiga, c.device_issue / 1e12,
        time_text(c.launch_seconds));
  }
  std::string text = fmt::format("\nceilings, {} thread{}, {} ({:.4g} MiB)\n", c.threads, c.threads == 1 ? "" : "s",
                                 bench::name_of(c.size), static_cast<double>(c.bytes) / 0x1p20);
  const auto line = [&](const char* what, const Sample& sample) {
    text += fmt::format("  {:<17}{:>8.1f} GB/s   {}\n", what, sample.rate / kGiga, sample.kernel);
  };
  line("best read", c.read);
  line("best copy", c.copy);
  line("memcpy", c.memcpy_);
  line("update in place", c.update);
  for (const auto& [target, rate] : c.issue) {
    // What a window of 4 allows of an fp32 state: 4 bytes for every 15 slots.
    const double state_bytes = rate * 4 / static_cast<double>(slots_per_element(4, 0, false));
    text += fmt::format("  {:<17}{:>8.1f} G slots/s, of an fp32 state at T=4 {:.1f} GB/s\n",
                        fmt::format("FMA {}", recoverssm::name_of(target)), rate / kGiga, state_bytes / kGiga);
  }
  return text;
}

std::string table_header() {
  return fmt::format("\n{:<32} {:<9}{:>2} {:<13}{:>10}{:>10}{:>9}{:>10}{:>9}{:>7} {:<10}{:>8}  {}\n", "case", "target", "x", "size",
                     "median", "best", "spread", "bytes", "GB/s", "share", "of", "scaling", "shape");
}

std::string table_line(const Result& r) {
  std::string line = fmt::format("{:<32} {:<9}{:>2} {:<13}", r.job.name, where(r), r.threads, bench::name_of(r.size));
  if (!r.skipped.empty()) return line + "skipped: " + r.skipped + "\n";
  const double spread = over(r.seconds.worst - r.seconds.best, r.seconds.median) * 100;
  const double bytes = static_cast<double>(r.counters.total());
  line += fmt::format("{:>10}{:>10}{:>8.0f}%", time_text(r.seconds.median), time_text(r.seconds.best), spread);
  line += bytes > 0 ? fmt::format("{:>7.4g} MB{:>9.2f}", bytes / 1e6, r.bytes_per_second() / kGiga)
                    : fmt::format("{:>10}{:>9}", "-", "-");
  line += r.share.limit.empty() ? fmt::format("{:>7} {:<10}", "-", "-")
                                : fmt::format("{:>6.0f}% {:<10}", r.share.share * 100, r.share.limit);
  line += r.scaling > 0 && r.threads > 1 ? fmt::format("{:>7.2f}x", r.scaling) : fmt::format("{:>8}", "");
  line += "  " + text_of(r.job);
  if (r.host_seconds > 0) line += ", host " + time_text(r.host_seconds);
  return line + (r.compared.empty() ? "" : ", " + r.compared) + "\n";
}

}  // namespace recoverssm::bench
