// gpu.h from CUDA.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdlib>
#include <stdexcept>

#include "device/gpu.h"
#include "recoverssm/cuda.hpp"

namespace gpu {
namespace {

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorName(error) + ", " + cudaGetErrorString(error));
}

cudaStream_t of(const Stream& stream) { return static_cast<cudaStream_t>(stream.handle()); }

__global__ void count_other_kernel(const std::uint32_t* words, std::uint64_t n, std::uint32_t word, unsigned long long* counter) {
  unsigned long long others = 0;
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) others += words[i] != word;
  if (others != 0) atomicAdd(counter, others);
}

constexpr int kLateBlocks = 32;  // others have room beside them

__global__ void write_late_kernel(uint4* memory, const uint4* copy, std::size_t count) {
  const std::size_t first = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x, step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = first; i < count; i += step) memory[i] = {~0U, ~0U, ~0U, ~0U};
  __threadfence();
  __syncthreads();
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
  unsigned long long begin = 0, now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < 100'000);  // ns
  for (std::size_t i = first; i < count; i += step) memory[i] = copy[i];
}

__global__ void count_differences_kernel(const std::uint32_t* a, const std::uint32_t* b, std::uint64_t n,
                                         unsigned long long* counter) {
  unsigned long long others = 0;
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) others += a[i] != b[i];
  if (others != 0) atomicAdd(counter, others);
}

constexpr int kBlocks = 1056, kThreads = 256;

// cudaFuncGetName takes the host's handle of a kernel; what a node says is one where the runtime knows it. Else the driver is asked.
std::string name_of_kernel(cudaGraphNode_t node) {
  const char* name = nullptr;
  cudaKernelNodeParams params{};
  if (cudaGraphKernelNodeGetParams(node, &params) == cudaSuccess && cudaFuncGetName(&name, params.func) == cudaSuccess) return name;
  cudaGetLastError();
  const auto entry = [](const char* symbol) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    if (cudaGetDriverEntryPointByVersion(symbol, &found, 12040, cudaEnableDefault, &result) != cudaSuccess) found = nullptr;
    cudaGetLastError();
    return found;
  };
  using GetParams = CUresult (*)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS*);
  using GetName = CUresult (*)(const char**, CUfunction);
  using GetKernelName = CUresult (*)(const char**, CUkernel);
  const auto get_params = reinterpret_cast<GetParams>(entry("cuGraphKernelNodeGetParams"));
  const auto get_name = reinterpret_cast<GetName>(entry("cuFuncGetName"));
  const auto get_kernel_name = reinterpret_cast<GetKernelName>(entry("cuKernelGetName"));
  CUDA_KERNEL_NODE_PARAMS found{};
  if (get_params == nullptr || get_params(node, &found) != CUDA_SUCCESS)
    return "(a kernel whose node the driver does not describe)";
  if (found.func != nullptr && get_name != nullptr && get_name(&name, found.func) == CUDA_SUCCESS) return name;
  if (found.kern != nullptr && get_kernel_name != nullptr && get_kernel_name(&name, found.kern) == CUDA_SUCCESS) return name;
  return "(a kernel without a name)";
}

std::uint64_t read_counter(const Memory& counter) {
  std::uint64_t count = 0;
  download(&count, counter.data(), sizeof count);
  return count;
}

}  // namespace

bool real() { return true; }
bool executes() { return true; }

std::string missing() { return recoverssm::cuda::unavailable_reason(); }

std::string description() {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, current()), "cudaGetDeviceProperties");
  return properties.name;
}

int devices() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  return count;
}

int current() {
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

void use(int device) { check(cudaSetDevice(device), "cudaSetDevice"); }

std::size_t free_bytes() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

Memory::Memory(std::size_t bytes) : bytes_(bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  data_ = static_cast<std::byte*>(memory);
}
Memory::~Memory() { cudaFree(data_); }

Pinned::Pinned(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable), "cudaHostAlloc");
  data_ = static_cast<std::byte*>(memory);
}
Pinned::~Pinned() { cudaFreeHost(data_); }

