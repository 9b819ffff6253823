// Benchmark of the CUDA backend: one case table, correctness before time, ceilings in the same process, CSV.
//   bench_cuda [--csv FILE] [--only NAMES] [--skip NAMES] [--rows N] [--window N] [--quick]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench_cuda/layer.h"

namespace recoverssm::bench_cuda {
namespace {

constexpr int kReplays = 50;
constexpr std::int64_t kRotation = std::int64_t{320} << 20;  // bytes of state a graph goes through: over five times an H200's L2

struct Options {
  FILE* csv = nullptr;
  std::string only, skip;  // names of cases, separated by commas
  bool quick = false;
  std::int64_t rows = 0, window = 0;  // one shape only, where not 0
};

bool listed(const std::string& names, const std::string& name) {
  return ("," + names + ",").find("," + name + ",") != std::string::npos;
}

bool wanted(const Options& options, const std::string& name) {
  return (options.only.empty() || listed(options.only, name)) && !listed(options.skip, name);
}

struct Ceilings {
  double read = 0, copy = 0, empty_us = 0;  // GB/s, GB/s, us
};

// Median time of a captured graph, in us.
double time_graph(cudaStream_t stream, const std::function<void()>& work) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin capture");
  work();
  check(cudaStreamEndCapture(stream, &graph), "end capture");
  check(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int i = 0; i < kReplays + 5; ++i) {
    check(cudaEventRecord(begin, stream), "record");
    check(cudaGraphLaunch(exec, stream), "launch");
    check(cudaEventRecord(end, stream), "record");
    check(cudaEventSynchronize(end), "replay");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "time");
    if (i >= 5) times.push_back(ms * 1000);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  std::nth_element(times.begin(), times.begin() + kReplays / 2, times.end());
  return times[kReplays / 2];
}

Ceilings measure_ceilings(cudaStream_t stream) {
  const std::int64_t bytes = std::int64_t{1} << 30;
  Memory from(static_cast<std::size_t>(bytes), false), to(static_cast<std::size_t>(bytes), false), sink(16, false);
  fill_random(from.data(), DType::f32, bytes / 4, -1, 1, 1, stream);
  Ceilings c;
  c.read = static_cast<double>(bytes) /
           time_graph(stream, [&] { read_all(from.data(), bytes, static_cast<float*>(sink.data()), stream); }) / 1e3;
  c.copy = 2.0 * static_cast<double>(bytes) / time_graph(stream, [&] { copy_all(to.data(), from.data(), bytes, stream); }) / 1e3;
  const double memcpy_rate =
      2.0 * static_cast<double>(bytes) /
      time_graph(
          stream,
          [&] { cudaMemcpyAsync(to.data(), from.data(), static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, stream); }) /
      1e3;
  c.empty_us = time_graph(stream,
                          [&] {
                            for (int i = 0; i < 100; ++i) empty(stream);
                          }) /
               100;
  std::printf("ceilings: read %.0f GB/s, copy kernel %.0f GB/s, cudaMemcpyAsync %.0f GB/s, empty kernel %.2f us\n", c.read, c.copy,
              memcpy_rate, c.empty_us);
  c.copy = std::max(c.copy, memcpy_rate);
  return c;
}

template <class Params>
void run_on(const Params& params, Backend backend, cudaStream_t stream) {
  if (backend == Backend::cpu) {
    static Context context(0);
    check(run(params, context.launch(workspace_size(params, context.launch()))));
    return;
  }
  Launch launch;
  launch.backend = backend;
  launch.stream = stream;
  const std::size_t bytes = workspace_size(params, launch);
  if (bytes != 0) throw std::runtime_error("this benchmark's operations take no workspace");
  check(run(params, launch));
}

// A plan's arrays for the rows of a LayerData with two extra blocks a row.
struct Plan {
  std::vector<std::unique_ptr<Memory>> memory;
  CommitGroup group;
};

enum class Commit { in_place, moved, boundary };

Plan make_plan(const LayerData& data, Commit how, cudaStream_t stream) {
  const Shape& s = data.shape();
  const auto n = static_cast<std::size_t>(s.rows);
  std::vector<std::int32_t> source(n), len(n), final(n), boundary(n), boundary_len(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::int32_t>(i);
    const auto rows = static_cast<std::int32_t>(s.rows);
    source[i] = 1 + at;
    len[i] = static_cast<std::int32_t>(std::max<std::int64_t>(s.window - 1, 1));
    final[i] = how == Commit::in_place ? source[i] : 1 + rows + at;
    boundary[i] = how == Commit::boundary ? 1 + 2 * rows + at : 0;
    boundary_len[i] = how == Commit::boundary ? 1 : 0;
  }
  Plan plan;
  const auto upload = [&](const std::vector<std::int32_t>& values) {
    plan.memory.push_back(std::make_unique<Memory>(n * 4, true));
    void* data_ = plan.memory.back()->data();
    check(cudaMemcpyAsync(data_, values.data(), n * 4, cudaMemcpyHostToDevice, stream), "plan");
    check(cudaStreamSynchronize(stream), "plan");
    return TensorView(data_, DType::i32, {s.rows});
  };
  plan.group = {upload(source), upload(len), upload(final), upload(boundary), upload(boundary_len)};
  return plan;
}

// Rates of one case; `bytes` is the traffic of one layer.
struct Result {
  std::string op;
  Shape shape;
  int layers = 1;
  double us = 0;  // one layer; of commit, all
  double bytes = 0;
  double ceiling = 0;  // GB/s
};

void print(const Options& options, const Result& r) {
  const double rate = r.bytes / r.us / 1e3, bound = r.bytes / r.ceiling / 1e3;
  std::printf("%-22s rows %4ld T %2ld state %-4s layers %3d  %9.2f us  %8.1f MB  %6.0f GB/s  %5.1f %% of ceiling  %.2fx of bound\n",
              r.op.c_str(), static_cast<long>(r.shape.rows), static_cast<long>(r.shape.window), name_of(r.shape.state), r.layers,
              r.us, r.bytes / 1e6, rate, 100 * rate / r.ceiling, r.us / bound);
  std::fflush(stdout);
  if (options.csv == nullptr) return;
  std::fprintf(options.csv, "%s,%s,%ld,%ld,%s,%s,%d,%.3f,%.0f,%.1f,%.1f,%.4f\n", r.op.c_str(),
               r.shape.gate == Gate::gdn ? "gdn" : "kda", static_cast<long>(r.shape.rows), static_cast<long>(r.shape.window),
               name_of(r.shape.state), name_of(r.shape.activation), r.layers, r.us, r.bytes, rate, r.ceiling, rate / r.ceiling);
  std::fflush(options.csv);
}

// Inputs, outputs and records of one layer's window tokens.
double token_bytes(const Shape& s, bool records) {
  const double T = static_cast<double>(size_of(s.activation)), n = static_cast<double>(s.tokens());
  const double gate = static_cast<double>(s.gate == Gate::kda ? s.HV * s.K : s.HV);
  double bytes = n * T * (static_cast<double>(s.channels() + s.HV + s.HV * s.V) + gate);
  if (records) {
    bytes += n * static_cast<double>(s.HV) *
             (s.gate == Gate::gdn ? 4.0 * static_cast<double>(s.V + s.K + 1)
                                  : 4.0 * static_cast<double>(s.V) + 2 * static_cast<double>(s.K) * T);
  }
  return bytes;
}

int layers_for(const Shape& s, std::int64_t blocks_per_row, bool quick) {
  const std::int64_t layer = s.rows * s.state_bytes() * blocks_per_row;
  const std::int64_t most = quick ? 12 : 120;
  return static_cast<int>(std::clamp<std::int64_t>((kRotation + layer - 1) / layer, 2, most));
}

using Layers = std::vector<std::unique_ptr<LayerData>>;

Layers make_layers(const Shape& s, int count, std::int64_t blocks_per_row, std::int64_t extra, cudaStream_t stream) {
  Layers layers;
  for (int l = 0; l < count; ++l) {
    layers.push_back(std::make_unique<LayerData>(s, blocks_per_row, extra, static_cast<std::uint32_t>(l + 1), stream));
  }
  check(cudaStreamSynchronize(stream), "inputs");
  return layers;
}

struct Case {
  const char* name;
  std::int64_t blocks_per_row;  // 0: S
  std::function<void(const LayerData&, Backend, cudaStream_t)> run;
  std::function<double(const Shape&)> bytes;
};

std::vector<Case> cases() {
  const auto state = [](const Shape& s, double passes) { return passes * static_cast<double>(s.rows * s.state_bytes()); };
  return {
      {"verify", 1, [](const LayerData& d, Backend b, cudaStream_t s) { run_on(d.verify(false), b, s); },
       [=](const Shape& s) { return state(s, 1) + token_bytes(s, true); }},
      {"verify_lazy", 1, [](const LayerData& d, Backend b, cudaStream_t s) { run_on(d.verify(true), b, s); },
       [=](const Shape& s) { return state(s, 2) + 2 * token_bytes(s, true); }},
      {"conv_verify", 1,
       [](const LayerData& d, Backend b, cudaStream_t s) {
         run_on(d.conv(), b, s);
         run_on(d.verify(false), b, s);
       },
       [=](const Shape& s) {
         return state(s, 1) + token_bytes(s, true) + 3.0 * static_cast<double>(s.tokens() * s.channels() * size_of(s.activation));
       }},
      {"snapshots", 0, [](const LayerData& d, Backend b, cudaStream_t s) { run_on(d.snapshots(), b, s); },
       [=](const Shape& s) { return state(s, 1 + static_cast<double>(s.window)) + token_bytes(s, false); }},
      {"plain", 1, [](const LayerData& d, Backend b, cudaStream_t s) { run_on(d.plain(), b, s); },
       [=](const Shape& s) { return state(s, 2) + token_bytes(s, false); }},
  };
}

// The device and the CPU from the same inputs: every byte of every tensor.
bool agree(const Shape& shape, const std::string& name, std::int64_t blocks_per_row, std::int64_t extra, cudaStream_t stream,
           const std::function<void(const LayerData&, Backend)>& run) {
  LayerData device(shape, blocks_per_row, extra, 7, stream, true), host(shape, blocks_per_row, extra, 7, stream, true);
  check(cudaStreamSynchronize(stream), "inputs");
  run(device, Backend::cuda);
  check(cudaStreamSynchronize(stream), name.c_str());
  run(host, Backend::cpu);
  const auto a = device.regions(), b = host.regions();
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto* x = static_cast<const unsigned char*>(a[i].first);
    const auto* y = static_cast<const unsigned char*>(b[i].first);
    if (std::memcmp(x, y, a[i].second) == 0) continue;
    std::size_t at = 0, different = 0;
    for (std::size_t j = a[i].second; j-- > 0;) {
      if (x[j] != y[j]) at = j, ++different;
    }
    std::printf("DIFFERENT %s %s rows %ld T %ld K %ld V %ld state %s act %s: tensor %zu, %zu of %zu bytes, first at %zu\n",
                name.c_str(), shape.gate == Gate::gdn ? "gdn" : "kda", static_cast<long>(shape.rows),
                static_cast<long>(shape.window), static_cast<long>(shape.K), static_cast<long>(shape.V), name_of(shape.state),
                name_of(shape.activation), i, different, a[i].second, at);
    return false;
  }
  return true;
}

