// gpu.h from the CPU: what is put on a stream is done at once, "devices" are a number.
#include <cstring>
#include <stdexcept>
#include <utility>

#include "device/fake_cuda.h"
#include "device/fake_memory.h"
#include "device/gpu.h"

namespace gpu {
namespace {

constexpr int kDevices = 2;
std::string last_error = "cudaSuccess";

std::byte* there(void* memory) {
  if (memory == nullptr) throw std::runtime_error("no memory");
  return static_cast<std::byte*>(memory);
}

}  // namespace

bool real() { return false; }
bool executes() { return true; }
std::string missing() { return {}; }
std::string description() { return "the CPU in disguise"; }
int devices() { return kDevices; }
int current() { return fake_cuda::device; }
void use(int device) { fake_cuda::device = device; }
std::size_t free_bytes() { return std::size_t{1} << 31; }

Memory::Memory(std::size_t bytes) : data_(there(fake_cuda::take(bytes))), bytes_(bytes) {}
Memory::~Memory() { fake_cuda::give(data_); }
Pinned::Pinned(std::size_t bytes) : data_(there(fake_cuda::take_shared(bytes))) {}
Pinned::~Pinned() { fake_cuda::give_shared(data_); }

// A stream is its device.
Stream::Stream(StreamKind kind) {
  if (kind != StreamKind::null) handle_ = new int(current());
}
Stream::~Stream() { delete static_cast<int*>(handle_); }
void Stream::wait() const {}

void upload(std::byte* device, const void* host, std::size_t bytes) {
  const fake_cuda::Opened opened;
  std::memcpy(device, host, bytes);
}
void download(void* host, const std::byte* device, std::size_t bytes) {
  const fake_cuda::Opened opened;
  std::memcpy(host, device, bytes);
}
void fill(std::byte* device, int byte, std::size_t bytes) {
  const fake_cuda::Opened opened;
  std::memset(device, byte, bytes);
}

std::uint64_t count_other_words(const std::byte* device, std::size_t bytes, std::uint32_t word) {
  const fake_cuda::Opened opened;
  std::uint64_t others = 0;
  for (std::size_t at = 0; at < bytes; at += 4) others += std::memcmp(device + at, &word, 4) != 0;
  return others;
}

void copy_on(const Stream&, std::byte* to, const std::byte* from, std::size_t bytes) {
  const fake_cuda::Opened opened;
  std::memcpy(to, from, bytes);
}

void write_late_on(const Stream&, std::byte*, const std::byte*, std::size_t) {}

void count_differences_on(const Stream&, const std::byte* a, const std::byte* b, std::size_t bytes, std::uint64_t* counter) {
  const fake_cuda::Opened opened;
  for (std::size_t at = 0; at < bytes; at += 4) *counter += std::memcmp(a + at, b + at, 4) != 0;
}

struct Graph::State {
  std::function<void()> f;
};

Graph::Graph(const Stream&, CaptureMode, const std::function<void()>& f) : state_(std::make_unique<State>(State{f})) {}
Graph::~Graph() = default;
void Graph::launch(const Stream&) const { state_->f(); }

std::string provoke_error() { return last_error = "cudaErrorMemoryAllocation"; }
std::string take_last_error() { return std::exchange(last_error, "cudaSuccess"); }

}  // namespace gpu
