// Every refusal of every call: its kind, a message with call, argument, what was got and what was expected, and a session that is as
// before.
#include <algorithm>
#include <cstring>

#include "session/driver.h"
#include "session/pools.h"

namespace session_tests {
namespace {

using recoverssm::StepRow;
using support::Tensor;

// A session with a request in every phase, a step that is open, one that was closed, and handles that name nothing.
struct Scene {
  explicit Scene(const Shape& shape) : d(shape) {
    live = started(d, 1, 5), second = started(d, 2, 3), dead = started(d, 3, 3), finished = started(d, 4, 2),
    busy = started(d, 5, 2);
    d.run({window(live, 3, 2), window(second, 2, 2)});
    empty = d.admit(6);
    Step lost = d.open({decode(dead)});
    d.forward(lost);
    d.abandon(lost);
    closed = lost.id;
    saved = d.check_export(second);
    prefix = d.hold(second, d.tokens(second));
    released = d.hold(second, d.tokens(second));
    d.session.release(released);
    d.finish(finished);
    open = d.open({window(busy, 3, 2), padding(1)});
    none = open.id + 1000;
    requests = {live, second, dead, busy, empty};
  }

  // Refused, counted as refused, and nothing has changed.
  void refuse(ErrorKind kind, const std::string& begin, const std::vector<std::string>& parts, const std::function<void()>& call) {
    const auto& counters = d.session.counters();
    const std::int64_t refused = counters.refused_calls, of_kind = counters.refused_by_kind[static_cast<std::size_t>(kind)];
    const Unchanged unchanged(d.session, requests);
    EXPECT_TRUE(refuses(kind, begin, parts, call));
    EXPECT_TRUE(unchanged.check()) << begin;
    EXPECT_EQ(counters.refused_calls, refused + 1) << begin;
    EXPECT_EQ(counters.refused_by_kind[static_cast<std::size_t>(kind)], of_kind + 1) << begin;
    EXPECT_TRUE(counters.last_refusal.starts_with(begin)) << counters.last_refusal;
  }

  // What a call that needs a request refuses.
  void refuse_requests(const std::string& call, const std::function<void(RequestId)>& use, bool idle, bool with_state) {
    const std::string begin = "session." + call + ": request: ";
    for (const RequestId id : {finished, none, RequestId{0}, static_cast<RequestId>(open.id), static_cast<RequestId>(prefix)}) {
      refuse(ErrorKind::bad_state, begin + std::to_string(id), {"which is none", "an admitted request"}, [&] { use(id); });
    }
    if (idle) {
      refuse(ErrorKind::bad_state, begin + std::to_string(busy),
             {"has a row in open step " + std::to_string(open.id), "without an open step"}, [&] { use(busy); });
    }
    if (!with_state) return;
    refuse(ErrorKind::bad_state, begin + std::to_string(empty), {"has no state", "prefilled or restored"}, [&] { use(empty); });
    refuse(ErrorKind::bad_state, begin + std::to_string(dead), {"has lost its state", "preempted or restored"}, [&] { use(dead); });
  }

