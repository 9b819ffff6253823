#include "sycl/load.h"

#include <dlfcn.h>

#include <cstring>
#include <string>

#include "sycl/module.h"

namespace recoverssm::sycl_backend {
namespace {

struct Loaded {
  const Module* module = nullptr;
  std::string reason;  // why there is none
};

// Beside the file this code is in (the library, or a program it is linked into), then where the loader looks.
void* open_module(std::string& reason) {
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&open_module), &self) != 0 && self.dli_fname != nullptr) {
    const std::string file = self.dli_fname;
    const std::size_t slash = file.rfind('/');
    if (slash != std::string::npos) {
      const std::string beside = file.substr(0, slash + 1) + kModuleFile;
      if (void* handle = dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
      // Of two reasons the telling one: a file that is there and does not load is not looked for elsewhere.
      const std::string said = dlerror();
      if (said.find(beside + ": cannot open shared object file") == std::string::npos) {
        reason = said;
        return nullptr;
      }
    }
  }
  if (void* handle = dlopen(kModuleFile, RTLD_NOW | RTLD_LOCAL)) return handle;
  reason = dlerror();
  return nullptr;
}

Loaded load() {
  Loaded loaded;
  void* const handle = open_module(loaded.reason);
  if (handle == nullptr) return loaded;
  const auto function = reinterpret_cast<ModuleFunction>(dlsym(handle, kModuleFunction));
  const Module* const module = function == nullptr ? nullptr : function();
  if (module == nullptr || std::strcmp(module->version, RECOVERSSM_MODULE_VERSION) != 0) {
    loaded.reason = std::string(kModuleFile) + ": of another build than this library, " RECOVERSSM_MODULE_VERSION;
    return loaded;  // left loaded: a SYCL runtime does not like to go
  }
  loaded.module = module;
  return loaded;
}

// Never taken down: the runtime may be gone by the time statics are.
const Loaded& loaded() {
  static const Loaded& only = *new Loaded(load());
  return only;
}

const Module* module() { return loaded().module; }

Status refused() { return {ErrorKind::unsupported, loaded().reason}; }

constexpr DeviceCalls kAbsent = {
    .unavailable_reason = [] { return loaded().reason; },
    .allocate = [](void*, std::size_t) -> void* { return nullptr; },
    .release = [](void*, void*) {},
    .allocate_shared = [](SharedMemory, std::size_t) -> void* { return nullptr; },
    .release_shared = [](SharedMemory, void*) {},
    .create_stream = []() -> void* { return nullptr; },
    .destroy_stream = [](void*) {},
    .synchronize = [](void*) { return refused(); },
    .copy_to_device = [](void*, const void*, std::size_t) { return refused(); },
    .copy_to_host = [](void*, const void*, std::size_t) { return refused(); },
};

template <class Params>
std::size_t scratch_size_of(const Entry<Params>& entry, const Params& params, const Launch& launch) {
  return entry.scratch_size == nullptr ? 0 : entry.scratch_size(params, launch);
}

}  // namespace

const DeviceCalls& calls() { return module() == nullptr ? kAbsent : module()->calls; }
const BackendMemory& memory() { return module()->memory; }
const BenchCalls& bench_calls() { return module()->bench; }

std::vector<Device> devices() { return module() == nullptr ? std::vector<Device>() : module()->devices(); }
std::string unavailable_reason() { return calls().unavailable_reason(); }
std::string inexact() { return module() == nullptr ? std::string() : module()->inexact(); }
std::string runtime() { return module() == nullptr ? std::string() : module()->runtime(); }
void set_sub_group_size(int size) {
  if (module() != nullptr) module()->set_sub_group_size(size);
}

namespace {

Support machine(const char* op, bool present) {
  if (module() == nullptr) return {false, std::string(op) + ": " + loaded().reason};
  if (!present) return {false, std::string(op) + ": not in this build's SYCL module"};
  if (std::string reason = unavailable_reason(); !reason.empty()) return {false, std::string(op) + ": " + reason};
  if (std::string reason = inexact(); !reason.empty()) return {false, std::string(op) + ": " + reason};
  return {};
}

}  // namespace

// clang-format off
#define RECOVERSSM_OP(name, Params)                                                                                     \
  Support machine_support(const Params&) {                                                                              \
    return machine(#name, module() != nullptr && module()->name.execute != nullptr);                                     \
  }                                                                                                                     \
  std::size_t scratch_size(const Params& params, const Launch& launch) {                                                \
    return module() == nullptr ? 0 : scratch_size_of(module()->name, params, launch);                                   \
  }                                                                                                                     \
  Status execute(const Params& params, const Launch& launch) {                                                          \
    return module()->name.execute(params, launch);                                                                      \
  }
RECOVERSSM_SYCL_OPERATIONS(RECOVERSSM_OP)
#undef RECOVERSSM_OP
// clang-format on

}  // namespace recoverssm::sycl_backend
