// B69: a trace rebuilds what an operation saw: dtypes, strides, offsets, gaps and bits; its replay gives the recorded bits.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "reports/calls.h"
#include "support/convert.h"
#include "trace/record.h"
#include "trace/replay.h"

namespace {

using namespace reports;
namespace trace = recoverssm::trace;

constexpr std::uint64_t kPatterns[] = {0x7fc12345, 0x80000000, 0x00000001, 0x807fffff, 0x7f812345, 0xffc00001};

// The n-th element: NaN payloads, -0.0, subnormals and their neighbours. No two blocks of 24 elements are alike.
std::uint64_t pattern_for(DType dtype, std::uint64_t n) {
  const std::uint64_t bits = kPatterns[n % 6], other = 2 * (n / 6 % 5);
  return dtype == DType::f32 ? bits + other : (bits >> 16) + other;  // f16: other odd numbers
}

// A recording with its memory: everything that views point into is added whole, gaps and guards included.
struct Recording {
  trace::Recorder recorder{"B69"};
  int buffers = 0;

  void memory(const Tensor& tensor) {
    const std::int64_t size = recoverssm::size_of(tensor.dtype());
    support::Bytes& all = tensor.memory->all();
    // Whole elements around the view's first one.
    const auto shift = (static_cast<std::byte*>(tensor.view.data) - all.data()) % size;
    std::string name = std::to_string(buffers++);
    recorder.add_buffer(name, tensor.dtype(), all.data() + shift, (static_cast<std::int64_t>(all.size()) - shift) / size);
  }
};

// A window's convolution and an align_move of a state: both copy bits, so that payloads show.
struct Session {
  Tensor x, weight, out, line, state, offsets, ids, counts, from, to;
  recoverssm::CausalConv1dWindowParams conv;
  std::array<recoverssm::Layer, 1> layers;
  recoverssm::AlignMoveParams move;
};

Session make_session(Pick& pick, DType T) {
  Session s;
  const int W = pick.between(2, 6), S = pick.between(1, 4), C = pick.between(1, 12), blocks = 5;
  s.x = strided(pick, T, {2 * S, C}, 1);
  s.weight = strided(pick, T, {C, W}, 0);
  s.out = strided(pick, T, {2 * S, C}, 1);
  s.line = strided(pick, T, {blocks, W - 1 + S, C}, 0);  // pools with gaps, any memory order
  s.state = strided(pick, T, {blocks, 2, 3, 4}, 3);
  std::uint64_t n = 0;
  for (const Tensor* t : {&s.line, &s.state})
    for_each(*t, [&](const Index& i) { set_raw_bits(T, pattern_for(T, n++), element(*t, i)); });
  for (const Tensor* t : {&s.x, &s.weight}) for_each(*t, [&](const Index& i) { t->set_at(pick.normal(), i); });
  for (int c = 0; c < C; ++c) set_raw_bits(T, pattern_for(T, static_cast<std::uint64_t>(c)), s.x.at(0, c));
  s.offsets = strided_i32(pick, {0, S, 2 * S});
  s.ids = strided_i32(pick, {3, 1});
  s.counts = strided_i32(pick, {pick.between(1, S), 1});
  s.from = strided_i32(pick, {3});
  s.to = strided_i32(pick, {4});
  s.conv.x = s.x;
  s.conv.weight = s.weight;
  s.conv.out = s.out;
  s.conv.line = s.line;
  s.conv.line_kind = LineKind::rolled;
  s.conv.rows.query_start_loc = s.offsets;
  s.conv.rows.state_indices = s.ids;
  s.conv.rows.num_accepted = s.counts;
  s.conv.rows.window_capacity = S;
  s.layers[0].line = s.line;
  s.layers[0].conv_taps = W;
  s.layers[0].state = s.state;
  s.move = {s.from, s.to, s.layers, 0};
  return s;
}

std::vector<std::byte> record(const Session& s) {
  Recording r;
  for (const Tensor* t : {&s.x, &s.weight, &s.out, &s.line, &s.state, &s.offsets, &s.ids, &s.counts, &s.from, &s.to}) r.memory(*t);
  const auto view = [&](const TensorView& v) { return r.recorder.view(v); };
  r.recorder.add_call("conv", "causal_conv1d_window",
                      {{"x", view(s.x)},
                       {"weight", view(s.weight)},
                       {"bias", nullptr},
                       {"activation", nullptr},
                       {"out", view(s.out)},
                       {"line", view(s.line)},
                       {"line_kind", "rolled"},
                       {"window_capacity", s.conv.rows.window_capacity},
                       {"query_start_loc", view(s.offsets)},
                       {"state_indices", view(s.ids)},
                       {"num_accepted", view(s.counts)},
                       {"token_index", nullptr}});
  must_run(s.conv);
  r.recorder.expect_bits(s.out);
  r.recorder.expect_bits(s.line);
  r.recorder.add_call("move", "align_move",
                      {{"from", view(s.from)},
                       {"to", view(s.to)},
                       {"layers",
                        {{{"group", 0},
                          {"line", view(s.line)},
                          {"line_kind", "rolled"},
                          {"conv_taps", s.layers[0].conv_taps},
                          {"state", view(s.state)},
                          {"records", nullptr},
                          {"gate", "gdn"},
                          {"A_log", nullptr},
                          {"dt_bias", nullptr},
                          {"lower_bound", nullptr},
                          {"l2norm", true}}}}});
  must_run(s.move);
  r.recorder.expect_bits(s.state);
  r.recorder.expect_bits(s.line);
  return r.recorder.bytes();
}

trace::Trace parse(const std::vector<std::byte>& bytes) {
  auto copy = std::make_unique_for_overwrite<std::byte[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), copy.get());
  return trace::parse_trace(trace::SafetensorsFile::parse(std::move(copy), bytes.size()));
}

