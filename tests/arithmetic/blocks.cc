#include "arithmetic/blocks.h"

#include "arithmetic/gates.h"
#include "arithmetic/rounding.h"

// One loop: FUNCTION of x[i]. The target is an attribute of the loop, and the functions of src/arithmetic are inlined into it.
#define RSSM_LOOP(ATTRIBUTE, NAME, TO, FUNCTION)                                \
  ATTRIBUTE void NAME(const float* __restrict from, TO* __restrict to, int n) { \
    for (int i = 0; i < n; ++i) {                                               \
      const float x = from[i];                                                  \
      to[i] = arithmetic::FUNCTION;                                             \
    }                                                                           \
  }

#define RSSM_BLOCKS(SPACE, ATTRIBUTE)                                               \
  namespace SPACE {                                                                 \
  RSSM_LOOP(ATTRIBUTE, exp_loop, float, exp_f32(x))                                 \
  RSSM_LOOP(ATTRIBUTE, log_loop, float, log_f32(x))                                 \
  RSSM_LOOP(ATTRIBUTE, sigmoid_loop, float, sigmoid(x))                             \
  RSSM_LOOP(ATTRIBUTE, silu_loop, float, silu(x))                                   \
  RSSM_LOOP(ATTRIBUTE, softplus_loop, float, softplus(x, 1.5f, 20.0f))              \
  RSSM_LOOP(ATTRIBUTE, decay_loop, float, kda_decay(x, 0.7f, 1.0f, 20.0f))          \
  RSSM_LOOP(ATTRIBUTE, bounded_loop, float, kda_decay_bounded(x, 0.7f, -5.0f))      \
  RSSM_LOOP(ATTRIBUTE, norm_loop, float, inverse_norm(x))                           \
  RSSM_LOOP(ATTRIBUTE, widened_bf16_loop, float, from_bf16(arithmetic::to_bf16(x))) \
  RSSM_LOOP(ATTRIBUTE, widened_f16_loop, float, from_f16(arithmetic::to_f16(x)))    \
  RSSM_LOOP(ATTRIBUTE, bf16_loop, std::uint16_t, to_bf16(x))                        \
  RSSM_LOOP(ATTRIBUTE, f16_loop, std::uint16_t, to_f16(x))                          \
  Blocks blocks(const char* target, bool available) {                               \
    return {target,                                                                 \
            available,                                                              \
            {"exp", exp_loop},                                                      \
            {"log", log_loop},                                                      \
            {{"sigmoid", sigmoid_loop},                                             \
             {"silu", silu_loop},                                                   \
             {"softplus", softplus_loop},                                           \
             {"kda_decay", decay_loop},                                             \
             {"kda_decay_bounded", bounded_loop},                                   \
             {"inverse_norm", norm_loop},                                           \
             {"bf16 and back", widened_bf16_loop},                                  \
             {"f16 and back", widened_f16_loop}},                                   \
            {"bf16", bf16_loop},                                                    \
            {"f16", f16_loop}};                                                     \
  }                                                                                 \
  }

namespace recoverssm::arithmetic_test {
namespace {

#define RSSM_BASELINE __attribute__((noinline))
RSSM_BLOCKS(baseline, RSSM_BASELINE)
#if defined(__x86_64__)
#define RSSM_AVX2 __attribute__((noinline, target("avx2,fma")))
#define RSSM_AVX512 __attribute__((noinline, target("avx512f,avx512bw,avx512dq,avx512vl,fma")))
RSSM_BLOCKS(avx2, RSSM_AVX2)
RSSM_BLOCKS(avx512, RSSM_AVX512)
#endif

std::vector<Blocks> make_all() {
  std::vector<Blocks> all = {baseline::blocks("baseline", true)};
#if defined(__x86_64__)
  __builtin_cpu_init();
  all.push_back(avx2::blocks("avx2", __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")));
  all.push_back(avx512::blocks("avx512", __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")));
#endif
  return all;
}

}  // namespace

const std::vector<Blocks>& all_blocks() {
  static const std::vector<Blocks> all = make_all();
  return all;
}

const Blocks& fastest_blocks() {
  const Blocks* fastest = &all_blocks().front();
  for (const Blocks& blocks : all_blocks()) {
    if (blocks.available) fastest = &blocks;
  }
  return *fastest;
}

}  // namespace recoverssm::arithmetic_test
