// Kernels may start while the one in front of them runs (src/cuda/dependent.cuh), and wait for it. In front of every call stands a kernel that lets
// it start at once and puts the scene's bytes, all of them, in their places late: calls that did not wait would read, or write over, NaN.
#include <gtest/gtest.h>

#include "device/programs.h"

namespace device_test {
namespace {

const int kSteps = gpu::real() ? 5 : 1;

TEST(Dependent, CallsWaitForWhatIsWrittenLate) {
  GPU_OR_SKIP();
  for (const Named& named : all_programs()) {
    SCOPED_TRACE(named.name);
    Scene scene(named.shape);
    const Program program = named.make(scene);
    Twin twin(scene);
    const gpu::Stream stream(gpu::StreamKind::non_blocking);
    const std::size_t bytes = twin.memory().bytes() / 16 * 16;
    const gpu::Memory copy(twin.memory().bytes());
    Runner cpu = Runner::cpu();
    Runner device = Runner::device(stream, [&](Runner& run) { program(twin.side(), run); });
    int late = 0;
    device.before([&] {
      gpu::copy_on(stream, copy.data(), twin.memory().data(), bytes);
      gpu::write_late_on(stream, twin.memory().data(), copy.data(), bytes);
      ++late;
    });
    const auto steps = [&](const char* how, const std::function<void()>& step) {
      for (int i = 0; i < kSteps; ++i) {
        scene.draw_inputs();
        scene.draw_rows(scene.random_mix());
        twin.upload_inputs();
        program(scene.side(), cpu);
        step();
        stream.wait();
        ASSERT_TRUE(twin.same()) << how << ", step " << i;
        ASSERT_TRUE(no_finding(device)) << how << ", step " << i;
      }
    };
    steps("on a stream", [&] { program(twin.side(), device); });
    const gpu::Graph graph(stream, gpu::CaptureMode::global, [&] { program(twin.side(), device); });
    steps("as a graph", [&] { graph.launch(stream); });
    EXPECT_GT(late, 0);
    saw("dependent: " + named.name + "; " + std::to_string(device.calls()) + " calls, each behind a kernel that writes late; " +
        std::to_string(kSteps) + " steps on a stream, as many as a graph: 0 of " + millions(twin.compared()) +
        " differ from the CPU");
  }
}

}  // namespace
}  // namespace device_test