// Buffers come back byte by byte, gaps included; views with their dtype, strides and offsets; every result with the recorded bits.
void replays(Pick& pick, DType T) {
  const Session s = make_session(pick, T);
  std::vector<support::Bytes> before;
  std::vector<const Tensor*> tensors = {&s.x, &s.weight, &s.out, &s.line, &s.state};
  for (const Tensor* t : tensors) before.push_back(t->memory->all());
  const trace::Trace recorded = parse(record(s));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const trace::BufferSpec& buffer = recorded.document.buffers[i];
    require(buffer.dtype == T && buffer.init != nullptr, "buffer");
    const std::int64_t size = recoverssm::size_of(T);
    const auto shift = (static_cast<std::byte*>(tensors[i]->view.data) - tensors[i]->memory->all().data()) % size;
    require(std::memcmp(buffer.init->bytes.data(), before[i].data() + shift, buffer.init->bytes.size()) == 0,
            "bytes of buffer " + buffer.name);
  }
  const trace::Expectation& out = recorded.document.calls[0].expectations[0];
  require(out.view.strides == std::vector<std::int64_t>{s.out.view.stride[0], s.out.view.stride[1]}, "strides");
  const trace::ReplayResult result = trace::Replayer({}).replay(recorded);
  require(result.ok(), result.failed.empty() ? result.error.value_or("") : result.failed[0].call + ": " + result.failed[0].detail);
  require(result.calls == 2 && result.checks >= 4, "calls and checks");
}

TEST(Reports, B69_traces_keep_every_bit) {
  for (const DType T : {DType::f32, DType::bf16, DType::f16}) {
    Pick pick(69);
    replays(pick, T);
  }
  property(40, [](Pick& pick) { replays(pick, pick.one_of({DType::f32, DType::bf16, DType::f16})); });
}

// The file with one bit of the state's expected contents changed: in block 4, element `n`, as align_move leaves it.
std::vector<std::byte> with_one_bit_changed(const std::vector<std::byte>& file, const Session& s, int n) {
  const auto size = static_cast<std::size_t>(recoverssm::size_of(s.state.dtype()));
  std::vector<std::byte> expected, bad = file;
  for_each(s.state, [&](const Index& i) {
    const std::byte* e = element(s.state, i);
    expected.insert(expected.end(), e, e + size);
  });
  const auto found = std::search(bad.begin(), bad.end(), expected.begin(), expected.end());
  require(found != bad.end(), "the recorded state is in the file");
  *(found + static_cast<std::ptrdiff_t>((4 * 24 + static_cast<std::size_t>(n)) * size)) ^= std::byte{1};
  return bad;
}

// The lowest bit of a NaN's payload, of a zero, of a subnormal: the replay sees it.
TEST(Reports, B69_a_single_bit_is_seen) {
  for (int n = 0; n < 24; ++n) {
    Pick pick(static_cast<std::uint64_t>(n));
    const Session s = make_session(pick, n % 2 == 0 ? DType::f32 : DType::bf16);
    const std::vector<std::byte> good = record(s);
    EXPECT_TRUE(trace::Replayer({}).replay(parse(good)).ok()) << n;
    EXPECT_FALSE(trace::Replayer({}).replay(parse(with_one_bit_changed(good, s, n))).ok()) << n;
  }
}

#ifdef RECOVERSSM_COMMAND
// The same through the command: exit status 0, and 1 for the changed bit.
TEST(Reports, B69_the_command_replays_it) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("recoverssm_b69_" + std::to_string(::getpid()) + ".rst.safetensors");
  const auto replay = [&](const std::vector<std::byte>& bytes) {
    trace::write_file(path, bytes);
    const int status = std::system(("'" RECOVERSSM_COMMAND "' replay '" + path.string() + "' >/dev/null 2>&1").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  for (int n = 0; n < 4; ++n) {
    Pick pick(static_cast<std::uint64_t>(69 + n));
    const Session s = make_session(pick, n % 2 == 0 ? DType::f32 : DType::bf16);
    const std::vector<std::byte> good = record(s);
    EXPECT_EQ(replay(good), 0);
    EXPECT_EQ(replay(with_one_bit_changed(good, s, n)), 1);
  }
  std::filesystem::remove(path);
}
#endif

}  // namespace
