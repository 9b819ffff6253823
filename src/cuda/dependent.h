// The host's side of dependent.cuh.
#pragma once

namespace recoverssm::cuda {

// Whether kernels, as the current device runs them, begin with a wait for those before them: only then may they start early. kernel: any one.
bool kernels_wait(const void* kernel);

}  // namespace recoverssm::cuda
