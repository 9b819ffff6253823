// B13: windows, decodes and prefills in one step, in any order.
#include <gtest/gtest.h>

#include <numeric>

#include "reports/scene.h"

namespace {

using namespace reports;
using recoverssm::WindowMode;

enum class Kind { window, decode, prefill };

struct Request {
  Kind kind;
  int length;
};

// A gdn layer behind packed projections; tokens of all requests one behind the other in the caller's order, request i in block i + 1.
struct Step {
  RuleShape shape = {.H = 1, .HV = 2, .K = 16, .V = 8};
  int S = 4, C = 0, W = 4, tokens = 0;
  LineKind kind = LineKind::rolled;
  std::vector<Request> requests;
  RuleWeights weights;
  Tensor conv_weight, qkvz, ba, line, out, z;
  RulePool pool;

  int first(int i) const {
    int at = 0;
    for (int r = 0; r < i; ++r) at += requests[static_cast<std::size_t>(r)].length;
    return at;
  }
};

Tensor normal(Pick& pick, DType dtype, const Shape& shape, int contiguous) {
  const Tensor t = strided(pick, dtype, shape, contiguous);
  for_each(t, [&](const Index& i) { t.set_at(pick.normal(), i); });
  return t;
}

Step make_step(Pick& pick, const std::vector<Request>& requests) {
  Step s;
  s.shape.T = pick.one_of({DType::f32, DType::bf16});
  s.shape.out = s.shape.T;
  s.kind = pick.one_of({LineKind::rolled, LineKind::anchored});
  s.requests = requests;
  s.tokens = s.first(static_cast<int>(requests.size()));
  s.C = 2 * s.shape.H * s.shape.K + s.shape.HV * s.shape.V;
  s.weights = random_weights(pick, s.shape);
  const int blocks = static_cast<int>(requests.size()) + 1;
  s.conv_weight = normal(pick, s.shape.T, {s.C, s.W}, 0);
  s.qkvz = normal(pick, s.shape.T, {s.tokens, s.C + s.shape.HV * s.shape.V}, 1);
  s.ba = normal(pick, s.shape.T, {s.tokens, 2 * s.shape.HV}, 1);
  s.line = normal(pick, s.shape.T, {blocks, s.W - 1 + s.S, s.C}, 0);
  s.pool = random_pool(pick, s.shape, blocks, s.S);
  s.out = random_out(pick, s.shape, s.tokens);
  s.z = strided(pick, s.shape.T, {s.tokens, s.shape.HV, s.shape.V}, 1);
  return s;
}

Step another_step(Pick& pick, const Step& s) {
  Step copy = s;
  copy.pool = another_pool(pick, s.pool);
  copy.line = another_layout(pick, s.line, 0);
  copy.out = random_out(pick, s.shape, s.tokens);
  copy.z = another_layout(pick, s.z, 1);
  return copy;
}

// Runs the requests listed, in that order within their part.
void run_step(Pick& pick, const Step& s, const std::vector<int>& which) {
  RowSet plain, windows;
  windows.capacity = s.S;
  for (const int i : which) {
    const Request& request = s.requests[static_cast<std::size_t>(i)];
    RowSet& part = request.kind == Kind::window ? windows : plain;
    part.add(request.length, i + 1);
    for (int t = 0; t < request.length; ++t) part.token_index.push_back(s.first(i) + t);
  }
  const RowTensors plain_index = row_tensors(pick, plain), window_index = row_tensors(pick, windows);
  recoverssm::GdnAttentionParams p;
  p.qkvz = s.qkvz;
  p.ba = s.ba;
  p.layout = recoverssm::Layout::flat;
  p.num_k_heads = s.shape.H;
  p.num_v_heads = s.shape.HV;
  p.head_k_dim = s.shape.K;
  p.head_v_dim = s.shape.V;
  p.weight = s.conv_weight;
  p.A_log = s.weights.A_log;
  p.dt_bias = s.weights.dt_bias;
  p.line = s.line;
  p.line_kind = s.kind;
  p.state = s.pool.state;
  p.out = s.out;
  p.z = s.z;
  if (plain.rows() > 0) p.plain = recoverssm::AttentionPlainPart{rows_of(plain, plain_index), {}, {}};
  if (windows.rows() > 0) {
    p.windows = recoverssm::AttentionWindowPart{WindowMode::verify, rows_of(windows, window_index), {}, s.pool.records()};
  }
  must_run(p, random_how(pick));
}

// Each request of a mixed step equals the same request run alone; outputs stand in the caller's order.
void requests_stand_alone(Pick& pick, const std::vector<Request>& requests) {
  const Step mixed = make_step(pick, requests), start = another_step(pick, mixed);
  std::vector<int> all(requests.size());
  std::iota(all.begin(), all.end(), 0);
  run_step(pick, mixed, all);
  for (const int i : all) {
    const Step alone = another_step(pick, start);
    Untouched untouched(
        {{"out", alone.out}, {"z", alone.z}, {"line", alone.line}, {"state", alone.pool.state}, {"records", alone.pool.packed}});
    const int first = mixed.first(i), end = first + requests[static_cast<std::size_t>(i)].length;
    untouched.except(slice(alone.out, 0, first, end));
    untouched.except(slice(alone.z, 0, first, end));
    for (const Tensor* part : {&alone.line, &alone.pool.state, &alone.pool.packed}) untouched.except(slice(*part, 0, i + 1));
    run_step(pick, alone, {i});
    const std::string who = "request " + std::to_string(i);
    require(untouched.check(), who);
    require(same_bits(slice(mixed.out, 0, first, end), slice(alone.out, 0, first, end)), who + " out");
    require(same_bits(slice(mixed.z, 0, first, end), slice(alone.z, 0, first, end)), who + " z");
    require(same_bits(slice(mixed.line, 0, i + 1), slice(alone.line, 0, i + 1)), who + " line");
    require(same_bits(slice(mixed.pool.state, 0, i + 1), slice(alone.pool.state, 0, i + 1)), who + " state");
    require(same_bits(slice(mixed.pool.packed, 0, i + 1), slice(alone.pool.packed, 0, i + 1)), who + " records");
  }
}

TEST(Reports, B13_mixed_steps_in_any_order) {
  Pick pick(13);
  const Request window{Kind::window, 3}, decode{Kind::decode, 1}, prefill{Kind::prefill, 5};
  requests_stand_alone(pick, {window, decode, prefill});  // qsl = [0,3,4,9]
  requests_stand_alone(pick, {decode, window, prefill});
  requests_stand_alone(pick, {prefill, window, decode});
  property(60, [](Pick& p) {
    std::vector<Request> requests;
    for (int n = p.between(1, 6); n > 0; --n) {
      const Kind kind = p.one_of({Kind::window, Kind::decode, Kind::prefill});
      requests.push_back({kind, kind == Kind::window ? p.between(1, 4) : kind == Kind::decode ? 1 : p.between(1, 20)});
    }
    requests_stand_alone(p, requests);
  });
}

// The same for the single operations, kda included: rows of any length in any order, tokens permuted.
TEST(Reports, B13_rows_of_single_operations_stand_alone) {
  property(40, [](Pick& pick) {
    for (const Op op : kOps) {
      const RowSet rows = random_scene_rows(pick, op, {.min_rows = 1, .max_rows = 5, .max_length = 9});
      const Scene scene = random_scene(pick, op, rows), start = another_scene(pick, scene);
      run_scene(pick, scene, rows);
      for (int i = 0; i < rows.rows(); ++i) {
        if (!rows.live(i)) continue;
        const Scene alone = another_scene(pick, start);
        const RowSet one = only_row(rows, i);
        run_scene(pick, alone, one);
        same_row(scene, rows, i, alone, one, 0, std::string(name_of(op)) + " row " + std::to_string(i));
      }
    }
  });
}

}  // namespace
