/* Sizes and offsets of the C ABI's structs, to be compared with a golden file: a change of the ABI is seen. No struct has padding: bytes
 * that no field owns would be garbage that a later version takes for a field. */
#ifndef RECOVERSSM_TESTS_LAYOUT_H
#define RECOVERSSM_TESTS_LAYOUT_H

#include <stddef.h>
#include <stdio.h>

static size_t end;
static int padding;

static void field(const char* name, size_t offset, size_t size) {
  printf("  %s %zu %zu\n", name, offset, size);
  if (offset != end) padding = 1;
  end = offset + size;
}
static void begin(const char* name, size_t size) {
  printf("%s %zu\n", name, size);
  end = 0;
}
static void finish(size_t size) {
  if (end != size) padding = 1;
}

#define BEGIN(type) begin(#type, sizeof(recoverssm_##type))
#define FIELD(type, name) field(#name, offsetof(recoverssm_##type, name), sizeof(((recoverssm_##type*)0)->name))
#define END(type) finish(sizeof(recoverssm_##type))

/* The exit status. */
static int layout_result(void) {
  if (padding) fprintf(stderr, "a struct has padding\n");
  return padding;
}

#endif
