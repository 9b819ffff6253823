/* Every operation, called from C through the shared library. What can be said in terms of other calls is: a window against the same
 * tokens one by one, gdn_attention against its parts, to the bit. */
#include "c_support.h"

enum { H = 1, HV = 2, K = 8, V = 4, W = 4, S = 4, C = 2 * H * K + HV * V, BLOCKS = 6, COLS = W - 1 + S - 1, KEPT = 3 };

typedef float State[HV][V][K];

/* One layer's data: a window of S tokens for block 1. */
static float q[S][H][K], k[S][H][K], v[S][HV][V], a[S][HV], b[S][HV], A_log[HV], dt_bias[HV];
static State start[BLOCKS];
/* The same tokens one by one: outputs, and the state after each. */
static float step_out[S][HV][V];
static State step_state[S];

static int32_t window_offsets[2] = {0, S}, token_offsets[2] = {0, 1}, block_one[1] = {1};

static recoverssm_rule_inputs rule_inputs(int first, int tokens) {
  INIT(rule_inputs, inputs);
  inputs.q = F32(q[first], tokens, H, K);
  inputs.k = F32(k[first], tokens, H, K);
  inputs.v = F32(v[first], tokens, HV, V);
  inputs.a = F32(a[first], tokens, HV);
  inputs.b = F32(b[first], tokens, HV);
  inputs.A_log = F32(A_log, HV);
  inputs.dt_bias = F32(dt_bias, HV);
  return inputs;
}

static recoverssm_rows rows_of(int32_t* offsets, int32_t* ids) {
  INIT(rows, rows);
  rows.query_start_loc = I32(offsets, 2);
  rows.state_indices = I32(ids, 1);
  rows.window_capacity = S;
  return rows;
}

static void token_by_token(void) {
  State state[BLOCKS];
  int t;
  FILL(q), FILL(k), FILL(v), FILL(a), FILL(b), FILL(A_log), FILL(dt_bias), FILL(start);
  memcpy(state, start, sizeof state);
  for (t = 0; t < S; ++t) {
    const recoverssm_rule_inputs inputs = rule_inputs(t, 1);
    const recoverssm_rows rows = rows_of(token_offsets, block_one);
    INIT(gated_delta_rule_params, p);
    p.inputs = &inputs;
    p.rows = &rows;
    p.state = F32(state, BLOCKS, HV, V, K);
    p.out = F32(step_out[t], 1, HV, V);
    RUN(gated_delta_rule, p);
    memcpy(step_state[t], state[1], sizeof(State));
  }
  CHECK(memcmp(step_state[0], start[1], sizeof(State)) != 0);
  SAME(state[2], start[2], sizeof(State));
}

/* verify, plan and commit leave what the first KEPT tokens one by one leave. */
static void verify_plan_commit(void) {
  State state[BLOCKS];
  float out[S][HV][V], record[BLOCKS][HV][S][V + K + 1];
  int32_t accepted[1] = {KEPT}, commit_len[1], final[1], boundary[1], boundary_len[1];
  const recoverssm_rule_inputs inputs = rule_inputs(0, S);
  const recoverssm_rows rows = rows_of(window_offsets, block_one);
  INIT(records, records);
  INIT(gated_delta_rule_verify_params, verify);
  INIT(plan_outputs, plan_out);
  INIT(commit_plan_params, plan);
  INIT(commit_group, group);
  INIT(layer, layer);
  INIT(commit_params, commit);
  memcpy(state, start, sizeof state);
  records.packed = F32(record, BLOCKS, HV, S, V + K + 1);
  verify.inputs = &inputs;
  verify.rows = &rows;
  verify.records = &records;
  verify.state = F32(state, BLOCKS, HV, V, K);
  verify.out = F32(out, S, HV, V);
  RUN(gated_delta_rule_verify, verify);
  SAME(out, step_out, sizeof out);
  SAME(state, start, sizeof state);

  plan_out.commit_len = I32(commit_len, 1);
  plan_out.final_indices = I32(final, 1);
  plan_out.boundary_indices = I32(boundary, 1);
  plan_out.boundary_len = I32(boundary_len, 1);
  plan.num_accepted = I32(accepted, 1);
  plan.query_start_loc = I32(window_offsets, 2);
  plan.state_indices = I32(block_one, 1);
  plan.window_capacity = S;
  plan.out = &plan_out;
  RUN(commit_plan, plan);
  CHECK(commit_len[0] == KEPT && final[0] == 1 && boundary[0] == 0);

  group.state_indices = I32(block_one, 1);
  group.commit_len = plan_out.commit_len;
  group.final_indices = plan_out.final_indices;
  group.boundary_indices = plan_out.boundary_indices;
  group.boundary_len = plan_out.boundary_len;
  layer.state = verify.state;
  layer.records = &records;
  commit.groups = &group;
  commit.group_count = 1;
  commit.layers = &layer;
  commit.layer_count = 1;
  commit.window_capacity = S;
  RUN(commit, commit);
  SAME(state[1], step_state[KEPT - 1], sizeof(State));
  SAME(state[2], start[2], sizeof(State));
}

