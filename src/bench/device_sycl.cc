// The benchmark's device on SYCL. Calls go to the queue one by one, timed by the host's clock from the first to the end of the last: events of
// a CPU device have no better one.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "bench/device.h"
#include "bench/hardware.h"
#include "recoverssm/sycl.hpp"
#include "sycl/bench.h"
#include "sycl/load.h"

namespace recoverssm::bench {
namespace {

constexpr std::size_t kScratch = 1 << 17;  // a sink for sums, and the pattern of `repeat`
constexpr double kPatience = 4;            // seconds beyond which no more replays are started,
constexpr std::size_t kFewestReplays = 5;  // but for these

void must(Status status) {
  if (!status.ok()) throw Error(std::move(status));
}

class Sycl : public Device {
 public:
  Sycl() : queue_(calls_.create_stream()), sink_(nullptr) {
    if (queue_ == nullptr) throw Error({ErrorKind::device_error, "bench: sycl: no queue"});
    sink_ = allocate(kScratch);
  }
  ~Sycl() override {
    release(sink_);
    calls_.destroy_stream(queue_);
  }
  Sycl(const Sycl&) = delete;
  Sycl& operator=(const Sycl&) = delete;

  DeviceHardware hardware() override {
    const sycl_backend::BenchHardware found = bench_.hardware(queue_);
    DeviceHardware h;
    h.name = found.name;
    h.driver = found.driver;
    h.runtime = sycl_backend::runtime();
    h.clocks = "unknown";
    h.multiprocessors = found.compute_units;
    // A CPU says what its second level has; sets must be beyond its last.
    h.l2_bytes = found.cpu ? std::max(found.cache_bytes, read_hardware().last_level_bytes) : found.cache_bytes;
    h.memory_bytes = found.memory_bytes;
    return h;
  }

  void* allocate(std::size_t bytes) override {
    void* const memory = calls_.allocate(queue_, std::max<std::size_t>(bytes, 1));
    if (memory == nullptr) throw Error({ErrorKind::device_error, "bench: sycl: no memory for " + std::to_string(bytes) + " bytes"});
    return memory;
  }
  void release(void* memory) override {
    if (memory != nullptr) calls_.release(queue_, memory);
  }
  void upload(void* to, const void* from, std::size_t bytes) override {
    wait();
    must(calls_.copy_to_device(to, from, bytes));
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    wait();
    must(calls_.copy_to_host(to, from, bytes));
  }
  void repeat(void* to, std::size_t bytes, const void* pattern, std::size_t pattern_bytes) override {
    if (pattern_bytes > kScratch / 2) throw Error({ErrorKind::device_error, "bench: a pattern too long for the scratch memory"});
    std::byte* const scratch = static_cast<std::byte*>(sink_) + kScratch / 2;
    upload(scratch, pattern, pattern_bytes);
    if (bytes > 0) must(bench_.repeat(queue_, to, bytes, scratch, pattern_bytes));
  }
  void set_words(void* to, std::int32_t value, std::int64_t count) override {
    if (count > 0) must(bench_.set_words(queue_, to, value, count));
  }

  Launch launch() const override { return {.backend = Backend::sycl, .stream = queue_}; }
  void wait() override { must(calls_.synchronize(queue_)); }

  std::vector<double> time(const std::function<void()>& work, int warm_up, int replays) override {
    using Clock = std::chrono::steady_clock;
    const auto seconds_since = [](Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); };
    std::vector<double> seconds;
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < warm_up + replays; ++i) {
      if (seconds.size() >= kFewestReplays && seconds_since(begin) > kPatience) break;
      const Clock::time_point start = Clock::now();
      work();
      wait();
      if (i >= warm_up || (i > 0 && seconds_since(begin) > kPatience)) seconds.push_back(seconds_since(start));
    }
    return seconds;
  }

  void read(const void* from, std::size_t bytes) override { must(bench_.read(queue_, from, bytes, sink_)); }
  void copy(void* to, const void* from, std::size_t bytes) override { must(bench_.copy(queue_, to, from, bytes)); }
  void driver_copy(void* to, const void* from, std::size_t bytes) override { must(bench_.runtime_copy(queue_, to, from, bytes)); }
  std::int64_t multiply_add() override {
    std::int64_t issued = 0;
    must(bench_.multiply_add(queue_, sink_, &issued));
    return issued;
  }
  void empty() override { must(bench_.empty(queue_)); }

 private:
  const DeviceCalls& calls_ = sycl_backend::calls();
  const sycl_backend::BenchCalls& bench_ = sycl_backend::bench_calls();
  void* queue_;
  void* sink_;
};

}  // namespace

std::unique_ptr<Device> open_sycl() { return std::make_unique<Sycl>(); }

}  // namespace recoverssm::bench
