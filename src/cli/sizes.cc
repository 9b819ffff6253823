// recoverssm sizes: what a request's memory takes, against a state per token.
#include "recoverssm/sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "cli/commands.h"
#include "cli/geometry.h"
#include "cli/options.h"
#include "cli/report.h"
#include "contract/check.h"

namespace recoverssm::cli {

namespace {

using nlohmann::ordered_json;

struct Arguments {
  std::string config;
  ModelGeometry model{.name = "options", .layer = {}, .layers = 1, .all_layers = 1};
  std::int32_t window = 4;
  LineKind line = LineKind::rolled;
  DType state = DType::f32, activation = DType::bf16;
  std::int32_t requests = 1;
  std::int32_t align_blocks = 0;  // blocks of a prefix cache that a request keeps beside its running one
  std::int32_t short_channels = 0, short_taps = 4, short_dilation = 1, short_layers = 1;
  std::string report;
};

// One layer's memory of one request, in bytes: the library's figures, and those of the kind of line asked for.
struct LayerBytes {
  Sizes sizes;
  std::int64_t line = 0;
  std::int64_t page = 0;    // state + records + that line
  std::int64_t cached = 0;  // a block of snapshots' prefix cache: state + rolled line. RecoverSSM's are pages: blocks change places
};

LayerBytes layer_bytes(const Geometry& geometry, LineKind line) {
  LayerBytes b;
  b.sizes = sizes(geometry);
  b.line = line == LineKind::rolled ? b.sizes.line_rolled : b.sizes.line_anchored;
  b.page = line == LineKind::rolled ? b.sizes.page_rolled : b.sizes.page_anchored;
  b.cached = b.sizes.state + b.sizes.line_rolled;
  return b;
}

// Both forms keep the same line of a short convolution: it has no state.
std::optional<LayerBytes> short_conv_bytes(const Arguments& a) {
  if (a.short_channels == 0) return std::nullopt;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::int64_t reach = (std::int64_t{a.short_taps} - 1) * a.short_dilation + 1;
  if (reach > kMost) {
    throw Error({ErrorKind::invalid_argument,
                 fmt::format("--short-conv-taps {} with --short-conv-dilation {}: {} positions, expected at most {}", a.short_taps,
                             a.short_dilation, reach, kMost)});
  }
  Geometry g;
  g.W = static_cast<std::int32_t>(reach);
  g.channels = a.short_channels;
  g.S = a.window;
  g.activation = a.activation;
  return layer_bytes(g, a.line);
}

std::string amount(std::int64_t bytes) {
  const auto x = static_cast<double>(bytes);
  if (bytes >= std::int64_t{1} << 30) return fmt::format("{:.2f} GiB", x / 0x1p30);
  if (bytes >= std::int64_t{1} << 20) return fmt::format("{:.2f} MiB", x / 0x1p20);
  if (bytes >= std::int64_t{1} << 10) return fmt::format("{:.2f} KiB", x / 0x1p10);
  return fmt::format("{} B", bytes);
}

// All layers of one request.
struct Totals {
  std::int64_t page = 0;  // RecoverSSM
  std::int64_t snapshots = 0;
  std::int64_t aligned = 0;  // the same with the blocks of a prefix cache
  std::int64_t aligned_snapshots = 0;
  std::int64_t requests = 0;  // all requests, with their blocks
  std::int64_t requests_snapshots = 0;
};

Totals totals_of(const Arguments& a, const LayerBytes& rule, const std::optional<LayerBytes>& conv) {
  const auto all_layers = [&](std::int64_t rule_bytes, std::int64_t conv_bytes) {
    return plus(times(a.model.layers, rule_bytes), times(a.short_layers, conv_bytes));
  };
  Totals t;
  t.page = all_layers(rule.page, conv ? conv->page : 0);
  t.snapshots = all_layers(rule.sizes.snapshots, conv ? conv->sizes.snapshots : 0);
  const std::int64_t cached = all_layers(rule.cached, conv ? conv->cached : 0);
  t.aligned = times(std::int64_t{1} + a.align_blocks, t.page);
  t.aligned_snapshots = plus(t.snapshots, times(a.align_blocks, cached));
  t.requests = times(a.requests, t.aligned);
  t.requests_snapshots = times(a.requests, t.aligned_snapshots);
  // The largest of each form: what overflows stays at the largest number.
  if (t.requests == INT64_MAX || t.requests_snapshots == INT64_MAX) {
    throw Error({ErrorKind::invalid_argument,
                 fmt::format("{} requests with {} cached blocks, of {} layers: more bytes than fit in 64 bits, expected fewer",
                             a.requests, a.align_blocks, std::int64_t{a.model.layers} + (conv ? a.short_layers : 0))});
  }
  return t;
}

ordered_json to_json(const Arguments& a, const LayerBytes& rule, const std::optional<LayerBytes>& conv) {
  const Geometry& g = a.model.layer;
  const Totals total = totals_of(a, rule, conv);
  ordered_json json = {{"model", a.model.name},
                       {"geometry",
                        {{"H", g.H},
                         {"HV", g.HV},
                         {"K", g.K},
                         {"V", g.V},
                         {"W", g.W},
                         {"S", g.S},
                         {"channels", g.channels},
                         {"gate", g.gate == Gate::gdn ? "gdn" : "kda"},
                         {"activation", name_of(g.activation)},
                         {"state", name_of(g.state)},
                         {"line", a.line == LineKind::rolled ? "rolled" : "anchored"}}},
                       {"layers", a.model.layers},
                       {"all_layers", a.model.all_layers},
                       {"per_layer",
                        {{"state", rule.sizes.state},
                         {"records", rule.sizes.records},
                         {"line", rule.line},
                         {"page", rule.page},
                         {"snapshots", rule.sizes.snapshots},
                         {"ratio", static_cast<double>(rule.sizes.snapshots) / static_cast<double>(rule.page)}}},
                       {"per_request", {{"recoverssm", total.page}, {"snapshots", total.snapshots}}},
                       {"requests", a.requests},
                       {"all_requests", {{"recoverssm", total.requests}, {"snapshots", total.requests_snapshots}}}};
  if (conv) {
    json["short_conv"] = {{"layers", a.short_layers},
                          {"channels", a.short_channels},
                          {"history", (a.short_taps - 1) * a.short_dilation},
                          {"line", conv->line},
                          {"line_with_snapshots", conv->sizes.snapshots}};
  }
  if (a.align_blocks != 0) {
    json["align"] = {{"blocks", a.align_blocks}, {"recoverssm", total.aligned}, {"snapshots", total.aligned_snapshots}};
  }
  return json;
}

void add_row(std::string& text, const std::string& what, std::int64_t ours, std::int64_t snapshots) {
  text += fmt::format("  {:<28}{:>14}{:>14}", what, amount(ours), amount(snapshots));
  text +=
      ours > 0 && snapshots > 0 ? fmt::format("{:>9.2f} x\n", static_cast<double>(snapshots) / static_cast<double>(ours)) : "\n";
}

std::string table_of(const Arguments& a, const LayerBytes& rule, const std::optional<LayerBytes>& conv) {
  const Geometry& g = a.model.layer;
  const Totals total = totals_of(a, rule, conv);
  std::string text = fmt::format(
      "{}: {} of {} layers with a gated delta rule ({}), H {} HV {} K {} V {}, {} taps\nwindow of {} tokens, {} state, {} "
      "activations, {} line\n\n",
      a.model.name, a.model.layers, a.model.all_layers, g.gate == Gate::gdn ? "gdn" : "kda", g.H, g.HV, g.K, g.V, g.W, g.S,
      name_of(g.state), name_of(g.activation), a.line == LineKind::rolled ? "rolled" : "anchored");
  text += fmt::format("  {:<28}{:>14}{:>14}\n", "", "RecoverSSM", "snapshots");
  text += "per request and layer\n";
  add_row(text, "state", rule.sizes.state, g.S * rule.sizes.state);
  add_row(text, "records", rule.sizes.records, 0);
  add_row(text, "conv line", rule.line, rule.sizes.line_rolled);
  add_row(text, "page", rule.page, rule.sizes.snapshots);
  if (conv) add_row(text, "short conv line", conv->line, conv->sizes.line_rolled);
  text += "all layers\n";
  add_row(text, "1 request", total.page, total.snapshots);
  if (a.align_blocks != 0) {
    add_row(text, fmt::format("with {} cached blocks", a.align_blocks), total.aligned, total.aligned_snapshots);
  }
  if (a.requests != 1) {
    add_row(text, fmt::format("{} requests", a.requests), total.requests, total.requests_snapshots);
  }
  return text;
}

int run(Arguments& a) {
  if (!a.config.empty()) {
    try {
      a.model = read_config(a.config);
    } catch (const std::exception& error) {
      fmt::print(stderr, "recoverssm sizes: {}\n", error.what());
      return kMalformed;
    }
  }
  Geometry& g = a.model.layer;
  if (a.config.empty()) {
    a.model.all_layers = a.model.layers;
    if (g.H == 0 && g.HV == 0 && g.K == 0 && g.V == 0) g.W = a.model.layers = 0;  // a short convolution alone
  }
  g.S = a.window;
  g.state = a.state;
  g.activation = a.activation;
  try {
    const LayerBytes rule = layer_bytes(g, a.line);
    const std::optional<LayerBytes> conv = short_conv_bytes(a);
    if (g.HV == 0 && !conv) {
      fmt::print(stderr, "recoverssm sizes: give --config, or a geometry: --heads, --value-heads, --k, --v\n");
      return kUsage;
    }
    if (a.report.empty()) {
      fmt::print("{}", table_of(a, rule, conv));
      return kOk;
    }
    return write_report("sizes", a.report, text_of(to_json(a, rule, conv)));
  } catch (const Error& error) {
    fmt::print(stderr, "recoverssm sizes: {}\n", error.what());
    return kUsage;
  }
}

// A name on the command line -> a value.
template <class Value>
void add_choice(CLI::App& command, const char* option, Value& value, std::map<std::string, Value> names, const char* help) {
  command.add_option(option, value, help)
      ->transform(CLI::CheckedTransformer(std::move(names), CLI::ignore_case))
      ->type_name("NAME");
}

}  // namespace

std::function<int()> add_sizes(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  Arguments& a = *arguments;
  Geometry& g = a.model.layer;
  CLI::App* command = app.add_subcommand("sizes", "Memory a request takes: RecoverSSM against a state per token");
  const auto number = [&](const char* option, std::int32_t& value, std::int32_t least, const char* help) {
    return command->add_option(option, value, help)
        ->check(CLI::Range(least, std::numeric_limits<std::int32_t>::max()))
        ->capture_default_str()
        ->type_name("N");
  };
  CLI::Option* config =
      command->add_option("--config", a.config, "A model's config.json: Qwen3-Next, Qwen3.5, Kimi-Linear")->type_name("FILE");
  g.W = 4;
  for (CLI::Option* option :
       {number("--layers", a.model.layers, 1, "Layers with a gated delta rule"), number("--heads", g.H, 1, "Query and key heads"),
        number("--value-heads", g.HV, 1, "Value heads"), number("--k", g.K, 1, "Key head size"),
        number("--v", g.V, 1, "Value head size"), number("--taps", g.W, 0, "Convolution taps; 0: no convolution")}) {
    option->excludes(config);
  }
  const std::map<std::string, DType> dtypes = {{"f32", DType::f32}, {"bf16", DType::bf16}, {"f16", DType::f16}};
  add_choice<Gate>(*command, "--gate", g.gate, {{"gdn", Gate::gdn}, {"kda", Gate::kda}},
                   "gdn (default) or kda: one decay a head, or a key channel");
  command->get_option("--gate")->excludes(config);
  number("--window", a.window, 1, "Window: 1 + number of draft tokens");
  add_choice(*command, "--state-dtype", a.state, dtypes, "f32 (default), bf16, f16");
  add_choice(*command, "--dtype", a.activation, dtypes, "Activations: bf16 (default), f16, f32");
  add_choice<LineKind>(*command, "--line", a.line, {{"rolled", LineKind::rolled}, {"anchored", LineKind::anchored}},
                       "Conv line: rolled (default), or anchored: a window can be repeated or dropped");
  number("--requests", a.requests, 1, "Requests at a time");
  number("--align-blocks", a.align_blocks, 0, "Blocks of a prefix cache that each request keeps beside its running one");
  number("--short-conv", a.short_channels, 0, "Channels of a short convolution; 0: none");
  number("--short-conv-taps", a.short_taps, 2, "Its taps");
  number("--short-conv-dilation", a.short_dilation, 1, "Its dilation");
  number("--short-conv-layers", a.short_layers, 1, "Layers with it");
  command->add_option("--json", a.report, "Write JSON to this file; - writes it, and nothing else, to stdout")->type_name("REPORT");
  command->footer(
      "Snapshots are S states and a rolled line. Records are written over by each window; snapshots have none.\n"
      "Exit codes: 0 done, 2 the config is unreadable or of no known kind, 64 wrong command line, 74 the report could not be "
      "written.\n"
      "Examples:\n  recoverssm sizes --config model/config.json --window 4 --requests 64\n"
      "  recoverssm sizes --heads 16 --value-heads 48 --k 128 --v 128 --layers 36");
  return [arguments] { return run(*arguments); };
}

}  // namespace recoverssm::cli
