// Checkpoints that must be refused: cut, damaged, of other layers, of another count, tag, layout or version. And one that fits.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>

#include "session/checkpoint_format.h"
#include "session/place.h"
#include "session/tiny.h"

namespace session_tests {
namespace {

using namespace recoverssm;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kTag = 0x0123456789ABCDEFULL;
constexpr std::int32_t kTokens = 5;

// A request after 5 tokens.
Bytes make_checkpoint(const TinyShape& shape = {}) {
  Tiny model(placed(shape));
  Session session(model.config());
  Context context = context_of_calls();
  const RequestId request = session.admit();
  const StepRow row{request, RowKind::prefill, kTokens, -1};
  const StepId step = session.open_step({&row, 1}, context);
  model.forward(session, step, kTokens, 1, context);
  session.commit(step, {}, context);
  return session.export_checkpoint(request, kTokens, kTag, context);
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(name_of(error.kind())) + " " + error.what();
  }
  return "accepted";
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A checkpoint with a right checksum, whatever was done to it.
void seal(Bytes& bytes) {
  const std::size_t end = bytes.size() - sizeof(std::uint64_t);
  write_at(std::span(bytes), end, checkpoint_checksum(std::span(bytes).first(end)));
}

// A session with one empty request, and what a refused restore must leave alone.
class Target {
 public:
  explicit Target(const TinyShape& shape = {}) : model_(placed(shape)), session_(model_.config()), request_(session_.admit()) {
    before_ = pools();
  }

  std::string restore(std::span<const std::byte> bytes, std::int64_t tokens = kTokens, std::uint64_t tag = kTag) {
    return refusal([&] { session_.restore(request_, bytes, tokens, tag); });
  }
  void expect_untouched() {
    const RequestInfo info = session_.info(request_);
    EXPECT_EQ(info.phase, Phase::empty);
    EXPECT_EQ(info.tokens, 0);
    EXPECT_EQ(session_.free_blocks(0), session_.config().groups[0].blocks - 1);
    EXPECT_TRUE(before_ == pools());
  }
  Session& session() { return session_; }
  RequestId request() const { return request_; }

 private:
  Bytes pools() const {
    Bytes all;
    for (std::int32_t layer = 0; layer < Tiny::kLayers; ++layer) {
      for (const TensorView& view : {session_.pool(layer).line, session_.pool(layer).state}) {
        if (!view.present()) continue;
        const OnHost host(view);
        const auto* const data = static_cast<const std::byte*>(host.view.data);
        all.insert(all.end(), data, data + view.elements() * size_of(view.dtype));  // the session's own pools are dense
      }
    }
    return all;
  }

  Tiny model_;
  Session session_;
  RequestId request_;
  Bytes before_;
};

TEST(Checkpoint, EveryPrefixIsRefused) {
  const Bytes whole = make_checkpoint();
  Target target;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    // An allocation of its own: a read past its end is a sanitizer's report.
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_TRUE(says(refusal([&] { (void)inspect_checkpoint(cut); }), "invalid_argument checkpoint: bytes: ")) << size;
    EXPECT_TRUE(says(target.restore(cut), "invalid_argument checkpoint: bytes: ")) << size;
  }
  target.expect_untouched();
  Bytes longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_TRUE(says(target.restore(longer), "invalid_argument checkpoint: bytes: "));
  EXPECT_EQ(target.restore(whole), "accepted");
}

TEST(Checkpoint, EveryDamagedByteIsRefused) {
  const Bytes whole = make_checkpoint();
  Target target;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int mask : {0x01, 0x80, 0x55, 0xFF}) {
      Bytes damaged = whole;
      damaged[at] ^= static_cast<std::byte>(mask);
      const bool in_version = at >= 8 && at < 12;
      const std::string expected = in_version ? "unsupported checkpoint: version: " : "invalid_argument checkpoint: ";
      EXPECT_TRUE(says(refusal([&] { (void)inspect_checkpoint(damaged); }), expected)) << at << ' ' << mask;
      EXPECT_TRUE(says(target.restore(damaged), expected)) << at << ' ' << mask;
    }
  }
  target.expect_untouched();
}

