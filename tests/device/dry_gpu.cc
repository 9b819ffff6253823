// gpu.h for the library's own CUDA backend where there is no device: its host code runs, and the linker (--wrap) has launches end here. They
// are counted, named and looked at; no kernel runs, so nothing is compared with the CPU.
#include <cuda_runtime.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>

#include "device/gpu.h"

namespace {

std::byte* take(std::size_t bytes) {
  void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (memory == nullptr) throw std::runtime_error("no memory");
  return static_cast<std::byte*>(memory);
}

// The host's handle of each kernel, filled before main.
std::map<const void*, std::string>& names() {
  static std::map<const void*, std::string> all;
  return all;
}

std::vector<std::string> launched;  // since the last capture began

// What every device since sm_80 takes.
bool fits(dim3 grid, dim3 block, std::size_t shared) {
  const auto in = [](unsigned n, unsigned most) { return n >= 1 && n <= most; };
  return in(grid.x, 2147483647U) && in(grid.y, 65535U) && in(grid.z, 65535U) && in(block.x, 1024U) && block.y == 1 &&
         block.z == 1 && shared <= 48 * 1024;
}

}  // namespace

extern "C" {

void __real___cudaRegisterFunction(void** binary, const char* host, char* device, const char* name, int limit, uint3* tid,
                                   uint3* bid, dim3* block, dim3* grid, int* warp);

void __wrap___cudaRegisterFunction(void** binary, const char* host, char* device, const char* name, int limit, uint3* tid,
                                   uint3* bid, dim3* block, dim3* grid, int* warp) {
  names()[host] = name;
  __real___cudaRegisterFunction(binary, host, device, name, limit, tid, bid, block, grid, warp);
}

cudaError_t __wrap_cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void**) {
  if (!fits(config->gridDim, config->blockDim, config->dynamicSmemBytes)) return cudaErrorInvalidConfiguration;
  const auto found = names().find(kernel);
  launched.push_back(found == names().end() ? "(a kernel that nobody has registered)" : found->second);
  return cudaSuccess;
}

}  // extern "C"

namespace gpu {

bool real() { return true; }
bool executes() { return false; }
std::string missing() { return {}; }
std::string description() { return "no device: launches alone"; }
int devices() { return 1; }
int current() { return 0; }
void use(int) {}
std::size_t free_bytes() { return 0; }

Memory::Memory(std::size_t bytes) : data_(take(bytes)), bytes_(bytes) {}
Memory::~Memory() { std::free(data_); }
Pinned::Pinned(std::size_t bytes) : data_(take(bytes)) {}
Pinned::~Pinned() { std::free(data_); }
Stream::Stream(StreamKind) {}
Stream::~Stream() = default;
void Stream::wait() const {}

void upload(std::byte* device, const void* host, std::size_t bytes) { std::memcpy(device, host, bytes); }
void download(void* host, const std::byte* device, std::size_t bytes) { std::memcpy(host, device, bytes); }
void fill(std::byte* device, int byte, std::size_t bytes) { std::memset(device, byte, bytes); }
std::uint64_t count_other_words(const std::byte*, std::size_t, std::uint32_t) { return 0; }
void copy_on(const Stream&, std::byte*, const std::byte*, std::size_t) {}
void write_late_on(const Stream&, std::byte*, const std::byte*, std::size_t) {}
void count_differences_on(const Stream&, const std::byte*, const std::byte*, std::size_t, std::uint64_t*) {}

struct Graph::State {};
Graph::Graph(const Stream&, CaptureMode, const std::function<void()>& f) {
  launched.clear();
  f();
  kernels_ = launched;
}
Graph::~Graph() = default;
void Graph::launch(const Stream&) const {}

std::string provoke_error() { return "no error"; }
std::string take_last_error() { return "no error"; }

}  // namespace gpu
