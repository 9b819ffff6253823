/* A whole session, called from C through the shared library: admit, prefill, windows, commit, checkpoints, prefixes, forks, errors. What
 * windows leave is compared with the same tokens one by one, to the bit. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include <recoverssm/session.h>
#include <unistd.h>

#include "c_support.h"

enum { H = 1, HV = 2, K = 8, V = 4, W = 4, S = 4, C = 2 * H * K + HV * V, C2 = 5, KC = 3, BLOCKS = 6, MOST = 64 };

/* Two layers in a group each. The tokens of one request, in the order they are run; a token is its column. */
static float weight[C][W], bias[C], A_log[HV], dt_bias[HV], weight2[C2][KC];
static float x[MOST][C], a[MOST][HV], b[MOST][HV], x2[MOST][C2];
static float out[MOST][HV][V], out2[MOST][C2];

static recoverssm_session* new_session(int lazy) {
  recoverssm_session* session = NULL;
  recoverssm_layer_config layers[2];
  recoverssm_group_config groups[2];
  INIT(session_config, config);
  INIT(session_memory, memory);
  recoverssm_layer_memory of_layers[2];
  int64_t of_groups[2];
  int i;
  for (i = 0; i < 2; ++i) {
    recoverssm_layer_config_init(&layers[i], sizeof layers[i]);
    recoverssm_group_config_init(&groups[i], sizeof groups[i]);
    groups[i].blocks = BLOCKS;
    layers[i].group = i;
    layers[i].activation = RECOVERSSM_F32;
  }
  layers[0].H = H, layers[0].HV = HV, layers[0].K = K, layers[0].V = V, layers[0].W = W;
  layers[0].weight = F32(weight, C, W);
  layers[0].bias = F32(bias, C);
  layers[0].A_log = F32(A_log, HV);
  layers[0].dt_bias = F32(dt_bias, HV);
  layers[1].kind = RECOVERSSM_LAYER_SHORT_CONV;
  layers[1].W = KC, layers[1].channels = C2, layers[1].dilation = 2;
  layers[1].weight = F32(weight2, C2, KC);
  config.layers = layers, config.layer_count = 2;
  config.groups = groups, config.group_count = 2;
  config.window_capacity = S;
  config.lazy = lazy;
  SUCCEEDS(recoverssm_session_sizes(&config, &memory, of_layers, of_groups));
  CHECK(memory.blocks_per_request == 1 && memory.request == of_groups[0] + of_groups[1]);
  CHECK(memory.pools == BLOCKS * memory.request);
  CHECK(of_layers[0].state == HV * V * K * 4 && of_layers[1].state == 0);
  CHECK(of_groups[1] == of_layers[1].line && of_layers[1].line == ((KC - 1) * 2 + S) * C2 * 4);
  SUCCEEDS(recoverssm_session_create(&config, NULL, 0, &session));
  return session;
}

/* One row of `tokens` tokens from `first` on, all layers. */
static uint64_t run_row(recoverssm_session* session, uint64_t request, int kind, int first, int tokens) {
  const recoverssm_step_row row = {request, first, 1, kind, tokens, 0};
  uint64_t step = 0;
  int32_t fits = 0;
  INIT(delta_inputs, delta);
  INIT(short_conv_inputs, conv);
  SUCCEEDS(recoverssm_session_fits(session, &row, 1, &fits));
  CHECK(fits == 1);
  SUCCEEDS(recoverssm_session_open_step(session, &row, 1, test_context, &step));
  delta.x = F32(x[first], tokens, C);
  delta.a = F32(a[first], tokens, HV);
  delta.b = F32(b[first], tokens, HV);
  delta.out = F32(out[first], tokens, HV, V);
  SUCCEEDS(recoverssm_session_forward_delta(session, step, 0, &delta, test_context));
  conv.x = F32(x2[first], tokens, C2);
  conv.residual = F32(out2[first], tokens, C2);
  SUCCEEDS(recoverssm_session_forward_short_conv(session, step, 1, &conv, test_context));
  return step;
}

