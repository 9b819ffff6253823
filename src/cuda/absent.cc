// What a build without CUDA answers. CMake takes this file where there is no CUDA compiler.

#include "cuda/device.h"
#include "cuda/ops.h"
#include "cuda/range.h"

namespace recoverssm::cuda {
namespace {

constexpr const char* kReason = "this build has no CUDA backend";

Support absent(const char* op) { return {false, std::string(op) + ": " + kReason}; }
Status refused() { return {ErrorKind::unsupported, kReason}; }

void* no_memory(std::size_t, void*) { return nullptr; }
void nothing_to_release(void*, void*) {}

constexpr BackendMemory kNoMemory{
    .allocate = no_memory,
    .release = nothing_to_release,
    .allocate_staging = no_memory,
    .release_staging = nothing_to_release,
    .copy = [](const RowCopy&, void*) { return refused(); },
    .fill = [](void*, std::int64_t, std::byte, std::int64_t, std::int64_t, void*) { return refused(); },
    .wait = synchronize,
    .create_mark = [](void*) -> void* { return nullptr; },
    .destroy_mark = [](void*) {},
    .mark = [](void*, void*) { return refused(); },
    .passed = [](void*) { return true; }};

}  // namespace

const BackendMemory& memory() { return kNoMemory; }

Range::Range(const char*) {}
Range::~Range() {}

Support support(const SplitProjectionsParams&) { return absent("split_projections"); }
Support support(const CausalConv1dParams&) { return absent("causal_conv1d"); }
Support support(const CausalConv1dWindowParams&) { return absent("causal_conv1d_window"); }
Support support(const GatedDeltaRuleParams&) { return absent("gated_delta_rule"); }
Support support(const GatedDeltaRuleSnapshotsParams&) { return absent("gated_delta_rule_snapshots"); }
Support support(const GatedDeltaRuleVerifyParams&) { return absent("gated_delta_rule_verify"); }
Support support(const CommitPlanParams&) { return absent("commit_plan"); }
Support support(const CommitPlanGroupsParams&) { return absent("commit_plan_groups"); }
Support support(const CommitParams&) { return absent("commit"); }
Support support(const MaterializeParams&) { return absent("materialize"); }
Support support(const AlignMoveParams&) { return absent("align_move"); }
Support support(const AlignAdvanceParams&) { return absent("align_advance"); }
Support support(const ShortConvParams&) { return absent("short_conv"); }
Support support(const GdnAttentionParams&) { return absent("gdn_attention"); }

std::size_t scratch_size(const SplitProjectionsParams&) { return 0; }
std::size_t scratch_size(const CausalConv1dParams&) { return 0; }
std::size_t scratch_size(const CausalConv1dWindowParams&) { return 0; }
std::size_t scratch_size(const GatedDeltaRuleParams&) { return 0; }
std::size_t scratch_size(const GatedDeltaRuleSnapshotsParams&) { return 0; }
std::size_t scratch_size(const GatedDeltaRuleVerifyParams&) { return 0; }
std::size_t scratch_size(const CommitPlanParams&) { return 0; }
std::size_t scratch_size(const CommitPlanGroupsParams&) { return 0; }
std::size_t scratch_size(const CommitParams&) { return 0; }
std::size_t scratch_size(const MaterializeParams&) { return 0; }
std::size_t scratch_size(const AlignMoveParams&) { return 0; }
std::size_t scratch_size(const AlignAdvanceParams&) { return 0; }
std::size_t scratch_size(const ShortConvParams&) { return 0; }
std::size_t scratch_size(const GdnAttentionParams&) { return 0; }

Status execute(const SplitProjectionsParams& p, const Launch&) { return {ErrorKind::unsupported, support(p).reason}; }
Status execute(const CausalConv1dParams& p, const Launch&) { return {ErrorKind::unsupported, support(p).reason}; }
Status execute(const CausalConv1dWindowParams& p, const Launch&) { return {ErrorKind::unsupported, support(p).reason}; }
Status execute(const GatedDeltaRuleParams& p, const Launch&) { return {ErrorKind::unsupported, support(p).reason}; }
Status execute(const GatedDeltaRuleSnapshotsParams& p, const Launch&) { return {ErrorKind::unsupported, support(p).reason}; }
Status execute(const GatedDeltaRuleVerifyParams& p, const Launch&) { return {ErrorKind::unsupported, support(p).reason}; }
Status execute(const CommitPlanParams& p, const Launch&) { return {ErrorKind::unsupported, support(p).reason}; }
Status execute(const CommitPlanGroupsParams& p, const Launch&) { return {ErrorKind::unsupported, support(p).reason}; }
Status execute(const CommitParams& p, const Launch&) { return {ErrorKind::unsupported, support(p).reason}; }
Status execute(const MaterializeParams& p, const Launch&) { return {ErrorKind::unsupported, support(p).reason}; }
Status execute(const AlignMoveParams& p, const Launch&) { return {ErrorKind::unsupported, support(p).reason}; }
Status execute(const AlignAdvanceParams& p, const Launch&) { return {ErrorKind::unsupported, support(p).reason}; }
Status execute(const ShortConvParams& p, const Launch&) { return {ErrorKind::unsupported, support(p).reason}; }
Status execute(const GdnAttentionParams& p, const Launch&) { return {ErrorKind::unsupported, support(p).reason}; }

void* allocate(std::size_t) { return nullptr; }
void release(void*) {}

std::vector<Device> devices() { return {}; }
std::string unavailable_reason() { return kReason; }
std::vector<std::string> architectures() { return {}; }
Versions versions() { return {}; }
void* allocate_shared(SharedMemory, std::size_t) { return nullptr; }
void release_shared(SharedMemory, void*) {}
void* create_stream() { return nullptr; }
void destroy_stream(void*) {}
bool capturing(void*) { return false; }
Status synchronize(void*) { return refused(); }
Status copy_to_device(void*, const void*, std::size_t) { return refused(); }
Status copy_to_host(void*, const void*, std::size_t) { return refused(); }

}  // namespace recoverssm::cuda
