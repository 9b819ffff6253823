#include "cuda_launch.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <stdexcept>
#include <string>

#include "cuda/device.h"
#include "launch.h"
#include "recoverssm/cuda.hpp"

namespace recoverssm::torch_ops {

namespace {

constexpr std::int32_t kMostDevices = 64;

void check(AOTITorchError error, const char* what) {
  if (error != TORCH_SUCCESS) throw std::runtime_error(std::string("[recoverssm.device_error] PyTorch could not ") + what);
}

// The stable ABI's own function for streams gives PyTorch's numbers of them, not cudaStream_t. The one that does is in libtorch_cuda, which is
// there if a CUDA tensor is, and which this library, for every build of PyTorch, cannot be linked with.
using CurrentStream = AOTITorchError (*)(std::int32_t device, void** stream);
CurrentStream find_current_stream() {
  constexpr const char* kName = "aoti_torch_get_current_cuda_stream";
  void* symbol = dlsym(RTLD_DEFAULT, kName);
  if (symbol == nullptr) {
    if (void* const library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD)) symbol = dlsym(library, kName);
  }
  return reinterpret_cast<CurrentStream>(symbol);
}

void* current_stream(std::int32_t device) {
  static const CurrentStream find = find_current_stream();
  if (find == nullptr) raise({ErrorKind::device_error, "cuda: this PyTorch has no aoti_torch_get_current_cuda_stream"});
  void* stream = nullptr;
  check(find(device, &stream), "say which stream is the current one");
  return stream;
}

std::array<std::atomic<DeviceFlag*>, kMostDevices> flags;

// One a device, in memory that host and kernels see, for the life of the process: graphs keep its address. Null while the first call of all is being
// captured, when nothing may be allocated.
DeviceFlag* flag_of(std::int32_t device, void* stream) {
  if (device < 0 || device >= kMostDevices) return nullptr;
  auto& place = flags[static_cast<std::size_t>(device)];
  if (DeviceFlag* const flag = place.load(std::memory_order_acquire)) return flag;
  if (cuda::capturing(stream)) return nullptr;
  void* const memory = cuda::allocate_shared(cuda::SharedMemory::pinned, sizeof(DeviceFlag));
  if (memory == nullptr) return nullptr;
  auto* const made = new (memory) DeviceFlag;
  DeviceFlag* other = nullptr;
  if (place.compare_exchange_strong(other, made)) return made;
  cuda::release_shared(cuda::SharedMemory::pinned, memory);
  return other;
}

}  // namespace

CudaLaunch::CudaLaunch(std::int32_t device) : device_(device) {
  if (cuda::architectures().empty()) return;
  check(aoti_torch_create_device_guard(device, &guard_.handle), "make the tensors' device the current one");
  launch_.stream = current_stream(device);
  launch_.flag = flag_of(device, launch_.stream);
}

CudaLaunch::~CudaLaunch() {
  if (room_ != nullptr) aoti_torch_delete_tensor_object(room_);
}

void CudaLaunch::make_room(std::size_t bytes) {
  if (bytes == 0) return;
  const auto size = static_cast<std::int64_t>(bytes), stride = std::int64_t{1};
  check(aoti_torch_empty_strided(1, &size, &stride, aoti_torch_dtype_uint8(), aoti_torch_device_type_cuda(), device_, &room_),
        "allocate scratch memory");
  void* data = nullptr;
  check(aoti_torch_get_data_ptr(room_, &data), "allocate scratch memory");
  launch_.workspace = {data, bytes};
}

}  // namespace recoverssm::torch_ops

// For recoverssm.ops: what kernels on a device have found wrong since the last time, {code, op, layer, row}; all 0: nothing. The caller has waited
// for them.
extern "C" __attribute__((visibility("default"))) void recoverssm_torch_take_flag(std::int32_t device, std::int32_t* finding) {
  using namespace recoverssm;
  DeviceFlag* flag = nullptr;
  if (device >= 0 && device < torch_ops::kMostDevices) flag = torch_ops::flags[static_cast<std::size_t>(device)].load();
  const DeviceFlag found = flag == nullptr ? DeviceFlag{} : *flag;
  if (flag != nullptr) flag->code = 0;
  finding[0] = found.code, finding[1] = found.op, finding[2] = found.layer, finding[3] = found.row;
}