static void window(recoverssm_session* session, uint64_t request, int first, int tokens, int kept) {
  const recoverssm_accepted accepted = {request, kept, 0};
  const uint64_t step = run_row(session, request, RECOVERSSM_ROW_WINDOW, first, tokens);
  SUCCEEDS(recoverssm_session_commit(session, step, &accepted, 1, test_context));
}
static void plain(recoverssm_session* session, uint64_t request, int kind, int first, int tokens) {
  const uint64_t step = run_row(session, request, kind, first, tokens);
  SUCCEEDS(recoverssm_session_commit(session, step, NULL, 0, test_context));
}

static recoverssm_request_info info_of(recoverssm_session* session, uint64_t request) {
  INIT(request_info, info);
  SUCCEEDS(recoverssm_session_info(session, request, &info));
  return info;
}

/* Asks for the size first. */
static size_t checkpoint_of(recoverssm_session* session, uint64_t request, int64_t tokens, unsigned char* bytes, size_t room) {
  size_t size = 0;
  SUCCEEDS(recoverssm_session_export_checkpoint(session, request, tokens, 99, test_context, NULL, 0, &size));
  CHECK(size > HV * V * K * 4 && size <= room);
  SUCCEEDS(recoverssm_session_export_checkpoint(session, request, tokens, 99, test_context, bytes, room, &size));
  return size;
}

/* The running state of the delta layer. */
static const float* state_of(recoverssm_session* session, uint64_t request) {
  int32_t blocks[2] = {0, 0};
  size_t count = 0;
  INIT(layer_pool, pool);
  INIT(records, records);
  SUCCEEDS(recoverssm_session_materialize(session, &request, 1, test_context));
  SUCCEEDS(recoverssm_session_blocks(session, request, blocks, 2, &count));
  SUCCEEDS(recoverssm_session_pool(session, 0, &pool, &records));
  CHECK(count == 2 && blocks[0] > 0 && blocks[0] < BLOCKS && pool.records == &records && records.packed.dims == 4);
  return (const float*)pool.state.data + blocks[0] * pool.state.stride[0];
}

/* 5 tokens of a prompt in two chunks, then windows, of which 3, 1 and 2 tokens are kept: 11 tokens. What was not kept is overwritten by what
 * comes next, as in a real engine. */
static void windows_against_tokens(int lazy) {
  static float window_out[MOST][HV][V], window_out2[MOST][C2];
  recoverssm_session* const session = new_session(lazy);
  recoverssm_session* const reference = new_session(0);
  uint64_t request = 0, by_token = 0;
  int t;
  SUCCEEDS(recoverssm_session_admit(session, &request));
  SUCCEEDS(recoverssm_session_admit(reference, &by_token));
  CHECK(info_of(session, request).phase == RECOVERSSM_PHASE_EMPTY);
  plain(session, request, RECOVERSSM_ROW_PREFILL, 0, 3);
  plain(session, request, RECOVERSSM_ROW_PREFILL, 3, 2);
  window(session, request, 5, 4, 3);
  CHECK(info_of(session, request).tokens == 8 && info_of(session, request).waiting == (lazy ? 3 : 0));
  window(session, request, 8, 1, 1);
  window(session, request, 9, 3, 2);
  CHECK(info_of(session, request).tokens == 11 && info_of(session, request).phase == RECOVERSSM_PHASE_LIVE);
  memcpy(window_out, out, sizeof out);
  memcpy(window_out2, out2, sizeof out2);
  plain(reference, by_token, RECOVERSSM_ROW_PREFILL, 0, 5);
  for (t = 5; t < 11; ++t) plain(reference, by_token, RECOVERSSM_ROW_DECODE, t, 1);
  SAME(window_out, out, 11 * sizeof out[0]);
  SAME(window_out2, out2, 11 * sizeof out2[0]);
  SAME(state_of(session, request), state_of(reference, by_token), HV * V * K * sizeof(float));
  recoverssm_session_destroy(session);
  recoverssm_session_destroy(reference);
}

