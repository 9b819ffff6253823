// Every kernel of the library once, with the bits of the CPU: a table of calls that reaches all instantiations, made for compute-sanitizer
// (each tensor is an allocation of exactly its size, nobody has written the workspace). The kernels that ran are the nodes of graphs of
// the same calls; those there are come from the library's symbols (kernels.inc, made by CMake).
#include <cxxabi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "device/programs.h"

namespace device_test {
namespace {

using recoverssm::GatedDeltaRuleParams;
using recoverssm::RuleInputs;
using recoverssm::WindowMode;

const std::vector<std::string> kAllKernels = {
#include "kernels.inc"
};

// A scene on the device, tensor by tensor.
class Scattered {
 public:
  explicit Scattered(Scene& scene) : scene_(scene), pages_(static_cast<std::size_t>(scene.blocks * scene.page_bytes)) {
    gpu::upload(pages_.data(), scene.bytes.data() + scene.pages_at, pages_.bytes());
    for (const Piece& piece : scene.all) {
      if (piece.paged || piece.bytes() == 0) continue;
      memory_.push_back(std::make_unique<gpu::Memory>(static_cast<std::size_t>(piece.bytes())));
      where_[piece.at] = memory_.back()->data();
      gpu::upload(memory_.back()->data(), scene.bytes.data() + piece.at, memory_.back()->bytes());
    }
  }
  Side side() const {
    Side side = scene_.side();
    side.plain = nullptr;
    side.pages = pages_.data();
    side.apart = &where_;
    return side;
  }
  ::testing::AssertionResult same() const {
    std::vector<std::byte> got = scene_.bytes;
    gpu::download(got.data() + scene_.pages_at, pages_.data(), pages_.bytes());
    for (const Piece& piece : scene_.all) {
      if (const auto at = where_.find(piece.at); !piece.paged && at != where_.end()) {
        gpu::download(got.data() + piece.at, at->second, static_cast<std::size_t>(piece.bytes()));
      }
    }
    return same_scene(scene_, got.data(), scene_.bytes.data());
  }

