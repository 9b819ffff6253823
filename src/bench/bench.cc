#include "bench/bench.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>

#include "bench/arena.h"

namespace recoverssm::bench {
namespace {

constexpr double kSlow = 0.25;                             // seconds a repetition beyond which fewer are run
constexpr double kPatience = 1.5;                          // seconds all repetitions of a slow call may take together, one excepted
constexpr double kMostSeconds = 3600, kMostGiB = 1 << 20;  // --min-time, --memory
constexpr double kHostGiB = 4, kDeviceGiB = 16;            // unless --memory says otherwise
constexpr std::size_t kPage = 4096;

// The data sets of one job, and a workspace, in one arena.
class DataSets {
 public:
  DataSets(const Job& job, std::size_t count, Arena& arena) {
    arena.clear();
    for (std::size_t i = 0; i < count; ++i) sets_.push_back(job.row->build(job.shape, arena));
  }

  std::size_t workspace(const Launch& launch) const { return sets_.front()->workspace(launch); }

  Status run_next(const Launch& launch) {
    const DataSet& set = *sets_[next_];
    if (++next_ == sets_.size()) next_ = 0;
    set.rearm(nullptr);
    return set.run(launch);
  }

 private:
  std::vector<std::unique_ptr<DataSet>> sets_;
  std::size_t next_ = 0;
};

// Keeps what Google Benchmark measured; prints nothing.
class Keeper : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      if (run.error_occurred) error = run.error_message;
      if (run.iterations <= 0) continue;
      seconds.push_back(run.real_accumulated_time / static_cast<double>(run.iterations));
      iterations = run.iterations;
    }
  }

  std::vector<double> seconds;
  std::int64_t iterations = 0;
  std::string error;
};

void measure(const std::string& name, DataSets& sets, const Launch& launch, const Options& options, double one_call,
             Result& result) {
  benchmark::internal::Benchmark* registered = benchmark::RegisterBenchmark(name.c_str(), [&](benchmark::State& state) {
    for (auto _ : state) {
      if (const Status status = sets.run_next(launch); !status.ok()) {
        state.SkipWithError(status.message.c_str());
        break;
      }
    }
  });
  registered->UseRealTime();
  const double repetition = std::max(one_call, options.min_time);
  int repetitions = options.repetitions;
  if (repetition > kSlow) repetitions = std::clamp(static_cast<int>(kPatience / repetition), 1, repetitions);
  registered->Repetitions(repetitions);
  // One call that takes longer than a repetition needs no search for the number of calls.
  if (one_call >= options.min_time) {
    registered->Iterations(1);
  } else {
    registered->MinTime(options.min_time);
  }
  Keeper keeper;
  benchmark::RunSpecifiedBenchmarks(&keeper, "all");
  benchmark::ClearRegisteredBenchmarks();
  if (!keeper.error.empty()) throw Error({ErrorKind::bad_state, "bench: " + name + ": " + keeper.error});
  result.seconds = spread_of(keeper.seconds);
  result.repetitions = static_cast<int>(keeper.seconds.size());
  result.iterations = keeper.iterations;
}

class Runner {
 public:
  Runner(const Options& options, const Listener& listener) : listener_(listener) {
    report_.hardware = read_hardware();
    report_.options = resolved(options, report_.hardware);
    jobs_ = jobs_of(report_.options);
    const std::vector<int> cpus = usable_cpus();
    if (cpus.empty()) throw Error({ErrorKind::device_error, "bench: the system names no CPU that this process may run on"});
    pinned_.emplace(cpus.front());
    for (const int threads : report_.options.threads) {
      pools_.push_back(std::make_unique<PinnedPool>(std::vector<int>(cpus.begin(), cpus.begin() + threads)));
    }
  }

  Report run() {
    plan();
    measure_all_ceilings();
    for (const Planned& planned : plan_) run_planned(planned);
    return std::move(report_);
  }

 private:
  // One arena's worth of data sets, and the pools that run on them.
  struct Planned {
    Job job;
    Size size;
    std::size_t set_bytes, sets;
    std::vector<PinnedPool*> pools;
    std::vector<Target> targets;
    std::string skip;
  };

  std::size_t cache_budget(int threads) const { return report_.hardware.l2_bytes / 2 * static_cast<std::size_t>(threads); }

