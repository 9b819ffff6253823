// Measuring on a device: docs/benchmarks.md says how.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <set>
#include <utility>

#include "bench/bench.h"

namespace recoverssm::bench {
namespace {

constexpr std::size_t kRotation = 4;    // L2s that the sets of a graph exceed together
constexpr std::size_t kMostSets = 128;  // of a graph
constexpr int kWarmUp = 5, kReplays = 50;
constexpr int kHostBatches = 10, kHostCalls = 10;            // calls that are timed on the host between two waits
constexpr std::size_t kCeilingCaches = 16;                   // L2s that a ceiling's kernel reads,
constexpr std::size_t kCeilingBytes = std::size_t{1} << 30;  // or this many bytes: a processor's last level is larger than a GPU's
constexpr std::size_t kPiece = std::size_t{64} << 20;        // of what is compared with the CPU

void must(const Job& job, const Status& status) {
  if (!status.ok()) throw Error({status.kind, "bench: " + job.name + ": " + status.message});
}

// Bytes of one call, by the CPU's counters. Every row moves the same, so two small calls tell those of any number of rows.
Counters counted(const Job& job, Context& cpu) {
  const auto of_rows = [&](int rows) {
    Job small = job;
    small.shape.rows = rows;
    Arena arena(bytes_of(small));
    const auto set = small.row->build(small.shape, arena);
    Launch launch = cpu.launch(set->workspace(cpu.launch()));
    Counters counters;
    launch.counters = &counters;
    set->rearm(nullptr);
    must(small, set->run(launch));
    return counters;
  };
  Counters one = of_rows(1);
  if (job.shape.rows == 1) return one;
  const Counters two = of_rows(2);
  constexpr std::int64_t Counters::*kFields[] = {&Counters::rows,
                                                 &Counters::tokens,
                                                 &Counters::state_read,
                                                 &Counters::state_written,
                                                 &Counters::record_read,
                                                 &Counters::record_written,
                                                 &Counters::line_read,
                                                 &Counters::line_written,
                                                 &Counters::activation_read,
                                                 &Counters::activation_written};
  for (const auto field : kFields) one.*field += (job.shape.rows - 1) * (two.*field - one.*field);
  return one;
}

class DeviceRunner {
 public:
  DeviceRunner(Device& device, const Options& options, const Listener& listener) : device_(device), listener_(listener) {
    report_.hardware = read_hardware();
    report_.options = resolved(options, report_.hardware);
    report_.device = device.hardware();
  }

  Report run() {
    plan(jobs_of(report_.options));
    measure_ceilings();
    for (const Planned& planned : plan_) {
      Result result = measured(planned);
      if (listener_.result) listener_.result(result);
      report_.results.push_back(std::move(result));
    }
    return std::move(report_);
  }

 private:
  struct Planned {
    Job job;
    std::size_t set_bytes, sets, workspace;
    std::string skip;
  };

  static std::size_t workspace_of(const Job& job, const Launch& launch) {
    Arena nothing;
    return job.row->build(job.shape, nothing)->workspace(launch);
  }

  std::size_t ceiling_bytes() const {
    const std::size_t cache = report_.device.l2_bytes, bytes = std::min(kCeilingCaches * cache, std::max(kCeilingBytes, 2 * cache));
    return bytes / kWorkspaceAlignment * kWorkspaceAlignment;
  }

  void plan(const std::vector<Job>& jobs) {
    const auto limit = std::min(static_cast<std::size_t>(*report_.options.memory_gib * 0x1p30), report_.device.memory_bytes);
    std::size_t bytes = std::max(2 * ceiling_bytes(), static_cast<std::size_t>(report_.options.compare_gib * 0x1p30) + kPiece);
    for (const Job& job : jobs) {
      Planned planned{job, bytes_of(job), 1, workspace_of(job, device_.launch()), ""};
      const std::size_t beyond = sets_beyond_cache(planned.set_bytes, report_.device.l2_bytes, kRotation);
      // A call of several layers is a graph over several layers by itself.
      planned.sets = std::clamp<std::size_t>(beyond, job.shape.layers > 1 ? 1 : 2, kMostSets);
      const auto needs = [&] { return planned.sets * planned.set_bytes + planned.workspace + kWorkspaceAlignment; };
      if (needs() > limit && beyond == 1) planned.sets = 1;
      if (needs() > limit) {
        planned.skip = fmt::format("needs {:.1f} GiB of data, more than {:.1f} (--memory, or the device's own)",
                                   static_cast<double>(needs()) / 0x1p30, static_cast<double>(limit) / 0x1p30);
      } else {
        bytes = std::max(bytes, needs());
      }
      plan_.push_back(std::move(planned));
    }
    arena_ = std::make_unique<Arena>(bytes, device_);
  }