// What a disk does: words that changed places, a tail of zeros, the tail of an older file.
TEST(Checkpoint, OtherDamageIsRefused) {
  const Bytes whole = make_checkpoint(), older = make_checkpoint({.state = DType::bf16});
  Target target;
  int cases = 0;
  const auto refused = [&](const Bytes& damaged) {
    if (damaged == whole) return;
    ++cases;
    EXPECT_NE(target.restore(damaged), "accepted");
  };
  for (std::size_t at = 0; at < whole.size(); ++at) {
    Bytes zeros = whole;
    std::fill(zeros.begin() + static_cast<std::ptrdiff_t>(at), zeros.end(), std::byte{0});
    refused(zeros);
    Bytes mixed = whole;
    for (std::size_t i = at; i < std::min(whole.size(), older.size()); ++i) mixed[i] = older[i];
    refused(mixed);
    for (const std::size_t distance : {8U, 64U}) {
      Bytes swapped = whole;
      if (at % 8 != 0 || at + distance + 8 > whole.size()) continue;
      std::swap_ranges(&swapped[at], &swapped[at] + 8, &swapped[at + distance]);
      refused(swapped);
    }
  }
  EXPECT_GT(cases, 500);
  target.expect_untouched();
}

TEST(Checkpoint, OfAnotherVersion) {
  Bytes bytes = make_checkpoint();
  Target target;
  for (const std::uint32_t version : {0U, kCheckpointVersion + 1, UINT32_MAX}) {
    write_at(std::span(bytes), offsetof(CheckpointHeader, version), version);
    seal(bytes);
    const std::string expected = "unsupported checkpoint: version: " + std::to_string(version) + ", expected 1";
    EXPECT_EQ(refusal([&] { (void)inspect_checkpoint(bytes); }), expected);
    EXPECT_EQ(target.restore(bytes), expected);
  }
  target.expect_untouched();
}

TEST(Checkpoint, OfAnotherCountOrTag) {
  Bytes bytes = make_checkpoint();
  Target target;
  for (const std::int64_t tokens : {kTokens - 1, kTokens + 1, 0, -1}) {
    EXPECT_TRUE(says(target.restore(bytes, tokens), "invalid_argument session.restore: checkpoint.tokens: 5, expected "));
  }
  EXPECT_TRUE(says(target.restore(bytes, kTokens, kTag + 1), "invalid_argument session.restore: checkpoint.tag: "));
  // A count that is none, although both agree on it.
  for (const std::int64_t tokens : {std::int64_t{0}, std::int64_t{-5}, INT64_MIN, INT64_MAX, (std::int64_t{1} << 62) + 1}) {
    write_at(std::span(bytes), offsetof(CheckpointHeader, tokens), tokens);
    seal(bytes);
    EXPECT_TRUE(says(target.restore(bytes, tokens), "invalid_argument session.restore: checkpoint.tokens: ")) << tokens;
  }
  target.expect_untouched();
}

// The checksum as docs/sessions.md tells it, for payloads of whole and of broken words.
TEST(Checkpoint, TheChecksumIsTheDocumentedOne) {
  std::array<int, 8> lengths{};
  for (const DType state : {DType::f32, DType::bf16}) {
    for (const DType activation : {DType::f32, DType::bf16}) {
      for (const bool short_conv : {false, true}) {
        const Bytes bytes = make_checkpoint({.short_conv = short_conv, .activation = activation, .state = state});
        const std::size_t length = bytes.size() - 8;
        ++lengths[length % 8];
        std::uint64_t h = 0xcbf29ce484222325ULL;
        for (std::size_t at = 0; at <= length; at += 8) {
          std::uint64_t word = 0;
          for (std::size_t i = 0; i < 8 && at + i < length; ++i) word |= std::to_integer<std::uint64_t>(bytes[at + i]) << 8 * i;
          h = (h ^ word) * 0x100000001b3ULL;
          h ^= h >> 32U;
        }
        EXPECT_EQ(h, read_at<std::uint64_t>(bytes, length)) << length << " bytes";
      }
    }
  }
  EXPECT_GT(lengths[0], 0);
  EXPECT_GT(std::ranges::count_if(lengths, [](int n) { return n > 0; }), 1);
}

