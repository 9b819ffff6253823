// Running an operation the way a careful caller would: a workspace of exactly the size asked for, poisoned and guarded. On a device
// (support/backend.h) also: waiting for it, and looking at its flag.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "contract/contents.h"
#include "recoverssm/recoverssm.hpp"
#include "support/property.h"
#include "support/tensor.h"

namespace support {

struct How {
  int threads = 1;
  recoverssm::Target target = recoverssm::Target::best;
  recoverssm::Counters* counters = nullptr;
};

// A launch with `threads` workers (1, 2, 4, ...), or on the device, and a workspace between guards; the workspace starts out as NaN.
class GuardedLaunch {
 public:
  explicit GuardedLaunch(const How& how);
  recoverssm::Launch sized(std::size_t bytes);
  bool guards_intact() const;
  recoverssm::Launch launch;

 private:
  Bytes bytes_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// What the CPU says of a call's index contents.
template <class Params>
recoverssm::Status contents_of(const Params& params) {
  const std::size_t bytes = recoverssm::contents_workspace_size(params);
  std::vector<std::max_align_t> memory((bytes + recoverssm::kWorkspaceAlignment) / sizeof(std::max_align_t) + 1);
  void* begin = memory.data();
  std::size_t space = memory.size() * sizeof(std::max_align_t);
  std::align(recoverssm::kWorkspaceAlignment, bytes, begin, space);
  return recoverssm::validate_contents(params, {begin, bytes});
}

// On the device. A call that the CPU runs raises no flag. Where the CPU refuses the contents, the device's answer is its flag, which is
// what comes back as a status; ok: it has seen nothing (blocks that rows share).
template <class Params>
recoverssm::Status run_on_device(const Params& params, const recoverssm::Launch& launch) {
  const recoverssm::Status wanted = contents_of(params);
  recoverssm::Status status = recoverssm::run(params, launch);
  if (recoverssm::Status done = wait_for_device(); !done.ok()) return done;
  const recoverssm::DeviceFlag flag = take_flag();
  if (!status.ok() || flag.code == 0) return status;
  const auto kind = static_cast<recoverssm::ErrorKind>(flag.code);
  const std::string text = std::string(name_of(static_cast<recoverssm::Operation>(flag.op))) + ": flag " + name_of(kind) +
                           ", layer " + std::to_string(flag.layer) + ", row " + std::to_string(flag.row);
  require(!wanted.ok(), text + ", and the CPU finds nothing wrong");
  return {kind, text};
}

template <class Params>
recoverssm::Status try_run(const Params& params, const How& how = {}) {
  GuardedLaunch guarded(how);
  recoverssm::Status status = recoverssm::validate(params);
  if (!status.ok()) return status;
  const recoverssm::Launch launch = guarded.sized(recoverssm::workspace_size(params, guarded.launch));
  status = on_device() ? run_on_device(params, launch) : recoverssm::run(params, launch);
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
