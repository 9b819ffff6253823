#include <cuda_runtime.h>

#include <cstdio>

#include "bench/device.h"

namespace recoverssm::bench {
namespace {

constexpr int kThreads = 256;
constexpr int kBatch = 8;  // 16-byte accesses in flight a thread

__global__ void repeat_kernel(unsigned char* to, std::size_t bytes, const unsigned char* pattern, std::size_t pattern_bytes) {
  // 16 bytes a turn, written at once; the pattern stays in the L1.
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x * 16;
  for (std::size_t i = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) * 16; i < bytes; i += step) {
    union {
      unsigned char byte[16];
      uint4 all;
    } part;
    std::size_t at = i % pattern_bytes;
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      part.byte[j] = pattern[at];
      if (++at == pattern_bytes) at = 0;
    }
    if (i + 16 <= bytes) {
      *reinterpret_cast<uint4*>(to + i) = part.all;
    } else {
      for (std::size_t j = 0; i + j < bytes; ++j) to[i + j] = part.byte[j];
    }
  }
}

__global__ void set_words_kernel(std::int32_t* to, std::int32_t value, std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) to[i] = value;
}

__global__ void read_kernel(const float4* data, std::int64_t count, float* sink) {
  const std::int64_t block = static_cast<std::int64_t>(kThreads) * kBatch;
  float sum = 0;
  for (std::int64_t first = blockIdx.x * block + threadIdx.x; first < count; first += gridDim.x * block) {
    float4 x[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) x[j] = first + j * kThreads < count ? __ldcs(data + first + j * kThreads) : float4{};
#pragma unroll
    for (int j = 0; j < kBatch; ++j) sum += x[j].x + x[j].y + x[j].z + x[j].w;
  }
  if (sum == 12345.678F) *sink = sum;
}

__global__ void copy_kernel(float4* to, const float4* from, std::int64_t count) {
  const std::int64_t block = static_cast<std::int64_t>(kThreads) * kBatch;
  for (std::int64_t first = blockIdx.x * block + threadIdx.x; first < count; first += gridDim.x * block) {
    float4 x[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      if (first + j * kThreads < count) x[j] = __ldcs(from + first + j * kThreads);
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      if (first + j * kThreads < count) __stcs(to + first + j * kThreads, x[j]);
    }
  }
}

constexpr int kChains = 8, kSteps = 4096, kBlocksEach = 4;

__global__ void multiply_add_kernel(float* sink, float factor) {
  float x[kChains];
#pragma unroll
  for (int j = 0; j < kChains; ++j) x[j] = static_cast<float>(threadIdx.x + j);
  for (int i = 0; i < kSteps; ++i) {
#pragma unroll
    for (int j = 0; j < kChains; ++j) x[j] = __fmaf_rn(x[j], factor, 1.0F);
  }
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kChains; ++j) sum += x[j];
  if (sum == 12345.678F) *sink = sum;
}

__global__ void empty_kernel() {}

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw Error({ErrorKind::device_error, std::string("bench: ") + what + ": " + cudaGetErrorString(error)});
}

unsigned blocks_of(std::int64_t count, std::int64_t each, std::int64_t most) {
  const std::int64_t blocks = (count + each - 1) / each;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

std::string version_text(int version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); }

// What nvidia-smi says; "unknown" where it is not there.
std::string asked(const char* fields) {
  const std::string command = std::string("nvidia-smi -i 0 --format=csv,noheader --query-gpu=") + fields + " 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  char line[256] = {};
  if (!pipe || std::fgets(line, sizeof line, pipe.get()) == nullptr) return "unknown";
  const std::string text(line);
  return text.substr(0, text.find('\n'));
}

