/* SPDX-License-Identifier: Apache-2.0 */
/* One decode step in C: a checkpoint's first MoE layer, 6 rows, on our own threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "octet/octet.h"

enum { kThreads = 2, kRows = 6 };
#define CHECK(call) \
  if ((call) != OCTET_OK) return fprintf(stderr, "%s\n", octet_last_error()), 1
struct job {
  void (*task)(void*, int);
  void* arg;
  int index;
};

static void* run_job(void* pointer) {
  struct job* job = pointer;
  job->task(job->arg, job->index);
  return NULL;
}
/* An engine hands the tasks to its own pool here; we start a thread for each. */
static void run_tasks(void* context, int num_tasks, void (*task)(void*, int), void* arg) {
  pthread_t threads[num_tasks];
  struct job jobs[num_tasks];
  for (int i = 0; i < num_tasks; ++i) {
    jobs[i] = (struct job){task, arg, i};
    if (pthread_create(&threads[i], context, run_job, &jobs[i]) != 0) abort();
  }
  for (int i = 0; i < num_tasks; ++i) pthread_join(threads[i], NULL);
}

int main(int argc, char** argv) {
  const octet_executor ours = {NULL, kThreads, run_tasks};
  octet_model* model;
  octet_layer* layer;
  octet_layer_info info = OCTET_LAYER_INFO_INIT;
  octet_call call = OCTET_CALL_INIT; /* without ids or logits the checkpoint's gate routes */
  const int32_t token_ids[kRows] = {11, 12, 13, 14, 15, 16}; /* some routers look at them */
  int64_t index;
  size_t bytes;
  void* workspace;
  if (argc != 2) return fprintf(stderr, "usage: decode_step CHECKPOINT\n"), 2;
  CHECK(octet_model_open(argv[1], &model));
  CHECK(octet_model_layer_index(model, 0, &index));
  CHECK(octet_layer_load(model, index, NULL, &ours, &layer));
  CHECK(octet_layer_get_info(layer, &info));
  CHECK(octet_layer_workspace_bytes(layer, kRows, 0, kThreads, &bytes));

  octet_bf16* x = calloc((size_t)(2 * kRows * info.hidden), sizeof *x); /* x, then y */
  if (x == NULL || posix_memalign(&workspace, 64, bytes) != 0) return 1;
  for (int64_t i = 0; i < kRows * info.hidden; ++i) x[i] = i % 3 ? 0x3F80 : 0xBF00; /* 1, -0.5 */
  call.tokens = kRows, call.input_ids = token_ids, call.x = x, call.y = x + kRows * info.hidden;
  CHECK(octet_layer_run(layer, &call, workspace, bytes, &ours));
  printf("%s\ny, BF16 bits: %04x %04x ...\n", info.kernel, call.y[0], call.y[1]);
  octet_layer_free(layer), octet_model_close(model), free(workspace), free(x);
  return 0;
}
