// What the self-check asks of a device: the operations that everything is made of, each rounded once, subnormals kept, nothing contracted.
#pragma once

#include "arithmetic/gates.h"
#include "sycl/kernels/entry.h"

namespace recoverssm::sycl_backend {

struct ExactCase {
  float x, y, z;
};

struct ExactResults {
  float quotient, root, fused, product, sum, separate;
};

RSSM_HOST_DEVICE ExactResults exact_results(const ExactCase& c) {
  ExactResults results;
  results.quotient = arithmetic::divide(c.x, c.y);
  results.root = arithmetic::square_root(c.x < 0.0f ? -c.x : c.x);
  results.fused = arithmetic::fused_multiply_add(c.x, c.y, c.z);
  results.product = c.x * c.y;
  results.sum = c.x + c.z;
  results.separate = c.z * c.x + c.y;  // a product of its own: one that is needed elsewhere is contracted nowhere
  return results;
}

struct ExactArgs {
  const ExactCase* cases = nullptr;
  ExactResults* results = nullptr;
  std::int64_t count = 0;
};

inline void exact_body(const ::sycl::nd_item<3>& item, const ExactArgs& args) {
  const auto i = static_cast<std::int64_t>(item.get_global_id(2));
  if (i < args.count) args.results[i] = exact_results(args.cases[i]);
}

}  // namespace recoverssm::sycl_backend

#define RSSM_EXACT_KERNELS(KERNEL) KERNEL(exact, recoverssm::sycl_backend::ExactArgs, recoverssm::sycl_backend::exact_body)
#if defined(RSSM_AT_RUN_TIME)
RSSM_EXACT_KERNELS(RSSM_KERNEL)
#endif