  std::size_t ceiling_bytes(Size size, int threads) const {
    const std::size_t bytes = size == Size::in_cache ? cache_budget(threads) : 2 * report_.hardware.last_level_bytes;
    return (bytes / kPage + 1) * kPage;
  }

  void plan() {
    std::vector<Target> wide, portable;
    for (const Target target : report_.options.targets) (target == Target::portable ? portable : wide).push_back(target);
    for (const Job& job : jobs_) {
      const Job shorter = for_portable(job);
      if (shorter.shape.tokens == job.shape.tokens) {
        plan_job(job, report_.options.targets);
      } else {
        plan_job(job, wide);
        plan_job(shorter, portable);
      }
    }
    for (const Size size : report_.options.sizes) {
      for (const auto& pool : pools_) arena_bytes_ = std::max(arena_bytes_, ceiling_bytes(size, pool->workers()));
    }
  }

  void plan_job(const Job& job, const std::vector<Target>& targets) {
    if (targets.empty()) return;
    for (const Size size : report_.options.sizes) {
      if (size == Size::beyond_cache) {
        if (job.row->bound == Bound::none) continue;  // a few hundred bytes: such calls are never beyond a cache
        Planned planned{job, size, bytes_of(job), 1, {}, targets, ""};
        planned.sets = sets_beyond_cache(planned.set_bytes, report_.hardware.last_level_bytes);
        for (const auto& pool : pools_) planned.pools.push_back(pool.get());
        add(std::move(planned));
        continue;
      }
      for (const auto& pool : pools_) {
        const std::size_t budget = cache_budget(pool->workers());
        Planned planned{in_cache(job, budget, pool->workers()), size, 0, 1, {pool.get()}, targets, ""};
        planned.set_bytes = bytes_of(planned.job);
        if (planned.set_bytes > budget) {
          planned.skip = fmt::format("the smallest set has {} bytes, more than half of L2", planned.set_bytes);
        }
        add(std::move(planned));
      }
    }
  }

  void add(Planned planned) {
    const auto limit = static_cast<std::size_t>(*report_.options.memory_gib * 0x1p30);
    const std::size_t bytes = planned.set_bytes * planned.sets;
    if (planned.skip.empty() && bytes > limit) {
      planned.skip = fmt::format("needs {:.1f} GiB of data, more than --memory allows", static_cast<double>(bytes) / 0x1p30);
    }
    if (planned.skip.empty() && bytes > report_.hardware.memory_bytes) {
      planned.skip = fmt::format("needs {:.1f} GiB of data, more than this machine's memory", static_cast<double>(bytes) / 0x1p30);
    }
    if (planned.skip.empty()) arena_bytes_ = std::max(arena_bytes_, bytes);
    total_ += planned.pools.size() * planned.targets.size();
    plan_.push_back(std::move(planned));
  }

  void measure_all_ceilings() {
    arena_ = std::make_unique<Arena>(arena_bytes_);
    const auto n = static_cast<std::int64_t>(arena_bytes_ / sizeof(float));
    auto* memory = static_cast<float*>(arena_->values(DType::f32, {n}).data);
    const std::vector<Target> targets = available_targets();
    for (const Size size : report_.options.sizes) {
      for (const auto& pool : pools_) {
        progress(fmt::format("ceilings, {} thread{}, {}", pool->workers(), pool->workers() == 1 ? "" : "s", name_of(size)));
        report_.ceilings.push_back(measure_ceilings(*pool, size, memory, ceiling_bytes(size, pool->workers()), targets));
        if (listener_.ceilings) listener_.ceilings(report_.ceilings.back());
      }
    }
  }

  void run_planned(const Planned& planned) {
    std::unique_ptr<DataSets> sets;
    if (planned.skip.empty()) sets = std::make_unique<DataSets>(planned.job, planned.sets, *arena_);
    for (PinnedPool* pool : planned.pools) {
      for (const Target target : planned.targets) {
        Result result;
        result.job = planned.job;
        result.target = target;
        result.threads = pool->workers();
        result.size = planned.size;
        result.sets = planned.sets;
        result.set_bytes = planned.set_bytes;
        result.skipped = planned.skip;
        progress(fmt::format("{} {} x{}", planned.job.name, name_of(target), pool->workers()));
        if (sets) run_one(*sets, *pool, result);
        ++done_;
        report_.results.push_back(result);
        if (listener_.result) listener_.result(result);
      }
    }
  }

