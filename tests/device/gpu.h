// What the device tests need of a device beside the library: memory, copies, streams, graphs, other devices. Three times:
//   gpu.cu       from CUDA
//   fake_gpu.cc  from the CPU, with fake_cuda.cc as the library's backend: the tests' own logic, where there is no device
//   dry_gpu.cc   from nothing, with the library's own backend, whose launches end there: what it would launch
// Everything throws std::runtime_error in the driver's words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gpu {

bool real();                // the library's own backend; false: the fake
bool executes();            // calls do what they say; false: dry_gpu.cc
std::string missing();      // why nothing runs here; empty: something does
std::string description();  // "NVIDIA H200"
int devices();
int current();
void use(int device);
std::size_t free_bytes();

// First line of a test.
#define GPU_OR_SKIP() \
  if (const std::string why = gpu::missing(); !why.empty()) GTEST_SKIP() << "left out: " << why

// Memory of the device that is current when it is made, aligned to 256 bytes.
class Memory {
 public:
  explicit Memory(std::size_t bytes);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Pinned memory of the host, which the device reaches at the same address.
class Pinned {
 public:
  explicit Pinned(std::size_t bytes);
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned();
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

enum class StreamKind { null, plain, non_blocking };  // the default stream, in order with it, and not

class Stream {
 public:
  explicit Stream(StreamKind kind);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();
  void* handle() const { return handle_; }
  void wait() const;

 private:
  void* handle_ = nullptr;
};

// These wait for the whole device first, and return when they are done.
void upload(std::byte* device, const void* host, std::size_t bytes);
void download(void* host, const std::byte* device, std::size_t bytes);
void fill(std::byte* device, int byte, std::size_t bytes);
// 4-byte words that are not `word`.
std::uint64_t count_other_words(const std::byte* device, std::size_t bytes, std::uint32_t word);

// Put on a stream, in order with what else is there.
void copy_on(const Stream& stream, std::byte* to, const std::byte* from, std::size_t bytes);
// Adds the number of 4-byte words in which a and b differ to *counter, memory of the device.
void count_differences_on(const Stream& stream, const std::byte* a, const std::byte* b, std::size_t bytes, std::uint64_t* counter);

// A kernel that lets the next one start at once and leaves 0xff in `memory` for a tenth of a millisecond before it puts back what `copy` holds: a
// next one that does not wait for it sees that. The fake, where everything is in order, does nothing.
void write_late_on(const Stream& stream, std::byte* memory, const std::byte* copy, std::size_t bytes);

enum class CaptureMode { global, thread_local_, relaxed };

class Graph {
 public:
  // Captures what f puts on the stream. The fake remembers f, and runs it when launched.
  Graph(const Stream& stream, CaptureMode mode, const std::function<void()>& f);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();
  void launch(const Stream& stream) const;
  // The names of its kernels, mangled, in no order; the fake has none.
  const std::vector<std::string>& kernels() const { return kernels_; }
  // Nodes that are no kernels: copies, memsets, host functions, ...
  int other_nodes() const { return other_nodes_; }

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::vector<std::string> kernels_;
  int other_nodes_ = 0;
};

// Leaves an error behind for cudaGetLastError, as a caller's failed call does, that spoils nothing. Its name, and what is left now.
std::string provoke_error();
std::string take_last_error();

}  // namespace gpu