// The largest count there may be: a step and its boundaries still fit.
TEST(Checkpoint, OfTheLargestCount) {
  for (const std::optional<std::int32_t> block_size : {std::optional<std::int32_t>{}, {4}, {INT32_MAX}}) {
    for (const bool lazy : {false, true}) {
      constexpr std::int64_t kMost = std::int64_t{1} << 62;
      const TinyShape shape{.lazy = lazy, .block_size = block_size};
      Bytes bytes = make_checkpoint(shape);
      write_at(std::span(bytes), offsetof(CheckpointHeader, tokens), kMost);
      seal(bytes);
      Target target(shape);
      EXPECT_EQ(target.restore(bytes, kMost), "accepted");
      EXPECT_EQ(target.session().exportable(target.request()), std::vector<std::int64_t>{kMost});
      Tiny model(placed(shape));
      Context context = context_of_calls();
      const StepRow row{target.request(), RowKind::window, shape.S, kMost};
      const StepId step = target.session().open_step({&row, 1}, context);
      model.forward(target.session(), step, shape.S, 1, context);
      const Accepted kept{target.request(), 2};
      target.session().commit(step, {&kept, 1}, context);
      EXPECT_EQ(target.session().info(target.request()).tokens, kMost + 2);
      const Bytes again = target.session().export_checkpoint(target.request(), kMost + 2, kTag, context);
      EXPECT_EQ(inspect_checkpoint(again).tokens, kMost + 2);
    }
  }
}

// Every byte of the layer table means something: with a right checksum it's the geometry that is refused.
TEST(Checkpoint, OfOtherLayersByteByByte) {
  const Bytes whole = make_checkpoint();
  Target target;
  for (std::size_t at = sizeof(CheckpointHeader); at < sizeof(CheckpointHeader) + Tiny::kLayers * sizeof(CheckpointLayer); ++at) {
    for (const int mask : {0x01, 0x80}) {
      Bytes other = whole;
      other[at] ^= static_cast<std::byte>(mask);
      seal(other);
      EXPECT_TRUE(says(target.restore(other), "invalid_argument session.restore: checkpoint.layers[")) << at;
    }
  }
  for (const std::uint32_t layers : {0U, 1U, 2U, 4U, 5U, 1000000U, UINT32_MAX}) {
    Bytes other = whole;
    write_at(std::span(other), offsetof(CheckpointHeader, layers), layers);
    seal(other);
    EXPECT_NE(target.restore(other), "accepted") << layers;
  }
  for (const std::uint64_t bytes : {std::uint64_t{0}, whole.size() - 1, whole.size() + 1, UINT64_MAX}) {
    Bytes other = whole;
    write_at(std::span(other), offsetof(CheckpointHeader, bytes), bytes);
    seal(other);
    EXPECT_NE(target.restore(other), "accepted") << bytes;
  }
  // The right table over a payload of another length.
  for (const std::ptrdiff_t more : {-8, 8, 1024}) {
    Bytes other = whole;
    other.resize(whole.size() + static_cast<std::size_t>(more));
    write_at(std::span(other), offsetof(CheckpointHeader, bytes), std::uint64_t{other.size()});
    seal(other);
    EXPECT_TRUE(says(target.restore(other), "invalid_argument session.restore: checkpoint: ")) << more;
  }
  target.expect_untouched();
  EXPECT_EQ(target.restore(whole), "accepted");
}

TEST(Checkpoint, OfOtherLayoutIds) {
  Bytes bytes = make_checkpoint();
  Target target;
  std::memcpy(&bytes[sizeof(CheckpointHeader) + offsetof(CheckpointLayer, layout)], "gdn_f16", 8);
  seal(bytes);
  EXPECT_EQ(target.restore(bytes),
            "invalid_argument session.restore: checkpoint.layers[0].layout: \"gdn_f16\", expected \"gdn_f32\"");
  target.expect_untouched();
}

