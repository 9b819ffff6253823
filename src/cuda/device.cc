#include "cuda/device.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "cuda/architectures.h"
#include "cuda/error.h"

namespace recoverssm::cuda {
namespace {

std::string version_text(int version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); }

// How many devices, or why none.
int count_devices(std::string& reason) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (error == cudaSuccess && count > 0) return count;
  const Versions found = versions();
  if (found.driver == 0) {
    reason = "no CUDA driver";
  } else if (error == cudaErrorInsufficientDriver) {
    reason = "the driver is for CUDA " + version_text(found.driver) + ", this build needs " + version_text(found.runtime);
  } else if (error == cudaSuccess || error == cudaErrorNoDevice) {
    reason = "no CUDA device";
  } else {
    reason = std::string("no usable CUDA device: ") + cudaGetErrorName(error) + ", " + cudaGetErrorString(error);
  }
  return 0;
}

std::string unusable(int major, int minor) {
  const std::vector<Architecture> compiled = parse_architectures(RECOVERSSM_CUDA_ARCHITECTURES);
  const auto runs = [&](const Architecture& architecture) { return architecture.runs_on(major, minor); };
  if (std::any_of(compiled.begin(), compiled.end(), runs)) return {};
  std::string names;
  for (const Architecture& architecture : compiled) names += (names.empty() ? "" : ", ") + architecture.name();
  return "compute capability " + std::to_string(major) + "." + std::to_string(minor) + ", this build has " + names;
}

}  // namespace

std::vector<Device> devices() {
  std::string reason;
  std::vector<Device> found;
  const int count = count_devices(reason);
  for (int i = 0; i < count; ++i) {
    Device device;
    device.index = i;
    cudaDeviceProp properties{};
    if (const Status status = status_of("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, i)); !status.ok()) {
      device.unusable = status.message;
    } else {
      device.name = properties.name;
      device.major = properties.major;
      device.minor = properties.minor;
      device.multiprocessors = properties.multiProcessorCount;
      device.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
      device.unusable = unusable(properties.major, properties.minor);
    }
    found.push_back(std::move(device));
  }
  return found;
}

std::string unavailable_reason() {
  std::string reason;
  if (count_devices(reason) == 0) return reason;
  for (const Device& device : devices()) {
    if (device.unusable.empty()) return {};
    reason += (reason.empty() ? "" : "; ") + ("device " + std::to_string(device.index) + ": " + device.unusable);
  }
  return reason;
}

std::vector<std::string> architectures() {
  std::vector<std::string> names;
  for (const Architecture& architecture : parse_architectures(RECOVERSSM_CUDA_ARCHITECTURES)) names.push_back(architecture.name());
  return names;
}

Versions versions() {
  Versions found;
  if (cudaDriverGetVersion(&found.driver) != cudaSuccess) found.driver = 0;
  if (cudaRuntimeGetVersion(&found.runtime) != cudaSuccess) found.runtime = 0;
  cudaGetLastError();
  return found;
}

void* allocate_shared(SharedMemory kind, std::size_t bytes) {
  void* memory = nullptr;
  const cudaError_t error = kind == SharedMemory::managed
                                ? cudaMallocManaged(&memory, bytes)
                                : cudaHostAlloc(&memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable);
  if (error == cudaSuccess) return memory;
  cudaGetLastError();
  return nullptr;
}

void release_shared(SharedMemory kind, void* memory) {
  if (kind == SharedMemory::managed) {
    cudaFree(memory);
  } else {
    cudaFreeHost(memory);
  }
}

void* create_stream() {
  cudaStream_t stream = nullptr;
  if (cudaStreamCreate(&stream) == cudaSuccess) return stream;
  cudaGetLastError();
  return nullptr;
}

void destroy_stream(void* stream) { cudaStreamDestroy(static_cast<cudaStream_t>(stream)); }

bool capturing(void* stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status) == cudaSuccess)
    return status != cudaStreamCaptureStatusNone;
  cudaGetLastError();
  return true;  // the default stream while another one is being captured
}

Status synchronize(void* stream) {
  return status_of("cudaStreamSynchronize", cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
}

Status copy_to_device(void* device, const void* host, std::size_t bytes) {
  return status_of("copy to the device", cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
}

Status copy_to_host(void* host, const void* device, std::size_t bytes) {
  return status_of("copy from the device", cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
}

}  // namespace recoverssm::cuda
