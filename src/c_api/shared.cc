// The functions of the C ABI that belong to no operation: errors, defaults of shared structs, names, sizes, map_windows.
#include <cstdio>

#include "c_api/export.h"
#include "c_api/import.h"

namespace recoverssm::c_api {
namespace {

// Plain memory, so that keeping a text can neither fail nor allocate, and nothing is left to destroy when a thread ends.
thread_local char last_error[1024] = "";

template <class Enum>
Enum enum_of(std::int32_t value) {
  return static_cast<Enum>(value >= 0 && value < 255 ? value : 255);
}

}  // namespace

int finish(int status, const char* text) noexcept {
  std::snprintf(last_error, sizeof last_error, "%s", text);
  return status;
}

}  // namespace recoverssm::c_api

using namespace recoverssm;
using namespace recoverssm::c_api;

const char* recoverssm_last_error() { return c_api::last_error; }

// clang-format off
#define RECOVERSSM_STRUCT(name, Cpp) \
  void recoverssm_##name##_init(recoverssm_##name* to, size_t size) { init<Cpp>(to, size); }
// clang-format on

RECOVERSSM_STRUCT(rows, Rows)
RECOVERSSM_STRUCT(rule_inputs, RuleInputs)
RECOVERSSM_STRUCT(records, Records)
RECOVERSSM_STRUCT(layer, Layer)
RECOVERSSM_STRUCT(plan_outputs, PlanOutputs)
RECOVERSSM_STRUCT(plan_group, PlanGroup)
RECOVERSSM_STRUCT(commit_group, CommitGroup)
RECOVERSSM_STRUCT(attention_plain, AttentionPlainPart)
RECOVERSSM_STRUCT(attention_windows, AttentionWindowPart)
RECOVERSSM_STRUCT(counters, Counters)
RECOVERSSM_STRUCT(launch, LaunchParts)
RECOVERSSM_STRUCT(cuda_device, cuda::Device)
RECOVERSSM_STRUCT(geometry, Geometry)
RECOVERSSM_STRUCT(request_sizes, Sizes)

#undef RECOVERSSM_STRUCT

const char* recoverssm_version() { return version(); }
int recoverssm_version_number() { return RECOVERSSM_VERSION_NUMBER; }

int recoverssm_available_targets(int32_t* targets, size_t capacity, size_t* count) {
  return guarded([&]() -> Status {
    if (count == nullptr) return invalid("available_targets", "count", "null", "where to write the number");
    if (targets == nullptr && capacity > 0) return invalid("available_targets", "targets", "null", "room for capacity targets");
    const std::vector<Target> available = available_targets();
    for (std::size_t i = 0; i < std::min(capacity, available.size()); ++i) targets[i] = static_cast<int32_t>(available[i]);
    *count = available.size();
    return {};
  });
}

int recoverssm_resolve_target(int32_t target, int32_t* resolved) {
  return guarded([&]() -> Status {
    if (resolved == nullptr) return invalid("resolve_target", "resolved", "null", "where to write the target");
    Target found = Target::best;
    Status status = resolve_target(enum_of<Target>(target), found);
    if (status.ok()) *resolved = static_cast<int32_t>(found);
    return status;
  });
}

int recoverssm_cuda_available() {
  return guarded([]() -> Status {
    std::string reason = cuda::unavailable_reason();
    return reason.empty() ? Status{} : Status{ErrorKind::unsupported, "cuda: " + reason};
  });
}

const char* recoverssm_cuda_architectures() {
  static const std::string text = [] {
    std::string names;
    for (const std::string& name : cuda::architectures()) names += (names.empty() ? "" : " ") + name;
    return names;
  }();
  return text.c_str();
}

int recoverssm_cuda_device_count(int32_t* count) {
  return guarded([&]() -> Status {
    if (count == nullptr) return invalid("cuda_device_count", "count", "null", "where to write the number");
    *count = static_cast<int32_t>(cuda::devices().size());
    return {};
  });
}

int recoverssm_cuda_describe_device(int32_t index, recoverssm_cuda_device* device) {
  return guarded([&]() -> Status {
    const char* const op = "cuda_describe_device";
    ListMemory memory;
    Import import(op, memory);
    import.check<cuda::Device>("device", device);
    if (!import.ok()) return import.take();
    const std::vector<cuda::Device> all = cuda::devices();
    if (index < 0 || index >= static_cast<int32_t>(all.size())) {
      return {ErrorKind::out_of_range, std::string(op) + ": index: " + std::to_string(index) + ", expected one of " +
                                           std::to_string(all.size()) + " devices"};
    }
    write(device, device->struct_size, all[static_cast<std::size_t>(index)]);
    return {};
  });
}

int recoverssm_sycl_available() {
  return guarded([]() -> Status {
    std::string reason = sycl_backend::unavailable_reason();
    if (reason.empty()) reason = sycl_backend::inexact();
    return reason.empty() ? Status{} : Status{ErrorKind::unsupported, "sycl: " + reason};
  });
}

const char* recoverssm_sycl_runtime() {
  static const std::string text = sycl_backend::runtime();
  return text.c_str();
}

const char* recoverssm_status_name(int status) {
  if (status == RECOVERSSM_OUT_OF_MEMORY) return "out_of_memory";
  return name_of(enum_of<ErrorKind>(status));
}
const char* recoverssm_dtype_name(int32_t dtype) { return name_of(enum_of<DType>(dtype)); }
int64_t recoverssm_dtype_size(int32_t dtype) { return size_of(enum_of<DType>(dtype)); }
const char* recoverssm_target_name(int32_t target) { return name_of(enum_of<Target>(target)); }
const char* recoverssm_backend_name(int32_t backend) { return name_of(enum_of<Backend>(backend)); }
const char* recoverssm_operation_name(int32_t op) { return name_of(enum_of<Operation>(op)); }
const char* recoverssm_record_layout_id(int32_t gate) {
  const bool known = gate == RECOVERSSM_GATE_GDN || gate == RECOVERSSM_GATE_KDA;
  return known ? record_layout_id(enum_of<Gate>(gate)) : "unknown";
}

int recoverssm_sizes(const recoverssm_geometry* geometry, recoverssm_request_sizes* result) {
  return guarded([&]() -> Status {
    ListMemory memory;
    Import import("sizes", memory);
    Geometry from;
    import.read("geometry", geometry, from);
    import.check<Sizes>("sizes", result);
    if (!import.ok()) return import.take();
    write(result, result->struct_size, sizes(from));
    return {};
  });
}

int recoverssm_map_windows(const int32_t* draft_counts, const uint8_t* prefilling, const int32_t* lengths, size_t requests,
                           int32_t* rows, size_t* row_count, int32_t* identity) {
  return guarded([&]() -> Status {
    const std::pair<const char*, const void*> arguments[] = {
        {"draft_counts", draft_counts}, {"prefilling", prefilling}, {"lengths", lengths}, {"rows", rows}};
    for (const auto& [name, pointer] : arguments) {
      if (pointer == nullptr && requests > 0) return invalid("map_windows", name, "null", std::to_string(requests) + " entries");
    }
    if (row_count == nullptr) return invalid("map_windows", "row_count", "null", "where to write the number of rows");
    if (identity == nullptr) return invalid("map_windows", "identity", "null", "where to write the flag");
    const WindowMap map = map_windows({draft_counts, requests}, {prefilling, requests}, {lengths, requests});
    std::copy(map.rows.begin(), map.rows.end(), rows);
    *row_count = map.rows.size();
    *identity = map.identity ? 1 : 0;
    return {};
  });
}