/* Two cache groups with prefix-cache blocks of 4 tokens, 2 of them computed before: the window crosses a boundary after 2 tokens. */
static void plan_groups_and_commit(void) {
  State state[2][BLOCKS];
  float out[S][HV][V], record[2][BLOCKS][HV][S][V + K + 1];
  int32_t accepted[1] = {KEPT}, computed[1] = {2}, source[2][1] = {{1}, {4}}, table[2][1][2] = {{{1, 2}}, {{4, 5}}};
  int32_t planned[2][4][1];
  const recoverssm_rule_inputs inputs = rule_inputs(0, S);
  recoverssm_plan_outputs outputs[2];
  recoverssm_plan_group plan_groups[2];
  recoverssm_commit_group groups[2];
  recoverssm_records records[2];
  recoverssm_layer layers[2];
  INIT(commit_plan_groups_params, plan);
  INIT(commit_params, commit);
  int g;
  for (g = 0; g < 2; ++g) {
    const recoverssm_rows rows = rows_of(window_offsets, source[g]);
    INIT(gated_delta_rule_verify_params, verify);
    memcpy(state[g], start, sizeof state[g]);
    memcpy(state[g][source[g][0]], start[1], sizeof(State));
    recoverssm_records_init(&records[g], sizeof records[g]);
    records[g].packed = F32(record[g], BLOCKS, HV, S, V + K + 1);
    verify.inputs = &inputs;
    verify.rows = &rows;
    verify.records = &records[g];
    verify.state = F32(state[g], BLOCKS, HV, V, K);
    verify.out = F32(out, S, HV, V);
    RUN(gated_delta_rule_verify, verify);

    recoverssm_plan_outputs_init(&outputs[g], sizeof outputs[g]);
    outputs[g].commit_len = I32(planned[g][0], 1);
    outputs[g].final_indices = I32(planned[g][1], 1);
    outputs[g].boundary_indices = I32(planned[g][2], 1);
    outputs[g].boundary_len = I32(planned[g][3], 1);
    recoverssm_plan_group_init(&plan_groups[g], sizeof plan_groups[g]);
    plan_groups[g].state_indices = I32(source[g], 1);
    plan_groups[g].block_table = I32(table[g], 1, 2);
    plan_groups[g].out = &outputs[g];
    recoverssm_commit_group_init(&groups[g], sizeof groups[g]);
    groups[g].state_indices = plan_groups[g].state_indices;
    groups[g].commit_len = outputs[g].commit_len;
    groups[g].final_indices = outputs[g].final_indices;
    groups[g].boundary_indices = outputs[g].boundary_indices;
    groups[g].boundary_len = outputs[g].boundary_len;
    recoverssm_layer_init(&layers[g], sizeof layers[g]);
    layers[g].group = g;
    layers[g].state = verify.state;
    layers[g].records = &records[g];
  }
  plan.num_accepted = I32(accepted, 1);
  plan.query_start_loc = I32(window_offsets, 2);
  plan.num_computed = I32(computed, 1);
  plan.groups = plan_groups;
  plan.group_count = 2;
  plan.window_capacity = S;
  plan.has_block_size = 1;
  plan.block_size = 4;
  RUN(commit_plan_groups, plan);
  commit.groups = groups;
  commit.group_count = 2;
  commit.layers = layers;
  commit.layer_count = 2;
  commit.window_capacity = S;
  RUN(commit, commit);
  for (g = 0; g < 2; ++g) {
    CHECK(planned[g][0][0] == KEPT && planned[g][1][0] == table[g][0][1]);
    CHECK(planned[g][2][0] == table[g][0][0] && planned[g][3][0] == 2);
    SAME(state[g][table[g][0][1]], step_state[KEPT - 1], sizeof(State));
    SAME(state[g][table[g][0][0]], step_state[1], sizeof(State));
  }
}