void run_commit(const std::vector<Layer>& layers, const Plan& plan, const Shape& s, Backend backend, cudaStream_t stream) {
  CommitParams p;
  p.groups = {&plan.group, 1};
  p.layers = layers;
  p.window_capacity = static_cast<std::int32_t>(s.window);
  run_on(p, backend, stream);
}

int correctness(const Options& options, cudaStream_t stream) {
  int checked = 0, wrong = 0;
  for (const Gate gate : {Gate::gdn, Gate::kda}) {
    for (const DType state : {DType::f32, DType::bf16, DType::f16}) {
      for (const auto& [K, V] : {std::pair{128, 128}, {64, 64}, {256, 256}, {128, 256}, {100, 52}, {160, 36}, {16, 8}}) {
        for (const std::int64_t window : {1, 4, 20}) {
          if (options.quick && state != DType::f32) continue;
          Shape s{.rows = 3,
                  .window = window,
                  .state = state,
                  .activation = state == DType::f16 ? DType::f16 : DType::bf16,
                  .gate = gate,
                  .H = 2,
                  .HV = 6,
                  .K = K,
                  .V = V};
          for (const Case& c : cases()) {
            if (listed(options.skip, c.name)) continue;
            const std::int64_t blocks = c.blocks_per_row == 0 ? window : c.blocks_per_row;
            ++checked;
            wrong += !agree(s, c.name, blocks, 0, stream, [&](const LayerData& d, Backend b) { c.run(d, b, stream); });
          }
          for (const Commit how : {Commit::in_place, Commit::moved, Commit::boundary}) {
            for (const bool lazy : {false, true}) {
              ++checked;
              wrong += !agree(s, "commit", 1, 2 * s.rows, stream, [&](const LayerData& d, Backend b) {
                const Plan plan = make_plan(d, how, stream);
                run_commit({d.layer(lazy)}, plan, s, b, stream);
                check(cudaStreamSynchronize(stream), "commit");
              });
            }
          }
        }
      }
    }
  }
  // The common shape with many heads: blocks that take a whole head.
  for (const std::int64_t rows : {8, 32}) {
    Shape s{.rows = rows, .window = 4};
    for (const Case& c : cases()) {
      if (listed(options.skip, c.name)) continue;
      ++checked;
      wrong += !agree(s, c.name, c.blocks_per_row == 0 ? s.window : c.blocks_per_row, 0, stream,
                      [&](const LayerData& d, Backend b) { c.run(d, b, stream); });
    }
  }
  std::printf("correctness: %d comparisons with the CPU, %d different\n", checked, wrong);
  return wrong;
}

