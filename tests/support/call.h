// Running an operation the way a careful caller would: a workspace of exactly the size asked for, poisoned and guarded.
#pragma once

#include "recoverssm/recoverssm.hpp"
#include "support/property.h"
#include "support/tensor.h"

namespace support {

struct How {
  int threads = 1;
  recoverssm::Target target = recoverssm::Target::best;
  recoverssm::Counters* counters = nullptr;
};

// A launch with `threads` workers (1, 2, 4, ...) and a workspace between guards; the workspace starts out as NaN.
class GuardedLaunch {
 public:
  explicit GuardedLaunch(const How& how);
  recoverssm::Launch sized(std::size_t bytes);
  bool guards_intact() const;
  recoverssm::Launch launch;

 private:
  std::vector<std::byte> bytes_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

template <class Params>
recoverssm::Status try_run(const Params& params, const How& how = {}) {
  GuardedLaunch guarded(how);
  recoverssm::Status status = recoverssm::validate(params);
  if (!status.ok()) return status;
  const recoverssm::Launch launch = guarded.sized(recoverssm::workspace_size(params, guarded.launch));
  status = recoverssm::run(params, launch);
  require(guarded.guards_intact(), "workspace guards intact");
  return status;
}

template <class Params>
void must_run(const Params& params, const How& how = {}) {
  const recoverssm::Status status = try_run(params, how);
  require(status.ok() ? ::testing::AssertionSuccess()
                      : ::testing::AssertionFailure() << recoverssm::name_of(status.kind) << ": " << status.message,
          "run");
}

// Targets and thread counts a result must not depend on.
How random_how(Pick& pick);

}  // namespace support
