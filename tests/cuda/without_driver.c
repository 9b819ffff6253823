/* librecoverssm.so with CUDA in it on a machine that has no driver: it loads, says what is missing, refuses CUDA with that reason, and the
 * CPU computes. 77 where something does run on CUDA. */
#include <dlfcn.h>
#include <recoverssm/recoverssm.h>
#include <stdio.h>
#include <string.h>

static int failed;

#define CHECK(condition)                                     \
  do {                                                       \
    if (!(condition)) {                                      \
      printf("line %d: not so: %s\n", __LINE__, #condition); \
      ++failed;                                              \
    }                                                        \
  } while (0)

/* NAME: a pointer to the library's recoverssm_NAME. */
#define LOAD(name)                                      \
  __typeof__(&recoverssm_##name) name = NULL;           \
  *(void**)&name = dlsym(library, "recoverssm_" #name); \
  if (name == NULL) {                                   \
    printf("no recoverssm_%s: %s\n", #name, dlerror()); \
    return 1;                                           \
  }

int main(int count, char** arguments) {
  void* const library = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (library == NULL) {
    printf("not loaded: %s\n", count == 2 ? dlerror() : "usage: without_driver LIBRARY");
    return 1;
  }
  LOAD(cuda_available)
  LOAD(cuda_architectures)
  LOAD(cuda_device_count)
  LOAD(last_error)
  LOAD(context_create)
  LOAD(context_create_cuda)
  LOAD(context_launch)
  LOAD(context_destroy)
  LOAD(launch_init)
  LOAD(rule_inputs_init)
  LOAD(rows_init)
  LOAD(gated_delta_rule_params_init)
  LOAD(gated_delta_rule_workspace_size)
  LOAD(gated_delta_rule_run)

  if (cuda_available() == RECOVERSSM_OK) {
    printf("left out: something runs on CUDA here\n");
    return 77;
  }
  int32_t devices = -1;
  recoverssm_context* context = NULL;
  printf("loaded %s: kernels for %s; not on this machine: %s\n", arguments[1], cuda_architectures(), last_error());
  CHECK(strstr(last_error(), "this build has no CUDA backend") == NULL);
  CHECK(strstr(last_error(), "no CUDA driver") != NULL || strstr(last_error(), "no CUDA device") != NULL);
  CHECK(strstr(cuda_architectures(), "sm_") != NULL);
  CHECK(cuda_device_count(&devices) == RECOVERSSM_OK && devices == 0);
  CHECK(context_create_cuda(NULL, &context) == RECOVERSSM_UNSUPPORTED);
  printf("a context on CUDA: %s\n", last_error());

  /* Two tokens; after them state[v][1] is half of v's second value, times the key's norm. */
  float qk[2][1][4] = {{{1, 0, 0, 0}}, {{0, 1, 0, 0}}}, v[2][1][4] = {{{1, 2, 3, 4}}, {{5, 6, 7, 8}}}, ab[2][1] = {{0}},
        head[1] = {0};
  float state[2][1][4][4] = {{{{0}}}}, out[2][1][4] = {{{0}}};
  int32_t offset[2] = {0, 2}, block[1] = {1};
  recoverssm_rule_inputs inputs;
  recoverssm_rows rows;
  recoverssm_gated_delta_rule_params params;
  recoverssm_launch launch;
  size_t bytes = 0;
  rule_inputs_init(&inputs, sizeof inputs);
  inputs.q = inputs.k = recoverssm_dense_3d(qk, RECOVERSSM_F32, 2, 1, 4);
  inputs.v = recoverssm_dense_3d(v, RECOVERSSM_F32, 2, 1, 4);
  inputs.a = inputs.b = recoverssm_dense_2d(ab, RECOVERSSM_F32, 2, 1);
  inputs.A_log = inputs.dt_bias = recoverssm_dense_1d(head, RECOVERSSM_F32, 1);
  rows_init(&rows, sizeof rows);
  rows.query_start_loc = recoverssm_dense_1d(offset, RECOVERSSM_I32, 2);
  rows.state_indices = recoverssm_dense_1d(block, RECOVERSSM_I32, 1);
  gated_delta_rule_params_init(&params, sizeof params);
  params.inputs = &inputs;
  params.rows = &rows;
  params.state = recoverssm_dense_4d(state, RECOVERSSM_F32, 2, 1, 4, 4);
  params.out = recoverssm_dense_3d(out, RECOVERSSM_F32, 2, 1, 4);
  launch_init(&launch, sizeof launch);
  CHECK(context_create(1, &context) == RECOVERSSM_OK);
  CHECK(context_launch(context, 0, &launch) == RECOVERSSM_OK);
  CHECK(gated_delta_rule_workspace_size(&params, &launch, &bytes) == RECOVERSSM_OK);
  CHECK(context_launch(context, bytes, &launch) == RECOVERSSM_OK);
  CHECK(gated_delta_rule_run(&params, &launch) == RECOVERSSM_OK);
  CHECK(state[1][0][0][1] > 2.4999F && state[1][0][0][1] < 2.5F);
  CHECK(state[1][0][3][1] > 3.9999F && state[1][0][3][1] < 4.0F);
  launch.backend = RECOVERSSM_BACKEND_CUDA;
  CHECK(gated_delta_rule_run(&params, &launch) != RECOVERSSM_OK);
  printf("a call on CUDA: %s\n", last_error());
  printf("on the CPU: state %.9g\n", (double)state[1][0][0][1]);
  context_destroy(context);
  dlclose(library);
  return failed != 0;
}
