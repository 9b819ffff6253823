// Runs one operation: scratch memory of the calling thread, PyTorch's threads, errors as exceptions.
#pragma once

#include "recoverssm/recoverssm.hpp"

namespace recoverssm::torch_ops {

// PyTorch's intra-op threads; their number is torch.get_num_threads().
ParallelFor torch_threads();

// At least `bytes` of the calling thread's own scratch memory, which stays until the thread ends. Throws std::bad_alloc.
Workspace thread_workspace(std::size_t bytes);

// Throws a std::runtime_error "[recoverssm.KIND] text": the stable ABI lets no other exception type through, so the kind travels in the
// text, and recoverssm.ops turns it into a class.
[[noreturn]] void raise(const Status& status);

template <class Params>
void launch(const Params& params) {
  Launch launch{.parallel = torch_threads()};
  launch.workspace = thread_workspace(workspace_size(params, launch));
  if (const Status status = run(params, launch); !status.ok()) raise(status);
}

}  // namespace recoverssm::torch_ops
