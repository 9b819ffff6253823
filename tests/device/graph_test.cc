// Captured once, replayed with other counts, ids, offsets and activations: every replay leaves the bytes that the CPU leaves. That a capture
// in global mode succeeds says that no call waited, allocated or did anything else that a capture forbids.
#include <gtest/gtest.h>

#include <cstring>

#include "device/programs.h"

namespace device_test {
namespace {

// The fake shows that the test is right, a device that the library is.
const int kReplays = gpu::real() ? 10 : 2;

struct Mode {
  gpu::CaptureMode mode;
  gpu::StreamKind stream;
  const char* name;
};
constexpr Mode kModes[] = {{gpu::CaptureMode::global, gpu::StreamKind::non_blocking, "global mode, non-blocking stream"},
                           {gpu::CaptureMode::thread_local_, gpu::StreamKind::plain, "thread-local mode, plain stream"},
                           {gpu::CaptureMode::relaxed, gpu::StreamKind::non_blocking, "relaxed mode, non-blocking stream"}};

TEST(Graphs, ReplayWithOtherContents) {
  GPU_OR_SKIP();
  for (const Named& named : all_programs()) {
    for (const Mode& mode : kModes) {
      if (!gpu::real() && mode.mode != gpu::CaptureMode::global) continue;
      SCOPED_TRACE(named.name + ", " + mode.name);
      Scene scene(named.shape);
      const Program program = named.make(scene);
      Twin twin(scene);
      const gpu::Stream stream(mode.stream);
      Runner device = Runner::device(stream, [&](Runner& run) { program(twin.side(), run); });
      Runner cpu = Runner::cpu();
      const gpu::Graph graph(stream, mode.mode, [&] { program(twin.side(), device); });
      EXPECT_EQ(graph.other_nodes(), 0);
      ASSERT_TRUE(twin.same()) << "a capture ran something";
      int live = 0, null = 0, most = 0, least = scene.shape.rows;
      for (int replay = 0; replay < kReplays; ++replay) {
        scene.draw_inputs();
        scene.draw_rows(scene.random_mix());
        live += scene.mix.live;
        null += scene.mix.null;
        most = std::max(most, scene.mix.live);
        least = std::min(least, scene.mix.live);
        twin.upload_inputs();
        program(scene.side(), cpu);
        graph.launch(stream);
        stream.wait();
        ASSERT_TRUE(twin.same()) << "replay " << replay;
        ASSERT_TRUE(no_finding(device)) << "replay " << replay;
      }
      const int rows = kReplays * scene.shape.rows;
      saw("graph: " + named.name + "; " + mode.name + "; " + std::to_string(device.calls()) + " calls, " +
          std::to_string(graph.kernels().size()) + " kernels, no other node; " + std::to_string(kReplays) + " replays with " +
          std::to_string(least) + " to " + std::to_string(most) + " live rows of " + std::to_string(scene.shape.rows) +
          " (in all " + std::to_string(live) + " live, " + std::to_string(null) + " null, " + std::to_string(rows - live - null) +
          " empty): 0 of " + millions(twin.compared()) + " differ from the CPU");
    }
  }
}

// Bytes of the outputs that belong to padding, which the scene says nothing of without it: tokens of null rows, what a plan says of rows
// behind the live ones.
struct Padding {
  std::vector<std::pair<std::int64_t, std::int64_t>> zeros, dead;  // first byte, bytes
};

Padding padding_of(Scene& scene, bool global) {
  Padding padding;
  const WindowPieces& w = scene.windows;
  const auto row_bytes = [](const Piece& piece) { return piece.view.stride[0] * size_of(piece.view.dtype); };
  for (int i = scene.mix.live; i < scene.shape.rows; ++i) {
    for (const Piece& piece : {w.commit_len, w.final_ids, w.boundary_ids, w.boundary_len})
      padding.dead.push_back({piece.at + 4 * i, 4});
    for (int t = scene.i32(w.offsets)[i]; t < scene.i32(w.offsets)[i + 1]; ++t) {
      const std::int64_t row = global ? scene.i32(w.token_index)[t] : t;
      for (std::size_t l = 0; l < scene.layers.size(); ++l) {
        const LayerPieces& p = scene.layers[l];
        if (!scene.shape.layers[l].has_state()) continue;
        padding.zeros.push_back({p.out.at + row * row_bytes(p.out), row_bytes(p.out)});
        if (global) {  // gdn_attention: its convolution is its own matter, z is written for null rows too
          padding.dead.push_back({p.z.at + row * row_bytes(p.z), row_bytes(p.z)});
        } else {
          const Piece& conv = p.conv_out.present() ? p.conv_out : p.x;
          padding.zeros.push_back({conv.at + row * row_bytes(conv), row_bytes(conv)});
        }
      }
    }
  }
  return padding;
}

// A batch captured for N rows and replayed for fewer: all bytes are those of a call on the CPU that has only the live rows; but for the
// outputs of the null rows' tokens, which are zeros, and for what the plan says of the padding.
TEST(Graphs, PaddingChangesNothing) {
  GPU_OR_SKIP();
  for (const Named& named : all_programs()) {
    if (!named.forward) continue;
    const bool attention = named.name.find("gdn_attention") == 0;
    SceneShape shape = named.shape;
    shape.rows = 16;
    std::erase_if(shape.layers, [](const LayerShape& l) { return !l.has_state(); });  // short_conv has a token_index here
    SCOPED_TRACE(named.name);
    Scene scene(shape);
    const Program program = named.make(scene);
    Twin twin(scene);
    const gpu::Stream stream(gpu::StreamKind::non_blocking);
    Runner device = Runner::device(stream, [&](Runner& run) { program(twin.side(), run); });
    Runner cpu = Runner::cpu();
    const gpu::Graph graph(stream, gpu::CaptureMode::global, [&] { program(twin.side(), device); });
    std::string shapes;
    for (const Mix& mix : {Mix{5, 11}, Mix{5, 0}, Mix{16, 0}, Mix{1, 7}, Mix{0, 3}, Mix{9, 4}}) {
      scene.draw_inputs();
      scene.draw_rows(mix);
      const Padding padding = padding_of(scene, attention);
      twin.upload_inputs();
      graph.launch(stream);
      stream.wait();
      ASSERT_TRUE(no_finding(device));
      std::vector<std::byte> got(scene.bytes.size());
      gpu::download(got.data(), twin.memory().data(), got.size());
      Side live_rows = scene.side();
      live_rows.rows = mix.live;
      if (mix.live > 0) program(live_rows, cpu);
      for (const auto& [at, bytes] : padding.zeros) std::memset(scene.bytes.data() + at, 0, static_cast<std::size_t>(bytes));
      for (const auto& [at, bytes] : padding.dead) {
        std::memcpy(scene.bytes.data() + at, got.data() + at, static_cast<std::size_t>(bytes));
      }
      ASSERT_TRUE(same_scene(scene, got.data(), scene.bytes.data())) << mix.live << " live, " << mix.null << " null";
      shapes += (shapes.empty() ? "" : ", ") + std::to_string(mix.live) + "+" + std::to_string(mix.null) + "+" +
                std::to_string(shape.rows - mix.live - mix.null);
    }
    saw("padded graph: " + named.name + "; captured for " + std::to_string(shape.rows) + " rows, replayed with live+null+empty " +
        shapes + ": 0 of " + millions(static_cast<std::int64_t>(scene.bytes.size())) +
        " (all pools, outputs, gaps) differ from a call with the live rows alone");
  }
}

// A context as a caller has it: its workspace is made by a call outside of the capture.
TEST(Graphs, CapturesACallThroughAContext) {
  GPU_OR_SKIP();
  Scene scene({.layers = {LayerShape{}}});
  Twin twin(scene);
  const gpu::Stream stream(gpu::StreamKind::non_blocking);
  Context context = Context::cuda(stream.handle());
  Runner cpu = Runner::cpu();
  const auto params = attention(scene, twin.side(), 0, "w", recoverssm::WindowMode::verify);
  gdn_attention(params, context);
  cpu(attention(scene, scene.side(), 0, "w", recoverssm::WindowMode::verify));
  const gpu::Graph graph(stream, gpu::CaptureMode::global, [&] { gdn_attention(params, context); });
  scene.draw_rows({3, 2});
  stream.wait();
  twin.upload_inputs();
  cpu(attention(scene, scene.side(), 0, "w", recoverssm::WindowMode::verify));
  graph.launch(stream);
  stream.wait();
  EXPECT_TRUE(twin.same());
  saw("graph: a Context's call captured in global mode after one outside of it, replayed once: the same bytes as on the CPU");
}

}  // namespace
}  // namespace device_test
