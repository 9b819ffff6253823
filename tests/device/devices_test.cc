// Several devices in one process: each call runs on the device that is current. What a caller has to see to: docs/cuda.md.
#include <gtest/gtest.h>

#include <memory>

#include "device/programs.h"

namespace device_test {
namespace {

const int kSteps = gpu::real() ? 5 : 2;

// A scene, its copy and a stream on a device of their own.
struct OnDevice {
  int device;
  Scene scene;
  Program program;
  std::unique_ptr<Twin> twin;
  std::unique_ptr<gpu::Stream> stream;
  std::unique_ptr<Runner> runner;

  OnDevice(int device_, const Named& named, gpu::StreamKind kind)
      : device(device_), scene(named.shape), program(named.make(scene)) {
    gpu::use(device);
    twin = std::make_unique<Twin>(scene);
    stream = std::make_unique<gpu::Stream>(kind);
    runner = std::make_unique<Runner>(Runner::device(*stream, [&](Runner& run) { program(twin->side(), run); }));
  }
  ~OnDevice() { gpu::use(device); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  void step() {
    gpu::use(device);
    program(twin->side(), *runner);
  }
  ::testing::AssertionResult same() {
    gpu::use(device);
    stream->wait();
    if (const auto found = no_finding(*runner); !found) return found;
    return twin->same();
  }
};

// Puts the device back that was current.
struct Back {
  const int device = gpu::current();
  ~Back() { gpu::use(device); }
};

TEST(Devices, InTurn) {
  GPU_OR_SKIP();
  const int devices = gpu::devices();
  if (devices < 2) GTEST_SKIP() << "left out: one device here (" << gpu::description() << "); kind nvidia-h200-x2 has two";
  const Back back;
  for (const gpu::StreamKind kind : {gpu::StreamKind::non_blocking, gpu::StreamKind::null}) {
    if (!gpu::real() && kind == gpu::StreamKind::null) continue;
    for (const Named& named : all_programs()) {
      SCOPED_TRACE(named.name);
      gpu::use(0);
      std::vector<std::unique_ptr<OnDevice>> all;
      for (int d = 0; d < devices; ++d) all.push_back(std::make_unique<OnDevice>(d, named, kind));
      for (int step = 0; step < kSteps; ++step) {
        for (auto& one : all) one->step();
      }
      for (auto& one : all) {
        Runner cpu = Runner::cpu();
        for (int step = 0; step < kSteps; ++step) one->program(one->scene.side(), cpu);
        EXPECT_TRUE(one->same()) << "device " << one->device;
      }
      saw("several devices: " + std::to_string(devices) + " in one process, " +
          (kind == gpu::StreamKind::null ? "default streams" : "non-blocking streams") + "; " + named.name + "; " +
          std::to_string(kSteps) + " steps each, the current device changed between all calls: 0 bytes differ from the CPU's");
    }
  }
}

TEST(Devices, TheWrongOneIsRefused) {
  GPU_OR_SKIP();
  if (gpu::devices() < 2) GTEST_SKIP() << "left out: one device here (" << gpu::description() << ")";
  const Back back;
  const Named named = all_programs().front();
  OnDevice second(1, named, gpu::StreamKind::non_blocking);
  Context context = Context::cuda(second.stream->handle());
  const auto params = split(second.scene, second.twin->side(), 0);
  gpu::use(0);
  try {
    split_projections(params, context);
    ADD_FAILURE() << "a context of another device was taken";
  } catch (const recoverssm::Error& error) {
    EXPECT_EQ(error.kind(), recoverssm::ErrorKind::bad_state);
    EXPECT_EQ(std::string(error.what()), "context: the current device is 0, expected 1, where its stream and its workspace are");
    saw(std::string("the wrong device: ") + error.what());
  }
  gpu::use(1);
  EXPECT_TRUE(second.twin->same()) << "a refused call wrote something";
  Runner cpu = Runner::cpu();
  if (gpu::real()) {  // the fake's calls look at no stream
    gpu::use(0);
    const Status status = run(params, Launch{.backend = Backend::cuda, .stream = second.stream->handle()});
    EXPECT_EQ(gpu::take_last_error(), "cudaSuccess");
    gpu::use(1);
    second.stream->wait();
    // Drivers differ: some refuse such a launch, others (CUDA 13's) put it on the stream's own device, where its tensors are.
    if (status.ok()) {
      cpu(split(second.scene, second.scene.side(), 0));
    } else {
      EXPECT_EQ(status.kind, recoverssm::ErrorKind::device_error);
      EXPECT_NE(status.message.find("got a stream that is none of the current device, 0"), std::string::npos) << status.message;
    }
    EXPECT_TRUE(second.twin->same());
    saw("a stream of another device than the current one: " + (status.ok() ? "runs there" : status.message));
  }
  split_projections(params, context);
  second.stream->wait();
  cpu(split(second.scene, second.scene.side(), 0));
  EXPECT_TRUE(second.twin->same());
}

}  // namespace
}  // namespace device_test
