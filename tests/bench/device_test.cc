// Measuring on a device, on one made of the CPU: which calls are made, in which memory, what is compared, what is counted.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "bench/bench.h"

namespace recoverssm::bench {
namespace {

class HostDevice : public Device {
 public:
  DeviceHardware hardware() override {
    return {"the CPU", "none", "none", "unknown", 1, std::size_t{1} << 12, std::size_t{6} << 30};
  }
  void* allocate(std::size_t bytes) override { return std::aligned_alloc(256, (bytes + 255) / 256 * 256); }
  void release(void* memory) override { std::free(memory); }
  void upload(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
    if (spoil && bytes > 64) static_cast<unsigned char*>(to)[bytes - 1] ^= 1;
  }
  void repeat(void* to, std::size_t bytes, const void* pattern, std::size_t pattern_bytes) override {
    for (std::size_t i = 0; i < bytes; ++i)
      static_cast<unsigned char*>(to)[i] = static_cast<const unsigned char*>(pattern)[i % pattern_bytes];
  }
  void set_words(void* to, std::int32_t value, std::int64_t count) override {
    for (std::int64_t i = 0; i < count; ++i) static_cast<std::int32_t*>(to)[i] = value;
  }
  Launch launch() const override { return {}; }
  void wait() override {}
  std::vector<double> time(const std::function<void()>& work, int, int replays) override {
    const auto start = std::chrono::steady_clock::now();
    work();
    ++graphs;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::vector<double>(static_cast<std::size_t>(replays), seconds + 1e-9);
  }
  void read(const void*, std::size_t) override {}
  void copy(void*, const void*, std::size_t) override {}
  void driver_copy(void*, const void*, std::size_t) override {}
  std::int64_t multiply_add() override { return 1000; }
  void empty() override {}

  bool spoil = false;
  int graphs = 0;
};

Options small() {
  Options options;
  options.backend = Backend::cuda;
  options.heads = 1;
  options.value_heads = 2;
  options.k = options.v = 16;
  options.rows = 3;
  options.tokens = 4;
  options.layers = 3;
  return options;
}

TEST(BenchDevice, EveryCaseIsComparedTimedAndCounted) {
  HostDevice device;
  std::size_t heard = 0;
  Listener listener;
  listener.result = [&](const Result&) { ++heard; };
  const Report report = run_on(device, small(), listener);
  EXPECT_EQ(report.device.name, "the CPU");
  ASSERT_EQ(report.ceilings.size(), 1U);
  EXPECT_GT(report.ceilings[0].launch_seconds, 0);
  EXPECT_EQ(report.results.size(), jobs_of(small()).size());
  EXPECT_EQ(heard, report.results.size());
  EXPECT_EQ(static_cast<std::size_t>(device.graphs), report.results.size() + 5);
  for (const Result& r : report.results) {
    EXPECT_EQ(r.skipped, "") << r.job.name;
    EXPECT_EQ(r.compared, "bits as the CPU's") << r.job.name;
    EXPECT_STREQ(where(r), "cuda");
    EXPECT_GT(r.seconds.median, 0) << r.job.name;
    EXPECT_GT(r.host_seconds, 0) << r.job.name;
    EXPECT_EQ(r.share.limit.empty(), r.job.row->bound == Bound::none) << r.job.name;
    EXPECT_GT(r.sets * r.set_bytes, 4 * report.device.l2_bytes) << r.job.name;

    // What one and two rows tell of three is what three say.
    Arena arena(bytes_of(r.job));
    const auto set = r.job.row->build(r.job.shape, arena);
    Context context;
    Launch launch = context.launch(set->workspace(context.launch()));
    Counters counters;
    launch.counters = &counters;
    ASSERT_TRUE(set->run(launch).ok()) << r.job.name;
    EXPECT_EQ(counters.total(), r.counters.total()) << r.job.name;
    EXPECT_EQ(counters.rows, r.counters.rows) << r.job.name;
    EXPECT_EQ(counters.tokens, r.counters.tokens) << r.job.name;
  }
}

TEST(BenchDevice, OtherBitsAreNotTimed) {
  HostDevice device;
  device.spoil = true;
  Options options = small();
  options.ops = {"commit.in_place.gdn"};
  const Report report = run_on(device, options, {});
  ASSERT_EQ(report.results.size(), 1U);
  EXPECT_TRUE(report.results[0].different);
  EXPECT_NE(report.results[0].skipped.find("DIFFERENT"), std::string::npos);
  EXPECT_EQ(report.results[0].compared, "");
  EXPECT_EQ(report.results[0].seconds.median, 0);
  EXPECT_EQ(device.graphs, 5);  // the ceilings
}

TEST(BenchDevice, LargeSetsAreComparedWithFewerRows) {
  HostDevice device;
  Options options = small();
  options.ops = {"gated_delta_rule_verify.t4.gdn"};
  options.rows = 8;
  options.compare_gib = static_cast<double>(bytes_of(jobs_of(options).at(0))) * 0.6 / 0x1p30;
  EXPECT_EQ(run_on(device, options, {}).results.at(0).compared, "bits as the CPU's at 4 rows, 1 layers");
  options.compare_gib = 0;
  EXPECT_EQ(run_on(device, options, {}).results.at(0).compared, "");
}

TEST(BenchDevice, SaysWhatTheMemoryLimitLeavesOut) {
  HostDevice device;
  Options options = small();
  options.ops = {"commit.in_place.gdn"};
  options.memory_gib = 1e-6;
  EXPECT_NE(run_on(device, options, {}).results.at(0).skipped.find("--memory"), std::string::npos);
}

TEST(BenchDevice, TheArenaIsFilledAlike) {
  HostDevice device;
  const auto fill = [](Arena& arena) {
    arena.values(DType::f32, {5000});
    arena.ints(3, 2, {1, 2, 3, 4, 5, 6});
    arena.values(DType::bf16, {1, 4099}, 0.5F, 1.0F);
    arena.values(DType::f16, {7});
  };
  Arena host(1 << 16), on_device(1 << 16, device);
  fill(host);
  fill(on_device);
  ASSERT_EQ(host.regions().size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto [offset, bytes] = host.regions()[i];
    EXPECT_EQ(on_device.regions()[i].offset, offset);
    EXPECT_EQ(std::memcmp(host.base() + offset, on_device.base() + offset, bytes), 0) << i;
  }
}

}  // namespace
}  // namespace recoverssm::bench
