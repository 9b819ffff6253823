#include "device/fake_cuda.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "cuda/device.h"
#include "cuda/ops.h"

namespace fake_cuda {

bool present = true;
bool raises = false, writes_outside = false;
std::atomic<std::int64_t> launches = 0, allocated = 0;
thread_local int device = 0;

namespace {

// Before main: tests/support asks once.
[[maybe_unused]] const int kOnDevice = setenv("RECOVERSSM_TEST_BACKEND", "cuda", 1);

using namespace recoverssm;

template <class Params>
Status launch_fake(const Params& params, const Launch& launch, Operation op) {
  ++launches;
  auto* const workspace = static_cast<std::byte*>(launch.workspace.data);
  if (writes_outside) workspace[kWorkspace] ^= std::byte{1};
  std::memset(workspace, 0x11, kWorkspace);
  if (raises && launch.flag != nullptr)
    *launch.flag = {static_cast<std::int32_t>(ErrorKind::bad_state), static_cast<std::int32_t>(op), 0, 7};
  Context context;
  const Status status = run(params, context.launch(workspace_size(params, context.launch())));
  if (!status.ok() && launch.flag != nullptr && launch.flag->code == 0) {
    *launch.flag = {static_cast<std::int32_t>(status.kind), static_cast<std::int32_t>(op), 0, 0};
  }
  return {};
}

void* take(std::size_t bytes) {
  ++allocated;
  return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
}

void give(void* memory) {
  if (memory == nullptr) return;
  --allocated;
  std::free(memory);
}

}  // namespace
}  // namespace fake_cuda

namespace recoverssm::cuda {

// clang-format off
#define RECOVERSSM_OP(name, Params)                                                                                             \
  Support support(const Params&) { return {}; }                                                                                 \
  std::size_t scratch_size(const Params&) { return fake_cuda::kWorkspace; }                                                     \
  Status execute(const Params& params, const Launch& launch) { return fake_cuda::launch_fake(params, launch, Operation::name); }
// clang-format on

RECOVERSSM_OP(split_projections, SplitProjectionsParams)
RECOVERSSM_OP(causal_conv1d, CausalConv1dParams)
RECOVERSSM_OP(causal_conv1d_window, CausalConv1dWindowParams)
RECOVERSSM_OP(gated_delta_rule, GatedDeltaRuleParams)
RECOVERSSM_OP(gated_delta_rule_snapshots, GatedDeltaRuleSnapshotsParams)
RECOVERSSM_OP(gated_delta_rule_verify, GatedDeltaRuleVerifyParams)
RECOVERSSM_OP(commit_plan, CommitPlanParams)
RECOVERSSM_OP(commit_plan_groups, CommitPlanGroupsParams)
RECOVERSSM_OP(commit, CommitParams)
RECOVERSSM_OP(materialize, MaterializeParams)
RECOVERSSM_OP(align_move, AlignMoveParams)
RECOVERSSM_OP(align_advance, AlignAdvanceParams)
RECOVERSSM_OP(short_conv, ShortConvParams)
RECOVERSSM_OP(gdn_attention, GdnAttentionParams)

#undef RECOVERSSM_OP

int current_device() { return fake_cuda::device; }
void* allocate(std::size_t bytes) { return fake_cuda::present ? fake_cuda::take(bytes) : nullptr; }
void release(void* memory) { fake_cuda::give(memory); }

std::vector<Device> devices() {
  if (!fake_cuda::present) return {};
  return {{.index = 0,
           .name = "the CPU in disguise",
           .major = 9,
           .minor = 0,
           .multiprocessors = 1,
           .memory_bytes = 1 << 30,
           .unusable = ""}};
}
std::string unavailable_reason() { return fake_cuda::present ? "" : "no CUDA device"; }
std::vector<std::string> architectures() { return {"sm_90"}; }
Versions versions() { return {13000, 13000}; }

void* allocate_shared(SharedMemory, std::size_t bytes) { return std::aligned_alloc(256, (bytes + 255) / 256 * 256); }
void release_shared(SharedMemory, void* memory) { std::free(memory); }
void* create_stream() { return &fake_cuda::launches; }
void destroy_stream(void*) {}
Status synchronize(void*) { return {}; }
Status copy_to_device(void* device, const void* host, std::size_t bytes) {
  std::memcpy(device, host, bytes);
  return {};
}
Status copy_to_host(void* host, const void* device, std::size_t bytes) {
  std::memcpy(host, device, bytes);
  return {};
}

}  // namespace recoverssm::cuda
