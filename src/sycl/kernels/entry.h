// What makes a kernel body a kernel when it is compiled at run time (module/compile.cc): a free function, and the few SYCL headers bodies
// need, in place of all of them, which take a second longer to parse. (ahead/kernels.cc: what makes it one ahead of time.) Bodies themselves
// are portable SYCL 2020:
//   template <...> void body(const ::sycl::nd_item<3>& item, const Args& args[, float* local])
// A header ends with the list of its kernels, KERNEL(name, type of args, body).
#pragma once

#include <cstdint>

#if defined(RSSM_AT_RUN_TIME)
#include <sycl/atomic_ref.hpp>
#include <sycl/builtins.hpp>
#include <sycl/ext/oneapi/experimental/work_group_memory.hpp>
#include <sycl/ext/oneapi/free_function_kernel_properties.hpp>
#include <sycl/ext/oneapi/free_function_queries.hpp>
#include <sycl/ext/oneapi/kernel_properties/properties.hpp>
#include <sycl/group_algorithm.hpp>
#include <sycl/group_barrier.hpp>
#include <sycl/nd_item.hpp>
#else
#include <sycl/sycl.hpp>
#endif

// Loops over registers; the host's compiler reads bodies too and does not know the word.
#define RSSM_INLINE __attribute__((always_inline))  // of a lambda: what it captures shall stay in registers
#if defined(__clang__)
#define RSSM_UNROLL _Pragma("unroll")
#define RSSM_NO_UNROLL _Pragma("nounroll")
#else
#define RSSM_UNROLL
#define RSSM_NO_UNROLL
#endif

#if defined(RSSM_AT_RUN_TIME)
// One work item, one thread of control; no sub-group size asked for.
#define RSSM_KERNEL(name, Args, ...)                                                                                           \
  extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((::sycl::ext::oneapi::experimental::nd_range_kernel<3>)) void name(Args args) { \
    __VA_ARGS__(::sycl::ext::oneapi::this_work_item::get_nd_item<3>(), args);                                                  \
  }
// Sub-groups of RSSM_SUB_GROUP work items, with local memory. A kernel's parameters are each work item's own to a compiler that vectorises
// over work items: what is decided by them would be decided by lane. A copy in local memory is one for the sub-group, and a decision too.
#define RSSM_SUB_GROUP_KERNEL(name, Args, ...)                                                                    \
  extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((::sycl::ext::oneapi::experimental::nd_range_kernel<3>))           \
      SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((::sycl::ext::oneapi::experimental::sub_group_size<RSSM_SUB_GROUP>)) void \
      name(Args args, ::sycl::ext::oneapi::experimental::work_group_memory<float[]> local) {                      \
    float* memory = &local[0];                                                                                    \
    const Args& shared = recoverssm::sycl_backend::args_in_local<RSSM_SUB_GROUP, RSSM_SUB_GROUPS>(                \
        ::sycl::ext::oneapi::this_work_item::get_sub_group(), args, memory);                                      \
    __VA_ARGS__(::sycl::ext::oneapi::this_work_item::get_nd_item<3>(), shared, memory);                           \
  }
#endif

namespace recoverssm::sycl_backend {

// Which sub-group of its work-group this is. That it is the only one, where it is, must be known when the kernel is compiled: the CPU's
// compiler takes its number for one that may differ from lane to lane, and everything that follows from it too.
template <int GROUPS>
inline RSSM_INLINE int sub_group_index(const ::sycl::sub_group& group) {
  return GROUPS == 1 ? 0 : static_cast<int>(group.get_group_linear_id());
}

// Floats of local memory that a sub-group's copy of its parameters takes.
template <class Args>
constexpr int args_floats() {
  return static_cast<int>((sizeof(Args) + 63) / 64 * 16);
}

// Copies `args` to the sub-group's piece of `memory`, which moves past all of these.
template <int SG, int GROUPS, class Args>
inline RSSM_INLINE const Args& args_in_local(const ::sycl::sub_group& group, const Args& args, float*& memory) {
  using Word __attribute__((may_alias)) = std::uint32_t;
  static_assert(sizeof(Args) % sizeof(Word) == 0);
  float* const to = memory + sub_group_index<GROUPS>(group) * args_floats<Args>();
  const auto* const from = reinterpret_cast<const Word*>(&args);
  for (int i = static_cast<int>(group.get_local_linear_id()); i < static_cast<int>(sizeof(Args) / sizeof(Word)); i += SG) {
    reinterpret_cast<Word*>(to)[i] = from[i];
  }
  memory += GROUPS * args_floats<Args>();
  ::sycl::group_barrier(group);
  return *reinterpret_cast<const Args*>(to);
}

}  // namespace recoverssm::sycl_backend
