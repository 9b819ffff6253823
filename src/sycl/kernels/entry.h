// What makes a kernel body a kernel when it is compiled at run time (module/runtime.cc): a free function, and the few SYCL headers bodies
// need, in place of all of them, which take a second longer to parse. Bodies themselves are portable SYCL 2020:
//   template <...> void body(const ::sycl::nd_item<3>& item, const Args& args[, float* local])
#pragma once

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
// Sub-groups of RSSM_SUB_GROUP work items, with local memory.
#define RSSM_SUB_GROUP_KERNEL(name, Args, ...)                                                                    \
  extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((::sycl::ext::oneapi::experimental::nd_range_kernel<3>))           \
      SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((::sycl::ext::oneapi::experimental::sub_group_size<RSSM_SUB_GROUP>)) void \
      name(Args args, ::sycl::ext::oneapi::experimental::work_group_memory<float[]> local) {                      \
    __VA_ARGS__(::sycl::ext::oneapi::this_work_item::get_nd_item<3>(), args, &local[0]);                          \
  }
#endif
