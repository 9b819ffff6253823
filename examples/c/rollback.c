/* What llama.cpp asks of a recurrent memory, on one gated delta net layer: several sequences in one batch, drafts that are dropped in part or
 * altogether, and the same state as if they had never been there. Anchored lines keep a window's history in front of it, so a window that was
 * dropped whole needs nothing undone and can simply be run again. The end compares every bit with sequences decoded token by token.
 *
 * Memory is laid out as ggml would: the convolution's positions are the fastest dimension (ne[0] = positions, ne[1] = channels, ne[2] =
 * sequences), which are strides here; the state has the key dimension fastest (ne[0] = K, ne[1] = V, ne[2] = heads, ne[3] = sequences). */
#include <recoverssm/recoverssm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { S = 4, H = 2, HV = 4, K = 32, V = 32, W = 4, SEQS = 3, STEPS = 6, MOST = STEPS * S };
enum { C = 2 * H * K + HV * V, COLS = W - 1 + S, QKVZ = 2 * H * K + 2 * HV * V, BLOCKS = 1 + 2 * SEQS };

/* Block 0 is the null block, 1..3 are the speculating sequences', 4..6 those decoded token by token. */
static float state[BLOCKS][HV][V][K], record[BLOCKS][HV][S][V + K + 1], line[BLOCKS][C][COLS];
static float weight[C][W], A_log[HV], dt_bias[HV];

static void must(int status) {
  if (status == RECOVERSSM_OK) return;
  fprintf(stderr, "%s: %s\n", recoverssm_status_name(status), recoverssm_last_error());
  exit(1);
}