 private:
  Scene& scene_;
  gpu::Memory pages_;
  std::map<std::int64_t, std::byte*> where_;
  std::vector<std::unique_ptr<gpu::Memory>> memory_;
};

struct Case {
  std::string name;
  SceneShape shape;
  std::function<void(const Scene&, const Side&, Runner&)> run;
};

constexpr DType kActivations[] = {DType::f32, DType::bf16, DType::f16};

void run_commit(const Scene& scene, const Side& side, Runner& run) {
  const CommitCall call = commit(scene, side);
  run(call.params());
}

void add_delta_layer(std::vector<Case>& cases, const LayerShape& layer, int rows, int plain_rows, int plain_tokens, int S = 3) {
  SceneShape shape{.layers = {layer}, .rows = rows, .plain_rows = plain_rows, .plain_tokens = plain_tokens, .S = S};
  shape.block_size = std::max(shape.block_size, S + 1);
  const std::string name = layer.text() + ", " + std::to_string(rows) + " rows of at most " + std::to_string(S);
  cases.push_back(
      {name + ": rule, snapshots, verify, plan, commit, align", shape, [](const Scene& scene, const Side& side, Runner& run) {
         run(rule(scene, side, 0));
         run(snapshots(scene, side, 0));
         run(verify(scene, side, 0));
         run(plan(scene, side));
         run_commit(scene, side, run);
         run(advance(scene, side));
         const ListCall list = align_move(scene, side);
         run(list.move());
       }});
  shape.lazy = true;
  cases.push_back({name + ": rule and verify with pending, plan, commit, materialize", shape,
                   [](const Scene& scene, const Side& side, Runner& run) {
                     run(rule(scene, side, 0));
                     run(verify(scene, side, 0));
                     run(plan(scene, side));
                     run_commit(scene, side, run);
                     const ListCall list = materialize(scene, side);
                     run(list.materialize());
                   }});
}

// Delta kernels: state dtype, gate, head size; few and many rows, which choose different tiles; tokens all bf16, which have kernels of
// their own.
void add_delta(std::vector<Case>& cases) {
  for (const DType state : kActivations) {
    for (const int rows : {3, 16}) {
      if (rows > 3 && !gpu::real()) continue;
      add_delta_layer(cases, {.H = 4, .HV = 8, .K = 128, .V = 36, .T = DType::bf16, .state = state, .out = DType::bf16}, rows, rows,
                      3 * rows + 20);
    }
    // Plain rows that are short on the average go over a head in passes, a longer one among them in several chunks of tokens too.
    for (const int K : {64, 128, 256, 100}) {
      for (const DType T : {DType::bf16, DType::f32}) {
        if (!gpu::real()) continue;
        add_delta_layer(cases, {.H = 4, .HV = 8, .K = K, .V = 160, .T = T, .state = state, .out = T}, 16, 40, 60);
      }
    }
    for (const LayerKind kind : {LayerKind::gdn, LayerKind::kda}) {
      // Windows of several chunks: records of a commit come in more than one turn, with 16-bit states in several passes each.
      for (const int K : {64, 128, 256, 100}) {
        if (!gpu::real() || !gpu::executes()) continue;
        add_delta_layer(cases,
                        {.kind = kind, .H = 1, .HV = 2, .K = K, .V = 160, .T = DType::bf16, .state = state, .out = DType::bf16}, 3,
                        3, 30, 20);
      }
      // Few heads and few tokens, where verify's warps work alone.
      const auto add_few = [&](int K, DType T) {
        const LayerShape layer{.kind = kind,
                               .H = 2,
                               .HV = 4,
                               .K = K,
                               .V = K % 64 == 0 ? 36 : 10,
                               .T = T,
                               .state = state,
                               .out = T == DType::bf16 ? T : DType::f32};
        add_delta_layer(cases, layer, 3, 1, 4, kind == LayerKind::kda ? 1 : 2);
      };
      // The same with blocks of several warps, of which some are idle; and with one warp a head.
      for (const auto& [HV, V, rows] : {std::array{5, 36, 14}, std::array{9, 160, 7}, std::array{5, 4, 14}}) {
        if (!gpu::real()) continue;
        const LayerShape layer{.kind = kind, .H = 1, .HV = HV, .V = V, .T = DType::bf16, .state = state, .out = DType::bf16};
        add_delta_layer(cases, layer, rows, 1, 4, kind == LayerKind::kda ? 2 : 3);
      }
      for (const int K : {64, 128, 256, 100, 200}) add_few(K, kActivations[(K / 4 + static_cast<int>(state)) % 3]);
      add_few(128, DType::f16);
      add_few(128, DType::bf16);
      for (const int K : {64, 128, 256, 100, 200}) {
        for (const int rows : {3, 16}) {
          if (rows > 3 && (K % 64 != 0 || !gpu::real())) continue;  // one tile; nothing to choose
          add_delta_layer(cases,
                          {.kind = kind,
                           .H = 4,
                           .HV = 8,
                           .K = K,
                           .V = K % 64 == 0 ? 36 : 10,
                           .T = kActivations[(K / 4 + rows) % 3],
                           .state = state,
                           .out = DType::f32},
                          rows, rows, 3 * rows + 20);
        }
      }
    }
  }
}

// Plain rows of about a token each, whose warps work alone: few heads and many, idle warps in a block's end, value rows by the hundred; of 90 rows
// the last one has all that others leave, some forty tokens. And what a gate can be told.
void add_decode(std::vector<Case>& cases) {
  const auto add = [&](const std::string& name, const LayerShape& layer, int rows, const std::function<void(RuleInputs&)>& tell) {
    // Four tokens of all are the window's.
    const SceneShape shape{.layers = {layer}, .rows = 1, .plain_rows = rows, .plain_tokens = rows - 4, .S = 1};
    cases.push_back({layer.text() + ", a token a row, " + std::to_string(rows) + " rows" + name + ": rule", shape,
                     [tell](const Scene& scene, const Side& side, Runner& run) {
                       GatedDeltaRuleParams params = rule(scene, side, 0);
                       tell(params.inputs);
                       run(params);
                     }});
  };
  for (const LayerKind kind : {LayerKind::gdn, LayerKind::kda}) {
    const LayerShape layer{.kind = kind, .H = 1, .HV = 5, .V = 36, .T = DType::bf16, .out = DType::bf16};
    for (const auto& [HV, V, rows] : {std::array{4, 36, 8}, std::array{5, 36, 14}, std::array{9, 160, 7}, std::array{5, 4, 90}}) {
      LayerShape other = layer;
      other.HV = HV;
      other.V = V;
      add("", other, rows, [](RuleInputs&) {});
    }
    for (const int rows : {14, 90}) {
      add(", softplus of another beta", layer, rows, [](RuleInputs& in) { in.softplus_beta = 1.5F; });
      add(", no norm", layer, rows, [](RuleInputs& in) { in.l2norm = false; });
      if (kind == LayerKind::kda) add(", bounded", layer, rows, [](RuleInputs& in) { in.lower_bound = -5.0F; });
    }
  }
}

// Convolutions by themselves and inside gdn_attention: dtype, taps, channels of one thread; rows of many segments.
void add_convolutions(std::vector<Case>& cases) {
  for (const DType T : kActivations) {
    for (const int W : {4, 3}) {
      for (const bool wide : {true, false}) {
        const std::string name = std::string(name_of(T)) + ", W " + std::to_string(W) + (wide ? ", wide" : ", narrow");
        // A short_conv layer without dilation has what a convolution reads.
        const LayerShape filter{.kind = LayerKind::short_conv, .W = W, .channels = wide ? 4096 : 514, .dilation = 1, .T = T};
        const int rows = wide ? 40 : 3;
        cases.push_back({"convolutions " + name,
                         {.layers = {filter}, .rows = rows, .plain_rows = rows, .plain_tokens = rows * 3 + 90, .S = 2},
                         [](const Scene& scene, const Side& side, Runner& run) {
                           run(conv_window(scene, side, 0));
                           run(conv_plain(scene, side, 0));
                           run(short_conv(scene, side, 0, true));
                           run(short_conv(scene, side, 0, false));
                         }});
        const LayerShape gdn{.H = 4, .HV = 4, .K = 64, .V = 32, .W = W, .T = T, .out = T};
        const int packed_rows = wide ? 133 : 3;
        const int tokens = wide ? 3 * packed_rows : 110;
        cases.push_back({"gdn_attention " + name,
                         {.layers = {gdn}, .rows = packed_rows, .plain_rows = packed_rows, .plain_tokens = tokens, .S = 1},
                         [](const Scene& scene, const Side& side, Runner& run) {
                           run(attention(scene, side, 0, "pw", WindowMode::verify));
                           run(attention(scene, side, 0, "w", WindowMode::snapshots));
                         }});
      }
    }
  }
}

void add_splits(std::vector<Case>& cases) {
  for (const DType T : {DType::f32, DType::bf16}) {
    for (const int V : {32, 6}) {
      const LayerShape layer{.H = 1, .HV = 2, .K = V == 6 ? 10 : 64, .V = V, .T = T, .out = T};
      cases.push_back({"split_projections and gdn_attention " + layer.text(),
                       {.layers = {layer}},
                       [](const Scene& scene, const Side& side, Runner& run) {
                         run(split(scene, side, 0));
                         run(attention(scene, side, 0, "pw", WindowMode::verify));
                       }});
    }
  }
}

std::vector<Case> table() {
  std::vector<Case> cases;
  add_delta(cases);
  add_decode(cases);
  add_convolutions(cases);
  add_splits(cases);
  for (std::size_t i = 0; i < cases.size(); ++i) cases[i].shape.seed = 1000 + i;
  return cases;
}

std::string demangled(const std::string& name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string found = status == 0 ? text : name;
  std::free(text);
  return found;
}

// "verify_kernel" of "void recoverssm::cuda::(anonymous namespace)::verify_kernel<float, ...>(...)".
std::string family(const std::string& name) {
  const std::string text = demangled(name);
  const std::size_t kernel = text.find("_kernel");
  if (kernel == std::string::npos) return text;
  const std::size_t start = text.rfind("::", kernel);
  return text.substr(start == std::string::npos ? 0 : start + 2, kernel + 7 - (start == std::string::npos ? 0 : start + 2));
}

TEST(Kernels, EveryOneOnce) {
  GPU_OR_SKIP();
  std::set<std::string> ran;
  const std::vector<Case> cases = table();
  int calls = 0;
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    Scene scene(one.shape);
    const Scattered device(scene);
    const gpu::Stream stream(gpu::StreamKind::non_blocking);
    const auto program = [&](Runner& run) { one.run(scene, device.side(), run); };
    Runner runner = Runner::device(stream, program, /*raw=*/true);
    const gpu::Graph graph(stream, gpu::CaptureMode::global, [&] { program(runner); });  // for its nodes, never launched
    ran.insert(graph.kernels().begin(), graph.kernels().end());
    calls += runner.calls();
    if (!gpu::executes()) continue;
    program(runner);
    stream.wait();
    Runner cpu = Runner::cpu();
    one.run(scene, scene.side(), cpu);
    EXPECT_TRUE(device.same());
    EXPECT_TRUE(no_finding(runner));
    if (HasFailure()) return;
  }
  saw("kernels: " + std::to_string(cases.size()) + " cases, " + std::to_string(calls) + " calls" +
      (gpu::executes() ? ": 0 bytes differ from the CPU" : ", not run"));
  for (const Case& one : cases) std::printf("  case  %s\n", one.name.c_str());
  if (!gpu::real()) return;                             // it has no kernels
  std::map<std::string, std::pair<int, int>> families;  // run, there
  std::string missing;
  ASSERT_GT(kAllKernels.size(), 100U);
  for (const std::string& kernel : kAllKernels) {
    auto& [done, all] = families[family(kernel)];
    ++all;
    if (ran.count(kernel) != 0) {
      ++done;
    } else {
      missing += "  not run  " + demangled(kernel) + "\n";
    }
  }
  for (const auto& [name, counts] : families) std::printf("  kernel  %-28s %d of %d\n", name.c_str(), counts.first, counts.second);
  for (const std::string& kernel : ran) {
    const bool known = std::find(kAllKernels.begin(), kAllKernels.end(), kernel) != kAllKernels.end();
    EXPECT_TRUE(known) << "a kernel that the library's symbols do not have: " << kernel;
  }
  EXPECT_EQ(missing, "");
  saw("kernels: " + std::to_string(ran.size()) + " of " + std::to_string(kAllKernels.size()) + " kernels of the library " +
      (gpu::executes() ? "ran" : "would run"));
}

}  // namespace
}  // namespace device_test
