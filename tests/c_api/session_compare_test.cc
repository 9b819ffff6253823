// Sessions in C and in C++ do the same: a scripted life of two requests, then random calls, right and wrong ones.
#include <gtest/gtest.h>

#include <random>

#include "session_twin.h"

namespace c_api_tests {
namespace {

using namespace recoverssm;
using session_tests::TinyShape;

std::vector<TinyShape> shapes() {
  std::vector<TinyShape> all;
  for (const bool lazy : {false, true}) {
    for (const LineKind kind : {LineKind::anchored, LineKind::rolled}) {
      for (const std::optional<std::int32_t> block_size : {std::optional<std::int32_t>(), std::optional<std::int32_t>(4)}) {
        all.push_back({.two_groups = lazy == block_size.has_value(),
                       .lazy = lazy,
                       .line_kind = kind,
                       .block_size = block_size,
                       .blocks = 12});
      }
    }
  }
  all.back().null_block_id = -1;
  all.front().activation = DType::bf16;
  all.front().state = DType::bf16;
  return all;
}

class SessionTwins : public ::testing::TestWithParam<std::size_t> {
 protected:
  TinyShape shape() const { return shapes()[GetParam()]; }
};

TEST_P(SessionTwins, AWholeLife) {
  Twin twin(shape());
  const std::uint64_t a = twin.admit(), b = twin.admit();
  ASSERT_NE(a, b);
  EXPECT_TRUE(twin.exportable(a).empty());
  const auto step = [&](std::vector<StepRow> rows, std::vector<Accepted> accepted, std::uint32_t seed) {
    std::int32_t tokens = 0;
    for (const StepRow& row : rows) tokens += row.tokens;
    EXPECT_TRUE(twin.fits(rows)) << twin.refusal;
    const std::uint64_t id = twin.open_step(rows);
    ASSERT_NE(id, 0U) << twin.refusal;
    twin.info(a);
    twin.forward(id, tokens, seed);
    twin.commit(id, accepted);
    EXPECT_EQ(twin.refusal, "");
    twin.info(a);
    twin.info(b);
    twin.expect_same();
  };
  step({{a, RowKind::prefill, 5, 0}, {0, RowKind::prefill, 2, -1}, {b, RowKind::prefill, 3, -1}}, {}, 1);
  step({{b, RowKind::window, 2, 3}, {a, RowKind::decode, 1, 5}}, {{b, 9}}, 2);
  step({{b, RowKind::window, 3, 5}, {a, RowKind::window, 2, 6}}, {{a, 1}, {b, 2}}, 3);
  EXPECT_EQ(twin.info(a).tokens, 7);
  EXPECT_EQ(twin.info(b).tokens, 7);
  const std::uint64_t requests[] = {a};
  twin.materialize(requests);
  EXPECT_EQ(twin.exportable(a).back(), 7);
  const auto checkpoint = twin.export_checkpoint(b, 7, 0xFEEDFACECAFEBEEFULL);
  ASSERT_FALSE(checkpoint.empty()) << twin.refusal;
  const std::uint64_t copy = twin.fork(a), prefix = twin.hold(b, 7);
  EXPECT_EQ(twin.prefix_tokens(prefix), 7);
  const std::uint64_t more = twin.admit(prefix);
  EXPECT_EQ(twin.info(more).tokens, 7);
  twin.preempt(b);
  EXPECT_EQ(twin.info(b).phase, Phase::empty);
  twin.restore(b, checkpoint, 7, 1);
  EXPECT_NE(twin.refusal, "");
  twin.restore(b, checkpoint, 7, 0xFEEDFACECAFEBEEFULL);
  EXPECT_EQ(twin.refusal, "");
  twin.expect_same();
  step({{copy, RowKind::window, 3, 7}, {more, RowKind::window, 1, 7}, {b, RowKind::decode, 1, 7}}, {{copy, 3}, {more, 1}}, 4);

  const StepRow row{a, RowKind::window, 2, -1};
  const std::uint64_t open = twin.open_step({&row, 1});
  EXPECT_EQ(twin.info(a).open_step, open);
  twin.commit(open, {});  // nothing has run
  EXPECT_NE(twin.refusal, "");
  twin.abandon(open);
  twin.abandon(open);  // twice
  EXPECT_NE(twin.refusal, "");
  const std::uint64_t next = twin.finish_and_hold(a);
  EXPECT_EQ(twin.prefix_tokens(next), 7);
  for (const std::uint64_t request : {b, copy, more}) twin.finish(request);
  twin.finish(a);
  EXPECT_NE(twin.refusal, "");
  twin.release(prefix);
  twin.release(next);
  twin.expect_same();
  EXPECT_EQ(twin.cpp.requests() + twin.cpp.prefixes() + twin.cpp.open_steps(), 0);
}

TEST_P(SessionTwins, RandomCalls) {
  Twin twin(shape());
  std::mt19937 random(static_cast<unsigned>(GetParam()) + 1);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  std::vector<std::uint64_t> requests, prefixes, steps;
  std::vector<std::vector<StepRow>> step_rows;
  std::vector<std::vector<std::byte>> checkpoints;
  const auto any = [&](const std::vector<std::uint64_t>& all) {
    return all.empty() || below(16) == 0 ? std::uint64_t{below(40)} : all[below(all.size())];
  };
  int accepted = 0, refused = 0;
  for (int call = 0; call < 500; ++call) {
    const std::uint64_t request = any(requests);
    switch (below(16)) {
      case 0:
        requests.push_back(twin.admit());
        break;
      case 1:
        if (const std::uint64_t id = twin.admit(any(prefixes)); id != 0) requests.push_back(id);
        break;
      case 2:
        if (below(3) == 0) twin.finish(request);
        break;
      case 3:
        if (const std::uint64_t id = twin.finish_and_hold(request); id != 0) prefixes.push_back(id);
        break;
      case 4:
        if (below(2) == 0) twin.preempt(request);
        break;
      case 5:
        twin.abandon(any(steps));
        break;
      case 6:
        twin.materialize({&request, 1});
        break;
      case 7:
        if (const std::uint64_t id = twin.fork(request); id != 0) requests.push_back(id);
        break;
      case 8:
        if (const std::uint64_t id = twin.hold(request, static_cast<std::int64_t>(below(12))); id != 0) prefixes.push_back(id);
        break;
      case 9:
        twin.release(any(prefixes));
        break;
      case 10: {
        const auto all = twin.exportable(request);
        const std::int64_t tokens = all.empty() ? 3 : all[below(all.size())];
        if (auto bytes = twin.export_checkpoint(request, tokens, 5); !bytes.empty()) checkpoints.push_back(std::move(bytes));
        break;
      }
      case 11:
        if (!checkpoints.empty()) {
          auto bytes = checkpoints[below(checkpoints.size())];
          const std::int64_t tokens = inspect_checkpoint(bytes).tokens;
          if (below(4) == 0) bytes[below(bytes.size())] ^= std::byte{4};
          twin.restore(request, bytes, tokens, 5);
        }
        break;
      default: {  // a whole step, or its parts
        std::vector<StepRow> rows;
        std::vector<Accepted> kept;
        std::int32_t tokens = 0;
        for (std::size_t i = 0; i <= below(4); ++i) {
          const auto kind = static_cast<RowKind>(below(3));
          const auto n = static_cast<std::int32_t>(kind == RowKind::decode ? 1 : below(5));
          rows.push_back({any(requests), kind, n, -1});
          tokens += n;
          kept.push_back({rows.back().request, static_cast<std::int32_t>(below(5)) - 1});
        }
        twin.fits(rows);
        const std::uint64_t step = twin.open_step(rows);
        if (step == 0) break;
        steps.push_back(step);
        twin.forward(step, tokens, static_cast<std::uint32_t>(call));
        if (below(4) != 0) twin.commit(step, kept);
        break;
      }
    }
    (twin.refusal.empty() ? accepted : refused) += 1;
    if (!requests.empty()) twin.info(any(requests));
    twin.prefix_tokens(any(prefixes));
    twin.expect_same();
    if (HasFailure()) FAIL() << "call " << call;
  }
  EXPECT_GT(accepted, 50);
  EXPECT_GT(refused, 20);
}

INSTANTIATE_TEST_SUITE_P(Shapes, SessionTwins, ::testing::Range(std::size_t{0}, std::size_t{8}));

TEST(SessionSizes, AreTheSame) {
  for (const TinyShape& shape : shapes()) {
    const session_tests::Tiny model(shape);
    const CConfig config(model.config());
    const SessionSizes expected = session_sizes(model.config());
    recoverssm_session_memory memory;
    recoverssm_session_memory_init(&memory, sizeof memory);
    recoverssm_layer_memory layers[3];
    std::int64_t blocks[3] = {-77, -77, -77};
    ASSERT_EQ(recoverssm_session_sizes(&config.config, &memory, layers, blocks), RECOVERSSM_OK) << recoverssm_last_error();
    EXPECT_EQ(memory.request, expected.request);
    EXPECT_EQ(memory.pools, expected.pools);
    EXPECT_EQ(memory.checkpoint, expected.checkpoint);
    EXPECT_EQ(memory.blocks_per_request, expected.blocks_per_request);
    for (std::size_t l = 0; l < 3; ++l) {
      EXPECT_EQ(layers[l].state, expected.layers[l].state);
      EXPECT_EQ(layers[l].line, expected.layers[l].line);
      EXPECT_EQ(layers[l].records, expected.layers[l].records);
      EXPECT_EQ(layers[l].pending, expected.layers[l].pending);
      EXPECT_EQ(layers[l].reserved[0] | layers[l].reserved[3], 0);
    }
    EXPECT_EQ(std::vector<std::int64_t>(blocks, blocks + expected.block.size()), expected.block);
    EXPECT_EQ(blocks[2], -77);
    EXPECT_EQ(recoverssm_session_sizes(&config.config, &memory, nullptr, nullptr), RECOVERSSM_OK);
  }
}

// Pools of the caller, seen again through the session.
TEST(SessionPools, OfTheCaller) {
  const session_tests::Tiny model({.lazy = true, .blocks = 3});
  const CConfig config(model.config());
  Session source(model.config());  // whose tensors have the right shapes
  std::vector<recoverssm_records> records(3);
  std::vector<recoverssm_layer_pool> pools(3);
  for (std::size_t l = 0; l < 3; ++l) {
    const LayerPool& pool = source.pool(static_cast<std::int32_t>(l));
    recoverssm_layer_pool_init(&pools[l], sizeof pools[l]);
    recoverssm_records_init(&records[l], sizeof records[l]);
    pools[l].line = c_tensor(pool.line);
    pools[l].state = c_tensor(pool.state);
    pools[l].pending = c_tensor(pool.pending);
    records[l].packed = c_tensor(pool.records.packed);
    records[l].corrections = c_tensor(pool.records.corrections);
    records[l].key_gate = c_tensor(pool.records.key_gate);
    if (pool.records.present()) pools[l].records = &records[l];
  }
  recoverssm_session* session = nullptr;
  ASSERT_EQ(recoverssm_session_create(&config.config, pools.data(), 3, &session), RECOVERSSM_OK) << recoverssm_last_error();
  recoverssm_layer_pool seen;
  recoverssm_layer_pool_init(&seen, sizeof seen);
  recoverssm_records seen_records;
  recoverssm_records_init(&seen_records, sizeof seen_records);
  for (std::int32_t l = 0; l < 3; ++l) {
    ASSERT_EQ(recoverssm_session_pool(session, l, &seen, &seen_records), RECOVERSSM_OK) << recoverssm_last_error();
    EXPECT_EQ(seen.state.data, pools[static_cast<std::size_t>(l)].state.data);
    EXPECT_EQ(seen.line.data, pools[static_cast<std::size_t>(l)].line.data);
    EXPECT_EQ(seen.records, l < 2 ? &seen_records : nullptr);
    EXPECT_EQ(seen_records.packed.data, records[static_cast<std::size_t>(l)].packed.data);
  }
  // Without room for the records.
  ASSERT_EQ(recoverssm_session_pool(session, 0, &seen, nullptr), RECOVERSSM_OK);
  EXPECT_EQ(seen.records, nullptr);
  recoverssm_session_destroy(session);
  for (const std::size_t count : {std::size_t{0}, std::size_t{2}}) {
    EXPECT_EQ(recoverssm_session_create(&config.config, pools.data(), count, &session), RECOVERSSM_INVALID_ARGUMENT);
    EXPECT_EQ(session, nullptr);
  }
}

TEST(PrefixHit, IsTheSame) {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    std::vector<std::vector<std::int64_t>> groups(random() % 4);
    std::vector<const std::int64_t*> pointers;
    std::vector<std::size_t> counts;
    for (auto& group : groups) {
      for (auto n = random() % 6; n > 0; --n) group.push_back(static_cast<std::int64_t>(random() % 12));
      std::sort(group.begin(), group.end());
      pointers.push_back(group.data());
      counts.push_back(group.size());
    }
    const auto most = static_cast<std::int64_t>(random() % 14);
    std::int64_t got = -77;
    ASSERT_EQ(recoverssm_prefix_hit(most, pointers.data(), counts.data(), groups.size(), &got), RECOVERSSM_OK)
        << recoverssm_last_error();
    EXPECT_EQ(got, prefix_hit(most, groups));
  }
}

}  // namespace
}  // namespace c_api_tests
