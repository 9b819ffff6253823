// All kernels of all programs, for a SYCL compiler. It reads this once for the host, which gives the list, and once for each device, which gives
// the kernels. Delta kernels are for GPUs: work-groups of several sub-groups, of the size that comes first. Others are compiled at run time.
#include "sycl/ahead/kernels.h"

#include <utility>
#include <vector>

#include "sycl/kernels/align.h"
#include "sycl/kernels/attention.h"
#include "sycl/kernels/bench.h"
#include "sycl/kernels/conv.h"
#include "sycl/kernels/delta_program.h"
#include "sycl/kernels/exact.h"
#include "sycl/kernels/pending.h"
#include "sycl/kernels/plan.h"
#include "sycl/kernels/projections.h"
#include "sycl/kernels/short_conv.h"
#include "sycl/kernels/table.h"

namespace recoverssm::sycl_backend {

// What SYCL calls a kernel by: the kernel, and what it is compiled for (void: nothing).
template <class Kernel, class For>
class Named;

#define RSSM_NAME(name, ...) class name##_kernel;
RSSM_ALIGN_KERNELS(RSSM_NAME)
RSSM_ATTENTION_KERNELS(RSSM_NAME)
RSSM_BENCH_KERNELS(RSSM_NAME)
RSSM_CONV_KERNELS(RSSM_NAME, )
RSSM_DELTA_KERNELS(RSSM_NAME, )
RSSM_EXACT_KERNELS(RSSM_NAME)
RSSM_PENDING_KERNELS(RSSM_NAME)
RSSM_PLAN_KERNELS(RSSM_NAME)
RSSM_PROJECTIONS_KERNELS(RSSM_NAME)
RSSM_SHORT_CONV_KERNELS(RSSM_NAME)
RSSM_TABLE_KERNELS(RSSM_NAME)
#undef RSSM_NAME

namespace {

using List = std::vector<AheadKernel>;

template <class Name>
bool runs_on(const ::sycl::device& device) {
  return ::sycl::is_compatible<Name>(device);
}

// For `list`, `program` and a type For.
#define RSSM_ADD(name, Args, ...)                                                                                               \
  list.push_back({program, #name, runs_on<Named<name##_kernel, For>>,                                                           \
                  [](::sycl::queue& queue, const ::sycl::nd_range<3>& range, const void* from, std::size_t) {                   \
                    queue.parallel_for<Named<name##_kernel, For>>(                                                              \
                        range, [args = *static_cast<const Args*>(from)](::sycl::nd_item<3> item) { __VA_ARGS__(item, args); }); \
                  }});
// Beside these a Delta D.
#define RSSM_ADD_SUB_GROUPS(name, Args, ...)                                                                               \
  list.push_back({program, #name, runs_on<Named<name##_kernel, D>>,                                                        \
                  [](::sycl::queue& queue, const ::sycl::nd_range<3>& range, const void* from, std::size_t local_floats) { \
                    queue.submit([&](::sycl::handler& handler) {                                                           \
                      const ::sycl::local_accessor<float, 1> local(local_floats, handler);                                 \
                      handler.parallel_for<Named<name##_kernel, D>>(                                                       \
                          range, [=, args = *static_cast<const Args*>(from)](                                              \
                                     ::sycl::nd_item<3> item) [[sycl::reqd_sub_group_size(D::kSub)]] {                     \
                            float* memory = local.get_multi_ptr<::sycl::access::decorated::no>().get();                    \
                            const Args& shared = args_in_local<D::kSub, D::kGroups>(item.get_sub_group(), args, memory);   \
                            __VA_ARGS__(item, shared, memory);                                                             \
                          });                                                                                              \
                    });                                                                                                    \
                  }});

template <bool PACKED>
void add_conv(List& list) {
  using For = std::bool_constant<PACKED>;
  const Program program = conv_program(PACKED);
  RSSM_CONV_KERNELS(RSSM_ADD, PACKED)
}

constexpr DeviceTraits kGpu = {.sub_group = kSubGroupSizes[0], .cpu = false};

template <class D>
void add_delta(List& list) {
  const Program program = delta_program({D::kPadded / 32, D::kWhole}, D::kKda ? Gate::kda : Gate::gdn, kGpu);
  RSSM_DELTA_KERNELS(RSSM_ADD_SUB_GROUPS, D)
}

template <std::size_t SHAPE, bool KDA>
using OnGpu = Delta<kGpu.sub_group, sub_groups_of(kGpu), kDeltaShapes[SHAPE].chunks, kDeltaShapes[SHAPE].whole, KDA>;

template <std::size_t... SHAPES>
void add_deltas(List& list, std::index_sequence<SHAPES...>) {
  (add_delta<OnGpu<SHAPES, false>>(list), ...);
  (add_delta<OnGpu<SHAPES, true>>(list), ...);
}

List all_kernels() {
  using For = void;
  List list;
  Program program;
  program = kAlignProgram;
  RSSM_ALIGN_KERNELS(RSSM_ADD)
  program = kAttentionProgram;
  RSSM_ATTENTION_KERNELS(RSSM_ADD)
  program = kBenchProgram;
  RSSM_BENCH_KERNELS(RSSM_ADD)
  program = kExactProgram;
  RSSM_EXACT_KERNELS(RSSM_ADD)
  program = kPendingProgram;
  RSSM_PENDING_KERNELS(RSSM_ADD)
  program = kPlanProgram;
  RSSM_PLAN_KERNELS(RSSM_ADD)
  program = kProjectionsProgram;
  RSSM_PROJECTIONS_KERNELS(RSSM_ADD)
  program = kShortConvProgram;
  RSSM_SHORT_CONV_KERNELS(RSSM_ADD)
  program = kTableProgram;
  RSSM_TABLE_KERNELS(RSSM_ADD)
  add_conv<false>(list);
  add_conv<true>(list);
  add_deltas(list, std::make_index_sequence<std::size(kDeltaShapes)>());
  return list;
}

}  // namespace

std::span<const AheadKernel> ahead_kernels() {
  static const List& all = *new List(all_kernels());  // never taken down, as nothing that outlives the runtime
  return all;
}

}  // namespace recoverssm::sycl_backend
