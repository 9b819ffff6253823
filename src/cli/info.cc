// recoverssm info: what this build is, and what this machine can run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/devices.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "cli/support_table.h"
#include "recoverssm/recoverssm.hpp"

namespace recoverssm::cli {

namespace {

using nlohmann::ordered_json;

// Features of this CPU that the targets are about.
std::vector<std::string> cpu_features() {
  std::vector<std::string> features;
#if defined(__x86_64__)
  __builtin_cpu_init();
#define RECOVERSSM_FEATURE(name) \
  if (__builtin_cpu_supports(name)) features.emplace_back(name)
  RECOVERSSM_FEATURE("sse4.2");
  RECOVERSSM_FEATURE("avx2");
  RECOVERSSM_FEATURE("fma");
  RECOVERSSM_FEATURE("bmi2");
  RECOVERSSM_FEATURE("avx512f");
  RECOVERSSM_FEATURE("avx512bw");
  RECOVERSSM_FEATURE("avx512dq");
  RECOVERSSM_FEATURE("avx512vl");
  RECOVERSSM_FEATURE("avx512bf16");
#undef RECOVERSSM_FEATURE
#endif
  return features;
}

constexpr Backend kBackends[] = {Backend::cpu, Backend::cuda, Backend::sycl};

std::string version_text(int version) { return version == 0 ? "none" : fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

void describe_cuda(ordered_json& to) {
  to["architectures"] = cuda::architectures();
  const cuda::Versions versions = cuda::versions();
  to["driver"] = versions.driver == 0 ? ordered_json(nullptr) : ordered_json(version_text(versions.driver));
  to["runtime"] = versions.runtime == 0 ? ordered_json(nullptr) : ordered_json(version_text(versions.runtime));
  ordered_json devices = ordered_json::array();
  for (const cuda::Device& device : cuda::devices()) {
    devices.push_back({{"index", device.index},
                       {"name", device.name},
                       {"compute_capability", fmt::format("{}.{}", device.major, device.minor)},
                       {"multiprocessors", device.multiprocessors},
                       {"memory_bytes", device.memory_bytes},
                       {"usable", device.unusable.empty()},
                       {"reason", device.unusable.empty() ? ordered_json(nullptr) : ordered_json(device.unusable)}});
  }
  to["devices"] = std::move(devices);
}

std::string text_of_cuda() {
  const std::vector<std::string> architectures = cuda::architectures();
  if (architectures.empty()) return "";
  const cuda::Versions versions = cuda::versions();
  std::string text = fmt::format("CUDA            {}; runtime {}, driver {}\n", fmt::join(architectures, " "),
                                 version_text(versions.runtime), version_text(versions.driver));
  for (const cuda::Device& device : cuda::devices()) {
    text += fmt::format("  device {}      {}, compute capability {}.{}, {} multiprocessors, {}{}\n", device.index, device.name,
                        device.major, device.minor, device.multiprocessors, bytes_text(static_cast<double>(device.memory_bytes)),
                        device.unusable.empty() ? "" : ": not usable: " + device.unusable);
  }
  return text;
}

void describe_sycl(ordered_json& to) {
  ordered_json devices = ordered_json::array();
  for (const sycl_backend::Device& device : sycl_backend::devices()) {
    devices.push_back({{"index", device.index},
                       {"name", device.name},
                       {"platform", device.platform},
                       {"driver", device.driver},
                       {"kind", device.kind},
                       {"compute_units", device.compute_units},
                       {"memory_bytes", device.memory_bytes},
                       {"sub_group_sizes", device.sub_group_sizes},
                       {"default", device.chosen},
                       {"usable", device.unusable.empty()},
                       {"reason", device.unusable.empty() ? ordered_json(nullptr) : ordered_json(device.unusable)}});
  }
  const std::string inexact = sycl_backend::inexact();
  to["runtime"] = sycl_backend::runtime().empty() ? ordered_json(nullptr) : ordered_json(sycl_backend::runtime());
  to["inexact"] = inexact.empty() ? ordered_json(nullptr) : ordered_json(inexact);
  to["devices"] = std::move(devices);
}

std::string text_of_sycl() {
  if (sycl_backend::runtime().empty()) return "";
  std::string text = fmt::format("SYCL            {}\n", sycl_backend::runtime());
  for (const sycl_backend::Device& device : sycl_backend::devices()) {
    text += fmt::format("  device {}      {}, {}, {} driver {}, {} compute units, {}, sub-groups of {}{}{}\n", device.index,
                        device.name, device.kind, device.platform, device.driver, device.compute_units,
                        bytes_text(static_cast<double>(device.memory_bytes)), fmt::join(device.sub_group_sizes, " "),
                        device.chosen ? ", the default" : "", device.unusable.empty() ? "" : ": not usable: " + device.unusable);
  }
  if (const std::string inexact = sycl_backend::inexact(); !inexact.empty()) text += fmt::format("  not exact     {}\n", inexact);
  return text;
}

void add_once(std::vector<std::string>& words, const std::string& word) {
  if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
}

ordered_json describe() {
  Target best = Target::best;
  const Status status = resolve_target(Target::best, best);
  ordered_json targets = ordered_json::array();
  for (const Target target : available_targets()) targets.push_back(name_of(target));
  ordered_json backends = ordered_json::array();
  for (const Backend backend : kBackends) {
    const std::string reason = unavailable_reason(backend);
    backends.push_back({{"name", name_of(backend)},
                        {"available", reason.empty()},
                        {"reason", reason.empty() ? ordered_json(nullptr) : ordered_json(reason)}});
    if (backend == Backend::cuda) describe_cuda(backends.back());
    if (backend == Backend::sycl) describe_sycl(backends.back());
  }
  ordered_json support = ordered_json::array();
  for (const Backend backend : kBackends) {
    if (!unavailable_reason(backend).empty()) continue;
    for (const SupportEntry& entry : support_table(backend)) {
      support.push_back({{"op", entry.operation},
                         {"activation", entry.has_activation ? ordered_json(name_of(entry.activation)) : ordered_json(nullptr)},
                         {"state", entry.has_state ? ordered_json(name_of(entry.state)) : ordered_json(nullptr)},
                         {"backend", name_of(backend)},
                         {"supported", entry.support.supported},
                         {"reason", entry.support.supported ? ordered_json(nullptr) : ordered_json(entry.support.reason)}});
    }
  }
  return {{"version", version()},
          {"cpu_features", cpu_features()},
          {"targets", std::move(targets)},
          {"best", status.ok() ? ordered_json(name_of(best)) : ordered_json(nullptr)},
          {"backends", std::move(backends)},
          {"record_layouts", {record_layout_id(Gate::gdn), record_layout_id(Gate::kda)}},
          {"support", std::move(support)}};
}

std::string text_of_support(Backend backend) {
  std::string text = fmt::format("\n{:<28}{:<16}{}\n", fmt::format("on {}", name_of(backend)), "activations", "states");
  std::string reasons;
  const std::vector<SupportEntry> table = support_table(backend);
  for (std::size_t i = 0; i < table.size();) {
    const std::string& operation = table[i].operation;
    std::vector<std::string> activations, states;  // in any combination but those the reasons name
    for (; i < table.size() && table[i].operation == operation; ++i) {
      const SupportEntry& entry = table[i];
      const char* activation = entry.has_activation ? name_of(entry.activation) : "-";
      const char* state = entry.has_state ? name_of(entry.state) : "-";
      if (entry.support.supported) {
        add_once(activations, activation);
        add_once(states, state);
      } else {
        reasons += fmt::format("not {} with activation {}, state {}: {}\n", operation, activation, state, entry.support.reason);
      }
    }
    text += fmt::format("{:<28}{:<16}{}\n", operation, fmt::format("{}", fmt::join(activations, " ")), fmt::join(states, " "));
  }
  return text + reasons;
}

std::string text_of_info() {
  Target best = Target::best;
  const Status status = resolve_target(Target::best, best);
  std::vector<std::string> targets, backends;
  for (const Target target : available_targets()) targets.emplace_back(name_of(target));
  for (const Backend backend : kBackends) {
    const std::string reason = unavailable_reason(backend);
    backends.push_back(reason.empty() ? name_of(backend) : fmt::format("{} ({})", name_of(backend), reason));
  }
  std::string text = fmt::format("recoverssm {}\nCPU features    {}\ntargets         {} (best: {})\nbackends        {}\n",
                                 version(), fmt::join(cpu_features(), " "), fmt::join(targets, ", "),
                                 status.ok() ? name_of(best) : status.message, fmt::join(backends, ", "));
  text += text_of_cuda() + text_of_sycl();
  text += fmt::format("record layouts  {}, {}\n", record_layout_id(Gate::gdn), record_layout_id(Gate::kda));
  for (const Backend backend : kBackends) {
    if (unavailable_reason(backend).empty()) text += text_of_support(backend);
  }
  return text;
}

}  // namespace

std::function<int()> add_info(CLI::App& app) {
  auto json = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("info", "Show version, CPU features, targets, backends, and what they support");
  command->add_option("--json", *json, "- : write JSON to stdout instead")
      ->type_name("-")
      ->check(CLI::IsMember({"-"}).description(""));
  command->footer("Example:\n  recoverssm info --json -");
  return [json] {
    fmt::print("{}", json->empty() ? text_of_info() : text_of(describe()));
    return static_cast<int>(kOk);
  };
}

}  // namespace recoverssm::cli
