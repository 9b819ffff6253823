// How work is cut for SYCL: pure functions, tested without a runtime.
#include "sycl/select.h"

#include <gtest/gtest.h>

namespace {

using namespace recoverssm::sycl_backend;

TEST(SyclSelect, LocalMemoryOfAWorkGroupFitsADevice) {
  constexpr int kLeast = 64 * 1024;  // what Intel's GPUs have
  for (const bool cpu : {true, false}) {
    const int sub_groups = sub_groups_of({.cpu = cpu});
    for (std::int64_t K = 1; K <= 256; ++K) {
      const DeltaShape shape = select_shape(K);
      for (const bool kda : {false, true}) {
        for (const std::int64_t tokens : {0, 1, 2, 4, 16, 1000000}) {
          const int chunk = select_token_chunk(shape, kda, tokens);
          EXPECT_GE(chunk, 1);
          EXPECT_LE(chunk, tokens > 1 ? tokens : 1);
          EXPECT_LE((kParameterFloats + stage_floats(shape) + chunk * token_floats(shape, kda)) * sub_groups * 4, kLeast)
              << "K " << K << (kda ? ", kda" : ", gdn");
        }
      }
    }
  }
}

TEST(SyclSelect, TasksCoverAllValueRowsInFours) {
  for (const std::int64_t heads : {0, 1, 7, 48, 100000}) {
    for (std::int64_t V = 1; V <= 300; ++V) {
      for (const bool together : {false, true}) {
        const int rows = select_task_rows(heads, V, together, {.compute_units = 32});
        EXPECT_EQ(rows % kRowsAtOnce, 0);
        EXPECT_GE(rows, 4);
        EXPECT_LE(rows, (V + 3) / 4 * 4);
        if (together) {
          EXPECT_GE(rows, V);
        }
      }
    }
  }
}

}  // namespace