  Spread time(const std::function<void()>& work, double calls) {
    std::vector<double> seconds = device_.time(work, kWarmUp, kReplays);
    timed_ = static_cast<int>(seconds.size());
    for (double& s : seconds) s /= calls;
    return spread_of(std::move(seconds));
  }

  void measure_ceilings() {
    if (listener_.progress) listener_.progress("ceilings", 0, plan_.size());
    arena_->clear();
    const std::size_t bytes = ceiling_bytes();
    const auto n = static_cast<std::int64_t>(bytes / sizeof(float));
    const void* const from = arena_->values(DType::f32, {n}).data;
    void* const to = arena_->values(DType::f32, {n}).data;
    const auto moved = static_cast<double>(bytes);
    Ceilings c;
    c.threads = 0;
    c.bytes = bytes;
    c.read = {"a read kernel", over(moved, time([&] { device_.read(from, bytes); }, 1).median)};
    c.copy = {"a copy kernel", over(2 * moved, time([&] { device_.copy(to, from, bytes); }, 1).median)};
    c.memcpy_ = {"the driver's copy", over(2 * moved, time([&] { device_.driver_copy(to, from, bytes); }, 1).median)};
    c.all = {c.read, c.copy, c.memcpy_};
    if (c.memcpy_.rate > c.copy.rate) c.copy = c.memcpy_;
    constexpr int kEmpty = 100;
    c.launch_seconds = time(
                           [&] {
                             for (int i = 0; i < kEmpty; ++i) device_.empty();
                           },
                           kEmpty)
                           .median;
    std::int64_t slots = 0;
    const double seconds = time([&] { slots = device_.multiply_add(); }, 1).median;
    c.device_issue = over(static_cast<double>(slots), seconds);
    report_.device = device_.hardware();  // its clocks just after work
    report_.ceilings.push_back(c);
    if (listener_.device) listener_.device(report_.device);
    if (listener_.ceilings) listener_.ceilings(c);
  }

  Result measured(const Planned& planned) {
    Result result;
    result.job = planned.job;
    result.backend = report_.options.backend;
    result.threads = 0;
    result.sets = planned.sets;
    result.set_bytes = planned.set_bytes;
    result.skipped = planned.skip;
    if (listener_.progress) listener_.progress(text(planned.job), report_.results.size(), plan_.size());
    if (!result.skipped.empty()) return result;
    compare(result);
    if (result.different) return result;

    arena_->clear();
    std::vector<std::unique_ptr<DataSet>> sets;
    for (std::size_t i = 0; i < planned.sets; ++i) sets.push_back(planned.job.row->build(planned.job.shape, *arena_));
    const Launch launch = with_workspace(planned.workspace);
    result.host_seconds = host_seconds(sets, launch, planned.job);
    result.seconds = time(
        [&] {
          for (const auto& set : sets) {
            set->rearm(&device_);
            must(planned.job, set->run(launch));
          }
        },
        static_cast<double>(sets.size()));
    result.repetitions = timed_;
    result.iterations = static_cast<std::int64_t>(sets.size());
    result.counters = counted(planned.job, cpu_);
    result.issue_slots = issue_slots(planned.job);
    const Ceilings& c = report_.ceilings.front();
    result.share =
        share_of(planned.job.row->bound, static_cast<double>(result.counters.total()), static_cast<double>(result.issue_slots),
                 result.seconds.median, {c.copy.rate, c.read.rate, c.device_issue});
    return result;
  }

