// Programmatic dependent launch: on sm_90 and later a kernel may start while the one before it on its stream still runs, so that its launch, its
// code and its parameters are there by the time it may work. Launcher::put asks for it.
#pragma once

#include <cstdint>

namespace recoverssm::cuda {

// Called by every kernel before it reads or writes memory: waits until the kernels before are done and what they wrote is visible. All threads call
// it, those of blocks without work too: a kernel that ended before the one it follows would let its own follower run beside that one.
__device__ __forceinline__ void after_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel start once all blocks of this one have; without it that is when they end. For grids of so few blocks that others find room
// beside them, and only where it was measured to help: blocks that start while many still run take whichever multiprocessor has room, so that
// some get twice as many as others. That cost up to 12 percent (verify of 32 rows x 8, prefill of 4 rows), and 20 where a tiny kernel stands
// between (the lazy form).
constexpr unsigned kSmallGrid = 264;  // two blocks a multiprocessor
__device__ __forceinline__ void let_next_start(bool helps = true) {
#if __CUDA_ARCH__ >= 900
  if (helps && gridDim.x * gridDim.y * gridDim.z <= kSmallGrid) asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// A pointer is computed here, and not where it is first needed: before a wait, or in the shadow of one.
template <class T>
__device__ __forceinline__ void settle(T*& p) {
  asm volatile("" : "+l"(p));
  __builtin_assume(__isGlobal(p));  // which the line before hides
}
template <class... Steps>
__device__ __forceinline__ void settle(std::int64_t& step, Steps&... steps) {
  asm volatile("" : "+l"(step));
  if constexpr (sizeof...(steps) > 0) settle(steps...);
}

}  // namespace recoverssm::cuda
