// What could go wrong by timing, often: the same call from the same contents, every time the same bits, those of the CPU. Many rows, heads
// and tokens, so that many blocks of threads meet.
#include <gtest/gtest.h>

#include <chrono>

#include "device/programs.h"

namespace device_test {
namespace {

using recoverssm::WindowMode;

struct Case {
  const char* name;
  SceneShape shape;
  std::function<void(const Scene&, const Side&, Runner&)> run;
  std::function<void(Scene&)> prepare = [](Scene&) {};
};

// A plan whose boundary and final blocks coincide with the source, in every way there is, row by row.
void draw_aliases(Scene& scene) {
  const WindowPieces& w = scene.windows;
  for (int i = 0; i < scene.shape.rows; ++i) {
    const std::int32_t source = scene.i32(w.ids)[i], other = scene.i32(w.table)[3 * scene.i32(w.request_index)[i] + (i % 3)];
    const std::int32_t third = other > 0 && other != source ? other : source;
    const int length = scene.i32(w.offsets)[i + 1] - scene.i32(w.offsets)[i];
    const std::int32_t finals[] = {source, source, third, third, source}, boundaries[] = {source, third, source, third, 0};
    scene.i32(w.commit_len)[i] = scene.between(1, length);
    scene.i32(w.final_ids)[i] = finals[i % 5];
    scene.i32(w.boundary_ids)[i] = boundaries[i % 5];
    scene.i32(w.boundary_len)[i] = scene.between(1, scene.i32(w.commit_len)[i]);
  }
}

// Every row starts from its first column, which its first token overwrites.
void draw_start_in_columns(Scene& scene) {
  for (int i = 0; i < scene.shape.rows; ++i) scene.i32(scene.windows.start_counts)[i] = i % 2;
}

std::vector<Case> cases() {
  const bool real = gpu::real();
  const int many = real ? 48 : 4, heads = real ? 32 : 4, keys = real ? 16 : 2;
  const int S = real ? 16 : 4;
  const int size = real ? 128 : 32;
  const LayerShape wide{.H = keys, .HV = heads, .K = size, .V = size},
      kda{.kind = LayerKind::kda, .H = keys, .HV = keys, .K = size, .V = size, .state = DType::bf16},
      filter{.kind = LayerKind::short_conv, .W = 4, .channels = real ? 8192 : 512, .dilation = 3};
  const SceneShape short_windows{.layers = {wide}, .rows = many, .S = 4, .blocks_per_row = 3};
  SceneShape in_place = short_windows, lazy = short_windows, long_lazy = short_windows, lazy_anchored = short_windows;
  in_place.in_place = true;
  in_place.plain_tokens = real ? 4000 : 300;  // rows of many segments
  in_place.plain_rows = 5;
  lazy.lazy = true;
  lazy_anchored.lazy = true;
  lazy_anchored.line_kind = LineKind::anchored;
  long_lazy.lazy = true;
  long_lazy.layers = {wide, kda};
  long_lazy.S = S;
  long_lazy.rows = many / 2;
  long_lazy.block_size = S + 2;
  const SceneShape commits{.layers = {wide, kda, filter}, .rows = many / 2, .S = 4, .blocks_per_row = 3};
  const SceneShape windows{.layers = {wide}, .rows = many / 2, .S = 4};
  const SceneShape filters{.layers = {filter}, .rows = many, .plain_rows = 5, .plain_tokens = real ? 4000 : 300, .S = 4};
  // Records are NaN, whose bits differ between processors, until a verify writes them.
  const auto run_commit = [](const Scene& scene, const Side& side, Runner& run) {
    run(verify(scene, side, 0));
    run(verify(scene, side, 1));
    const CommitCall call = commit(scene, side);
    run(call.params());
  };
  return {
      {"rolled windows convolved in place", in_place,
       [](const Scene& scene, const Side& side, Runner& run) { run(conv_window(scene, side, 0)); }},
      {"long plain rows convolved in place", in_place,
       [](const Scene& scene, const Side& side, Runner& run) { run(conv_plain(scene, side, 0)); }},
      {"short_conv windows, lines in place", filters,
       [](const Scene& scene, const Side& side, Runner& run) { run(short_conv(scene, side, 0, true)); }},
      {"short_conv long plain rows, lines in place", filters,
       [](const Scene& scene, const Side& side, Runner& run) { run(short_conv(scene, side, 0, false)); }},
      {"verify, lazy", lazy, [](const Scene& scene, const Side& side, Runner& run) { run(verify(scene, side, 0)); }},
      {"verify, lazy, long windows, gdn and kda", long_lazy,
       [](const Scene& scene, const Side& side, Runner& run) {
         run(verify(scene, side, 0));
         run(verify(scene, side, 1));
       }},
      {"gdn_attention windows, lazy (one launch counts heads)", lazy_anchored,
       [](const Scene& scene, const Side& side, Runner& run) { run(attention(scene, side, 0, "w", WindowMode::verify)); }},
      {"gdn_attention plain and windows, lazy", lazy,
       [](const Scene& scene, const Side& side, Runner& run) { run(attention(scene, side, 0, "pw", WindowMode::verify)); }},
      {"snapshots over the start state", windows,
       [](const Scene& scene, const Side& side, Runner& run) { run(snapshots(scene, side, 0)); }, draw_start_in_columns},
      {"verify and commit, boundary and final over the source in all five ways", commits, run_commit, draw_aliases},
      {"plan and commit, pending", long_lazy,
       [](const Scene& scene, const Side& side, Runner& run) {
         run(verify(scene, side, 0));
         run(verify(scene, side, 1));
         run(plan(scene, side));
         const CommitCall call = commit(scene, side);
         run(call.params());
       }},
      {"materialize", lazy_anchored,
       [](const Scene& scene, const Side& side, Runner& run) {
         const ListCall list = materialize(scene, side);
         run(list.materialize());
       }},
  };
}

TEST(Races, AThousandTimesTheSameBits) {
  GPU_OR_SKIP();
  const int repeats = gpu::real() ? 1000 : 3;
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    Scene scene(one.shape);
    one.prepare(scene);
    Twin twin(scene);
    const std::size_t bytes = scene.bytes.size();
    const gpu::Memory before(bytes), first(bytes), counter(sizeof(std::uint64_t));
    const gpu::Stream stream(gpu::StreamKind::non_blocking);
    const auto program = [&](Runner& run) { one.run(scene, twin.side(), run); };
    Runner device = Runner::device(stream, program);
    gpu::upload(before.data(), scene.bytes.data(), bytes);
    gpu::fill(counter.data(), 0, counter.bytes());
    const auto start = std::chrono::steady_clock::now();
    for (int repeat = 0; repeat < repeats; ++repeat) {
      gpu::copy_on(stream, twin.memory().data(), before.data(), bytes);
      program(device);
      if (repeat == 0) gpu::copy_on(stream, first.data(), twin.memory().data(), bytes);
      gpu::count_differences_on(stream, twin.memory().data(), first.data(), bytes,
                                reinterpret_cast<std::uint64_t*>(counter.data()));
    }
    stream.wait();
    const auto taken = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
    std::uint64_t different = 0;
    gpu::download(&different, counter.data(), sizeof different);
    EXPECT_EQ(different, 0U) << "words that were not the first time's";
    Runner cpu = Runner::cpu();
    one.run(scene, scene.side(), cpu);
    EXPECT_TRUE(twin.same()) << "the last time";
    EXPECT_TRUE(no_finding(device));
    saw("races: " + std::string(one.name) + "; " + std::to_string(repeats) + " times over " +
        millions(static_cast<std::int64_t>(bytes)) + " in " + std::to_string(taken.count()) + " ms: " + std::to_string(different) +
        " words differ from the first time, 0 bytes from the CPU");
  }
}

}  // namespace
}  // namespace device_test