static void snapshots(void) {
  State state[BLOCKS];
  float out[S][HV][V];
  int32_t columns[1][S] = {{1, 2, 3, 4}}, accepted[1] = {1};
  const recoverssm_rule_inputs inputs = rule_inputs(0, S);
  INIT(rows, rows);
  INIT(gated_delta_rule_snapshots_params, p);
  memcpy(state, start, sizeof state);
  rows.query_start_loc = I32(window_offsets, 2);
  rows.state_indices = I32(columns, 1, S);
  rows.num_accepted = I32(accepted, 1);
  p.inputs = &inputs;
  p.rows = &rows;
  p.state = F32(state, BLOCKS, HV, V, K);
  p.out = F32(out, S, HV, V);
  RUN(gated_delta_rule_snapshots, p);
  SAME(out, step_out, sizeof out);
  SAME(state[1], step_state, sizeof step_state);
}

/* Lazy form: records wait, and are folded by whoever needs the state. */
static void lazy_and_materialize(void) {
  State state[BLOCKS];
  float out[S][HV][V], record[BLOCKS][HV][S][V + K + 1];
  int32_t none[1] = {0}, kept[1] = {KEPT}, pending[BLOCKS] = {0};
  const recoverssm_rule_inputs inputs = rule_inputs(0, S);
  recoverssm_rows rows = rows_of(window_offsets, block_one);
  INIT(records, records);
  INIT(gated_delta_rule_verify_params, verify);
  INIT(layer, layer);
  INIT(materialize_params, p);
  memcpy(state, start, sizeof state);
  rows.num_accepted = I32(none, 1);
  records.packed = F32(record, BLOCKS, HV, S, V + K + 1);
  verify.inputs = &inputs;
  verify.rows = &rows;
  verify.records = &records;
  verify.state = F32(state, BLOCKS, HV, V, K);
  verify.out = F32(out, S, HV, V);
  verify.pending = I32(pending, BLOCKS);
  RUN(gated_delta_rule_verify, verify);
  CHECK(pending[1] == S);
  layer.state = verify.state;
  layer.records = &records;
  layer.pending = verify.pending;
  p.blocks = I32(block_one, 1);
  p.num_accepted = I32(kept, 1);
  p.layers = &layer;
  p.layer_count = 1;
  RUN(materialize, p);
  CHECK(pending[1] == 0);
  SAME(state[1], step_state[KEPT - 1], sizeof(State));
}

