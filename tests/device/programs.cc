#include "device/programs.h"

namespace device_test {

using namespace recoverssm;

namespace {

TensorView head(TensorView view, std::int64_t n) {
  view.shape[0] = n;
  return view;
}

// Of the windows that the side names.
TensorView rows_of(const Side& side, const Piece& piece) { return head(side(piece), side.rows); }

Rows window_rows(const Scene& scene, const Side& side, bool counts) {
  Rows rows{.query_start_loc = head(side(scene.windows.offsets), side.rows + 1), .state_indices = rows_of(side, scene.windows.ids)};
  if (counts) rows.num_accepted = rows_of(side, scene.windows.previous);
  rows.window_capacity = scene.shape.S;
  return rows;
}

Rows plain_rows(const Scene& scene, const Side& side, bool counts) {
  Rows rows{.query_start_loc = side(scene.plain.offsets),
            .state_indices = side(scene.plain.ids),
            .has_initial_state = side(scene.plain.initial)};
  if (counts) rows.num_accepted = side(scene.plain.previous);
  return rows;
}

Records records_of(const LayerPieces& p, const Side& side) { return {side(p.packed), side(p.corrections), side(p.key_gate)}; }

// q, k and v where the convolution left them.
RuleInputs inputs_of(const LayerShape& l, const LayerPieces& p, const Side& side) {
  const TensorView qkv = side(p.conv_out.present() ? p.conv_out : p.x);
  const std::int64_t n = qkv.shape[0], C = l.C(), size = size_of(l.T);
  auto* const base = static_cast<std::byte*>(qkv.data);
  RuleInputs in;
  in.gate = l.kind == LayerKind::kda ? Gate::kda : Gate::gdn;
  in.q = {base, l.T, {n, l.H, l.K}, {C, l.K, 1}};
  in.k = {base + l.H * l.K * size, l.T, {n, l.H, l.K}, {C, l.K, 1}};
  in.v = {base + 2 * l.H * l.K * size, l.T, {n, l.HV, l.V}, {C, l.V, 1}};
  in.a = side(p.a);
  in.b = side(p.b);
  in.A_log = side(p.A_log);
  in.dt_bias = side(p.dt_bias);
  return in;
}

template <class Params>
void fill_conv(Params& c, const Scene& scene, const Side& side, const LayerPieces& p) {
  c.x = side(p.x);
  c.weight = side(p.weight);
  c.bias = side(p.bias);
  c.activation = Activation::silu;
  c.out = side(p.conv_out.present() ? p.conv_out : p.x);
  c.line = side(p.line);
  c.line_kind = scene.shape.line_kind;
}

Layer layer_of(const Scene& scene, const Side& side, std::size_t number) {
  const LayerShape& l = scene.shape.layers[number];
  const LayerPieces& p = scene.layers[number];
  Layer layer;
  layer.line = side(p.line);
  layer.line_kind = scene.shape.line_kind;
  layer.conv_taps = l.history() + 1;
  if (!l.has_state()) return layer;
  layer.state = side(p.state);
  layer.records = records_of(p, side);
  layer.pending = side(p.pending);
  if (l.kind == LayerKind::kda) {
    layer.gate = Gate::kda;
    layer.A_log = side(p.A_log);
    layer.dt_bias = side(p.dt_bias);
  }
  return layer;
}

std::vector<Layer> layers_of(const Scene& scene, const Side& side, bool with_pending_only) {
  std::vector<Layer> layers;
  for (std::size_t l = 0; l < scene.layers.size(); ++l) {
    if (!with_pending_only || scene.layers[l].pending.present()) layers.push_back(layer_of(scene, side, l));
  }
  return layers;
}

}  // namespace

SplitProjectionsParams split(const Scene& scene, const Side& side, std::size_t layer) {
  const LayerShape& l = scene.shape.layers[layer];
  const LayerPieces& p = scene.layers[layer];
  SplitProjectionsParams s;
  s.qkvz = side(p.qkvz);
  s.ba = side(p.ba);
  s.num_k_heads = l.H;
  s.num_v_heads = l.HV;
  s.head_k_dim = l.K;
  s.head_v_dim = l.V;
  s.mixed_qkv = side(p.mixed);
  s.z = side(p.z);
  s.b = side(p.b);
  s.a = side(p.a);
  return s;
}

CausalConv1dWindowParams conv_window(const Scene& scene, const Side& side, std::size_t layer) {
  CausalConv1dWindowParams c;
  fill_conv(c, scene, side, scene.layers[layer]);
  c.rows = window_rows(scene, side, scene.shape.lazy || scene.shape.line_kind == LineKind::rolled);
  return c;
}

CausalConv1dParams conv_plain(const Scene& scene, const Side& side, std::size_t layer) {
  CausalConv1dParams c;
  fill_conv(c, scene, side, scene.layers[layer]);
  c.rows = plain_rows(scene, side, true);
  return c;
}

GatedDeltaRuleParams rule(const Scene& scene, const Side& side, std::size_t layer) {
  const LayerPieces& p = scene.layers[layer];
  GatedDeltaRuleParams r;
  r.inputs = inputs_of(scene.shape.layers[layer], p, side);
  r.state = side(p.state);
  r.out = side(p.out);
  r.rows = plain_rows(scene, side, scene.shape.lazy);
  if (scene.shape.lazy) {
    r.pending = side(p.pending);
    r.records = records_of(p, side);
  }
  return r;
}

GatedDeltaRuleSnapshotsParams snapshots(const Scene& scene, const Side& side, std::size_t layer) {
  const LayerPieces& p = scene.layers[layer];
  GatedDeltaRuleSnapshotsParams s;
  s.inputs = inputs_of(scene.shape.layers[layer], p, side);
  s.state = side(p.state);
  s.out = side(p.out);
  s.rows = window_rows(scene, side, false);
  s.rows.state_indices = rows_of(side, scene.windows.snapshot_ids);
  s.rows.num_accepted = rows_of(side, scene.windows.start_counts);
  return s;
}

GatedDeltaRuleVerifyParams verify(const Scene& scene, const Side& side, std::size_t layer) {
  const LayerPieces& p = scene.layers[layer];
  GatedDeltaRuleVerifyParams v;
  v.inputs = inputs_of(scene.shape.layers[layer], p, side);
  v.state = side(p.state);
  v.out = side(p.out);
  v.records = records_of(p, side);
  v.rows = window_rows(scene, side, scene.shape.lazy);
  v.pending = side(p.pending);
  return v;
}

ShortConvParams short_conv(const Scene& scene, const Side& side, std::size_t layer, bool windows) {
  const LayerPieces& p = scene.layers[layer];
  ShortConvParams s;
  s.x = side(p.x);
  s.weight = side(p.weight);
  s.dilation = scene.shape.layers[layer].dilation;
  s.residual = side(p.residual);
  s.outer_residual = side(p.outer);
  s.line = side(p.line);
  s.line_kind = windows ? scene.shape.line_kind : LineKind::plain;
  s.rows = windows ? window_rows(scene, side, true) : plain_rows(scene, side, false);
  s.rows.token_index = side(windows ? scene.windows.token_index : scene.plain.token_index);
  return s;
}

CommitPlanParams plan(const Scene& scene, const Side& side) {
  const WindowPieces& w = scene.windows;
  CommitPlanParams p;
  p.num_accepted = side(w.accepted);
  p.query_start_loc = head(side(w.offsets), side.rows + 1);
  p.state_indices = rows_of(side, w.ids);
  p.window_capacity = scene.shape.S;
  p.request_index = rows_of(side, w.request_index);
  if (scene.shape.block_size > 0) {
    p.block_table = side(w.table);
    p.num_computed = side(w.num_computed);
    p.block_size = scene.shape.block_size;
  }
  p.out = {rows_of(side, w.commit_len), rows_of(side, w.final_ids), rows_of(side, w.boundary_ids), rows_of(side, w.boundary_len)};
  return p;
}

AlignAdvanceParams advance(const Scene& scene, const Side& side) {
  const WindowPieces& w = scene.windows;
  AlignAdvanceParams a;
  a.commit_len = rows_of(side, w.commit_len);
  a.state_indices = rows_of(side, w.ids);
  a.request_index = rows_of(side, w.request_index);
  a.num_computed = side(w.num_computed);
  a.block_size = scene.shape.block_size;
  a.running_column = side(w.running);
  a.num_accepted = side(w.counts);
  return a;
}

GdnAttentionParams attention(const Scene& scene, const Side& side, std::size_t layer, const std::string& parts, WindowMode mode) {
  const LayerShape& l = scene.shape.layers[layer];
  const LayerPieces& p = scene.layers[layer];
  GdnAttentionParams g;
  g.qkvz = side(p.qkvz);
  g.ba = side(p.ba);
  g.num_k_heads = l.H;
  g.num_v_heads = l.HV;
  g.head_k_dim = l.K;
  g.head_v_dim = l.V;
  g.weight = side(p.weight);
  g.bias = side(p.bias);
  g.activation = Activation::silu;
  g.A_log = side(p.A_log);
  g.dt_bias = side(p.dt_bias);
  g.line = side(p.line);
  g.line_kind = scene.shape.line_kind;
  g.state = side(p.state);
  g.out = side(p.out);
  g.z = side(p.z);
  const bool direct = parts.find('d') != std::string::npos;
  if (direct || parts.find('p') != std::string::npos) {
    AttentionPlainPart part;
    part.rows = plain_rows(scene, side, true);
    if (!direct) part.rows.token_index = side(scene.plain.token_index);
    if (scene.shape.lazy) {
      part.pending = side(p.pending);
      part.records = records_of(p, side);
    }
    g.plain = part;
  }
  if (parts.find('w') == std::string::npos) return g;
  AttentionWindowPart part;
  part.mode = mode;
  part.rows = window_rows(scene, side, scene.shape.lazy);
  part.rows.token_index = side(scene.windows.token_index);
  if (mode == WindowMode::snapshots) {
    part.rows.state_indices = rows_of(side, scene.windows.snapshot_ids);
    part.rows.num_accepted = rows_of(side, scene.windows.start_counts);
  } else {
    part.records = records_of(p, side);
    part.pending = side(p.pending);
  }
  g.windows = part;
  return g;
}

CommitCall commit(const Scene& scene, const Side& side) {
  const WindowPieces& w = scene.windows;
  return {layers_of(scene, side, false),
          {{rows_of(side, w.ids), rows_of(side, w.commit_len), rows_of(side, w.final_ids), rows_of(side, w.boundary_ids),
            rows_of(side, w.boundary_len)}},
          scene.shape.S};
}

ListCall materialize(const Scene& scene, const Side& side) {
  return {layers_of(scene, side, true), rows_of(side, scene.windows.list), rows_of(side, scene.windows.list_counts)};
}

ListCall align_move(const Scene& scene, const Side& side) {
  return {layers_of(scene, side, false), rows_of(side, scene.windows.move_from), rows_of(side, scene.windows.move_to)};
}

Program eager_step(const Scene& scene) {
  return [&scene](const Side& side, Runner& run) {
    for (std::size_t l = 0; l < scene.layers.size(); ++l) {
      if (!scene.shape.layers[l].has_state()) {
        run(short_conv(scene, side, l, true));
        continue;
      }
      run(conv_window(scene, side, l));
      run(verify(scene, side, l));
    }
    run(plan(scene, side));
    const CommitCall call = commit(scene, side);
    run(call.params());
    if (scene.shape.block_size > 0) run(advance(scene, side));
  };
}

Program lazy_step(const Scene& scene) {
  return [&scene](const Side& side, Runner& run) {
    for (std::size_t l = 0; l < scene.layers.size(); ++l) {
      run(conv_window(scene, side, l));
      run(verify(scene, side, l));
    }
  };
}

Program pending_commit(const Scene& scene) {
  return [&scene, forward = lazy_step(scene)](const Side& side, Runner& run) {
    forward(side, run);
    run(plan(scene, side));
    const CommitCall call = commit(scene, side);
    run(call.params());
  };
}

Program attention_step(const Scene& scene, const std::string& parts, WindowMode mode) {
  return [&scene, parts, mode](const Side& side, Runner& run) { run(attention(scene, side, 0, parts, mode)); };
}

Program plain_step(const Scene& scene) {
  return [&scene](const Side& side, Runner& run) {
    for (std::size_t l = 0; l < scene.layers.size(); ++l) {
      run(conv_plain(scene, side, l));
      run(rule(scene, side, l));
    }
  };
}

// Layer 0 is gdn with state, layer 1 a short convolution.
Program other_operations(const Scene& scene) {
  return [&scene](const Side& side, Runner& run) {
    run(split(scene, side, 0));
    run(conv_plain(scene, side, 0));
    run(rule(scene, side, 0));
    if (scene.shape.lazy) {
      run(conv_window(scene, side, 0));
      run(verify(scene, side, 0));
      const ListCall list = materialize(scene, side);
      run(list.materialize());
      return;
    }
    run(snapshots(scene, side, 0));
    run(short_conv(scene, side, 1, false));
    const ListCall list = align_move(scene, side);
    run(list.move());
  };
}

std::vector<Named> all_programs() {
  const int size = gpu::real() ? 128 : 32;  // of a head: the fake need not be kept busy
  const LayerShape gdn{.K = size, .V = size}, half{.K = size, .V = size, .T = DType::f16, .state = DType::f16, .out = DType::f32},
      kda{.kind = LayerKind::kda,
          .H = 2,
          .HV = 2,
          .K = size / 2,
          .V = size / 2,
          .T = DType::f16,
          .state = DType::bf16,
          .out = DType::f16},
      kda_bf16{.kind = LayerKind::kda, .K = size, .V = size},
      odd{.H = 1, .HV = 3, .K = 100, .V = 6, .W = 3, .T = DType::f32, .state = DType::f32, .out = DType::f32},
      filter{.kind = LayerKind::short_conv, .W = 3, .channels = 520, .dilation = 2};
  const auto anchored = LineKind::anchored;
  const auto gated = [](const std::string& parts, WindowMode mode) {
    return [parts, mode](const Scene& scene) { return attention_step(scene, parts, mode); };
  };
  std::vector<Named> programs = {
      {"conv + verify + plan + commit, gdn, kda and short_conv", {.layers = {gdn, kda, filter}}, eager_step, true},
      {"conv in place + verify + plan + commit, anchored",
       {.layers = {half, odd}, .line_kind = anchored, .in_place = true},
       eager_step,
       true},
      {"lazy conv + verify, rolled", {.layers = {gdn, kda}, .lazy = true}, lazy_step, true},
      {"lazy conv + verify, anchored", {.layers = {half, odd}, .line_kind = anchored, .lazy = true}, lazy_step, true},
      {"lazy conv + verify + plan + commit with pending", {.layers = {gdn, kda}, .lazy = true}, pending_commit, true},
      {"gdn_attention, windows", {.layers = {gdn}}, gated("w", WindowMode::verify), true},
      {"gdn_attention, windows, lazy",
       {.layers = {gdn}, .line_kind = anchored, .lazy = true},
       gated("w", WindowMode::verify),
       true},
      {"gdn_attention, snapshots", {.layers = {half}}, gated("w", WindowMode::snapshots)},
      {"gdn_attention, plain and windows", {.layers = {gdn}}, gated("pw", WindowMode::verify)},
      {"gdn_attention, plain and windows, lazy", {.layers = {odd}, .lazy = true}, gated("pw", WindowMode::verify)},
      {"split, plain conv, rule, snapshots, short_conv, align_move", {.layers = {gdn, filter}}, other_operations},
      {"split, plain conv, rule with pending, lazy verify, materialize", {.layers = {gdn}, .lazy = true}, other_operations},
      // About a token a row, with states of fp32: the rule's warps work alone. Few heads, and many.
      {"plain conv + rule, a token a row, few rows",
       {.layers = {gdn, kda_bf16}, .rows = 3, .plain_rows = 12, .plain_tokens = 6, .S = 1},
       plain_step},
      {"plain conv + rule, a token a row, many rows",
       {.layers = {gdn, kda_bf16}, .rows = 3, .plain_rows = 40, .plain_tokens = 34, .S = 1},
       plain_step},
      {"gdn_attention, a token a row",
       {.layers = {gdn}, .rows = 3, .plain_rows = 12, .plain_tokens = 6, .S = 1},
       gated("d", WindowMode::verify)},
      // Windows so short, and heads so few, that verify's warps work alone.
      {"conv + verify + plan + commit, windows of one token", {.layers = {gdn, kda, odd}, .S = 1}, eager_step, true},
      {"conv + verify + plan + commit, windows of at most three", {.layers = {gdn, half}, .S = 3}, eager_step, true},
      {"gdn_attention, windows of at most two", {.layers = {gdn}, .S = 2}, gated("w", WindowMode::verify), true},
  };
  for (std::size_t i = 0; i < programs.size(); ++i) programs[i].shape.seed = 100 + i;
  return programs;
}

}  // namespace device_test