  Driver d;
  RequestId live = 0, second = 0, dead = 0, finished = 0, busy = 0, empty = 0, none = 0;
  PrefixId prefix = 0, released = 0;
  StepId closed = 0;
  Step open;
  Bytes saved;
  std::vector<RequestId> requests;
};

template <class Body>
void in_every_scene(Body body) {
  for_all_shapes(8, [&](const Shape& shape) {
    Scene scene(shape);
    body(scene);
    // The session is as alive as before.
    Driver& d = scene.d;
    d.forward(scene.open);
    d.commit(scene.open);
    d.run({window(scene.live, 3, 1), decode(scene.second), prefill(scene.empty, 4)});
    for (const RequestId r : {scene.live, scene.second, scene.busy, scene.empty}) d.check_export(r);
  });
}

TEST(Session, RefusesRequestsThatAreNoneOrNotReady) {
  in_every_scene([](Scene& s) {
    auto& session = s.d.session;
    auto& context = s.d.context;
    s.refuse_requests(
        "finish", [&](RequestId r) { session.finish(r); }, false, false);
    s.refuse_requests(
        "preempt", [&](RequestId r) { session.preempt(r); }, false, false);
    s.refuse_requests(
        "info", [&](RequestId r) { (void)session.info(r); }, false, false);
    s.refuse_requests(
        "exportable", [&](RequestId r) { (void)session.exportable(r); }, false, false);
    s.refuse_requests(
        "finish_and_hold", [&](RequestId r) { session.finish_and_hold(r, context); }, true, true);
    s.refuse_requests(
        "fork", [&](RequestId r) { session.fork(r, context); }, true, true);
    s.refuse_requests(
        "hold", [&](RequestId r) { session.hold(r, 5, context); }, true, true);
    s.refuse_requests(
        "export_checkpoint", [&](RequestId r) { (void)session.export_checkpoint(r, 5, 0, context); }, true, true);
    s.refuse_requests(
        "restore", [&](RequestId r) { session.restore(r, s.saved, 5, 9); }, true, false);
    s.refuse_requests(
        "materialize",
        [&](RequestId r) {
          const std::vector<RequestId> both{s.live, r};  // nobody is folded when one is refused
          session.materialize(both, context);
        },
        true, true);
    s.refuse(ErrorKind::bad_state,
             "session.restore: request: ", {std::to_string(s.live), "has a state", "an empty or dead request"},
             [&] { session.restore(s.live, s.saved, 5, 9); });
  });
}

TEST(Session, RefusesRows) {
  in_every_scene([](Scene& s) {
    auto& session = s.d.session;
    // Behind a good row: the whole step is refused. fits() refuses what open_step refuses.
    const auto refuse_row = [&](const StepRow& row, ErrorKind kind, const std::string& begin,
                                const std::vector<std::string>& parts) {
      const std::vector<StepRow> rows{{s.live, RowKind::window, 2, -1}, row};
      s.refuse(kind, "session.open_step: " + begin, parts, [&] { session.open_step(rows, s.d.context); });
      s.refuse(kind, "session.open_step: " + begin, parts, [&] { (void)session.fits(rows); });
    };
    const RequestId r = s.second;
    refuse_row({r, static_cast<RowKind>(3), 1, -1}, ErrorKind::invalid_argument, "rows[1].kind: value 3",
               {"prefill, decode or window"});
    for (const RowKind kind : {RowKind::prefill, RowKind::window}) {
      refuse_row({r, kind, -1, -1}, ErrorKind::out_of_range, "rows[1].tokens: -1", {"at least 0"});
      refuse_row({r, kind, INT32_MIN, -1}, ErrorKind::out_of_range, "rows[1].tokens: -2147483648", {"at least 0"});
      refuse_row({0, kind, -1, -1}, ErrorKind::out_of_range, "rows[1].tokens: -1", {"at least 0"});  // padding too
    }
    for (const std::int32_t tokens : {0, 2, 5}) {
      refuse_row({r, RowKind::decode, tokens, -1}, ErrorKind::out_of_range, "rows[1].tokens: " + std::to_string(tokens),
                 {"1 for a decode row"});
    }
    refuse_row({r, RowKind::window, 5, -1}, ErrorKind::out_of_range, "rows[1].tokens: 5", {"at most window_capacity = 4"});
    refuse_row({0, RowKind::window, 5, -1}, ErrorKind::out_of_range, "rows[1].tokens: 5", {"at most window_capacity = 4"});
    refuse_row({s.live, RowKind::prefill, 1, -1}, ErrorKind::bad_state, "rows: two rows of request " + std::to_string(s.live),
               {"at most one row a request"});
    refuse_row({0, RowKind::prefill, INT32_MAX, -1}, ErrorKind::out_of_range, "rows: 2147483649 tokens", {"fewer than 2^31"});
    for (const std::int64_t computed : {0, 4, 6, 5000}) {
      refuse_row({r, RowKind::decode, 1, computed}, ErrorKind::bad_state, "rows[1].num_computed: " + std::to_string(computed),
                 {"5, the tokens of request " + std::to_string(r)});
    }
    for (const std::int64_t computed : {std::int64_t{-2}, std::int64_t{-1000}, INT64_MIN}) {
      refuse_row({s.live, RowKind::decode, 1, computed}, ErrorKind::out_of_range,
                 "rows[1].num_computed: " + std::to_string(computed), {"at least 0, or -1"});
    }
    refuse_row({s.empty, RowKind::prefill, 1, 3}, ErrorKind::bad_state, "rows[1].num_computed: 3", {"0, the tokens of request"});
    for (const RowKind kind : {RowKind::prefill, RowKind::decode, RowKind::window}) {
      for (const RequestId id : {s.finished, s.none}) {
        refuse_row({id, kind, 1, -1}, ErrorKind::bad_state, "request: " + std::to_string(id), {"which is none"});
      }
      refuse_row({s.dead, kind, 1, -1}, ErrorKind::bad_state, "request: " + std::to_string(s.dead), {"has lost its state"});
      refuse_row({s.busy, kind, 1, -1}, ErrorKind::bad_state, "request: " + std::to_string(s.busy), {"open step"});
      if (kind == RowKind::prefill) continue;
      refuse_row({s.empty, kind, 1, -1}, ErrorKind::bad_state, "request: " + std::to_string(s.empty), {"has no state"});
    }
  });
}

TEST(Session, RefusesForwards) {
  in_every_scene([](Scene& s) {
    auto& session = s.d.session;
    auto& context = s.d.context;
    const std::vector<Key>& keys = s.open.keys;
    const LayerIo io = s.d.model.io(0, keys), conv = s.d.model.io(3, keys);
    for (const StepId id : {s.closed, s.none, StepId{0}}) {
      s.refuse(ErrorKind::bad_state, "session.forward: step: " + std::to_string(id), {"not open", "an open step"},
               [&] { session.forward(id, 0, io.delta(), context); });
      s.refuse(ErrorKind::bad_state, "session.forward: step: " + std::to_string(id), {"not open"},
               [&] { session.forward(id, 3, conv.conv(), context); });
    }
    for (const std::int32_t layer : {-1, 4, 1000}) {
      s.refuse(ErrorKind::out_of_range, "session.forward: layer: " + std::to_string(layer), {"an index below 4"},
               [&] { session.forward(s.open.id, layer, io.delta(), context); });
    }
    s.refuse(ErrorKind::invalid_argument, "session.forward: inputs: those of a delta rule", {"layer 3, a short_conv"},
             [&] { session.forward(s.open.id, 3, io.delta(), context); });
    s.refuse(ErrorKind::invalid_argument, "session.forward: inputs: those of a short_conv", {"layer 0, a delta rule"},
             [&] { session.forward(s.open.id, 0, conv.conv(), context); });
    const auto refuse_delta = [&](ErrorKind kind, const std::string& begin, const std::vector<std::string>& parts, auto change) {
      recoverssm::DeltaInputs in = io.delta();
      change(in);
      s.refuse(kind, begin, parts, [&] { session.forward(s.open.id, 0, in, context); });
    };
    // Four tokens in the step.
    refuse_delta(ErrorKind::out_of_range, "session.forward: x: 3 tokens", {"at least 4"}, [](auto& in) { in.x.shape[0] = 3; });
    refuse_delta(ErrorKind::out_of_range, "session.forward: a: 3 tokens", {"at least 4"}, [](auto& in) { in.a.shape[0] = 3; });
    refuse_delta(ErrorKind::out_of_range, "session.forward: b: 0 tokens", {"at least 4"}, [](auto& in) { in.b.shape[0] = 0; });
    refuse_delta(ErrorKind::out_of_range, "session.forward: out: 1 tokens", {"at least 4"}, [](auto& in) { in.out.shape[0] = 1; });
    refuse_delta(ErrorKind::invalid_argument, "session.forward: x: ", {}, [](auto& in) { in.x = {}; });
    refuse_delta(ErrorKind::invalid_argument, "session.forward: x: ", {"23"}, [](auto& in) { in.x.shape[1] = 23; });
    refuse_delta(ErrorKind::invalid_argument, "session.forward: x: ", {"bf16", "f32"}, [](auto& in) { in.x.dtype = DType::bf16; });
    refuse_delta(ErrorKind::invalid_argument, "session.forward: x: ", {"null"}, [](auto& in) { in.x.data = nullptr; });
    refuse_delta(ErrorKind::invalid_argument, "session.forward: x: ", {"2"}, [](auto& in) { in.x.stride[1] = 2; });
    refuse_delta(ErrorKind::invalid_argument, "gated_delta_rule_verify: a: ", {}, [](auto& in) { in.a = {}; });
    refuse_delta(ErrorKind::invalid_argument, "gated_delta_rule_verify: b: ", {}, [](auto& in) { in.b.shape[1] = 3; });
    refuse_delta(ErrorKind::invalid_argument, "gated_delta_rule_verify: out: ", {}, [](auto& in) { in.out.dtype = DType::f16; });
    refuse_delta(ErrorKind::invalid_argument, "gated_delta_rule_verify: out: ", {}, [](auto& in) { in.out = {}; });
    const auto refuse_conv = [&](ErrorKind kind, const std::string& begin, const std::vector<std::string>& parts, auto change) {
      recoverssm::ShortConvInputs in = conv.conv();
      change(in);
      s.refuse(kind, begin, parts, [&] { session.forward(s.open.id, 3, in, context); });
    };
    refuse_conv(ErrorKind::out_of_range, "session.forward: x: 2 tokens", {"at least 4"}, [](auto& in) { in.x.shape[0] = 2; });
    refuse_conv(ErrorKind::out_of_range, "session.forward: residual: 3 tokens", {"at least 4"},
                [](auto& in) { in.residual.shape[0] = 3; });
    refuse_conv(ErrorKind::out_of_range, "session.forward: outer_residual: 3 tokens", {"at least 4"},
                [](auto& in) { in.outer_residual.shape[0] = 3; });
    refuse_conv(ErrorKind::invalid_argument, "short_conv: x: ", {}, [](auto& in) { in.x = {}; });
    refuse_conv(ErrorKind::invalid_argument, "short_conv: residual: ", {}, [](auto& in) { in.residual.shape[1] = 4; });
    // A layer runs once.
    Step again = s.open;
    s.d.forward(again, 0);
    s.refuse(ErrorKind::bad_state, "session.forward: layer: 0 has run in this step", {"each layer once a step"},
             [&] { session.forward(s.open.id, 0, io.delta(), context); });
    for (std::int32_t l = 1; l < 4; ++l) s.d.forward(again, l);
    s.d.commit(again);
    s.open = s.d.open({window(s.busy, 2, 1)});
  });
}

TEST(Session, RefusesCommits) {
  in_every_scene([](Scene& s) {
    auto& session = s.d.session;
    auto& context = s.d.context;
    const auto refuse = [&](StepId step, const std::vector<Accepted>& accepted, ErrorKind kind, const std::string& begin,
                            const std::vector<std::string>& parts) {
      s.refuse(kind, "session.commit: " + begin, parts, [&] { session.commit(step, accepted, context); });
    };
    for (const StepId id : {s.closed, s.none, StepId{0}, static_cast<StepId>(s.live)}) {
      refuse(id, {{s.busy, 1}}, ErrorKind::bad_state, "step: " + std::to_string(id),
             {"not open", "neither committed nor abandoned"});
      s.refuse(ErrorKind::bad_state, "session.abandon: step: " + std::to_string(id), {"not open"}, [&] { session.abandon(id); });
    }
    refuse(s.open.id, {{s.busy, 1}}, ErrorKind::bad_state, "step: 4 layers have not run", {"all layers to have run"});
    s.d.forward(s.open);
    refuse(s.open.id, {}, ErrorKind::invalid_argument, "accepted: no count of request " + std::to_string(s.busy),
           {"a count for every window with tokens"});
    refuse(s.open.id, {{s.busy, 1}, {s.busy, 1}}, ErrorKind::invalid_argument,
           "accepted[1].request: a second count of request " + std::to_string(s.busy), {"one count a request"});
    for (const RequestId other : {s.live, s.finished, s.none, RequestId{0}}) {
      refuse(s.open.id, {{s.busy, 1}, {other, 1}}, ErrorKind::bad_state, "accepted[1].request: " + std::to_string(other),
             {"no row in this step", "a request of the step"});
    }
    s.d.commit(s.open);
    refuse(s.open.id, {{s.busy, 1}}, ErrorKind::bad_state, "step: " + std::to_string(s.open.id), {"not open"});
    s.open = s.d.open({window(s.busy, 2, 1)});
  });
}

TEST(Session, RefusesPrefixesCheckpointsAndIndices) {
  in_every_scene([](Scene& s) {
    auto& session = s.d.session;
    auto& context = s.d.context;
    for (const PrefixId id : {s.released, static_cast<PrefixId>(s.none), PrefixId{0}, static_cast<PrefixId>(s.live)}) {
      const std::string which = std::to_string(id) + ", which is none";
      s.refuse(ErrorKind::bad_state, "session.admit: prefix: " + which, {"a held prefix"}, [&] { session.admit(id, context); });
      s.refuse(ErrorKind::bad_state, "session.release: prefix: " + which, {"a held prefix"}, [&] { session.release(id); });
      s.refuse(ErrorKind::bad_state, "session.tokens: prefix: " + which, {"a held prefix"}, [&] { (void)session.tokens(id); });
    }
    for (const std::int64_t tokens : {INT64_MIN, std::int64_t{-8}, std::int64_t{-1}, std::int64_t{0}, std::int64_t{3},
                                      std::int64_t{6}, std::int64_t{8}, INT64_MAX}) {
      s.refuse(ErrorKind::bad_state, "session.hold: tokens: " + std::to_string(tokens), {"one of exportable()"},
               [&] { session.hold(s.second, tokens, context); });
      s.refuse(ErrorKind::bad_state, "session.export_checkpoint: tokens: " + std::to_string(tokens), {"one of exportable()"},
               [&] { (void)session.export_checkpoint(s.second, tokens, 0, context); });
    }
    s.refuse(ErrorKind::invalid_argument, "session.restore: checkpoint.tokens: 5", {"4"},
             [&] { session.restore(s.empty, s.saved, 4, 9); });
    s.refuse(ErrorKind::invalid_argument, "session.restore: checkpoint.tag: 9", {"8"},
             [&] { session.restore(s.dead, s.saved, 5, 8); });
    s.refuse(ErrorKind::invalid_argument, "checkpoint: bytes: 0 bytes", {"at least 64"},
             [&] { session.restore(s.empty, {}, 5, 9); });
    s.refuse(ErrorKind::invalid_argument, "checkpoint: checksum: ", {}, [&] {
      Bytes damaged = s.saved;
      damaged[100] ^= std::byte{1};
      session.restore(s.empty, damaged, 5, 9);
    });
    s.refuse(ErrorKind::unsupported, "checkpoint: version: 2", {"1"}, [&] {
      Bytes other = s.saved;
      other[8] = std::byte{2};
      session.restore(s.empty, other, 5, 9);
    });
    for (const std::int32_t group : {-1, 2, 7}) {
      s.refuse(ErrorKind::out_of_range, "session.free_blocks: group: " + std::to_string(group), {"an index below "},
               [&] { (void)session.free_blocks(group); });
      s.refuse(ErrorKind::out_of_range, "session.block_tag: group: " + std::to_string(group), {"an index below "},
               [&] { (void)session.block_tag(group, 1); });
    }
    for (const std::int32_t block : {-1, 24}) {
      s.refuse(ErrorKind::out_of_range, "session.block_tag: block: " + std::to_string(block), {"an index below 24"},
               [&] { (void)session.block_tag(0, block); });
    }
    for (const std::int32_t layer : {-1, 4}) {
      s.refuse(ErrorKind::out_of_range, "session.pool: layer: " + std::to_string(layer), {"an index below 4"},
               [&] { (void)session.pool(layer); });
    }
  });
}

// A checkpoint of other layers, whatever differs, is refused by name.
TEST(Session, RefusesCheckpointsOfOtherLayers) {
  Driver d(Shape{});
  const RequestId r = started(d, 1, 5);
  const Bytes saved = d.check_export(r);
  struct Case {
    const char* begin;
    std::function<void(recoverssm::SessionConfig&)> change;
  };
  const Shape with_bf16{.T = DType::bf16};
  const Model bf16(with_bf16);
  const std::vector<Case> cases{
      {"session.restore: checkpoint.layers: 4, expected 3", [](auto& c) { c.layers.pop_back(); }},
      {"session.restore: checkpoint.layers[0].kind: 0, expected 1",
       [](auto& c) {
         c.layers[0] = c.layers[1];
         c.layers[0].group = 0;
       }},
      {"session.restore: checkpoint.layers[0].state: ", [](auto& c) { c.layers[0].state = DType::bf16; }},
      {"session.restore: checkpoint.layers[0].history: 3, expected 2", [](auto& c) { c.layers[0].W = 3; }},
      {"session.restore: checkpoint.layers[0].channels: 24, expected 28", [](auto& c) { c.layers[0].V = 6; }},
      {"session.restore: checkpoint.layers[0].HV: 2, expected 4", [](auto& c) { c.layers[0].HV = 4, c.layers[0].V = 2; }},
      {"session.restore: checkpoint.layers[2].V: 3, expected 5", [](auto& c) { c.layers[2].K = 4, c.layers[2].V = 5; }},
      {"session.restore: checkpoint.layers[0].K: 8, expected 4", [](auto& c) { c.layers[0].H = 2, c.layers[0].K = 4; }},
      {"session.restore: checkpoint.layers[3].history: 4, expected 6", [](auto& c) { c.layers[3].dilation = 3; }},
  };
  for (const Case& one : cases) {
    recoverssm::SessionConfig config = d.model.config();
    one.change(config);
    recoverssm::Session session(config);
    const RequestId empty = session.admit();
    const Unchanged unchanged(session, {empty});
    EXPECT_TRUE(refuses(ErrorKind::invalid_argument, one.begin, {}, [&] { session.restore(empty, saved, 5, 9); }));
    EXPECT_TRUE(unchanged.check());
  }
  recoverssm::Session session(bf16.config());
  const RequestId empty = session.admit();
  EXPECT_TRUE(refuses(ErrorKind::invalid_argument, "session.restore: checkpoint.layers[0].activation: ", {},
                      [&] { session.restore(empty, saved, 5, 9); }));
}

// No blocks for a copy: refused, the source is as usable as before.
TEST(Session, RefusesCopiesWithoutBlocks) {
  for_all_shapes(4, [](Shape shape) {
    shape.blocks = shape.align() ? 4 : 2;  // one request's
    Driver d(shape);
    const RequestId r = started(d, 1, 3);
    d.run({window(r, 4, 2)});
    const Bytes saved = d.check_export(r);
    const RequestId next = d.admit(2);
    std::vector<PrefixId> held;
    while (d.session.free_blocks(0) > 0) held.push_back(d.hold(r, 5));
    const auto refuse = [&](const char* begin, const std::function<void()>& call) {
      const Unchanged unchanged(d.session, {r, next});
      EXPECT_TRUE(refuses(ErrorKind::bad_state, begin, {"no free block", "one "}, call));
      EXPECT_TRUE(unchanged.check());
    };
    refuse("session.fork: groups[0]: ", [&] { d.session.fork(r, d.context); });
    refuse("session.hold: groups[0]: ", [&] { d.session.hold(r, 5, d.context); });
    refuse("session.restore: groups[0]: ", [&] { d.session.restore(next, saved, 5, 9); });
    if (!held.empty()) refuse("session.admit: groups[0]: ", [&] { d.session.admit(held[0], d.context); });
    const PrefixId last = d.finish_and_hold(r);  // takes no block
    EXPECT_EQ(d.session.tokens(last), 5);
  });
}

// A forward that cannot be launched has not run: the step can be run again, or abandoned without loss.
TEST(Session, AForwardThatNeverBeganIsNoForward) {
  RECOVERSSM_CPU_ONLY("it fails for want of an instruction set");
  for_all_shapes(8, [](const Shape& shape) {
    Driver d(shape);
    const RequestId a = started(d, 1, 3), b = started(d, 2, 4);
    Step step = d.open({prefill(a, 2), window(b, 3, 2)});
    d.context.target = static_cast<recoverssm::Target>(99);
    for (std::int32_t l = 0; l < d.model.layers(); ++l) EXPECT_THROW(d.forward(step, l), recoverssm::Error);
    d.context.target = recoverssm::Target::best;
    Step twin = step;
    d.abandon(step);
    EXPECT_EQ(d.session.info(a).phase, Phase::live);
    EXPECT_EQ(d.session.info(b).phase, Phase::live);
    d.run(twin.rows);
    d.check_export(a), d.check_export(b);
  });
}

// A forward that fails between its operations (here because the caller has overwritten a pending count in its own pool) can't be repeated:
// the line has moved on. Its step can only be abandoned.
TEST(Session, AForwardThatFailedHalfWayCannotBeRepeated) {
  RECOVERSSM_CPU_ONLY("it fails for a pending count, which a device's host does not see");
  Shape shape{.lazy = true};
  Pages pages(Model(shape).config());
  Driver d(shape, pages.pools);
  const RequestId a = started(d, 1, 3);
  Step step = d.open({decode(a)});
  const recoverssm::LayerPool& pool = d.session.pool(0);
  const std::int32_t wrong = 99, right = 0;
  std::byte* const pending = support::element(pool.pending, {d.session.info(a).blocks[0]});
  std::memcpy(pending, &wrong, sizeof wrong);
  EXPECT_TRUE(refuses(ErrorKind::out_of_range, "gated_delta_rule: pending: ", {"99"}, [&] { d.forward(step, 0); }));
  std::memcpy(pending, &right, sizeof right);
  EXPECT_TRUE(refuses(ErrorKind::bad_state, "session.forward: layer: 0", {"each layer once"}, [&] { d.forward(step, 0); }));
  for (std::int32_t l = 1; l < d.model.layers(); ++l) d.forward(step, l);
  EXPECT_TRUE(refuses(ErrorKind::bad_state, "session.commit: step: 1 layers have not run", {}, [&] { d.commit(step); }));
  d.abandon(step);
  EXPECT_EQ(d.session.info(a).phase, Phase::dead);
}

}  // namespace
}  // namespace session_tests
