// Runs the benchmarks: ceilings first, then every job. On the CPU on every target and number of threads, through Google Benchmark; on a
// device as a captured graph over several sets, after each job's bits were compared with the CPU's.
#pragma once

#include <functional>
#include <vector>

#include "bench/cases.h"
#include "bench/ceilings.h"
#include "bench/device.h"
#include "bench/hardware.h"

namespace recoverssm::bench {

struct Result {
  Job job;
  Backend backend = Backend::cpu;
  Target target = Target::best;  // of the CPU
  int threads = 1;
  Size size = Size::beyond_cache;
  std::size_t sets = 1;       // rotated through
  std::size_t set_bytes = 0;  // memory of one
  Counters counters;          // of one call
  std::int64_t issue_slots = 0;
  Spread seconds;  // of one call, over the repetitions
  int repetitions = 0;
  std::int64_t iterations = 0;  // calls a repetition
  Share share;
  double scaling = 0;       // time of one thread over this time, where one thread was measured
  double host_seconds = 0;  // a device: of the host in one call; the median, nothing waits
  std::string compared;     // a device: at which shape all bits were the CPU's; empty: not compared
  bool different = false;   // a device: they were not
  std::string skipped;      // why there are no figures; empty: there are

  double bytes_per_second() const { return over(static_cast<double>(counters.total()), seconds.median); }
};

struct Report {
  Hardware hardware;
  DeviceHardware device;
  Options options;
  std::vector<Ceilings> ceilings;
  std::vector<Result> results;
};

// Called as figures arrive.
struct Listener {
  std::function<void(const std::string& what, std::size_t done, std::size_t total)> progress;
  std::function<void(const DeviceHardware&)> device;
  std::function<void(const Ceilings&)> ceilings;
  std::function<void(const Result&)> result;
};

// Pins the calling thread to a core. Throws Error: invalid_argument for options that cannot be met, device_error for lack of memory.
Report run(const Options& options, const Listener& listener);

// The same on this device.
Report run_on(Device& device, const Options& options, const Listener& listener);

// "avx512", "cuda"
const char* where(const Result& result);

// Fills empty lists with what the machine has, and checks them.
Options resolved(Options options, const Hardware& hardware);

}  // namespace recoverssm::bench