/* Export, file, restore, fork and prefixes: each copy goes on as the original does. */
static void copies(int lazy) {
  static unsigned char bytes[1 << 16], again[1 << 16];
  recoverssm_session* const session = new_session(lazy);
  recoverssm_session* const other = new_session(!lazy);
  uint64_t request = 0, restored = 0, forked = 0, prefix = 0, second_prefix = 0, resumed = 0;
  int64_t tokens[4] = {0}, held = 0;
  size_t count = 0, size, again_size = 0;
  char path[] = "/tmp/recoverssm-session-XXXXXX";
  const int file = mkstemp(path);
  INIT(checkpoint_info, info);
  CHECK(file >= 0);
  close(file);
  SUCCEEDS(recoverssm_session_admit(session, &request));
  plain(session, request, RECOVERSSM_ROW_PREFILL, 0, 6);
  window(session, request, 6, 4, 2);
  size = checkpoint_of(session, request, 8, bytes, sizeof bytes);
  SUCCEEDS(recoverssm_session_exportable(session, request, tokens, 4, &count));
  CHECK(count == 1 && tokens[0] == 8);
  SUCCEEDS(recoverssm_checkpoint_inspect(bytes, size, &info));
  CHECK(info.tokens == 8 && info.tag == 99 && info.owner == request && info.bytes == (int64_t)size && info.layers == 2);
  CHECK(strcmp(info.layout, "gdn_f32") == 0 && info.version == RECOVERSSM_CHECKPOINT_VERSION);
  SUCCEEDS(recoverssm_checkpoint_write(path, bytes, size));
  SUCCEEDS(recoverssm_checkpoint_read(path, again, sizeof again, &again_size));
  CHECK(again_size == size && memcmp(again, bytes, size) == 0);
  remove(path);

  SUCCEEDS(recoverssm_session_admit(other, &restored));
  CHECK(recoverssm_session_restore(other, restored, again, size - 1, 8, 99) == RECOVERSSM_INVALID_ARGUMENT);
  CHECK(recoverssm_session_restore(other, restored, again, size, 7, 99) != RECOVERSSM_OK);
  CHECK(recoverssm_session_restore(other, restored, again, size, 8, 98) != RECOVERSSM_OK);
  CHECK(info_of(other, restored).phase == RECOVERSSM_PHASE_EMPTY);
  SUCCEEDS(recoverssm_session_restore(other, restored, again, size, 8, 99));
  SUCCEEDS(recoverssm_session_fork(session, request, test_context, &forked));
  SUCCEEDS(recoverssm_session_hold(session, request, 8, test_context, &prefix));
  SUCCEEDS(recoverssm_session_prefix_tokens(session, prefix, &held));
  CHECK(held == 8);
  SUCCEEDS(recoverssm_session_admit_prefix(session, prefix, test_context, &resumed));
  window(session, request, 8, 3, 3);
  window(other, restored, 8, 3, 3);
  window(session, forked, 8, 3, 3);
  window(session, resumed, 8, 3, 3);
  SAME(state_of(session, request), state_of(other, restored), HV * V * K * sizeof(float));
  SAME(state_of(session, request), state_of(session, forked), HV * V * K * sizeof(float));
  SAME(state_of(session, request), state_of(session, resumed), HV * V * K * sizeof(float));
  SUCCEEDS(recoverssm_session_finish_and_hold(session, request, test_context, &second_prefix));
  SUCCEEDS(recoverssm_session_prefix_tokens(session, second_prefix, &held));
  CHECK(held == 11);
  SUCCEEDS(recoverssm_session_release(session, prefix));
  SUCCEEDS(recoverssm_session_release(session, second_prefix));
  SUCCEEDS(recoverssm_session_finish(session, forked));
  SUCCEEDS(recoverssm_session_preempt(session, resumed));
  {
    int32_t free_blocks[2] = {0}, requests = 0, prefixes = 1, steps = 1;
    INIT(session_counts, counts);
    INIT(counters, traffic);
    SUCCEEDS(recoverssm_session_free_blocks(session, 0, &free_blocks[0]));
    SUCCEEDS(recoverssm_session_free_blocks(session, 1, &free_blocks[1]));
    SUCCEEDS(recoverssm_session_requests(session, &requests));
    SUCCEEDS(recoverssm_session_prefixes(session, &prefixes));
    SUCCEEDS(recoverssm_session_open_steps(session, &steps));
    CHECK(free_blocks[0] == BLOCKS - 1 && free_blocks[1] == BLOCKS - 1 && requests == 1 && prefixes == 0 && steps == 0);
    SUCCEEDS(recoverssm_session_counters(session, &counts, &traffic));
    CHECK(counts.steps_opened == 5 && counts.steps_committed == 5 && counts.refused_calls == 0);
    CHECK(counts.verified_tokens == 4 + 3 * 3 && counts.kept_tokens == 2 + 3 * 3 && counts.prefill_tokens == 6);
    CHECK(traffic.state_read > 0 && traffic.record_written > 0);
  }
  recoverssm_session_destroy(session);
  recoverssm_session_destroy(other);
}

