// What librecoverssm_sycl.so gives the library: one function, which returns this table. Both are built from one tree with one compiler.
#pragma once

#include "api/backend_memory.h"
#include "api/devices.h"
#include "sycl/bench.h"
#include "sycl/ops.h"

namespace recoverssm::sycl_backend {

template <class Params>
struct Entry {  // null: not there
  std::size_t (*scratch_size)(const Params& params, const Launch& launch) = nullptr;
  Status (*execute)(const Params& params, const Launch& launch) = nullptr;
};

struct Module {
  const char* version = nullptr;  // of the library it belongs to, first in every module
  DeviceCalls calls;
  BackendMemory memory;
  BenchCalls bench;
  std::vector<Device> (*devices)() = nullptr;
  std::string (*inexact)() = nullptr;
  std::string (*runtime)() = nullptr;
  void (*set_sub_group_size)(int size) = nullptr;
#define RECOVERSSM_OP(name, Params) Entry<Params> name;
  RECOVERSSM_SYCL_OPERATIONS(RECOVERSSM_OP)
#undef RECOVERSSM_OP
};

constexpr const char* kModuleFile = "librecoverssm_sycl.so.0";
constexpr const char* kModuleFunction = "recoverssm_sycl_module";
using ModuleFunction = const Module* (*)();

}  // namespace recoverssm::sycl_backend
