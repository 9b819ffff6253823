// Runs traces and checks what they expect.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "recoverssm/recoverssm.hpp"
#include "trace/document.h"
#include "trace/traffic.h"

namespace recoverssm::trace {

// The smaller of 16 GiB and three quarters of this machine's memory.
std::uint64_t default_memory_limit();

struct ReplayOptions {
  std::string backend = "cpu";  // "cpu", "cuda" and "sycl" run; others decide which traces are skipped
  std::string mode = "exact";   // "exact" or "fast". The CPU computes exactly in both, which keeps every bound of fast mode
  Target target = Target::best;
  int threads = 1;  // 0: one a core
  int repeat = 1;   // every call at least so many times, from the same contents; every result must have the same bits
  // A device: every call also on the CPU, from the same contents; every touched buffer must have the same bits afterwards, computed NaNs
  // apart. Calls whose contents the CPU refuses are not compared.
  bool compare_cpu = false;
  // A device: guard bytes around buffers and workspace. Without them device allocations are exactly as large as what they hold, and the
  // workspace is not written before a call: for compute-sanitizer.
  bool guards = true;
  std::uint64_t memory_limit = default_memory_limit();  // bytes of a trace's buffers and of the copies its checks need
  std::function<void(std::int64_t done, std::int64_t calls)> progress;  // optional, after each call of a trace
};

// Something that did not hold.
struct Failure {
  std::string call;          // its id, or "finally"
  std::optional<int> check;  // index among its expectations; nothing: the call itself
  std::string detail;
};

struct ReplayResult {
  std::string file;
  std::optional<std::string> name;     // nothing: malformed or unreadable
  std::string description;             // the trace's own words
  std::optional<std::string> skipped;  // the reason
  std::optional<std::string> error;    // malformed or unreadable: the reason
  std::int64_t calls = 0;              // calls run, repeats not counted
  std::int64_t checks = 0;             // expectations looked at, and calls that had to fail
  std::int64_t compared = 0;           // calls compared with the CPU
  std::int64_t not_compared = 0;       // calls whose contents the CPU refuses
  std::vector<Failure> failed;
  double max_error = 0;          // the largest |got - want| of the tolerance checks; infinity where one is no finite number
  double seconds = 0;            // reading, running, checking
  double operation_seconds = 0;  // inside the operations, repeats included
  Traffic traffic;

  bool ok() const { return !error && failed.empty(); }
};

// Replays traces one after another with one set of threads. Every buffer of a trace, and the workspace, lie between guard bytes that
// are checked after each call; the workspace holds garbage, another one each time. On a device a call is also waited for, its flag is
// looked at, and a trace that says nothing of flags must raise none.
class Replayer {
 public:
  explicit Replayer(ReplayOptions options);

  // Never throws for what is in the file: an unreadable or malformed one gives a result with `error`.
  ReplayResult replay_file(const std::string& path);
  ReplayResult replay(const Trace& trace);

 private:
  std::optional<std::string> reason_to_skip(const Document& document) const;

  ReplayOptions options_;
  Context context_;
};

}  // namespace recoverssm::trace