void time_case(const Options& options, const Ceilings& ceilings, const Case& c, const Shape& s, cudaStream_t stream) {
  const std::int64_t blocks = c.blocks_per_row == 0 ? s.window : c.blocks_per_row;
  const int count = layers_for(s, blocks, options.quick);
  const Layers layers = make_layers(s, count, blocks, 0, stream);
  const double us = time_graph(stream, [&] {
    for (const auto& layer : layers) c.run(*layer, Backend::cuda, stream);
  });
  const bool copies = std::strcmp(c.name, "verify") != 0 && std::strcmp(c.name, "conv_verify") != 0;
  print(options, {c.name, s, count, us / count, c.bytes(s), copies ? ceilings.copy : ceilings.read});
}

void time_commit(const Options& options, const Ceilings& ceilings, const Shape& s, int count, Commit how, cudaStream_t stream) {
  static const char* const names[] = {"commit_in_place", "commit_moved", "commit_boundary"};
  const Layers data = make_layers(s, count, 1, 2 * s.rows, stream);
  std::vector<Layer> layers;
  for (const auto& d : data) layers.push_back(d->layer(false));
  const Plan plan = make_plan(*data.front(), how, stream);
  const double us = time_graph(stream, [&] { run_commit(layers, plan, s, Backend::cuda, stream); });
  const double states = how == Commit::boundary ? 3 : 2, kept = static_cast<double>(std::max<std::int64_t>(s.window - 1, 1));
  const double lines = states * static_cast<double>((s.W - 1) * s.channels() * size_of(s.activation));
  const double bytes =
      count * static_cast<double>(s.rows) *
      (states * static_cast<double>(s.state_bytes()) + kept * static_cast<double>(s.HV * (s.V + s.K + 1) * 4) + lines);
  print(options, {names[static_cast<int>(how)], s, count, us, bytes, ceilings.copy});
}