/* A window through the convolution, and a commit of its line alone, against plain rows of one token. */
static void convolution(void) {
  float x[S][C], weight[C][W], bias[C], window_out[S][C], out[S][C], window_line[2][COLS][C], line[2][COLS][C], kept_line[W - 1][C];
  int32_t kept[1] = {KEPT}, no_boundary[1] = {0};
  recoverssm_rows rows = rows_of(window_offsets, block_one);
  INIT(causal_conv1d_window_params, window);
  INIT(causal_conv1d_params, plain);
  INIT(commit_group, group);
  INIT(layer, layer);
  INIT(commit_params, commit);
  int t;
  FILL(x), FILL(weight), FILL(bias), FILL(window_line);
  memcpy(line, window_line, sizeof line);
  window.x = F32(x, S, C);
  window.weight = F32(weight, C, W);
  window.bias = F32(bias, C);
  window.out = F32(window_out, S, C);
  window.line = F32(window_line, 2, COLS, C);
  window.rows = &rows;
  window.activation = RECOVERSSM_ACTIVATION_SILU;
  CHECK(window.line_kind == RECOVERSSM_LINE_ROLLED);
  RUN(causal_conv1d_window, window);

  rows.query_start_loc = I32(token_offsets, 2);
  for (t = 0; t < S; ++t) {
    plain.x = F32(x[t], 1, C);
    plain.weight = window.weight;
    plain.bias = window.bias;
    plain.out = F32(out[t], 1, C);
    plain.line = F32(line, 2, COLS, C);
    plain.rows = &rows;
    plain.activation = RECOVERSSM_ACTIVATION_SILU;
    RUN(causal_conv1d, plain);
    if (t == KEPT - 1) memcpy(kept_line, line[1], sizeof kept_line);
  }
  SAME(window_out, out, sizeof out);

  group.state_indices = I32(block_one, 1);
  group.commit_len = I32(kept, 1);
  group.final_indices = I32(block_one, 1);
  group.boundary_indices = I32(no_boundary, 1);
  group.boundary_len = I32(no_boundary, 1);
  layer.line = window.line;
  layer.conv_taps = W;
  commit.groups = &group;
  commit.group_count = 1;
  commit.layers = &layer;
  commit.layer_count = 1;
  commit.window_capacity = S;
  RUN(commit, commit);
  SAME(window_line[1], kept_line, sizeof kept_line);
}

static void align(void) {
  State state[BLOCKS];
  float line[BLOCKS][COLS][C], line_before[BLOCKS][COLS][C];
  int32_t from[1] = {1}, to[1] = {3}, pending[BLOCKS] = {0};
  int32_t commit_len[2] = {3, 0}, ids[2] = {1, 2}, computed[2] = {6, 5}, column[2] = {-1, -1}, accepted[2] = {3, 2};
  INIT(layer, layer);
  INIT(align_move_params, move);
  INIT(align_advance_params, advance);
  memcpy(state, start, sizeof state);
  FILL(line);
  memcpy(line_before, line, sizeof line);
  pending[3] = 2;
  layer.state = F32(state, BLOCKS, HV, V, K);
  layer.line = F32(line, BLOCKS, COLS, C);
  layer.pending = I32(pending, BLOCKS);
  layer.conv_taps = W;
  move.from = I32(from, 1);
  move.to = I32(to, 1);
  move.layers = &layer;
  move.layer_count = 1;
  RUN(align_move, move);
  SAME(state[3], start[1], sizeof(State));
  SAME(state[1], start[1], sizeof(State));
  SAME(line[3], line_before[1], (W - 1) * C * sizeof(float));
  SAME(line[3][W - 1], line_before[3][W - 1], (COLS - W + 1) * C * sizeof(float));
  CHECK(pending[3] == 0);

  advance.commit_len = I32(commit_len, 2);
  advance.state_indices = I32(ids, 2);
  advance.num_computed = I32(computed, 2);
  advance.running_column = I32(column, 2);
  advance.num_accepted = I32(accepted, 2);
  advance.block_size = 4;
  RUN(align_advance, advance);
  CHECK(column[0] == (6 + 3 - 1) / 4 && accepted[0] == 1);
  CHECK(column[1] == -1 && accepted[1] == 2);
}

