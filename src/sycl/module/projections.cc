// split_projections on SYCL: one launch.
#include <algorithm>
#include <initializer_list>

#include "device/split_args.h"
#include "sycl/module/operations.h"

namespace recoverssm::sycl_backend {
namespace {

using device::view_of;

constexpr std::int64_t kSplitItems = 128;  // of a work-group
constexpr std::int64_t kSplitTokens =
    8;  // that a work item moves one after the other, having worked out once where its elements lie
constexpr std::int64_t kMaxShares = 65535;

// Whether `lanes` neighbouring elements from a multiple of `lanes` on can be moved as one value. Strides of outer dimensions, in elements.
bool lanes_fit(const TensorView& t, std::int64_t lanes) {
  const auto last = static_cast<std::size_t>(t.dims - 1);
  if (t.stride[last] != 1 || reinterpret_cast<std::uintptr_t>(t.data) % 16 != 0) return false;
  return std::all_of(t.stride.begin(), t.stride.begin() + t.dims - 1, [&](std::int64_t stride) { return stride % lanes == 0; });
}

std::int32_t lanes_of(const SplitProjectionsParams& p) {
  const auto lanes = static_cast<std::int32_t>(16 / size_of(p.qkvz.dtype));
  const bool runs = p.head_k_dim % lanes == 0 && p.head_v_dim % lanes == 0;  // then no value spans two runs of columns
  return runs && lanes_fit(p.qkvz, lanes) && lanes_fit(p.mixed_qkv, lanes) && lanes_fit(p.z, lanes) ? lanes : 1;
}

}  // namespace

std::size_t workspace_bytes(const SplitProjectionsParams&, ::sycl::queue&) { return 0; }
void prepare(const SplitProjectionsParams&, ::sycl::queue& queue) { kernel_of(queue, kProjectionsProgram, "split"); }

void launch(const SplitProjectionsParams& p, const Launch& launch, ::sycl::queue& queue) {
  device::SplitArgs args;
  args.qkvz = view_of(p.qkvz);
  args.ba = view_of(p.ba);
  args.mixed_qkv = view_of(p.mixed_qkv);
  args.z = view_of(p.z);
  args.b = view_of(p.b);
  args.a = view_of(p.a);
  args.token_index = view_of(p.token_index);
  args.sizes = {p.layout, p.num_k_heads, p.num_v_heads, p.head_k_dim, p.head_v_dim};
  args.tokens = p.token_index.present() ? p.token_index.shape[0] : p.qkvz.shape[0];
  args.global_rows = std::min({p.qkvz.shape[0], p.ba.shape[0], p.z.shape[0]});
  args.reporter = {launch.flag, Operation::split_projections};
  if (args.tokens == 0) return;
  args.lanes = lanes_of(p);
  args.wide_items = (device::qkv_channels(args.sizes) + args.sizes.HV * args.sizes.V) / args.lanes;
  args.items = args.wide_items + 2 * args.sizes.HV;
  args.tokens_per_item = std::max(kSplitTokens, ceil_div(args.tokens, kMaxShares));
  launch_kernel(queue, kernel_of(queue, kProjectionsProgram, "split"),
                range_of(1, ceil_div(args.tokens, args.tokens_per_item), ceil_div(args.items, kSplitItems), kSplitItems), args);
}

}  // namespace recoverssm::sycl_backend
