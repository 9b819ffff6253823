// What a session does on a device beside what it does everywhere: where it waits, what it asks of contexts, how findings and failures come up.
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "device/fake_cuda.h"
#include "session/driver.h"

namespace session_tests {
namespace {

using recoverssm::Backend;
using recoverssm::Context;
using recoverssm::Error;
using recoverssm::Session;
using recoverssm::StepRow;

TEST(SessionOnDevice, StepsDoNotWait) {
  for_all_shapes(4, [](const Shape& shape) {
    Driver d(shape);
    const RequestId a = started(d, 1, 3), b = started(d, 2, 6);
    d.run({window(a, 4, 3), window(b, 4, 1)});
    const auto waits = [&](const std::function<void()>& call) {
      const std::int64_t before = fake_cuda::waits;
      call();
      return fake_cuda::waits - before;
    };
    Step step;
    EXPECT_EQ(waits([&] { step = d.open({window(a, 4, 2), prefill(b, 5), padding(2)}); }), 0);
    const LayerIo io = d.model.io(0, step.keys);
    EXPECT_EQ(waits([&] { d.session.forward(step.id, 0, io.delta(), d.context); }), 0);
    step.io[0] = io;
    for (std::int32_t l = 1; l < d.model.layers(); ++l) d.forward(step, l);
    EXPECT_EQ(waits([&] { d.session.commit(step.id, d.counts(step), d.context); }), 0);
    d.committed(step);
    EXPECT_EQ(waits([&] { d.session.materialize(std::array{a, b}, d.context); }), 0);
    d.folded(a), d.folded(b);
    RequestId copy = 0;
    EXPECT_EQ(waits([&] { copy = d.fork(a, 3); }), 0);
    d.check_all();
    std::vector<std::byte> bytes;
    EXPECT_EQ(waits([&] { bytes = d.session.export_checkpoint(copy, d.tokens(copy), 9, d.context); }), 1);
    d.preempt(b);
    EXPECT_EQ(waits([&] { d.session.restore(b, bytes, d.tokens(copy), 9); }), 1);
  });
}

// After some steps the index data goes through memory that is there; how many pieces depends on how far the host runs ahead.
TEST(SessionOnDevice, AllocatesNothingOnceItHasSteppedALittle) {
  Shape shape;
  Driver d(shape);
  const RequestId a = started(d, 1, 3);
  for (int i = 0; i < 8; ++i) d.run({window(a, 4, 2)});
  const std::int64_t before = fake_cuda::allocated;
  for (int i = 0; i < 100; ++i) d.run({window(a, 4, 1 + i % 4)});
  EXPECT_EQ(fake_cuda::allocated, before);
}

TEST(SessionOnDevice, GivesItsMemoryBack) {
  const std::int64_t before = fake_cuda::allocated;
  {
    Driver d(Shape{.lazy = true});
    const RequestId a = started(d, 1, 3);
    d.run({window(a, 4, 2)});
    Step open = d.open({window(a, 4, 2)});
    EXPECT_GT(fake_cuda::allocated, before);
  }
  EXPECT_EQ(fake_cuda::allocated, before);
}

TEST(SessionOnDevice, ContextsAreOfItsBackendAndStream) {
  Driver d(Shape{});
  const RequestId a = d.admit(1);
  const StepRow row{.request = a, .kind = RowKind::prefill, .tokens = 2};
  Context host(1), elsewhere = Context::cuda(&d);
  EXPECT_TRUE(
      refuses(ErrorKind::unsupported, "session.open_step: context: cpu, expected cuda, where this session's pools are", {}, [&] {
        d.session.open_step({&row, 1}, host);
      }));
  EXPECT_TRUE(refuses(ErrorKind::invalid_argument, "session.open_step: context.stream: another stream", {"configuration"}, [&] {
    d.session.open_step({&row, 1}, elsewhere);
  }));
  recoverssm::SessionConfig config = d.model.config();
  config.backend = Backend::cpu;
  Session on_cpu(config);
  const RequestId b = on_cpu.admit();
  const StepRow other{.request = b, .kind = RowKind::prefill, .tokens = 2};
  EXPECT_TRUE(
      refuses(ErrorKind::unsupported, "session.open_step: context: cuda, expected cpu, where this session's pools are", {}, [&] {
        on_cpu.open_step({&other, 1}, d.context);
      }));
  config.backend = static_cast<Backend>(7);
  EXPECT_TRUE(refuses(ErrorKind::unsupported, "session: backend: value 7", {}, [&] { Session session(config); }));
}

TEST(SessionOnDevice, ABackendThatDoesNotRunHereIsRefused) {
  recoverssm::SessionConfig config = Model(Shape{}).config();
  fake_cuda::present = false;
  EXPECT_TRUE(refuses(ErrorKind::unsupported, "session: backend: cuda, no CUDA device", {}, [&] { Session session(config); }));
  fake_cuda::present = true;
}

TEST(SessionOnDevice, NoMemoryIsADeviceError) {
  recoverssm::SessionConfig config = Model(Shape{}).config();
  const std::int64_t before = fake_cuda::allocated;
  fake_cuda::full = true;
  try {
    const Session session(config);
    ADD_FAILURE() << "made";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device_error);
    EXPECT_NE(std::string(error.what()).find("session: no device memory for "), std::string::npos) << error.what();
  }
  fake_cuda::full = false;
  EXPECT_EQ(fake_cuda::allocated, before);
}

// What a kernel finds wrong is told by the next call, and by every one after it: the states are of nobody knows what.
TEST(SessionOnDevice, FindingsAreToldByTheNextCall) {
  Driver d(Shape{});
  const RequestId a = started(d, 1, 3);
  Step step = d.open({decode(a)});
  fake_cuda::raises = true;
  d.forward(step, 0);
  fake_cuda::raises = false;
  const std::string found = ": device: bad_state in gated_delta_rule, layer 0, row 7";
  EXPECT_TRUE(refuses(ErrorKind::bad_state, "session.forward" + found, {"nothing wrong"}, [&] { d.forward(step, 1); }));
  EXPECT_TRUE(refuses(ErrorKind::bad_state, "session.commit" + found, {"nothing wrong"},
                      [&] { d.session.commit(step.id, {}, d.context); }));
  d.session.abandon(step.id);
  d.session.preempt(a);
  EXPECT_TRUE(refuses(ErrorKind::bad_state, "session.restore" + found, {"nothing wrong"}, [&] { d.session.restore(a, {}, 1, 1); }));
  d.session.finish(a);
}

TEST(SessionOnDevice, ACallersFlagTakesTheFindings) {
  Driver d(Shape{});
  recoverssm::DeviceFlag flag;
  d.context.flag = &flag;
  const RequestId a = started(d, 1, 3);
  fake_cuda::raises = true;
  d.run({decode(a)});
  fake_cuda::raises = false;
  EXPECT_EQ(flag.code, static_cast<int>(ErrorKind::bad_state));
  d.run({decode(a)});
}

TEST(SessionOnDevice, StepsAreRangesOfAProfiler) {
  Driver d(Shape{});
  const RequestId a = started(d, 1, 3);
  std::vector<std::string> ranges;
  fake_cuda::ranges = &ranges;
  Step step = d.open({decode(a)});
  d.forward(step, 0);
  fake_cuda::ranges = nullptr;
  EXPECT_EQ(ranges, (std::vector<std::string>{"session.open_step", "session.forward", "causal_conv1d", "gated_delta_rule"}));
}

// The fake itself: it notices what these tests rest on.
TEST(FakeDevice, ItsMemoryIsClosedToTheHost) {
  Driver d(Shape{});
  const recoverssm::TensorView& state = d.session.pool(0).state;
  EXPECT_DEATH((void)*static_cast<volatile char*>(state.data), "");
}

}  // namespace
}  // namespace session_tests