Stream::Stream(StreamKind kind) {
  if (kind == StreamKind::null) return;
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, kind == StreamKind::plain ? cudaStreamDefault : cudaStreamNonBlocking),
        "cudaStreamCreateWithFlags");
  handle_ = stream;
}
Stream::~Stream() {
  if (handle_ != nullptr) cudaStreamDestroy(static_cast<cudaStream_t>(handle_));
}
void Stream::wait() const { check(cudaStreamSynchronize(of(*this)), "cudaStreamSynchronize"); }

void upload(std::byte* device, const void* host, std::size_t bytes) {
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice), "upload");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // a copy from pageable memory may return before it has arrived
}

void download(void* host, const std::byte* device, std::size_t bytes) {
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost), "download");
}

void fill(std::byte* device, int byte, std::size_t bytes) {
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check(cudaMemset(device, byte, bytes), "cudaMemset");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

std::uint64_t count_other_words(const std::byte* device, std::size_t bytes, std::uint32_t word) {
  if (bytes % 4 != 0) throw std::runtime_error("count_other_words: bytes that are no words");
  const Memory counter(sizeof(std::uint64_t));
  fill(counter.data(), 0, counter.bytes());
  count_other_kernel<<<kBlocks, kThreads>>>(reinterpret_cast<const std::uint32_t*>(device), bytes / 4, word,
                                            reinterpret_cast<unsigned long long*>(counter.data()));
  check(cudaGetLastError(), "count_other_kernel");
  return read_counter(counter);
}

void copy_on(const Stream& stream, std::byte* to, const std::byte* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, of(stream)), "cudaMemcpyAsync");
}

void count_differences_on(const Stream& stream, const std::byte* a, const std::byte* b, std::size_t bytes, std::uint64_t* counter) {
  if (bytes % 4 != 0) throw std::runtime_error("count_differences_on: bytes that are no words");
  count_differences_kernel<<<kBlocks, kThreads, 0, of(stream)>>>(reinterpret_cast<const std::uint32_t*>(a),
                                                                 reinterpret_cast<const std::uint32_t*>(b), bytes / 4,
                                                                 reinterpret_cast<unsigned long long*>(counter));
  check(cudaGetLastError(), "count_differences_kernel");
}

void write_late_on(const Stream& stream, std::byte* memory, const std::byte* copy, std::size_t bytes) {
  if (bytes % 16 != 0) throw std::runtime_error("write_late_on: bytes that are no fours of words");
  write_late_kernel<<<kLateBlocks, kThreads, 0, of(stream)>>>(reinterpret_cast<uint4*>(memory),
                                                              reinterpret_cast<const uint4*>(copy), bytes / 16);
  check(cudaGetLastError(), "write_late_kernel");
}

struct Graph::State {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ~State() {
    if (exec != nullptr) cudaGraphExecDestroy(exec);
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
};

Graph::Graph(const Stream& stream, CaptureMode mode, const std::function<void()>& f) : state_(std::make_unique<State>()) {
  const cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                                         cudaStreamCaptureModeRelaxed};
  check(cudaStreamBeginCapture(of(stream), modes[static_cast<int>(mode)]), "cudaStreamBeginCapture");
  try {
    f();
  } catch (...) {
    cudaStreamEndCapture(of(stream), &state_->graph);
    cudaGetLastError();
    throw;
  }
  check(cudaStreamEndCapture(of(stream), &state_->graph), "cudaStreamEndCapture");
  std::size_t count = 0;
  check(cudaGraphGetNodes(state_->graph, nullptr, &count), "cudaGraphGetNodes");
  std::vector<cudaGraphNode_t> nodes(count);
  if (count > 0) check(cudaGraphGetNodes(state_->graph, nodes.data(), &count), "cudaGraphGetNodes");
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    check(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
    if (type == cudaGraphNodeTypeKernel) {
      kernels_.push_back(name_of_kernel(node));
    } else {
      ++other_nodes_;
    }
  }
  check(cudaGraphInstantiate(&state_->exec, state_->graph, 0), "cudaGraphInstantiate");
}
Graph::~Graph() = default;

void Graph::launch(const Stream& stream) const { check(cudaGraphLaunch(state_->exec, of(stream)), "cudaGraphLaunch"); }

std::string provoke_error() {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, std::size_t{1} << 60);
  return error == cudaSuccess ? "no error" : cudaGetErrorName(error);
}

std::string take_last_error() { return cudaGetErrorName(cudaGetLastError()); }

}  // namespace gpu