/* An anchored window against plain rows of one token. */
static void short_conv(void) {
  enum { TAPS = 3, DILATION = 2, N = (TAPS - 1) * DILATION, CHANNELS = 5 };
  float x[S][CHANNELS], weight[CHANNELS][TAPS], outer[S][CHANNELS], window_residual[S][CHANNELS], residual[S][CHANNELS];
  float window_line[2][N + S][CHANNELS], line[2][N + S][CHANNELS];
  recoverssm_rows rows = rows_of(window_offsets, block_one);
  INIT(short_conv_params, p);
  int t;
  FILL(x), FILL(weight), FILL(outer), FILL(window_line), FILL(window_residual);
  memcpy(line, window_line, sizeof line);
  memcpy(residual, window_residual, sizeof residual);
  CHECK(p.dilation == 1 && p.line_kind == RECOVERSSM_LINE_PLAIN);
  p.weight = F32(weight, CHANNELS, TAPS);
  p.rows = &rows;
  p.dilation = DILATION;
  p.line_kind = RECOVERSSM_LINE_ANCHORED;
  p.x = F32(x, S, CHANNELS);
  p.residual = F32(window_residual, S, CHANNELS);
  p.outer_residual = F32(outer, S, CHANNELS);
  p.line = F32(window_line, 2, N + S, CHANNELS);
  RUN(short_conv, p);
  SAME(window_line[1], line[1], N * CHANNELS * sizeof(float));
  SAME(window_line[1][N], x, sizeof x);

  rows.query_start_loc = I32(token_offsets, 2);
  p.line_kind = RECOVERSSM_LINE_PLAIN;
  p.line = F32(line, 2, N + S, CHANNELS);
  for (t = 0; t < S; ++t) {
    p.x = F32(x[t], 1, CHANNELS);
    p.residual = F32(residual[t], 1, CHANNELS);
    p.outer_residual = F32(outer[t], 1, CHANNELS);
    RUN(short_conv, p);
  }
  SAME(window_residual, residual, sizeof residual);
}

/* A window through gdn_attention, and through its three parts. */
static void attention(void) {
  float qkvz[S][2 * H * K + 2 * HV * V], ba[S][2 * HV], weight[C][W], line[2][BLOCKS][COLS][C], record[2][BLOCKS][HV][S][V + K + 1];
  float out[2][S][HV][V], z[2][S][HV][V], mixed[S][C], split_b[S][HV], split_a[S][HV];
  State state[BLOCKS];
  const recoverssm_rows rows = rows_of(window_offsets, block_one);
  recoverssm_records records[2];
  INIT(attention_windows, windows);
  INIT(gdn_attention_params, p);
  INIT(split_projections_params, split);
  INIT(causal_conv1d_window_params, conv);
  INIT(rule_inputs, inputs);
  INIT(gated_delta_rule_verify_params, verify);
  int i;
  FILL(qkvz), FILL(ba), FILL(weight), FILL(line[0]), FILL(record[0]);
  memcpy(line[1], line[0], sizeof line[0]);
  memcpy(record[1], record[0], sizeof record[0]);
  memcpy(state, start, sizeof state);
  for (i = 0; i < 2; ++i) {
    recoverssm_records_init(&records[i], sizeof records[i]);
    records[i].packed = F32(record[i], BLOCKS, HV, S, V + K + 1);
  }
  windows.rows = &rows;
  windows.records = &records[0];
  CHECK(windows.mode == RECOVERSSM_WINDOW_VERIFY);
  p.qkvz = F32(qkvz, S, 2 * H * K + 2 * HV * V);
  p.ba = F32(ba, S, 2 * HV);
  p.weight = F32(weight, C, W);
  p.A_log = F32(A_log, HV);
  p.dt_bias = F32(dt_bias, HV);
  p.line = F32(line[0], BLOCKS, COLS, C);
  p.state = F32(state, BLOCKS, HV, V, K);
  p.out = F32(out[0], S, HV, V);
  p.z = F32(z[0], S, HV, V);
  p.windows = &windows;
  p.layout = RECOVERSSM_LAYOUT_FLAT;
  p.num_k_heads = H;
  p.num_v_heads = HV;
  p.head_k_dim = K;
  p.head_v_dim = V;
  p.activation = RECOVERSSM_ACTIVATION_SILU;
  RUN(gdn_attention, p);
  SAME(state, start, sizeof state);

  split.qkvz = p.qkvz;
  split.ba = p.ba;
  split.mixed_qkv = F32(mixed, S, C);
  split.z = F32(z[1], S, HV, V);
  split.b = F32(split_b, S, HV);
  split.a = F32(split_a, S, HV);
  split.layout = RECOVERSSM_LAYOUT_FLAT;
  split.num_k_heads = H;
  split.num_v_heads = HV;
  split.head_k_dim = K;
  split.head_v_dim = V;
  RUN(split_projections, split);
  for (i = 0; i < S; ++i) { /* flat: q | k | v | z, b | a */
    SAME(mixed[i], qkvz[i], sizeof mixed[i]);
    SAME(z[1][i], qkvz[i] + C, sizeof z[1][i]);
    SAME(split_b[i], ba[i], sizeof split_b[i]);
    SAME(split_a[i], ba[i] + HV, sizeof split_a[i]);
  }

  conv.x = split.mixed_qkv;
  conv.weight = p.weight;
  conv.out = split.mixed_qkv; /* in place */
  conv.line = F32(line[1], BLOCKS, COLS, C);
  conv.rows = &rows;
  conv.activation = RECOVERSSM_ACTIVATION_SILU;
  RUN(causal_conv1d_window, conv);

  inputs.q = F32(mixed[0], S, H, K);
  inputs.k = F32(mixed[0] + H * K, S, H, K);
  inputs.v = F32(mixed[0] + 2 * H * K, S, HV, V);
  inputs.q.stride[0] = inputs.k.stride[0] = inputs.v.stride[0] = C;
  inputs.a = split.a;
  inputs.b = split.b;
  inputs.A_log = p.A_log;
  inputs.dt_bias = p.dt_bias;
  verify.inputs = &inputs;
  verify.rows = &rows;
  verify.records = &records[1];
  verify.state = p.state;
  verify.out = F32(out[1], S, HV, V);
  RUN(gated_delta_rule_verify, verify);
  SAME(out[0], out[1], sizeof out[0]);
  SAME(z[0], z[1], sizeof z[0]);
  SAME(line[0], line[1], sizeof line[0]);
  SAME(record[0], record[1], sizeof record[0]);
}

