/* What the C programs of this folder share: random data, checks that are counted, and calling an operation the whole way. */
#ifndef RECOVERSSM_TESTS_C_SUPPORT_H
#define RECOVERSSM_TESTS_C_SUPPORT_H

#include <recoverssm/recoverssm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int checks_failed;
static recoverssm_context* test_context;

static inline void check_at(int line, int good, const char* what) {
  if (good) return;
  ++checks_failed;
  printf("line %d: %s\n", line, what);
}
#define CHECK(condition) check_at(__LINE__, (condition), #condition)

static inline void succeeds_at(int line, int status, const char* what) {
  if (status == RECOVERSSM_OK) return;
  ++checks_failed;
  printf("line %d: %s: %s: %s\n", line, what, recoverssm_status_name(status), recoverssm_last_error());
}
#define SUCCEEDS(call) succeeds_at(__LINE__, (call), #call)

/* Uniform in -1..1, the same in every run. */
static inline float random_number(void) {
  static uint32_t seed = 12345;
  seed = seed * 1664525u + 1013904223u;
  return (float)(int32_t)seed / 2147483648.0f;
}
static inline void fill_random(float* data, size_t count) {
  size_t i;
  for (i = 0; i < count; ++i) data[i] = random_number();
}
#define FILL(array) fill_random((float*)(array), sizeof(array) / sizeof(float))
#define SAME(a, b, bytes) CHECK(memcmp((a), (b), (bytes)) == 0)

#define INIT(type, name)  \
  recoverssm_##type name; \
  recoverssm_##type##_init(&name, sizeof name)

/* Validates, asks, sizes and runs, with the context's threads and workspace. */
#define RUN(op, params)                                                             \
  do {                                                                              \
    size_t run_bytes = 0;                                                           \
    INIT(launch, run_launch);                                                       \
    SUCCEEDS(recoverssm_context_launch(test_context, 0, &run_launch));              \
    SUCCEEDS(recoverssm_##op##_validate(&(params)));                                \
    SUCCEEDS(recoverssm_##op##_query_support(&(params)));                           \
    SUCCEEDS(recoverssm_##op##_workspace_size(&(params), &run_launch, &run_bytes)); \
    SUCCEEDS(recoverssm_context_launch(test_context, run_bytes, &run_launch));      \
    SUCCEEDS(recoverssm_##op##_run(&(params), &run_launch));                        \
  } while (0)

/* A dense tensor of the dimensions that follow the data: F32(state, 4, 2, 8, 8). */
static inline recoverssm_tensor dense_of(void* data, int32_t dtype, size_t dims, const int64_t* shape) {
  int64_t all[RECOVERSSM_MAX_DIMS] = {0};
  memcpy(all, shape, dims * sizeof *shape);
  return recoverssm_dense(data, dtype, (int32_t)dims, all[0], all[1], all[2], all[3]);
}
#define DENSE(data, dtype, ...) \
  dense_of(data, dtype, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})
#define F32(data, ...) DENSE(data, RECOVERSSM_F32, __VA_ARGS__)
#define I32(data, ...) DENSE(data, RECOVERSSM_I32, __VA_ARGS__)

#endif