static void errors(void) {
  recoverssm_session* const session = new_session(0);
  uint64_t request = 0, step = 0, refused = 77;
  INIT(session_counts, counts);
  INIT(block_tag, tag);
  SUCCEEDS(recoverssm_session_admit(session, &request));
  {
    const recoverssm_step_row decode = {request, 0, 0, RECOVERSSM_ROW_DECODE, 1, 0};
    CHECK(recoverssm_session_open_step(session, &decode, 1, test_context, &refused) == RECOVERSSM_BAD_STATE && refused == 0);
  }
  step = run_row(session, request, RECOVERSSM_ROW_PREFILL, 0, 3);
  CHECK(info_of(session, request).open_step == step);
  CHECK(recoverssm_session_fork(session, request, test_context, &refused) == RECOVERSSM_BAD_STATE);
  SUCCEEDS(recoverssm_session_commit(session, step, NULL, 0, test_context));
  CHECK(recoverssm_session_commit(session, step, NULL, 0, test_context) == RECOVERSSM_BAD_STATE);
  CHECK(recoverssm_session_abandon(session, step) == RECOVERSSM_BAD_STATE);
  SUCCEEDS(recoverssm_session_counters(session, &counts, NULL));
  CHECK(counts.refused_calls == 4 && counts.refused_by_kind[RECOVERSSM_BAD_STATE] == 4);
  CHECK(strcmp(counts.last_refusal, recoverssm_last_error()) == 0);
  /* A window that is abandoned leaves the state as it was, and the next one goes on from there. */
  step = run_row(session, request, RECOVERSSM_ROW_WINDOW, 3, 2);
  SUCCEEDS(recoverssm_session_abandon(session, step));
  CHECK(info_of(session, request).tokens == 3 && info_of(session, request).phase == RECOVERSSM_PHASE_LIVE);
  window(session, request, 3, 2, 1);
  CHECK(info_of(session, request).tokens == 4);
  {
    int32_t blocks[2] = {0};
    size_t count = 0;
    SUCCEEDS(recoverssm_session_blocks(session, request, blocks, 2, &count));
    SUCCEEDS(recoverssm_session_block_tag(session, 0, blocks[0], &tag));
    CHECK(tag.owner == request && tag.tokens == 4 && tag.references == 1 && strcmp(tag.layout, "gdn_f32") == 0);
  }
  SUCCEEDS(recoverssm_session_finish(session, request));
  CHECK(recoverssm_session_finish(session, request) == RECOVERSSM_BAD_STATE);
  recoverssm_session_destroy(session);
}

static void hits(void) {
  const int64_t first[3] = {4, 8, 12}, second[2] = {8, 16};
  const int64_t* const groups[2] = {first, second};
  const size_t counts[2] = {3, 2};
  int64_t hit = -1;
  SUCCEEDS(recoverssm_prefix_hit(100, groups, counts, 2, &hit));
  CHECK(hit == 8);
  SUCCEEDS(recoverssm_prefix_hit(7, groups, counts, 2, &hit));
  CHECK(hit == 0);
  SUCCEEDS(recoverssm_prefix_hit(7, groups, counts, 1, &hit));
  CHECK(hit == 4);
}

int main(void) {
  FILL(weight), FILL(bias), FILL(A_log), FILL(dt_bias), FILL(weight2);
  FILL(x), FILL(a), FILL(b), FILL(x2);
  SUCCEEDS(recoverssm_context_create(2, &test_context));
  windows_against_tokens(0);
  windows_against_tokens(1);
  copies(0);
  copies(1);
  errors();
  hits();
  recoverssm_context_destroy(test_context);
  printf("sessions from C: %s\n", checks_failed == 0 ? "ok" : "failed");
  return checks_failed == 0 ? 0 : 1;
}
