// Two streams at once, each with a workspace of its own: what each leaves is what it leaves alone. Launched in turn by one thread, by two
// threads at once, and through contexts that another thread made.
#include <gtest/gtest.h>

#include <exception>
#include <thread>

#include "device/programs.h"

namespace device_test {
namespace {

const int kSteps = gpu::real() ? 40 : 2;

// One scene, what it is at first and after kSteps on the CPU.
struct Part {
  Scene scene;
  Program program;
  std::vector<std::byte> before;

  Part(const Named& named, std::uint64_t seed)
      : scene(with_seed(named.shape, seed)), program(named.make(scene)), before(scene.bytes) {
    Runner cpu = Runner::cpu();
    for (int step = 0; step < kSteps; ++step) program(scene.side(), cpu);
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  static SceneShape with_seed(SceneShape shape, std::uint64_t seed) {
    shape.seed = seed;
    return shape;
  }
  // The device's copy is at the start again.
  void restore(const Twin& twin) const { gpu::upload(twin.memory().data(), before.data(), before.size()); }
};

struct Streams {
  gpu::StreamKind first, second;
  const char* name;
};
constexpr Streams kStreams[] = {
    {gpu::StreamKind::non_blocking, gpu::StreamKind::non_blocking, "two non-blocking streams"},
    {gpu::StreamKind::null, gpu::StreamKind::non_blocking, "the default stream and a non-blocking one"},
    {gpu::StreamKind::plain, gpu::StreamKind::non_blocking, "a plain stream and a non-blocking one"},
};

void run_steps(const Part& part, const Twin& twin, Runner& runner) {
  for (int step = 0; step < kSteps; ++step) part.program(twin.side(), runner);
}

// Runs both at once in threads of their own; the first error of either is thrown here.
void at_once(const std::function<void()>& a, const std::function<void()>& b, int device) {
  std::exception_ptr errors[2];
  const auto guarded = [&](int which, const std::function<void()>& f) {
    try {
      gpu::use(device);
      f();
    } catch (...) {
      errors[which] = std::current_exception();
    }
  };
  std::thread first(guarded, 0, a), second(guarded, 1, b);
  first.join();
  second.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

TEST(Streams, TwoAtOnce) {
  GPU_OR_SKIP();
  std::vector<Named> programs = all_programs();
  std::erase_if(programs, [](const Named& named) { return !named.forward; });
  for (std::size_t n = 0; n < programs.size(); ++n) {
    // Two different programs: the workspaces differ in size as well.
    Part a(programs[n], 7), b(programs[(n + 1) % programs.size()], 8);
    Twin twin_a(a.scene), twin_b(b.scene);
    for (const Streams& streams : kStreams) {
      if (!gpu::real() && streams.first != gpu::StreamKind::null) continue;
      SCOPED_TRACE(programs[n].name + ", " + streams.name);
      const gpu::Stream first(streams.first), second(streams.second);
      const auto runner = [](const Part& part, const Twin& twin, const gpu::Stream& stream) {
        return Runner::device(stream, [&](Runner& run) { part.program(twin.side(), run); });
      };
      Runner run_a = runner(a, twin_a, first), run_b = runner(b, twin_b, second);
      Runner context_a = Runner::context(first), context_b = Runner::context(second);  // used by other threads
      const auto check = [&](const char* how) {
        first.wait();
        second.wait();
        EXPECT_TRUE(twin_a.same()) << how;
        EXPECT_TRUE(twin_b.same()) << how;
        for (const Runner* used : {&run_a, &run_b, &context_a, &context_b}) EXPECT_TRUE(no_finding(*used)) << how;
        a.restore(twin_a);
        b.restore(twin_b);
      };
      a.restore(twin_a);
      b.restore(twin_b);
      for (int step = 0; step < kSteps; ++step) {  // in turn
        a.program(twin_a.side(), run_a);
        b.program(twin_b.side(), run_b);
      }
      check("one thread, in turn");
      const int device = gpu::current();
      at_once([&] { run_steps(a, twin_a, run_a); }, [&] { run_steps(b, twin_b, run_b); }, device);
      check("two threads");
      at_once([&] { run_steps(a, twin_a, context_a); }, [&] { run_steps(b, twin_b, context_b); }, device);
      check("two threads, contexts of a third");
      saw(std::string("two streams: ") + streams.name + "; " + programs[n].name + " beside " +
          programs[(n + 1) % programs.size()].name + "; " + std::to_string(kSteps) +
          " steps each, in turn by one thread, by two threads at once, and by two threads with contexts "
          "made by a third: 0 of " +
          millions(static_cast<std::int64_t>(a.scene.bytes.size() + b.scene.bytes.size())) + " differ from the CPU's, each time");
    }
  }
}

// An error that a caller's own call has left behind is neither ours nor lost.
TEST(Streams, ACallersErrorStaysTheCallers) {
  GPU_OR_SKIP();
  const Named named = all_programs().front();
  Scene scene(named.shape);
  const Program program = named.make(scene);
  Twin twin(scene);
  const gpu::Stream stream(gpu::StreamKind::non_blocking);
  Runner device = Runner::device(stream, [&](Runner& run) { program(twin.side(), run); });
  const std::string left = gpu::provoke_error();
  ASSERT_NE(left, "no error");
  EXPECT_NO_THROW(program(twin.side(), device));
  EXPECT_EQ(gpu::take_last_error(), left);
  stream.wait();
  Runner cpu = Runner::cpu();
  program(scene.side(), cpu);
  EXPECT_TRUE(twin.same());
  saw("a caller's error: " + left + " left by a failed allocation; " + std::to_string(device.calls()) +
      " calls after it succeed with the CPU's bits, and it is still there for the caller");
}

}  // namespace
}  // namespace device_test