  void run_one(DataSets& sets, PinnedPool& pool, Result& result) {
    Launch launch;
    launch.parallel = pool.parallel_for();
    launch.target = result.target;
    workspace_.resize(sets.workspace(launch) + kWorkspaceAlignment);
    void* aligned = workspace_.data();
    std::size_t space = workspace_.size();
    launch.workspace = {std::align(kWorkspaceAlignment, 1, aligned, space), 0};
    launch.workspace.bytes = space;

    // One call counts bytes and says how long a call takes; others warm up.
    launch.counters = &result.counters;
    const auto start = std::chrono::steady_clock::now();
    const Status status = sets.run_next(launch);
    const double one_call = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    launch.counters = nullptr;
    if (!status.ok()) throw Error({status.kind, "bench: " + status.message});
    measure(result.job.name, sets, launch, report_.options, one_call, result);

    result.issue_slots = issue_slots(result.job);
    const auto limits = std::find_if(report_.ceilings.begin(), report_.ceilings.end(),
                                     [&](const Ceilings& c) { return c.threads == result.threads && c.size == result.size; });
    result.share = share_of(result.job.row->bound, static_cast<double>(result.counters.total()),
                            static_cast<double>(result.issue_slots), result.seconds.median, limits_of(*limits, result.target));
    for (const Result& other : report_.results) {
      const bool one_thread = other.threads == 1 && other.skipped.empty() && other.target == result.target;
      // In cache the shapes of two numbers of threads differ.
      if (one_thread && other.job.name == result.job.name && other.size == result.size && result.size == Size::beyond_cache) {
        result.scaling = over(other.seconds.median, result.seconds.median);
      }
    }
  }

  void progress(const std::string& what) const {
    if (listener_.progress) listener_.progress(what, done_, total_);
  }

  const Listener& listener_;
  std::optional<PinnedThread> pinned_;
  Report report_;
  std::vector<Job> jobs_;
  std::vector<Planned> plan_;
  std::vector<std::unique_ptr<PinnedPool>> pools_;
  std::unique_ptr<Arena> arena_;
  std::size_t arena_bytes_ = 0, done_ = 0, total_ = 0;
  std::vector<std::byte> workspace_;
};

}  // namespace

Options resolved(Options options, const Hardware& hardware) {
  const auto refuse = [](std::string message) { throw Error({ErrorKind::invalid_argument, "bench: " + std::move(message)}); };
  if (options.targets.empty()) options.targets = available_targets();
  for (Target& target : options.targets) {
    if (const Status status = resolve_target(target, target); !status.ok()) throw Error({status.kind, "bench: " + status.message});
  }
  if (!options.memory_gib) options.memory_gib = options.backend == Backend::cpu ? kHostGiB : kDeviceGiB;
  if (options.threads.empty()) options.threads = {1, hardware.cores};
  std::sort(options.threads.begin(), options.threads.end());
  options.threads.erase(std::unique(options.threads.begin(), options.threads.end()), options.threads.end());
  if (options.threads.front() < 1 || options.threads.back() > hardware.cores) {
    refuse(fmt::format("--threads {}, expected 1 to {}: every thread is pinned to a core of its own",
                       options.threads.front() < 1 ? options.threads.front() : options.threads.back(), hardware.cores));
  }
  const auto in_range = [&](const char* option, double value, double most) {
    if (!std::isfinite(value) || value <= 0 || value > most) {
      refuse(fmt::format("{} {}, expected more than 0 and at most {}", option, value, most));
    }
  };
  in_range("--min-time", options.min_time, kMostSeconds);
  in_range("--memory", *options.memory_gib, kMostGiB);
  if (!std::isfinite(options.compare_gib) || options.compare_gib < 0) {
    refuse(fmt::format("--compare {}, expected 0 or more", options.compare_gib));
  }
  if (options.repetitions < 1) refuse(fmt::format("--repetitions {}, expected at least 1", options.repetitions));
  return options;
}

const char* where(const Result& result) {
  return result.backend == Backend::cpu ? name_of(result.target) : name_of(result.backend);
}

Report run(const Options& options, const Listener& listener) {
  if (options.backend == Backend::cpu) return Runner(options, listener).run();
  const std::unique_ptr<Device> device = open_device(options.backend);
  return run_on(*device, options, listener);
}

}  // namespace recoverssm::bench
