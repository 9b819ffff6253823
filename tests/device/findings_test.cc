// Rows that a device finds wrong: one whose block is not in the pool is a null row, one whose offsets reach past the tokens writes nothing; the flag
// says which, and every byte is the CPU's for rows that were so from the start. The CPU itself refuses such contents, and so does the fake.
#include <gtest/gtest.h>

#include "device/programs.h"

namespace device_test {
namespace {

using recoverssm::ErrorKind;
using recoverssm::Operation;
using recoverssm::WindowMode;

struct Call {
  std::string name;
  SceneShape shape;
  bool windows;
  Operation op;
  std::function<void(const Scene&, const Side&, Runner&)> run;
};

// The kernels of few.cuh: windows of one token on few heads, plain rows of about a token on few and on many; and what runs other shapes.
std::vector<Call> calls() {
  const auto verify_0 = [](const Scene& scene, const Side& side, Runner& run) { run(verify(scene, side, 0)); };
  const auto rule_0 = [](const Scene& scene, const Side& side, Runner& run) { run(rule(scene, side, 0)); };
  const auto plain_layer = [](const Scene& scene, const Side& side, Runner& run) {
    run(attention(scene, side, 0, "d", WindowMode::verify));
  };
  std::vector<Call> calls;
  for (const LayerKind kind : {LayerKind::gdn, LayerKind::kda}) {
    const LayerShape layer{.kind = kind};
    for (const int S : {1, 4}) {
      calls.push_back({"verify, windows of at most " + std::to_string(S),
                       {.layers = {layer}, .S = S},
                       true,
                       Operation::gated_delta_rule_verify,
                       verify_0});
    }
    for (const auto& [rows, tokens] : {std::array{20, 14}, std::array{40, 34}, std::array{8, 60}}) {
      const SceneShape shape{.layers = {layer}, .rows = 3, .plain_rows = rows, .plain_tokens = tokens, .S = 1};
      calls.push_back({"rule, " + std::to_string(rows) + " rows of " + std::to_string(tokens) + " tokens", shape, false,
                       Operation::gated_delta_rule, rule_0});
      if (kind == LayerKind::kda) continue;
      calls.push_back({"gdn_attention, " + std::to_string(rows) + " rows of " + std::to_string(tokens) + " tokens", shape, false,
                       Operation::gdn_attention, plain_layer});
    }
  }
  for (std::size_t i = 0; i < calls.size(); ++i) calls[i].shape.seed = 500 + i;
  return calls;
}

TEST(Findings, WrongRowsAreNullOrNothing) {
  GPU_OR_SKIP();
  if (!gpu::real()) GTEST_SKIP() << "left out: the fake refuses wrong contents, as the CPU does";
  int found = 0;
  for (const Call& call : calls()) {
    for (const bool past_tokens : {false, true}) {
      SCOPED_TRACE(call.name + (past_tokens ? ", offsets past the tokens" : ", a block past the pool"));
      Scene scene(call.shape);
      Twin twin(scene);
      const Piece& ids = call.windows ? scene.windows.ids : scene.plain.ids;
      const Piece& offsets = call.windows ? scene.windows.offsets : scene.plain.offsets;
      const int rows = static_cast<int>(ids.view.shape[0]);
      int row = rows - 1;
      if (past_tokens) {
        scene.i32(offsets)[rows] = scene.tokens() + 1;
      } else {
        while (row > 0 && scene.i32(offsets)[row] == scene.i32(offsets)[row + 1]) --row;
        ASSERT_LT(scene.i32(offsets)[row], scene.i32(offsets)[row + 1]) << "no row has a token";
        scene.i32(ids)[row] = scene.blocks;
      }
      twin.upload_all();
      if (past_tokens) {
        scene.i32(offsets)[rows] = scene.i32(offsets)[row];
      } else {
        scene.i32(ids)[row] = 0;
      }
      const gpu::Stream stream(gpu::StreamKind::non_blocking);
      Runner device = Runner::device(stream, [&](Runner& run) { call.run(scene, twin.side(), run); });
      call.run(scene, twin.side(), device);
      stream.wait();
      Runner cpu = Runner::cpu();
      call.run(scene, scene.side(), cpu);
      twin.upload_inputs();  // the rows as the CPU had them
      EXPECT_TRUE(twin.same());
      const DeviceFlag flag = device.flag();
      EXPECT_EQ(flag.code, static_cast<int>(ErrorKind::out_of_range));
      EXPECT_EQ(flag.op, static_cast<int>(call.op));
      EXPECT_EQ(flag.row, row);
      if (HasFailure()) return;
      ++found;
    }
  }
  saw("findings: " + std::to_string(found) + " calls with a wrong row: the flag names it, 0 bytes differ from the CPU's");
}

}  // namespace
}  // namespace device_test
