// What a session takes: sizes, pools of its own and of the caller, block tags, counters.
#include <cstring>

#include "session/driver.h"
#include "session/pools.h"

namespace session_tests {
namespace {

using recoverssm::BlockTag;
using recoverssm::LayerConfig;
using recoverssm::LayerKind;
using recoverssm::LayerPool;
using recoverssm::Session;
using recoverssm::SessionConfig;
using recoverssm::SessionSizes;

// ---- sizes -----------------------------------------------------------------------------------------------------------------------

// Figures worked out by hand from the shapes in docs/operations.md.
TEST(Session, SizesByHand) {
  SessionConfig config{
      .layers = {{.kind = LayerKind::gdn, .group = 0, .H = 16, .HV = 48, .K = 128, .V = 128, .W = 4},  // bf16, fp32 state
                 {.kind = LayerKind::kda, .group = 1, .H = 2, .HV = 4, .K = 8, .V = 6, .W = 3, .state = DType::bf16},
                 {.kind = LayerKind::gdn, .group = 1, .H = 1, .HV = 1, .K = 4, .V = 2, .W = 0, .activation = DType::f32},
                 {.kind = LayerKind::short_conv, .group = 0, .W = 3, .channels = 10, .dilation = 2}},
      .groups = {{.blocks = 100}, {.blocks = 7}},
      .window_capacity = 4};
  SessionSizes sizes = session_sizes(config);
  ASSERT_EQ(sizes.layers.size(), 4U);
  EXPECT_EQ(sizes.layers[0].state, 48 * 128 * 128 * 4);
  EXPECT_EQ(sizes.layers[0].state, 3145728);
  EXPECT_EQ(sizes.layers[0].records, 197376);                    // 48 * 4 * 257 * 4
  EXPECT_EQ(sizes.layers[0].line, (3 + 4) * (4096 + 6144) * 2);  // anchored: W-1 + S
  EXPECT_EQ(sizes.layers[0].pending, 0);
  EXPECT_EQ(sizes.layers[1].state, 4 * 6 * 8 * 2);
  EXPECT_EQ(sizes.layers[1].records, 4 * 4 * (6 * 4 + 2 * 8 * 2));  // corrections fp32, raw key and gate bf16
  EXPECT_EQ(sizes.layers[1].line, (2 + 4) * (32 + 24) * 2);
  EXPECT_EQ(sizes.layers[2].state, 2 * 4 * 4);
  EXPECT_EQ(sizes.layers[2].records, 4 * (2 + 4 + 1) * 4);
  EXPECT_EQ(sizes.layers[2].line, 0);
  EXPECT_EQ(sizes.layers[3].state, 0);
  EXPECT_EQ(sizes.layers[3].records, 0);
  EXPECT_EQ(sizes.layers[3].line, (4 + 4) * 10 * 2);
  const std::int64_t group0 = 3145728 + 197376 + 143360 + 160, group1 = 384 + 896 + 672 + 32 + 112;
  EXPECT_EQ(sizes.block, (std::vector<std::int64_t>{group0, group1}));
  EXPECT_EQ(sizes.blocks_per_request, 1);
  EXPECT_EQ(sizes.request, group0 + group1);
  EXPECT_EQ(sizes.pools, 100 * group0 + 7 * group1);
  // Header 56, 64 a layer, checksum 8; states and histories.
  EXPECT_EQ(sizes.checkpoint, 56 + 4 * 64 + 8 + 3145728 + 3 * 10240 * 2 + 384 + 2 * 56 * 2 + 32 + 4 * 10 * 2);

  config.lazy = true, config.line_kind = LineKind::rolled;
  config.groups[0].block_size = config.groups[1].block_size = 16;
  config.kept_boundaries = 3;
  sizes = session_sizes(config);
  EXPECT_EQ(sizes.layers[0].pending, 4);
  EXPECT_EQ(sizes.layers[3].pending, 0);
  EXPECT_EQ(sizes.layers[0].line, (3 + 3) * 10240 * 2);
  EXPECT_EQ(sizes.layers[3].line, (4 + 3) * 10 * 2);
  EXPECT_EQ(sizes.blocks_per_request, 5);
  EXPECT_EQ(sizes.request, 5 * (sizes.block[0] + sizes.block[1]));
}

std::int64_t bytes_of(const recoverssm::TensorView& view) { return view.present() ? view.elements() * size_of(view.dtype) : 0; }

TEST(Session, OwnPoolsAreAsLargeAsSizesSay) {
  for (Shape shape : all_shapes(8)) {
    for (const DType state : {DType::f32, DType::f16}) {
      shape.state = state, shape.T = DType::bf16, shape.S = 3;
      SCOPED_TRACE(shape.text());
      const Model model(shape);
      const Session session(model.config());
      const SessionSizes sizes = session_sizes(model.config());
      std::int64_t total = 0;
      for (std::int32_t l = 0; l < model.layers(); ++l) {
        const LayerPool& pool = session.pool(l);
        const SessionSizes::Layer& layer = sizes.layers[static_cast<std::size_t>(l)];
        EXPECT_EQ(bytes_of(pool.state), layer.state * shape.blocks);
        EXPECT_EQ(bytes_of(pool.line), layer.line * shape.blocks);
        EXPECT_EQ(bytes_of(pool.records.packed) + bytes_of(pool.records.corrections) + bytes_of(pool.records.key_gate),
                  layer.records * shape.blocks);
        EXPECT_EQ(bytes_of(pool.pending), layer.pending * shape.blocks);
        total += layer.block() * shape.blocks;
      }
      EXPECT_EQ(sizes.pools, total);
    }
  }
}

// ---- pools of the caller ---------------------------------------------------------------------------------------------------------

// Pages with gaps, more blocks than configured: the same bits, and no byte outside the tensors of its own blocks changes.
TEST(Session, PagedPoolsKeepTheirGaps) {
  for_all_shapes(4, [](const Shape& given) {
    for (const std::int32_t null : {-1, 0, 2}) {
      Shape shape = given;
      shape.null_block_id = null, shape.blocks = 14;
      Pages pages(Model(shape).config(), 3);
      {
        Driver d(shape, pages.pools);
        EXPECT_EQ(d.session.free_blocks(0), 14 - null - 1);
        const RequestId a = started(d, 1, 3), b = started(d, 2, 6);
        d.run({window(a, 4, 3), window(b, 4, 1), padding(2)});
        const RequestId c = d.fork(b, 3);
        d.run({prefill(a, 5), window(c, 2, 2), decode(b)});
        const Bytes saved = d.check_export(a);
        d.finish(b);
        const RequestId e = d.admit(4);
        d.session.restore(e, saved, d.tokens(a), 9);
        d.restored(e, d.snapshot(a));
        d.run({window(e, 3, 3)});
        d.check_export(e), d.check_export(c);
        Step open = d.open({window(c, 4, 2), prefill(a, 2)});
        d.forward(open, 0);
      }
      EXPECT_TRUE(pages.gaps_intact());
    }
  });
}

TEST(Session, TheCallersPoolsAreChecked) {
  Shape shape{.lazy = true};
  const Model model(shape);
  const Pages good(model.config());
  const auto refused = [&](const std::vector<LayerPool>& pools, const std::string& begin, const std::vector<std::string>& parts) {
    return refuses(ErrorKind::invalid_argument, begin, parts, [&] { const Session session(model.config(), pools); });
  };
  std::vector<LayerPool> pools = good.pools;
  pools.pop_back();
  EXPECT_TRUE(refused(pools, "session: pools: 3 pools", {"4"}));
  const auto with = [&](auto change) {
    std::vector<LayerPool> changed = good.pools;
    change(changed);
    return changed;
  };
  EXPECT_TRUE(refused(with([](auto& p) { p[0].state.shape[0] = 23; }), "session: pools[0].state: ", {"23", "24"}));
  EXPECT_TRUE(refused(with([](auto& p) { p[0].line.shape[1] -= 1; }), "session: pools[0].line: ", {"columns"}));
  EXPECT_TRUE(refused(with([](auto& p) { p[1].state.dtype = DType::bf16; }), "session: pools[1].state: ", {"bf16", "f32"}));
  EXPECT_TRUE(refused(with([](auto& p) { p[1].state.shape[3] = 7; }), "session: pools[1].state: ", {"7", "6"}));
  EXPECT_TRUE(refused(with([](auto& p) { p[0].records.packed = {}; }), "session: pools[0].records.packed: ", {}));
  EXPECT_TRUE(refused(with([](auto& p) { p[0].records.corrections = p[1].records.corrections; }),
                      "session: pools[0].records.corrections: ", {"none for this layer"}));
  EXPECT_TRUE(refused(with([](auto& p) { p[2].line = p[0].line; }), "session: pools[2].line: ", {"none for this layer"}));
  EXPECT_TRUE(refused(with([](auto& p) { p[3].pending = p[0].pending; }), "session: pools[3].pending: ", {"none for this layer"}));
  EXPECT_TRUE(refused(with([](auto& p) { p[0].pending = {}; }), "session: pools[0].pending: ", {}));
  EXPECT_TRUE(refused(with([](auto& p) { p[0].state.data = nullptr; }), "session: pools[0].state: ", {"null"}));
  EXPECT_TRUE(refused(with([](auto& p) { p[0].state.stride[3] = 2; }), "commit: layers[0].state: ", {}));
  EXPECT_TRUE(refused(with([](auto& p) { p[2].state = p[0].state, p[2].state.shape = {24, 1, 3, 5}; }), "commit: layers[", {}));
  EXPECT_TRUE(good.gaps_intact());
}

// ---- configurations --------------------------------------------------------------------------------------------------------------

TEST(Session, ConfigurationsThatNoSessionTakes) {
  const SessionConfig good = Model(Shape{.block_sizes = {8, 8}}).config();
  (void)session_sizes(good);
  struct Case {
    const char* begin;
    std::vector<std::string> parts;
    std::function<void(SessionConfig&)> change;
  };
  const std::vector<Case> cases{
      {"session_sizes: window_capacity: 0", {"1"}, [](auto& c) { c.window_capacity = 0; }},
      {"session_sizes: line_kind: ", {"rolled or anchored"}, [](auto& c) { c.line_kind = LineKind::plain; }},
      {"session_sizes: null_block_id: -2", {"-1"}, [](auto& c) { c.null_block_id = -2; }},
      {"session_sizes: kept_boundaries: -1", {"0"}, [](auto& c) { c.kept_boundaries = -1; }},
      {"session_sizes: layers: none", {"at least one"}, [](auto& c) { c.layers.clear(); }},
      {"session_sizes: groups: none", {"at least one"}, [](auto& c) { c.groups.clear(); }},
      {"session_sizes: groups[1].blocks: 0", {"1"}, [](auto& c) { c.groups[1].blocks = 0; }},
      {"session_sizes: groups[1].block_size: missing", {"all groups or in none"}, [](auto& c) { c.groups[1].block_size.reset(); }},
      {"session_sizes: groups[1].block_size: given", {"all groups or in none"}, [](auto& c) { c.groups[0].block_size.reset(); }},
      {"session_sizes: groups[0].block_size: 3", {"window_capacity = 4"}, [](auto& c) { c.groups[0].block_size = 3; }},
      {"session_sizes: groups[2]: no layer", {"at least one layer a group"}, [](auto& c) { c.groups.push_back(c.groups[0]); }},
      {"session_sizes: layers[1].group: 2", {"number of groups, 2"}, [](auto& c) { c.layers[1].group = 2; }},
      {"session_sizes: layers[1].group: -1", {"number of groups"}, [](auto& c) { c.layers[1].group = -1; }},
      {"session_sizes: layers[0].kind: value 9",
       {"gdn, kda or short_conv"},
       [](auto& c) { c.layers[0].kind = static_cast<LayerKind>(9); }},
      {"session_sizes: layers[0].W: 9", {"0 or 2..8"}, [](auto& c) { c.layers[0].W = 9; }},
      {"session_sizes: layers[0].K: 257", {"at most 256"}, [](auto& c) { c.layers[0].K = 257; }},
      {"session_sizes: layers[0].HV: 0", {"1"}, [](auto& c) { c.layers[0].HV = 0; }},
      {"session_sizes: layers[0].channels: 5", {"2*H*K + HV*V"}, [](auto& c) { c.layers[0].channels = 5; }},
      {"session_sizes: layers[3].W: 1", {"2"}, [](auto& c) { c.layers[3].W = 1; }},
      {"session_sizes: layers[3].dilation: 0", {"1"}, [](auto& c) { c.layers[3].dilation = 0; }},
      {"session_sizes: layers[3].channels: 0", {"1"}, [](auto& c) { c.layers[3].channels = 0; }},
      {"sizes: ", {}, [](auto& c) { c.layers[0].HV = 3, c.layers[0].H = 2; }},
      {"sizes: ", {}, [](auto& c) { c.layers[0].activation = DType::i32; }},
      {"sizes: ", {}, [](auto& c) { c.layers[0].W = 1; }},
      {"sizes: ", {}, [](auto& c) { c.layers[0].state = DType::f64; }},
  };
  for (const Case& one : cases) {
    SessionConfig config = good;
    one.change(config);
    EXPECT_TRUE(refuses(ErrorKind::invalid_argument, one.begin, one.parts, [&] { (void)session_sizes(config); }));
    EXPECT_TRUE(refuses(ErrorKind::invalid_argument, one.begin, one.parts, [&] { const Session session(config); }));
  }
  SessionConfig config = good;  // sizes need no parameter, a session needs those that commit reads
  config.layers[1].A_log = {};
  (void)session_sizes(config);
  EXPECT_TRUE(refuses(ErrorKind::invalid_argument, "commit: layers[1].A_log: ", {}, [&] { const Session session(config); }));
  config = good;
  for (auto& group : config.groups) group.blocks = INT32_MAX;
  config.layers[0].HV = 1 << 24, config.layers[0].V = 1 << 10;
  EXPECT_TRUE(refuses(ErrorKind::invalid_argument, "", {}, [&] { (void)session_sizes(config); }));
}

// ---- tags ------------------------------------------------------------------------------------------------------------------------

TEST(Session, BlockTags) {
  for_all_shapes(4, [](const Shape& shape) {
    Driver d(shape);
    const bool two = shape.block_sizes.size() == 2;
    const auto tag = [&](RequestId r) { return d.session.block_tag(0, d.session.info(r).blocks[0]); };
    EXPECT_EQ(d.session.block_tag(0, 5).owner, 0U);
    EXPECT_EQ(d.session.block_tag(0, 5).references, 0);
    EXPECT_EQ(d.session.block_tag(0, 5).layout, two ? "gdn_f32" : "gdn_f32+kda_act");
    if (two) {
      EXPECT_EQ(d.session.block_tag(1, 5).layout, "gdn_f32+kda_act");
    }
    const RequestId r = d.admit(1);
    Step first = d.open({prefill(r, 3)});
    EXPECT_EQ(tag(r).tokens, -1);  // being written
    EXPECT_EQ(tag(r).owner, r);
    d.forward(first), d.commit(first);
    EXPECT_EQ(tag(r).tokens, 3);
    EXPECT_EQ(tag(r).step, first.id);
    EXPECT_EQ(tag(r).references, 1);
    Step second = d.open({window(r, 3, 2)});  // over the edge at 4
    d.forward(second), d.commit(second);
    EXPECT_EQ(tag(r).tokens, shape.lazy ? 3 : 5);  // lazy: the records of two more wait
    EXPECT_EQ(tag(r).step, second.id);
    d.check_export(r);
    EXPECT_EQ(tag(r).tokens, 5);
    EXPECT_EQ(tag(r).step, second.id);
    if (shape.align()) {
      const PrefixId boundary = d.hold(r, 4);
      std::int32_t held = 0;
      for (std::int32_t g = 0; g < static_cast<std::int32_t>(shape.block_sizes.size()); ++g) {
        for (std::int32_t b = 0; b < shape.blocks; ++b) {
          const BlockTag t = d.session.block_tag(g, b);
          if (t.references != 2) continue;
          ++held;
          EXPECT_EQ(t.tokens, 4);
          EXPECT_EQ(t.step, second.id);
          EXPECT_EQ(t.owner, r);
        }
      }
      EXPECT_EQ(held, static_cast<std::int32_t>(shape.block_sizes.size()));
      d.session.release(boundary);
    }
    const Bytes saved = d.check_export(r);
    const RequestId next = d.admit(2), copy = d.fork(r, 3);
    d.session.restore(next, saved, 5, 9);
    EXPECT_EQ(tag(next).step, 0U);
    EXPECT_EQ(tag(next).tokens, 5);
    EXPECT_EQ(tag(next).owner, next);
    EXPECT_EQ(tag(copy).tokens, 5);
    EXPECT_EQ(tag(copy).owner, copy);
    const std::int32_t block = d.session.info(r).blocks[0];
    d.finish(r);
    EXPECT_EQ(d.session.block_tag(0, block).references, 0);
  });
}

// Whoever shares a boundary and then undoes a window leaves its tag alone.
TEST(Session, TagsOfSharedBlocksStay) {
  for (Shape shape : all_shapes(4)) {
    if (!shape.align() || shape.rolled()) continue;
    SCOPED_TRACE(shape.text());
    Driver d(shape);
    const RequestId r = started(d, 1, 8);
    const auto tag = [&, block = d.session.info(r).blocks[0]] { return d.session.block_tag(0, block); };
    const StepId writer = tag().step;
    EXPECT_NE(writer, 0U);
    const PrefixId held = d.hold(r, 8);
    const RequestId copy = d.admit(1, held), again = d.admit(1, held);
    d.run({window(copy, 3, 0)});
    d.session.materialize(std::array{copy}, d.context);
    Step step = d.open({window(again, 2, 1)});
    d.abandon(step);
    EXPECT_EQ(tag().step, writer);
    EXPECT_EQ(tag().owner, r);
    EXPECT_EQ(tag().tokens, 8);
    EXPECT_EQ(tag().references, 4);
    EXPECT_EQ(recoverssm::inspect_checkpoint(d.session.export_checkpoint(copy, 8, 0, d.context)).step, writer);
  }
}

// ---- counters --------------------------------------------------------------------------------------------------------------------

TEST(Session, CountersAddUp) {
  for_all_shapes(8, [](const Shape& shape) {
    Driver d(shape);
    const auto& c = d.session.counters();
    recoverssm::Counters callers;
    if (support::counting()) d.context.counters = &callers;
    const RequestId a = started(d, 1, 5), b = started(d, 2, 3);
    d.run({window(a, 4, 2), decode(b), padding(3)});
    d.run({window(b, 3, 3), prefill(a, 4), padding(0)});
    Step dropped = d.open({window(a, 2, 1)});
    d.abandon(dropped);
    Step freed = d.open({window(a, 4, 4), window(b, 2, 2)});
    d.forward(freed);
    d.finish(a);
    d.commit(freed, std::vector<Accepted>{{b, 2}});
    EXPECT_EQ(c.steps_opened, 6);
    EXPECT_EQ(c.steps_committed, 5);
    EXPECT_EQ(c.steps_abandoned, 1);
    EXPECT_EQ(c.prefill_rows, 3);
    EXPECT_EQ(c.prefill_tokens, 5 + 3 + 4);
    EXPECT_EQ(c.decode_rows, 1);
    EXPECT_EQ(c.decode_tokens, 1);
    EXPECT_EQ(c.window_rows, 3);
    EXPECT_EQ(c.verified_tokens, 4 + 3 + 2);
    EXPECT_EQ(c.kept_tokens, 2 + 3 + 2);
    EXPECT_EQ(c.dead_rows, 0);
    EXPECT_EQ(c.refused_calls, 0);
    EXPECT_EQ(c.per_group_calls, 0);
    if (!shape.lazy) {
      EXPECT_EQ(c.grouped_calls, 3);  // the commits with windows
    }
    // The context's own counters get the same traffic; other calls of the caller do not reach the session's.
    EXPECT_EQ(callers.total(), c.traffic.total());
    EXPECT_EQ(callers.rows, c.traffic.rows);
    EXPECT_EQ(callers.tokens, c.traffic.tokens);
    if (support::counting()) {
      EXPECT_GT(c.traffic.total(), 0);
    }
    EXPECT_THROW((void)d.session.info(99), recoverssm::Error);
    EXPECT_THROW((void)d.session.block_tag(0, 1000), recoverssm::Error);
    EXPECT_EQ(c.refused_calls, 2);
    EXPECT_EQ(c.refused_by_kind[static_cast<std::size_t>(ErrorKind::bad_state)], 1);
    EXPECT_EQ(c.refused_by_kind[static_cast<std::size_t>(ErrorKind::out_of_range)], 1);
    EXPECT_EQ(c.last_refusal, "session.block_tag: block: 1000, expected an index below 24");
    d.context.counters = nullptr;
    d.check_export(b);
  });
}

// Eager: per layer with a convolution two operations a part, else one; a commit plans and commits, in align mode it also advances.
TEST(Session, CountsLibraryCalls) {
  Shape shape;
  Driver d(shape);
  const auto& calls = d.session.counters().library_calls;
  const RequestId a = started(d, 1, 3), b = started(d, 2, 3);
  EXPECT_EQ(calls, 2 * (2 + 2 + 1 + 1));  // no window: nothing to plan
  const std::int64_t before = calls;
  d.run({window(a, 2, 1), decode(b)});  // two parts
  EXPECT_EQ(calls - before, 2 * 6 + 2);
}

}  // namespace
}  // namespace session_tests