int main_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--quick") options.quick = true;
    if (arg == "--rows" && i + 1 < argc) options.rows = std::atoll(argv[++i]);
    if (arg == "--window" && i + 1 < argc) options.window = std::atoll(argv[++i]);
    if (arg == "--csv" && i + 1 < argc) options.csv = std::fopen(argv[++i], "w");
    if (arg == "--only" && i + 1 < argc) options.only = argv[++i];
    if (arg == "--skip" && i + 1 < argc) options.skip = argv[++i];
  }
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0), "device");
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  std::printf("%s, sm_%d%d, %d multiprocessors, L2 %d MB, driver %d, runtime %d\n", device.name, device.major, device.minor,
              device.multiProcessorCount, device.l2CacheSize >> 20, driver, runtime);
  if (options.csv != nullptr) {
    std::fprintf(options.csv,
                 "# %s, driver %d, runtime %d\nop,gate,rows,window,state,activation,layers,us,bytes,GBps,ceiling_GBps,share\n",
                 device.name, driver, runtime);
  }
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  int wrong = 0;
  if (wanted(options, "correctness")) wrong = correctness(options, stream);
  const Ceilings ceilings = measure_ceilings(stream);
  const std::vector<std::int64_t> rows =
      options.quick ? std::vector<std::int64_t>{1, 8, 32, 64, 256} : std::vector<std::int64_t>{1, 8, 32, 64, 128, 256};
  for (const Case& c : cases()) {
    if (!wanted(options, c.name)) continue;
    for (const std::int64_t r : rows) {
      for (const std::int64_t window : {1, 2, 4, 8}) {
        if (options.quick && window == 1) continue;
        if ((options.rows != 0 && options.rows != r) || (options.window != 0 && options.window != window)) continue;
        time_case(options, ceilings, c, {.rows = r, .window = window}, stream);
      }
    }
  }
  for (const DType state : {DType::f32, DType::bf16}) {
    for (const std::int64_t r : {1, 8, 13}) {
      if (wanted(options, "conv_verify") && !options.quick)
        time_case(options, ceilings, cases()[2], {.rows = r, .window = 2, .state = state}, stream);
    }
  }
  if (wanted(options, "commit")) {
    for (const Commit how : {Commit::in_place, Commit::moved, Commit::boundary}) {
      for (const auto& [layers, r] : {std::pair{12, 8}, {12, 64}, {36, 32}, {4, 256}}) {
        time_commit(options, ceilings, {.rows = r, .window = 4}, layers, how, stream);
      }
    }
  }
  if (wanted(options, "prefill")) {
    for (const std::int64_t r : {1, 4}) {
      for (const std::int64_t length : {512, 2048}) time_case(options, ceilings, cases()[4], {.rows = r, .window = length}, stream);
    }
  }
  if (options.csv != nullptr) std::fclose(options.csv);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace recoverssm::bench_cuda

int main(int argc, char** argv) {
  try {
    return recoverssm::bench_cuda::main_of(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_cuda: %s\n", error.what());
    return 1;
  }
}
