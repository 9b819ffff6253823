// The delta rules' kernels for one sub-group size, key size and gate, compiled together: an engine that verifies commits as well.
#pragma once

#include "sycl/kernels/replay.h"
#include "sycl/kernels/rule.h"
#include "sycl/kernels/snapshots.h"
#include "sycl/kernels/verify.h"

// D: a Delta.
#define RSSM_DELTA_KERNELS(KERNEL, D)                                                                     \
  KERNEL(plain, recoverssm::sycl_backend::PlainArgs, recoverssm::sycl_backend::plain_body<D>)             \
  KERNEL(snapshots, recoverssm::sycl_backend::SnapshotsArgs, recoverssm::sycl_backend::snapshots_body<D>) \
  KERNEL(verify, recoverssm::sycl_backend::VerifyArgs, recoverssm::sycl_backend::verify_body<D>)          \
  KERNEL(fold, recoverssm::sycl_backend::FoldArgs, recoverssm::sycl_backend::fold_body<D>)                \
  KERNEL(replay, recoverssm::sycl_backend::ReplayLaunch, recoverssm::sycl_backend::replay_body<D>)

#if defined(RSSM_AT_RUN_TIME)
namespace recoverssm::sycl_backend {
using Compiled = Delta<RSSM_SUB_GROUP, RSSM_SUB_GROUPS, RSSM_CHUNKS, RSSM_WHOLE != 0, RSSM_KDA != 0>;
}
RSSM_DELTA_KERNELS(RSSM_SUB_GROUP_KERNEL, recoverssm::sycl_backend::Compiled)
#endif
