// Runs one operation. On the CPU: scratch memory of the calling thread, PyTorch's threads. On CUDA (cuda.cc): PyTorch's current stream of the
// tensors' device, scratch memory of its allocator. Errors as exceptions.
#pragma once

#include "cuda_launch.h"
#include "recoverssm/recoverssm.hpp"
#include "stack.h"

namespace recoverssm::torch_ops {

// PyTorch's intra-op threads; their number is torch.get_num_threads().
ParallelFor torch_threads();

// At least `bytes` of the calling thread's own scratch memory, which stays until the thread ends. Throws std::bad_alloc.
Workspace thread_workspace(std::size_t bytes);

// Throws a std::runtime_error "[recoverssm.KIND] text": the stable ABI lets no other exception type through, so the kind travels in the
// text, and recoverssm.ops turns it into a class.
[[noreturn]] void raise(const Status& status);

template <class Params>
void launch(const Params& params, const Place& place) {
  Status status;
  if (place.cuda) {
    CudaLaunch on(place.index);
    on.make_room(workspace_size(params, on.launch()));
    status = run(params, on.launch());
  } else {
    Launch launch{.parallel = torch_threads()};
    launch.workspace = thread_workspace(workspace_size(params, launch));
    status = run(params, launch);
  }
  if (!status.ok()) raise(status);
}

}  // namespace recoverssm::torch_ops