  Launch with_workspace(std::size_t bytes) {
    Launch launch = device_.launch();
    launch.workspace = {arena_->scratch(bytes), bytes};
    return launch;
  }

  double host_seconds(const std::vector<std::unique_ptr<DataSet>>& sets, const Launch& launch, const Job& job) {
    std::vector<double> seconds;
    std::size_t next = 0;
    for (int batch = 0; batch < kHostBatches; ++batch) {
      for (int i = 0; i < kHostCalls; ++i) {
        const DataSet& set = *sets[next++ % sets.size()];
        set.rearm(&device_);
        const auto start = std::chrono::steady_clock::now();
        const Status status = set.run(launch);
        seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        must(job, status);
      }
      device_.wait();
    }
    return spread_of(std::move(seconds)).median;
  }

  // One call on the device and one on the CPU, from the same contents: every bit of every tensor. Of sets that are larger than
  // --compare with as many rows less as it takes; a shape is compared once.
  void compare(Result& result) {
    const auto limit = static_cast<std::size_t>(report_.options.compare_gib * 0x1p30);
    if (limit == 0) return;
    Job job = result.job;
    Shape& s = job.shape;
    while (bytes_of(job) > limit && s.rows > 1) s.rows /= 2;
    if (bytes_of(job) > limit) s.layers = s.groups;
    if (bytes_of(job) > limit) return;
    result.compared = s.rows == result.job.shape.rows && s.layers == result.job.shape.layers
                          ? "bits as the CPU's"
                          : fmt::format("bits as the CPU's at {} rows, {} layers", s.rows, s.layers);
    if (!compared_.insert(text(job)).second) return;

    if (!host_) host_ = std::make_unique<Arena>(limit);
    host_->clear();
    const auto on_host = job.row->build(s, *host_);
    on_host->rearm(nullptr);
    must(job, on_host->run(cpu_.launch(on_host->workspace(cpu_.launch()))));

    arena_->clear();
    const auto on_device = job.row->build(s, *arena_);
    Launch launch = with_workspace(on_device->workspace(device_.launch()));
    launch.flag = static_cast<DeviceFlag*>(arena_->scratch(sizeof(DeviceFlag)));
    device_.set_words(launch.flag, 0, sizeof(DeviceFlag) / sizeof(std::int32_t));
    on_device->rearm(&device_);
    must(job, on_device->run(launch));
    device_.wait();
    DeviceFlag flag;
    device_.download(&flag, launch.flag, sizeof flag);
    if (flag.code != 0) {
      result.skipped = fmt::format("the device's flag says {} of row {}", name_of(static_cast<ErrorKind>(flag.code)), flag.row);
    }
    if (const std::string difference = first_difference(); !difference.empty())
      result.skipped = "DIFFERENT from the CPU: " + difference;
    result.different = !result.skipped.empty();
    if (result.different) result.compared.clear();
  }

  std::string first_difference() {
    for (std::size_t i = 0; i < host_->regions().size(); ++i) {
      const auto [offset, bytes] = host_->regions()[i];
      for (std::size_t at = 0; at < bytes; at += kPiece) {
        piece_.resize(std::min(kPiece, bytes - at));
        device_.download(piece_.data(), arena_->base() + offset + at, piece_.size());
        const std::byte* const want = host_->base() + offset + at;
        if (std::memcmp(piece_.data(), want, piece_.size()) == 0) continue;
        const auto place = std::mismatch(piece_.begin(), piece_.end(), want).first - piece_.begin();
        return fmt::format("tensor {} of the set, byte {} of {}", i, static_cast<std::size_t>(place) + at, bytes);
      }
    }
    return {};
  }

  static std::string text(const Job& job) { return job.name + ", " + text_of(job); }

  Device& device_;
  const Listener& listener_;
  Report report_;
  std::vector<Planned> plan_;
  int timed_ = 0;  // replays of the last measurement
  std::unique_ptr<Arena> arena_, host_;
  Context cpu_{0};
  std::set<std::string> compared_;
  std::vector<std::byte> piece_;
};

}  // namespace

Report run_on(Device& device, const Options& options, const Listener& listener) {
  return DeviceRunner(device, options, listener).run();
}

}  // namespace recoverssm::bench
