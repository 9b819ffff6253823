/* One round of speculative decoding on one layer: verify a window of four tokens, plan, commit the three that the sampler kept. */
#include <recoverssm/recoverssm.h>
#include <stdio.h>
#include <stdlib.h>

enum { S = 4, H = 1, HV = 2, K = 64, V = 64, BLOCKS = 2 };

/* A layer keeps one state and the records of one window a block. Block 0 is the null block, block 1 is the request's. */
static float state[BLOCKS][HV][V][K], record[BLOCKS][HV][S][V + K + 1];
/* What the layer's projections give for the window's tokens. */
static float q[S][H][K], k[S][H][K], v[S][HV][V], a[S][HV], b[S][HV], A_log[HV], dt_bias[HV], out[S][HV][V];
static int32_t offsets[2] = {0, S}, block[1] = {1}, kept[1] = {3}, commit_len[1], final_block[1], boundary[1], boundary_len[1];

static void must(int status) {
  if (status == RECOVERSSM_OK) return;
  fprintf(stderr, "%s: %s\n", recoverssm_status_name(status), recoverssm_last_error());
  exit(1);
}

/* Asks how much workspace the call needs, has the context provide it, runs. */
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

int main(void) {
  recoverssm_context* context;
  NEW(launch, launch);
  must(recoverssm_context_create(2, &context)); /* two threads */
  for (int i = 0; i < S * H * K; ++i) (&q[0][0][0])[i] = (&k[0][0][0])[i] = 0.1f;
  for (int i = 0; i < S * HV * V; ++i) (&v[0][0][0])[i] = 0.5f;

  NEW(rule_inputs, inputs);
  inputs.q = F32(q, 3, S, H, K, 0), inputs.k = F32(k, 3, S, H, K, 0), inputs.v = F32(v, 3, S, HV, V, 0);
  inputs.a = F32(a, 2, S, HV, 0, 0), inputs.b = F32(b, 2, S, HV, 0, 0);
  inputs.A_log = F32(A_log, 1, HV, 0, 0, 0), inputs.dt_bias = F32(dt_bias, 1, HV, 0, 0, 0);
  NEW(rows, rows);
  rows.query_start_loc = I32(offsets, 2), rows.state_indices = I32(block, 1), rows.window_capacity = S;
  NEW(records, records);
  records.packed = F32(record, 4, BLOCKS, HV, S, V + K + 1);
  NEW(gated_delta_rule_verify_params, verify);
  verify.inputs = &inputs, verify.rows = &rows, verify.records = &records;
  verify.state = F32(state, 4, BLOCKS, HV, V, K), verify.out = F32(out, 3, S, HV, V, 0);
  RUN(gated_delta_rule_verify, verify);
  const float untouched = state[1][0][0][0];

  NEW(plan_outputs, outputs);
  outputs.commit_len = I32(commit_len, 1), outputs.final_indices = I32(final_block, 1);
  outputs.boundary_indices = I32(boundary, 1), outputs.boundary_len = I32(boundary_len, 1);
  NEW(commit_plan_params, plan);
  plan.num_accepted = I32(kept, 1), plan.query_start_loc = rows.query_start_loc, plan.state_indices = rows.state_indices;
  plan.window_capacity = S, plan.out = &outputs;
  RUN(commit_plan, plan);

  NEW(commit_group, group);
  group.state_indices = rows.state_indices, group.commit_len = outputs.commit_len, group.final_indices = outputs.final_indices;
  group.boundary_indices = outputs.boundary_indices, group.boundary_len = outputs.boundary_len;
  NEW(layer, layer);
  layer.state = verify.state, layer.records = &records;
  NEW(commit_params, commit);
  commit.groups = &group, commit.group_count = 1, commit.layers = &layer, commit.layer_count = 1, commit.window_capacity = S;
  RUN(commit, commit);
  recoverssm_context_destroy(context);
  printf("recoverssm %s: committed %d tokens, state of block 1: %g, then %g\n", recoverssm_version(), commit_len[0], untouched,
         state[1][0][0][0]);
  return 0;
}