#define RUN(op, params)                                               \
  do {                                                                \
    size_t bytes;                                                     \
    must(recoverssm_context_launch(context, 0, &launch));             \
    must(recoverssm_##op##_workspace_size(&params, &launch, &bytes)); \
    must(recoverssm_context_launch(context, bytes, &launch));         \
    must(recoverssm_##op##_run(&params, &launch));                    \
  } while (0)
#define NEW(type, name)   \
  recoverssm_##type name; \
  recoverssm_##type##_init(&name, sizeof name)
#define F32(data, dims, n0, n1, n2, n3) recoverssm_dense(data, RECOVERSSM_F32, dims, n0, n1, n2, n3)
#define I32(data, n) recoverssm_dense_1d(data, RECOVERSSM_I32, n)

static recoverssm_context* context;
static recoverssm_launch launch;

/* What the layer's projections give for token `place` of a sequence: any function of both. A draft is a token like any other. */
static void project(int sequence, int place, int dropped, float* qkvz, float* ba) {
  unsigned seed = 1u + (unsigned)(sequence * 1000 + place * 2 + dropped);
  for (int i = 0; i < QKVZ + 2 * HV; ++i) {
    seed = seed * 1664525u + 1013904223u;
    *(i < QKVZ ? &qkvz[i] : &ba[i - QKVZ]) = (float)(seed >> 8) / 8388608.0f - 1.0f;
  }
}

static recoverssm_tensor line_view(void) {
  recoverssm_tensor view = F32(line, 3, BLOCKS, COLS, C, 0);
  view.stride[0] = C * COLS, view.stride[1] = 1, view.stride[2] = COLS;
  return view;
}

/* One layer of one batch. windows: run with records, else token by token with the state written. */
static void attention(int rows_count, const int32_t* offsets, const int32_t* blocks, float* qkvz, float* ba, float* out,
                      int windows) {
  static float z[SEQS * S * HV * V];
  const int tokens = offsets[rows_count];
  NEW(rows, rows);
  rows.query_start_loc = I32((void*)offsets, rows_count + 1), rows.state_indices = I32((void*)blocks, rows_count),
  rows.window_capacity = S;
  NEW(records, records);
  records.packed = F32(record, 4, BLOCKS, HV, S, V + K + 1);
  NEW(attention_windows, window_part);
  window_part.rows = &rows, window_part.records = &records;
  NEW(attention_plain, plain_part);
  plain_part.rows = &rows;
  NEW(gdn_attention_params, params);
  params.qkvz = F32(qkvz, 2, tokens, QKVZ, 0, 0), params.ba = F32(ba, 2, tokens, 2 * HV, 0, 0),
  params.layout = RECOVERSSM_LAYOUT_FLAT;
  params.num_k_heads = H, params.num_v_heads = HV, params.head_k_dim = K, params.head_v_dim = V;
  params.weight = F32(weight, 2, C, W, 0, 0), params.activation = RECOVERSSM_ACTIVATION_SILU;
  params.A_log = F32(A_log, 1, HV, 0, 0, 0), params.dt_bias = F32(dt_bias, 1, HV, 0, 0, 0);
  params.line = line_view(), params.line_kind = RECOVERSSM_LINE_ANCHORED, params.state = F32(state, 4, BLOCKS, HV, V, K);
  params.out = F32(out, 3, tokens, HV, V, 0), params.z = F32(z, 3, tokens, HV, V, 0);
  if (windows) params.windows = &window_part;
  if (!windows) params.plain = &plain_part;
  RUN(gdn_attention, params);
}

/* llama.cpp's seq_rm from a position on, for all sequences at once: `kept` tokens of each one's last window stay. */
static void keep(const int32_t* offsets, const int32_t* blocks, const int32_t* kept) {
  int32_t commit_len[SEQS], final_block[SEQS], boundary[SEQS], boundary_len[SEQS];
  NEW(plan_outputs, outputs);
  outputs.commit_len = I32(commit_len, SEQS), outputs.final_indices = I32(final_block, SEQS);
  outputs.boundary_indices = I32(boundary, SEQS), outputs.boundary_len = I32(boundary_len, SEQS);
  NEW(commit_plan_params, plan);
  plan.num_accepted = I32((void*)kept, SEQS), plan.query_start_loc = I32((void*)offsets, SEQS + 1);
  plan.state_indices = I32((void*)blocks, SEQS), plan.window_capacity = S, plan.out = &outputs;
  RUN(commit_plan, plan);
  NEW(commit_group, group);
  group.state_indices = plan.state_indices, group.commit_len = outputs.commit_len, group.final_indices = outputs.final_indices;
  group.boundary_indices = outputs.boundary_indices, group.boundary_len = outputs.boundary_len;
  NEW(records, records);
  records.packed = F32(record, 4, BLOCKS, HV, S, V + K + 1);
  NEW(layer, layer);
  layer.line = line_view(), layer.line_kind = RECOVERSSM_LINE_ANCHORED, layer.conv_taps = W;
  layer.state = F32(state, 4, BLOCKS, HV, V, K), layer.records = &records;
  NEW(commit_params, commit);
  commit.groups = &group, commit.group_count = 1, commit.layers = &layer, commit.layer_count = 1, commit.window_capacity = S;
  RUN(commit, commit);
}

int main(void) {
  recoverssm_launch_init(&launch, sizeof launch);
  must(recoverssm_context_create(2, &context));
  for (int i = 0; i < C * W; ++i) (&weight[0][0])[i] = 0.3f - 0.1f * (float)(i % 7);
  for (int i = 0; i < HV; ++i) A_log[i] = -0.5f * (float)i, dt_bias[i] = 0.1f;

  /* Tokens kept of each step's windows, by sequence: all, some, none, in turn. Of a window the dropped tokens are other ones than will
   * follow: what was verified too far must leave no trace. */
  static const int32_t kept[STEPS][SEQS] = {{4, 2, 0}, {0, 4, 1}, {3, 0, 4}, {0, 0, 0}, {1, 3, 2}, {4, 1, 3}};
  const int32_t blocks[SEQS] = {1, 2, 3}, offsets[SEQS + 1] = {0, S, 2 * S, 3 * S};
  static float qkvz[SEQS * S][QKVZ], ba[SEQS * S][2 * HV], out[SEQS * S][HV][V], again[SEQS * S][HV][V], text[SEQS][MOST][HV][V];
  int length[SEQS] = {0, 0, 0}, total = 0, dropped = 0;
  for (int step = 0; step < STEPS; ++step) {
    for (int n = 0; n < SEQS; ++n) {
      for (int t = 0; t < S; ++t) project(n, length[n] + t, t >= kept[step][n], qkvz[n * S + t], ba[n * S + t]);
    }
    attention(SEQS, offsets, blocks, qkvz[0], ba[0], out[0][0], 1);
    attention(SEQS, offsets, blocks, qkvz[0], ba[0], again[0][0], 1); /* nothing has happened yet: the same once more */
    if (memcmp(out, again, sizeof out) != 0) return fprintf(stderr, "a window run twice gave other outputs\n"), 1;
    keep(offsets, blocks, kept[step]);
    for (int n = 0; n < SEQS; ++n) {
      memcpy(text[n][length[n]], out[n * S], (size_t)kept[step][n] * sizeof out[0]);
      length[n] += kept[step][n], total += kept[step][n], dropped += S - kept[step][n];
    }
  }

  for (int n = 0; n < SEQS; ++n) {
    const int32_t alone[1] = {4 + n}, one[2] = {0, 1};
    for (int t = 0; t < length[n]; ++t) {
      project(n, t, 0, qkvz[0], ba[0]);
      attention(1, one, alone, qkvz[0], ba[0], out[0][0], 0);
      if (memcmp(out[0], text[n][t], sizeof out[0]) != 0) return fprintf(stderr, "sequence %d, token %d: other outputs\n", n, t), 1;
    }
    if (memcmp(state[1 + n], state[4 + n], sizeof state[0]) != 0) return fprintf(stderr, "sequence %d: another state\n", n), 1;
    for (int c = 0; c < C; ++c) { /* the history; what is behind it has no meaning between windows */
      if (memcmp(line[1 + n][c], line[4 + n][c], (W - 1) * sizeof(float)) != 0)
        return fprintf(stderr, "sequence %d: another history\n", n), 1;
    }
  }
  recoverssm_context_destroy(context);
  printf("%d sequences, %d tokens kept and %d dropped: every bit as decoded token by token\n", SEQS, total, dropped);
  return 0;
}
