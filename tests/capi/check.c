/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;
static pthread_mutex_t failures_lock = PTHREAD_MUTEX_INITIALIZER;

int num_failures(void) { return failures; }

static void fail(const char* file, int line) {
  pthread_mutex_lock(&failures_lock);
  ++failures;
  pthread_mutex_unlock(&failures_lock);
  fprintf(stderr, "%s:%d: ", file, line);
}

void check(int ok, const char* what, const char* file, int line) {
  if (ok) return;
  fail(file, line);
  fprintf(stderr, "not so: %s\n", what);
}

/* One line, nothing that a terminal obeys. */
static int is_printable(const char* sentence) {
  for (; *sentence != '\0'; ++sentence) {
    if ((unsigned char)*sentence < ' ' || *sentence == 0x7F) return 0;
  }
  return 1;
}

void check_status(octet_status got, octet_status want, const char* text, const char* call,
                  const char* file, int line) {
  const char* sentence = octet_last_error();
  if (got == want && (want == OCTET_OK || strstr(sentence, text) != NULL) &&
      (want == OCTET_OK || is_printable(sentence))) {
    return;
  }
  fail(file, line);
  fprintf(stderr, "%s: status %d \"%s\", want %d \"%s\"\n", call, (int)got,
          got == OCTET_OK ? "" : sentence, (int)want, text);
}

void* poisoned(size_t bytes) {
  void* memory = NULL;
  if (posix_memalign(&memory, 64, bytes > 0 ? bytes : 1) != 0) abort();
  memset(memory, 0xFF, bytes);
  return memory;
}

static uint32_t next_random(uint32_t* state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

void fill_bf16(octet_bf16* out, size_t count, uint32_t seed) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t r = next_random(&seed);
    out[i] = (octet_bf16)((r & 0x8000u) | (0x3F00u + (r & 0xFFu)));
  }
}

void fill_bytes(uint8_t* out, size_t count, uint32_t seed, uint8_t mask, uint8_t add) {
  for (size_t i = 0; i < count; ++i) out[i] = (uint8_t)((next_random(&seed) & mask) + add);
}

/* Tasks from the last to the first, the second half on a thread of its own. */
struct half {
  void (*task)(void* arg, int index);
  void* arg;
  int first, end;
};

static void* run_half(void* pointer) {
  const struct half* half = pointer;
  for (int i = half->end - 1; i >= half->first; --i) half->task(half->arg, i);
  return NULL;
}

static void run_counting(void* context, int num_tasks, void (*task)(void* arg, int index),
                         void* arg) {
  struct half low = {task, arg, 0, num_tasks / 2};
  struct half high = {task, arg, num_tasks / 2, num_tasks};
  pthread_t thread;
  ++*(int*)context;
  if (pthread_create(&thread, NULL, run_half, &high) != 0) abort();
  run_half(&low);
  pthread_join(thread, NULL);
}

octet_executor counting_executor(int* num_calls) {
  octet_executor executor = {num_calls, 3, run_counting};
  return executor;
}

octet_tensor make_tensor(const char* name, octet_dtype dtype, int rank, const int64_t* dims,
                         const void* data) {
  octet_tensor tensor = OCTET_TENSOR_NONE;
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.rank = rank;
  for (int i = 0; i < rank; ++i) tensor.dims[i] = dims[i];
  tensor.data = data;
  return tensor;
}

const void* result_data(const octet_tensors* results, const char* name, octet_dtype dtype,
                        size_t bytes) {
  static const size_t dtype_bytes[] = {8, 4, 2, 2, 8, 4, 2, 1, 1, 1, 1, 1, 1};
  for (size_t i = 0; i < octet_tensors_count(results); ++i) {
    octet_tensor tensor;
    size_t found;
    CHECK_OK(octet_tensors_get(results, i, &tensor));
    if (strcmp(tensor.name, name) != 0) continue;
    found = dtype_bytes[tensor.dtype];
    for (int d = 0; d < tensor.rank; ++d) found *= (size_t)tensor.dims[d];
    CHECK(tensor.dtype == (int32_t)dtype && found == bytes);
    return tensor.dtype == (int32_t)dtype && found == bytes ? tensor.data : NULL;
  }
  fprintf(stderr, "no result %s\n", name);
  CHECK(0);
  return NULL;
}