// Sessions of other layers, as a caller may mix them up.
TEST(Checkpoint, OfAnotherModel) {
  const Bytes bytes = make_checkpoint();
  const std::vector<std::pair<const char*, std::function<void(SessionConfig&)>>> changes = {
      {"K", [](SessionConfig& c) { c.layers[0].K = 5; }},
      {"V", [](SessionConfig& c) { c.layers[0].V = 4; }},
      {"HV", [](SessionConfig& c) { c.layers[0].HV = 3; }},
      {"W", [](SessionConfig& c) { c.layers[0].W = 4; }},
      {"no convolution", [](SessionConfig& c) { c.layers[0].W = 0; }},
      {"kind", [](SessionConfig& c) { c.layers[0].kind = LayerKind::kda; }},
      {"activation", [](SessionConfig& c) { c.layers[0].activation = DType::bf16; }},
      {"state", [](SessionConfig& c) { c.layers[1].state = DType::f16; }},
      {"channels", [](SessionConfig& c) { c.layers[2].channels = 4; }},
      {"dilation", [](SessionConfig& c) { c.layers[2].dilation = 1; }},
      {"a layer less", [](SessionConfig& c) { c.layers.pop_back(); }},
      {"a layer more", [](SessionConfig& c) { c.layers.push_back(c.layers[1]); }},
      {"order", [](SessionConfig& c) { std::swap(c.layers[0], c.layers[1]); }},
  };
  for (const auto& [what, change] : changes) {
    SCOPED_TRACE(what);
    SessionConfig config = Tiny(placed(TinyShape{})).config();
    for (LayerConfig& layer : config.layers) layer.weight = layer.bias = layer.A_log = layer.dt_bias = {};
    change(config);
    std::pmr::vector<float> parameters(64, support::memory_of_calls());
    for (LayerConfig& layer : config.layers) {  // a session of kda layers wants these two
      if (layer.kind != LayerKind::kda) continue;
      layer.A_log = TensorView(parameters.data(), DType::f32, {layer.HV});
      layer.dt_bias = TensorView(parameters.data(), DType::f32, {layer.HV, layer.K});
    }
    Session session(config);
    const RequestId request = session.admit();
    const std::string text = refusal([&] { session.restore(request, bytes, kTokens, kTag); });
    EXPECT_TRUE(says(text, "invalid_argument session.restore: checkpoint.layers")) << text;
    EXPECT_EQ(session.info(request).phase, Phase::empty);
    EXPECT_EQ(session.free_blocks(0), config.groups[0].blocks - 1);
  }
}

// The same layers in sessions of every other form: what is exported there is the same, but for owner and step.
TEST(Checkpoint, FitsEverySessionWithTheseLayers) {
  const Bytes bytes = make_checkpoint();
  for (const bool lazy : {false, true}) {
    for (const bool two_groups : {false, true}) {
      for (const LineKind kind : {LineKind::anchored, LineKind::rolled}) {
        for (const std::optional<std::int32_t> block_size : {std::optional<std::int32_t>(), std::optional<std::int32_t>(6)}) {
          Target target(
              {.two_groups = two_groups, .lazy = lazy, .line_kind = kind, .block_size = block_size, .S = 6, .null_block_id = -1});
          ASSERT_EQ(target.restore(bytes), "accepted");
          EXPECT_EQ(target.session().info(target.request()).tokens, kTokens);
          Context context = context_of_calls();
          Bytes again = target.session().export_checkpoint(target.request(), kTokens, kTag, context);
          ASSERT_EQ(again.size(), bytes.size());
          EXPECT_EQ(inspect_checkpoint(again).step, 0U);
          for (const std::size_t field : {offsetof(CheckpointHeader, owner), offsetof(CheckpointHeader, step)}) {
            std::memcpy(&again[field], &bytes[field], 8);
          }
          seal(again);
          EXPECT_TRUE(again == bytes);
        }
      }
    }
  }
}

TEST(Checkpoint, NeedsAnEmptyRequestAndABlock) {
  const Bytes bytes = make_checkpoint();
  Tiny model(placed(TinyShape{.blocks = 2}));
  Session session(model.config());
  const RequestId first = session.admit(), second = session.admit();
  session.restore(first, bytes, kTokens, kTag);
  EXPECT_TRUE(says(refusal([&] { session.restore(first, bytes, kTokens, kTag); }), "bad_state session.restore: request: "));
  EXPECT_TRUE(
      says(refusal([&] { session.restore(second, bytes, kTokens, kTag); }), "bad_state session.restore: groups[0]: no free"));
  EXPECT_TRUE(says(refusal([&] { session.restore(77, bytes, kTokens, kTag); }), "bad_state session.restore: request: 77"));
  EXPECT_EQ(session.info(second).phase, Phase::empty);
  session.preempt(first);
  session.restore(second, bytes, kTokens, kTag);
  EXPECT_EQ(session.info(second).tokens, kTokens);
}

}  // namespace
}  // namespace session_tests
