#include "support/backend.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>

#include "api/devices.h"

namespace support {

namespace {

using recoverssm::Backend;
using recoverssm::DeviceFlag;

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "RECOVERSSM_TEST_BACKEND: %s\n", why.c_str());
  std::exit(1);
}

recoverssm::SharedMemory kind_of_memory() {
  const char* const name = std::getenv("RECOVERSSM_TEST_MEMORY");
  const bool managed = name != nullptr && std::string(name) == "managed";
  return managed ? recoverssm::SharedMemory::managed : recoverssm::SharedMemory::pinned;
}

Backend chosen() {
  const char* const name = std::getenv("RECOVERSSM_TEST_BACKEND");
  if (name == nullptr || std::string(name).empty() || std::string(name) == "cpu") return Backend::cpu;
  for (const Backend backend : {Backend::cuda, Backend::sycl}) {
    if (std::string(name) != name_of(backend)) continue;
    if (const std::string reason = recoverssm::unavailable_reason(backend); !reason.empty())
      give_up(std::string(name) + ": " + reason);
    return backend;
  }
  give_up(std::string(name) + ", expected cpu, cuda or sycl");
}

const recoverssm::DeviceCalls& calls() { return recoverssm::device_calls(backend()); }

class SharedPages : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t /*alignment: what devices give has 256*/) override {
    if (void* const memory = calls().allocate_shared(kind_, bytes)) return memory;
    throw std::bad_alloc();
  }
  void do_deallocate(void* memory, std::size_t, std::size_t) override { calls().release_shared(kind_, memory); }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  const recoverssm::SharedMemory kind_ = kind_of_memory();
};

// Aligns whatever is asked for: a vector of bytes asks for none.
class Aligned : public std::pmr::memory_resource {
 public:
  explicit Aligned(std::pmr::memory_resource* from) : from_(from) {}

 private:
  static constexpr std::size_t kLeast = 64;
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    return from_->allocate(bytes, std::max(alignment, kLeast));
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    from_->deallocate(memory, bytes, std::max(alignment, kLeast));
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  std::pmr::memory_resource* from_;
};

// Never taken down: the driver may be gone by the time statics are.
struct Device {
  SharedPages pages;
  std::pmr::synchronized_pool_resource pool{{.max_blocks_per_chunk = 64, .largest_required_pool_block = 4 << 20}, &pages};
  Aligned memory{&pool};
  void* stream = calls().create_stream();
  DeviceFlag* flag = new (memory.allocate(sizeof(DeviceFlag))) DeviceFlag;
};

Device& device() {
  static Device& only = *new Device;
  return only;
}

}  // namespace

Backend backend() {
  static const Backend backend = chosen();
  return backend;
}

bool counting() {
  static const bool counts = [] {
    if (on_device()) std::fprintf(stderr, "left out on %s: counters, which only the CPU keeps\n", name_of(backend()));
    return !on_device();
  }();
  return counts;
}

std::pmr::memory_resource* memory_of_calls() {
  static Aligned& heap = *new Aligned(std::pmr::new_delete_resource());
  return on_device() ? static_cast<std::pmr::memory_resource*>(&device().memory) : &heap;
}

recoverssm::Launch device_launch() { return {.backend = backend(), .stream = device().stream, .flag = device().flag}; }

recoverssm::Status wait_for_device() { return calls().synchronize(device().stream); }

DeviceFlag take_flag() {
  const DeviceFlag found = *device().flag;
  *device().flag = {};
  return found;
}

}  // namespace support
