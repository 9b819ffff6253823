#include "bench/cases.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cstdint>

#include "bench/hardware.h"

namespace recoverssm::bench {
namespace {

constexpr int kPrefill = 2048;

// What a device measures. Tokens and layers of 0 are the case's.
std::vector<Point> points(const std::vector<int>& tokens, const std::vector<Point>& more) {
  std::vector<Point> all;
  for (const int rows : {1, 8, 32, 64, 128, 256}) {
    for (const int t : tokens) all.push_back({rows, t});
  }
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

constexpr DType kHalf = DType::bf16;
const std::vector<Point> kRows = points({0}, {{8, 0, 0, kHalf}, {64, 0, 0, kHalf}, {256, 0, 0, kHalf}});
const std::vector<Point> kWindows = points({1, 2, 4, 8}, {{8, 4, 0, kHalf}, {64, 4, 0, kHalf}});
// 1, 8 and 13 rows of two tokens: what the XPU operation was measured at.
const std::vector<Point> kConvWindows =
    points({1, 2, 4, 8}, {{13, 2}, {1, 2, 0, kHalf}, {8, 2, 0, kHalf}, {13, 2, 0, kHalf}, {64, 4, 0, kHalf}});
const std::vector<Point> kPrompts = {{1, 512}, {1, 2048}, {4, 512}, {4, 2048}};
// 12 layers of 8 rows: what vLLM's align commit was measured at.
const std::vector<Point> kCommits = {{8, 0, 12}, {64, 0, 12}, {32, 0, 36}, {256, 0, 4}, {64, 0, 12, kHalf}};
const std::vector<Point> kSteps = {{1}, {8}, {32}, {64}, {128}};
const std::vector<Point> kSnapshotSteps = {{1}, {8}, {32}, {64}};

constexpr LineKind kAnchored = LineKind::anchored;

// clang-format off
// op, variant, build, bound, work, gates, rows, tokens, layers, waiting
const std::vector<Case> kCases = {
    {"split_projections", "", build_split_projections, Bound::copy, Work::none, Gates::none, 8, 4, 1, 0},
    {"causal_conv1d", "prefill", build_conv, Bound::copy, Work::none, Gates::none, 1, kPrefill, 1, 0},
    {"causal_conv1d", "decode", build_conv, Bound::copy, Work::none, Gates::none, 8, 1, 1, 0, {.fixed_tokens = true}},
    {"causal_conv1d_window", "rolled", build_conv_window, Bound::copy, Work::none, Gates::none, 8, 4, 1, 0},
    {"causal_conv1d_window", "anchored", build_conv_window, Bound::copy, Work::none, Gates::none, 8, 4, 1, 0, {.line_kind = kAnchored}},
    {"gated_delta_rule", "decode", build_rule, Bound::read, Work::keep, Gates::both, 8, 1, 1, 0, {.fixed_tokens = true, .on_device = &kRows}},
    {"gated_delta_rule", "window", build_rule, Bound::read, Work::keep, Gates::both, 8, 4, 1, 0, {.on_device = &kWindows}},
    {"gated_delta_rule", "prefill", build_rule, Bound::issue, Work::keep, Gates::both, 1, kPrefill, 1, 0, {.on_device = &kPrompts}},
    {"gated_delta_rule_snapshots", "t4", build_snapshots, Bound::copy, Work::keep, Gates::both, 8, 4, 1, 0, {.on_device = &kWindows}},
    {"gated_delta_rule_verify", "t1", build_verify, Bound::read_or_issue, Work::verify, Gates::both, 8, 1, 1, 0, {.on_device = &kRows}},
    {"gated_delta_rule_verify", "t2", build_verify, Bound::read_or_issue, Work::verify, Gates::both, 8, 2, 1, 0, {.on_device = &kRows}},
    {"gated_delta_rule_verify", "t4", build_verify, Bound::read_or_issue, Work::verify, Gates::both, 8, 4, 1, 0, {.on_device = &kRows}},
    {"gated_delta_rule_verify", "t8", build_verify, Bound::read_or_issue, Work::verify, Gates::both, 8, 8, 1, 0, {.on_device = &kRows}},
    {"gated_delta_rule_verify", "lazy", build_verify, Bound::read, Work::verify, Gates::both, 8, 4, 1, 3, {.on_device = &kWindows}},
    {"conv_verify", "", build_conv_verify, Bound::read_or_issue, Work::verify, Gates::both, 8, 2, 1, 0, {.line_kind = kAnchored, .on_device = &kConvWindows}},
    {"commit_plan", "", build_commit_plan, Bound::none, Work::none, Gates::none, 8, 4, 1, 0},
    {"commit_plan_groups", "", build_commit_plan_groups, Bound::none, Work::none, Gates::none, 8, 4, 3, 0},
    {"commit", "in_place", build_commit, Bound::copy, Work::replay, Gates::both, 8, 4, 12, 3, {.on_device = &kCommits}},
    {"commit", "moved", build_commit, Bound::copy, Work::replay, Gates::both, 8, 4, 12, 3, {.moved = true, .on_device = &kCommits}},
    {"commit", "boundary", build_commit, Bound::copy, Work::replay, Gates::both, 8, 4, 12, 3, {.boundary = true, .on_device = &kCommits}},
    {"commit", "align", build_commit, Bound::copy, Work::replay, Gates::both, 8, 4, 12, 3, {.boundary = true, .moved = true, .on_device = &kCommits}},
    {"commit", "groups", build_commit, Bound::copy, Work::replay, Gates::both, 8, 4, 18, 3, {.groups = 3}},
    {"commit", "call_a_group", build_commit, Bound::copy, Work::replay, Gates::both, 8, 4, 18, 3, {.groups = 3, .call_a_group = true}},
    {"materialize", "", build_materialize, Bound::copy, Work::replay, Gates::both, 8, 4, 12, 3},
    {"align_move", "", build_align_move, Bound::copy, Work::none, Gates::none, 8, 4, 12, 0},
    {"align_advance", "", build_align_advance, Bound::none, Work::none, Gates::none, 8, 4, 1, 0},
    {"step", "records", build_step, Bound::read, Work::verify, Gates::both, 8, 4, 12, 3, {.line_kind = kAnchored, .on_device = &kSteps}},
    {"step", "lazy", build_step, Bound::read, Work::verify, Gates::both, 8, 4, 12, 3, {.line_kind = kAnchored, .form = Form::lazy, .on_device = &kSteps}},
    {"step", "snapshots", build_step, Bound::copy, Work::keep, Gates::both, 8, 4, 12, 0, {.form = Form::snapshots, .on_device = &kSnapshotSteps}},
    {"short_conv", "prefill", build_short_conv, Bound::copy, Work::none, Gates::none, 1, kPrefill, 1, 0},
    {"short_conv", "window", build_short_conv_window, Bound::copy, Work::none, Gates::none, 8, 4, 1, 0},
    {"gdn_attention", "decode", build_attention_plain, Bound::read, Work::keep, Gates::none, 8, 1, 1, 0, {.fixed_tokens = true, .on_device = &kRows}},
    {"gdn_attention", "verify", build_attention_windows, Bound::read_or_issue, Work::verify, Gates::none, 8, 4, 1, 0, {.on_device = &kRows}},
};
// clang-format on

std::string name_of(const Case& row, Gate gate) {
  std::string name = row.op;
  if (*row.variant != '\0') name += std::string(".") + row.variant;
  if (row.gates == Gates::both) name += gate == Gate::gdn ? ".gdn" : ".kda";
  return name;
}

// A variant named after its number of tokens says the number that runs.
std::string with_tokens(std::string name, const Case& row, int tokens) {
  const std::string of_table = fmt::format(".t{}", row.tokens);
  if (tokens != row.tokens && of_table == std::string(".") + row.variant) {
    name.replace(name.find(of_table), of_table.size(), fmt::format(".t{}", tokens));
  }
  return name;
}

Job job_of(const Case& row, Gate gate, const Point& point, const Options& options) {
  Job job{&row, name_of(row, gate), {}};
  Shape& s = job.shape;
  s.rows = point.rows;
  s.tokens = row.extras.fixed_tokens ? row.tokens : point.tokens;
  s.groups = row.extras.groups;
  s.layers = row.layers > 1 ? (point.layers + s.groups - 1) / s.groups * s.groups : 1;
  s.waiting = std::min(row.waiting, s.tokens);
  s.boundary = row.extras.boundary;
  s.moved = row.extras.moved;
  s.call_a_group = row.extras.call_a_group;
  s.form = row.extras.form;
  s.line_kind = row.extras.line_kind;
  s.gate = gate;
  s.H = options.heads;
  s.HV = options.value_heads;
  s.K = options.k;
  s.V = options.v;
  s.W = options.taps;
  s.activation = options.activation;
  s.state = point.state.value_or(options.state);
  job.name = with_tokens(job.name, row, s.tokens);
  return job;
}

// The shapes that a case is measured at: its own, with what the options put in place of it, or a device's list.
std::vector<Point> points_of(const Case& row, const Options& options) {
  const bool given = options.rows || options.tokens || options.layers;
  if (options.backend == Backend::cpu || given || row.extras.on_device == nullptr) {
    return {{options.rows.value_or(row.rows), options.tokens.value_or(row.tokens), options.layers.value_or(row.layers)}};
  }
  std::vector<Point> all;
  for (Point point : *row.extras.on_device) {
    if (point.state && options.state != DType::f32) continue;  // the others have the asked for dtype already
    if (point.tokens == 0) point.tokens = row.tokens;
    if (point.layers == 0) point.layers = row.layers;
    all.push_back(point);
  }
  return all;
}

// What a data set takes at the least, found without making one: the states of its rows and layers, or the 13 integers that a row has
// in a group of commit_plan_groups (a table of 8 columns, an index, 4 results).
double least_bytes(const Job& job) {
  const Shape& s = job.shape;
  const auto state = static_cast<double>(s.HV) * static_cast<double>(s.V) * static_cast<double>(s.K * size_of(s.state));
  double of_one = job.row->work == Work::none ? 0 : state;
  if (of_one == 0 && job.row->layers > 1) of_one = job.row->bound == Bound::none ? 13 * sizeof(std::int32_t) : state;
  return static_cast<double>(s.rows) * s.layers * of_one;
}

Status check(const Job& job, std::size_t memory) {
  if (least_bytes(job) > static_cast<double>(memory)) {
    return {ErrorKind::invalid_argument,
            fmt::format("{}: {}: a data set of at least {:.1f} GiB, expected at most this machine's {:.1f} GiB", job.name,
                        text_of(job), least_bytes(job) / 0x1p30, static_cast<double>(memory) / 0x1p30)};
  }
  const std::int64_t tokens = std::int64_t{job.shape.rows} * job.shape.tokens;
  if (tokens > INT32_MAX) {
    return {ErrorKind::invalid_argument, fmt::format("{}: {} tokens in all, expected at most {}", job.name, tokens, INT32_MAX)};
  }
  Arena nothing;
  return job.row->build(job.shape, nothing)->check();
}

}  // namespace

const char* name_of(Size size) { return size == Size::beyond_cache ? "beyond-cache" : "in-cache"; }

const std::vector<Case>& case_table() { return kCases; }

bool matches(const std::string& glob, const Case& row, const std::string& name) {
  const std::string with_variant = std::string(row.op) + "." + row.variant;
  for (const std::string& candidate : {name, std::string(row.op), with_variant}) {
    if (::fnmatch(glob.c_str(), candidate.c_str(), 0) == 0) return true;
  }
  return false;
}

std::vector<Job> jobs_of(const Options& options) {
  std::vector<bool> used(options.ops.size());
  std::vector<Job> jobs;
  // A device says itself, when its turn comes, whether it has the memory.
  const std::size_t memory = options.backend == Backend::cpu ? read_hardware().memory_bytes : SIZE_MAX;
  for (const Case& row : kCases) {
    for (const Gate gate : {Gate::gdn, Gate::kda}) {
      if (gate == Gate::kda && row.gates == Gates::none) continue;
      bool wanted = options.ops.empty();
      for (std::size_t i = 0; i < options.ops.size(); ++i) {
        if (!matches(options.ops[i], row, name_of(row, gate))) continue;
        used[i] = wanted = true;
      }
      if (!wanted || (row.gates == Gates::both && options.gate.value_or(gate) != gate)) continue;
      for (const Point& point : points_of(row, options)) {
        jobs.push_back(job_of(row, gate, point, options));
        // A shape that is unsupported here is a wrong command line as well.
        if (const Status status = check(jobs.back(), memory); !status.ok()) {
          throw Error({ErrorKind::invalid_argument, "bench: " + status.message});
        }
      }
    }
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) throw Error({ErrorKind::invalid_argument, "bench: --op " + options.ops[i] + " names no case; --list shows them"});
  }
  return jobs;
}

std::size_t bytes_of(const Job& job) {
  Arena measure;
  job.row->build(job.shape, measure);
  return measure.used();
}

Job in_cache(Job job, std::size_t budget, int threads) {
  constexpr int kFewTokens = 16;
  Shape& s = job.shape;
  const auto fits = [&] { return bytes_of(job) <= budget; };
  if (!fits()) s.layers = s.groups;
  while (!fits() && s.rows / 2 >= threads) s.rows /= 2;
  while (!fits() && s.tokens / 2 >= kFewTokens) s.tokens /= 2;
  while (!fits() && s.H % 2 == 0) {
    s.H /= 2;
    s.HV /= 2;
  }
  return job;
}

Job for_portable(Job job) {
  constexpr int kTokens = 256;
  if (job.row->work != Work::none) job.shape.tokens = std::min(job.shape.tokens, kTokens);
  return job;
}

std::size_t sets_beyond_cache(std::size_t set_bytes, std::size_t cache_bytes, std::size_t times) {
  return set_bytes == 0 ? 1 : times * cache_bytes / set_bytes + 1;
}

std::int64_t issue_slots(const Job& job) {
  const Shape& s = job.shape;
  const std::int64_t elements = std::int64_t{s.rows} * s.layers * s.HV * s.V * s.K;
  switch (job.row->work) {
    case Work::keep:
      return elements * slots_per_element(s.tokens, s.waiting, true);
    case Work::verify:
      return elements * slots_per_element(s.tokens, s.waiting, false);
    case Work::replay:
      return elements * slots_per_element(0, s.waiting, true);
    case Work::none:
      break;
  }
  return 0;
}

std::string text_of(const Job& job) {
  const Shape& s = job.shape;
  std::string text = fmt::format("{} row{} x {}", s.rows, s.rows == 1 ? "" : "s", s.tokens);
  if (job.row->layers > 1)
    text += fmt::format(", {} {}{}", s.layers, job.row->bound == Bound::none ? "group" : "layer", s.layers == 1 ? "" : "s");
  if (s.waiting > 0) text += fmt::format(", {} records", s.waiting);
  if (job.row->bound == Bound::none) return text;
  text += fmt::format(", H {} HV {} K {} V {}", s.H, s.HV, s.K, s.V);
  return s.state == DType::f32 ? text : text + fmt::format(", {} states", recoverssm::name_of(s.state));
}

}  // namespace recoverssm::bench
