#include "device/fake_cuda.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "c_api/fields.h"
#include "cuda/ops.h"
#include "cuda/range.h"
#include "device/fake_memory.h"

namespace fake_cuda {

bool present = true;
bool raises = false, writes_outside = false;
std::int64_t launches = 0;
std::vector<std::string>* ranges = nullptr;

namespace {

// Before main: tests/support asks once.
[[maybe_unused]] const int kOnDevice = setenv("RECOVERSSM_TEST_BACKEND", "cuda", 1);

using namespace recoverssm;
using recoverssm::c_api::fields;

// Fails the test for every tensor of a call that no device could reach. A visitor of c_api/fields.h, for the C++ side alone.
struct Reach {
  const char* op;

  template <class C, class Cpp>
  void field(const char* name, C&, Cpp& cpp) {
    if constexpr (std::is_same_v<Cpp, TensorView>) {
      if (!reachable(cpp)) ADD_FAILURE() << op << ": " << name << " is no memory of the device";
    }
  }
  template <class... Any>
  void optional(Any&&...) {}
  template <class C, class Cpp>
  void nested(const char*, const C*, Cpp& cpp) {
    C c{};
    fields(*this, c, cpp);
  }
  template <class C, class Cpp>
  void maybe(const char*, const C*, Cpp& cpp) {
    C c{};
    if constexpr (requires { cpp.has_value(); }) {
      if (cpp) fields(*this, c, *cpp);
    } else {
      fields(*this, c, cpp);
    }
  }
  template <class C, class Items>
  void list(const char*, const C*, std::size_t, Items& items) {
    for (auto item : items) {
      C c{};
      fields(*this, c, item);
    }
  }
  template <class... Any>
  void array(Any&&...) {}
  template <class... Any>
  void reserved(Any&&...) {}
};

template <class CParams, class Params>
Status launch_fake(const char* name, const Params& params, const Launch& launch, Operation op) {
  ++launches;
  Reach reach{name};
  CParams c{};
  Params copy = params;
  fields(reach, c, copy);
  const Opened opened;
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

}  // namespace
}  // namespace fake_cuda

namespace recoverssm::cuda {

// clang-format off
#define RECOVERSSM_OP(name, Params)                                                                                             \
  Support support(const Params&) { return {}; }                                                                                 \
  std::size_t scratch_size(const Params&) { return fake_cuda::kWorkspace; }                                                     \
  Status execute(const Params& params, const Launch& launch) { return fake_cuda::launch_fake<recoverssm_##name##_params>(#name, params, launch, Operation::name); }
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

Range::Range(const char* name) {
  if (fake_cuda::ranges != nullptr) fake_cuda::ranges->emplace_back(name);
}
Range::~Range() {}

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

}  // namespace recoverssm::cuda
