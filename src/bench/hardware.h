// The machine a report is about.
#pragma once

#include <cstddef>
#include <string>

namespace recoverssm::bench {

struct Hardware {
  std::string cpu;  // model name
  int cores = 0;    // this process may run on
  std::size_t l2_bytes = 0, last_level_bytes = 0;
  std::size_t memory_bytes = 0;
  std::string huge_pages;  // of /sys/kernel/mm/transparent_hugepage: "always", "madvise", "never", or "unknown"
  std::string governor;    // "unknown" where the system does not say
  std::string kernel;
  double load = 0;  // of the last minute, before the run
};

Hardware read_hardware();

std::string compiler();
// `git describe` of the tree the command lies in; "unknown" outside of one.
std::string tree_commit();
std::string utc_now();  // "2026-01-31T12:00:00Z"

}  // namespace recoverssm::bench