class Cuda : public Device {
 public:
  Cuda() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    check(cudaEventCreate(&begin_), "event");
    check(cudaEventCreate(&end_), "event");
    check(cudaMalloc(&sink_, kScratch), "cudaMalloc");
    check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, 0), "device");
  }
  ~Cuda() override {
    cudaFree(sink_);
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream_);
  }
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;

  DeviceHardware hardware() override {
    cudaDeviceProp p{};
    check(cudaGetDeviceProperties(&p, 0), "device");
    int driver = 0, runtime = 0;
    check(cudaDriverGetVersion(&driver), "driver version");
    check(cudaRuntimeGetVersion(&runtime), "runtime version");
    DeviceHardware h;
    h.name = p.name;
    h.driver = asked("driver_version") + ", CUDA " + version_text(driver);
    h.runtime = "CUDA " + version_text(runtime);
    h.clocks = asked("clocks.sm,clocks.max.sm,clocks.mem,clocks.max.mem");
    h.multiprocessors = p.multiProcessorCount;
    h.l2_bytes = static_cast<std::size_t>(p.l2CacheSize);
    h.memory_bytes = p.totalGlobalMem;
    return h;
  }

  void* allocate(std::size_t bytes) override {
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes == 0 ? 1 : bytes), "cudaMalloc");
    return memory;
  }
  void release(void* memory) override { cudaFree(memory); }
  void upload(void* to, const void* from, std::size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), "copy to the device");
    wait();
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "copy from the device");
    wait();
  }
  void repeat(void* to, std::size_t bytes, const void* pattern, std::size_t pattern_bytes) override {
    if (pattern_bytes > kScratch / 2) throw Error({ErrorKind::device_error, "bench: a pattern too long for the scratch memory"});
    unsigned char* const scratch = static_cast<unsigned char*>(sink_) + kScratch / 2;
    upload(scratch, pattern, pattern_bytes);
    if (bytes == 0) return;
    repeat_kernel<<<blocks_of(static_cast<std::int64_t>(bytes), 16 * kThreads, 4096), kThreads, 0, stream_>>>(
        static_cast<unsigned char*>(to), bytes, scratch, pattern_bytes);
    check(cudaGetLastError(), "repeat");
  }
  void set_words(void* to, std::int32_t value, std::int64_t count) override {
    if (count <= 0) return;
    set_words_kernel<<<blocks_of(count, kThreads, 1 << 30), kThreads, 0, stream_>>>(static_cast<std::int32_t*>(to), value, count);
    check(cudaGetLastError(), "set_words");
  }

  Launch launch() const override { return {.backend = Backend::cuda, .stream = stream_}; }
  void wait() override { check(cudaStreamSynchronize(stream_), "a kernel"); }

  std::vector<double> time(const std::function<void()>& work, int warm_up, int replays) override {
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "begin capture");
    try {
      work();
    } catch (...) {
      cudaStreamEndCapture(stream_, &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
      throw;
    }
    check(cudaStreamEndCapture(stream_, &graph), "end capture");
    cudaGraphExec_t exec = nullptr;
    const cudaError_t instantiated = cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphDestroy(graph);
    check(instantiated, "instantiate a graph");
    std::vector<double> seconds;
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < warm_up + replays && error == cudaSuccess; ++i) {
      float ms = 0;
      cudaEventRecord(begin_, stream_);
      error = cudaGraphLaunch(exec, stream_);
      cudaEventRecord(end_, stream_);
      if (error == cudaSuccess) error = cudaEventSynchronize(end_);
      if (error == cudaSuccess) error = cudaEventElapsedTime(&ms, begin_, end_);
      if (i >= warm_up) seconds.push_back(static_cast<double>(ms) / 1e3);
    }
    cudaGraphExecDestroy(exec);
    check(error, "replay a graph");
    return seconds;
  }

  void read(const void* from, std::size_t bytes) override {
    const auto count = static_cast<std::int64_t>(bytes / 16);
    read_kernel<<<blocks_of(count, kThreads * kBatch, 1 << 20), kThreads, 0, stream_>>>(static_cast<const float4*>(from), count,
                                                                                        static_cast<float*>(sink_));
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    const auto count = static_cast<std::int64_t>(bytes / 16);
    copy_kernel<<<blocks_of(count, kThreads * kBatch, 1 << 20), kThreads, 0, stream_>>>(static_cast<float4*>(to),
                                                                                        static_cast<const float4*>(from), count);
  }
  void driver_copy(void* to, const void* from, std::size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "copy");
  }
  std::int64_t multiply_add() override {
    const int blocks = multiprocessors_ * kBlocksEach;
    multiply_add_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream_>>>(static_cast<float*>(sink_), 0.5F);
    return std::int64_t{blocks} * kThreads * kChains * kSteps;
  }
  void empty() override { empty_kernel<<<1, 32, 0, stream_>>>(); }

 private:
  static constexpr std::size_t kScratch = 1 << 17;  // a sink for sums, and the pattern of `repeat`

  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  void* sink_ = nullptr;
  int multiprocessors_ = 0;
};

}  // namespace

std::unique_ptr<Device> open_cuda() { return std::make_unique<Cuda>(); }

}  // namespace recoverssm::bench