static void helpers(void) {
  const int32_t drafts[4] = {-1, 2, -1, 0}, lengths[4] = {7, 3, 1, 1};
  const uint8_t prefilling[4] = {1, 0, 0, 1};
  int32_t rows[4], identity = -1, targets[8], resolved = -1;
  size_t count = 0;
  INIT(geometry, geometry);
  INIT(request_sizes, sizes);
  SUCCEEDS(recoverssm_map_windows(drafts, prefilling, lengths, 4, rows, &count, &identity));
  CHECK(count == 3 && rows[0] == 1 && rows[1] == 2 && rows[2] == 3 && identity == 0);
  geometry.H = 16, geometry.HV = 48, geometry.K = geometry.V = 128, geometry.S = 4;
  SUCCEEDS(recoverssm_sizes(&geometry, &sizes));
  CHECK(sizes.state == 3145728 && sizes.records == 197376 && sizes.snapshots == 4 * sizes.state);
  SUCCEEDS(recoverssm_available_targets(targets, 8, &count));
  CHECK(count >= 1 && count <= 3 && targets[count - 1] == RECOVERSSM_TARGET_PORTABLE);
  SUCCEEDS(recoverssm_resolve_target(RECOVERSSM_TARGET_BEST, &resolved));
  CHECK(resolved == targets[0]);
  CHECK(strcmp(recoverssm_target_name(RECOVERSSM_TARGET_AVX2), "avx2") == 0);
  CHECK(strcmp(recoverssm_dtype_name(RECOVERSSM_BF16), "bf16") == 0 && recoverssm_dtype_size(RECOVERSSM_BF16) == 2);
  CHECK(strcmp(recoverssm_record_layout_id(RECOVERSSM_GATE_KDA), "kda_act") == 0);
  CHECK(strcmp(recoverssm_status_name(RECOVERSSM_OUT_OF_MEMORY), "out_of_memory") == 0);
  CHECK(recoverssm_version_number() == RECOVERSSM_VERSION_NUMBER && recoverssm_version()[0] == '0');
}

int main(void) {
  static const int32_t threads[] = {1, 3};
  size_t i;
  for (i = 0; i < sizeof threads / sizeof threads[0]; ++i) {
    SUCCEEDS(recoverssm_context_create(threads[i], &test_context));
    token_by_token();
    verify_plan_commit();
    plan_groups_and_commit();
    snapshots();
    lazy_and_materialize();
    convolution();
    align();
    short_conv();
    attention();
    helpers();
    recoverssm_context_destroy(test_context);
  }
  printf("every operation from C: %s\n", checks_failed == 0 ? "ok" : "failed");
  return checks_failed == 0 ? 0 : 1;
}
