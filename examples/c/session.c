/* An engine's loop in small, with the session keeping blocks and steps: a prompt, then windows of drafts, of which a sampler keeps some; the
 * state saved to a file and taken up by another session, as after a restart. */
#include <recoverssm/session.h>
#include <stdio.h>
#include <stdlib.h>

/* A model of one layer. Its projections would come from the engine's own kernels; here they are made up. */
enum { S = 4, H = 1, HV = 2, K = 64, V = 64, W = 4, C = 2 * H * K + HV * V, MOST = 8 };
static float weight[C][W], A_log[HV], dt_bias[HV], x[MOST][C], a[MOST][HV], b[MOST][HV], out[MOST][HV][V];

static void must(int status) {
  if (status == RECOVERSSM_OK) return;
  fprintf(stderr, "%s: %s\n", recoverssm_status_name(status), recoverssm_last_error());
  exit(1);
}
#define NEW(type, name)   \
  recoverssm_##type name; \
  recoverssm_##type##_init(&name, sizeof name)

static recoverssm_session* new_session(void) {
  recoverssm_session* session;
  NEW(layer_config, layer);
  layer.H = H, layer.HV = HV, layer.K = K, layer.V = V, layer.W = W;
  layer.activation = RECOVERSSM_F32;
  layer.weight = recoverssm_dense_2d(weight, RECOVERSSM_F32, C, W);
  layer.A_log = recoverssm_dense_1d(A_log, RECOVERSSM_F32, HV);
  layer.dt_bias = recoverssm_dense_1d(dt_bias, RECOVERSSM_F32, HV);
  NEW(group_config, group);
  group.blocks = 9; /* block 0 is the null block: eight requests */
  NEW(session_config, config);
  config.layers = &layer, config.layer_count = 1;
  config.groups = &group, config.group_count = 1;
  config.window_capacity = S;
  must(recoverssm_session_create(&config, NULL, 0, &session));
  return session;
}

/* One step of one row: the tokens through every layer, then the commit. kept: of a window. */
static void step(recoverssm_session* session, uint64_t request, int kind, int tokens, int kept, recoverssm_context* context) {
  const recoverssm_step_row row = {.request = request, .kind = kind, .tokens = tokens};
  const recoverssm_accepted accepted = {.request = request, .count = kept};
  uint64_t id;
  for (int i = 0; i < tokens * C; ++i) x[i / C][i % C] = (float)(i % 7) / 7 - 0.4f;
  must(recoverssm_session_open_step(session, &row, 1, context, &id));
  NEW(delta_inputs, inputs);
  inputs.x = recoverssm_dense_2d(x, RECOVERSSM_F32, tokens, C);
  inputs.a = recoverssm_dense_2d(a, RECOVERSSM_F32, tokens, HV);
  inputs.b = recoverssm_dense_2d(b, RECOVERSSM_F32, tokens, HV);
  inputs.out = recoverssm_dense_3d(out, RECOVERSSM_F32, tokens, HV, V);
  must(recoverssm_session_forward_delta(session, id, 0, &inputs, context));
  must(recoverssm_session_commit(session, id, &accepted, kind == RECOVERSSM_ROW_WINDOW ? 1 : 0, context));
}

int main(void) {
  recoverssm_context* context;
  uint64_t request;
  size_t size;
  must(recoverssm_context_create(1, &context));
  for (int i = 0; i < C * W; ++i) weight[i / W][i % W] = 0.25f;
  recoverssm_session* session = new_session();
  must(recoverssm_session_admit(session, &request));
  step(session, request, RECOVERSSM_ROW_PREFILL, 8, 0, context);
  step(session, request, RECOVERSSM_ROW_WINDOW, 4, 3, context); /* three drafts, two of them right */
  step(session, request, RECOVERSSM_ROW_WINDOW, 1, 1, context); /* no draft this time */

  /* The state after 12 tokens, tagged with something that names the text; asked for its size first. */
  const int64_t tokens = 12;
  const uint64_t tag = 20260;
  must(recoverssm_session_export_checkpoint(session, request, tokens, tag, context, NULL, 0, &size));
  void* bytes = malloc(size);
  must(recoverssm_session_export_checkpoint(session, request, tokens, tag, context, bytes, size, &size));
  must(recoverssm_checkpoint_write("session.ckpt", bytes, size));
  recoverssm_session_destroy(session);

  session = new_session();
  must(recoverssm_checkpoint_read("session.ckpt", bytes, size, &size));
  must(recoverssm_session_admit(session, &request));
  must(recoverssm_session_restore(session, request, bytes, size, tokens, tag));
  step(session, request, RECOVERSSM_ROW_WINDOW, 4, 4, context);
  NEW(request_info, info);
  must(recoverssm_session_info(session, request, &info));
  printf("a session of %zu bytes taken up after %lld tokens, now %lld\n", size, (long long)tokens, (long long)info.tokens);
  must(recoverssm_session_finish(session, request));
  recoverssm_session_destroy(session);
  recoverssm_context_destroy(context);
  free(bytes);
  remove("session.ckpt");
  return 0;
}
