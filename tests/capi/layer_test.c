/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of a loaded layer: the same bytes on every executor, however it is routed and beside other calls; and refusals. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { kTokens = 6, kTopK = 6, kSlots = kTokens * kTopK, kHidden = 128, kExperts = 8 };

/* One call's memory; outputs begin as NaN. */
struct outputs {
  octet_bf16 y[kTokens * kHidden];
  int32_t ids[kSlots];
  float weights[kSlots];
  octet_bf16 rows[8 * kSlots * kHidden]; /* the first kSlots rows are the layer's */
  int32_t permuted[kSlots];
  float logits[kTokens * kExperts];
};

static octet_bf16* x; /* [kTokens, kHidden], 64-byte aligned */
/* V4.1 has image rows: the third token is one (129264 ... 129268). */
static const int32_t token_ids[kTokens] = {1, 2, 129265, 3, 4, 5};

static octet_call make_call(struct outputs* out) {
  octet_call call = OCTET_CALL_INIT;
  memset(out, 0xFF, sizeof *out);
  call.tokens = kTokens;
  call.x = x;
  call.input_ids = token_ids;
  call.y = out->y;
  return call;
}

static size_t workspace_bytes(const octet_layer* layer, int num_threads) {
  size_t bytes = 0;
  CHECK_OK(octet_layer_workspace_bytes(layer, kTokens, 0, num_threads, &bytes));
  return bytes;
}

/* Runs with a fresh, poisoned workspace of exactly the size asked for. */
static octet_status run(const octet_layer* layer, const octet_call* call,
                        const octet_executor* executor) {
  const size_t bytes = workspace_bytes(layer, executor == NULL ? 1 : executor->num_threads);
  void* workspace = poisoned(bytes);
  const octet_status status = octet_layer_run(layer, call, workspace, bytes, executor);
  free(workspace);
  return status;
}

/* Everything that a call can give; y is the operation `finalize` of the unfinalized rows. */
static void test_outputs(const octet_layer* layer, struct outputs* out) {
  const int64_t rows[] = {8 * kSlots, kHidden}, slots[] = {kTokens, kTopK};
  octet_call call = make_call(out);
  octet_tensor inputs[3];
  octet_tensors* results = NULL;
  const void* y;
  int sane = 1;
  call.topk_ids_out = out->ids, call.topk_weights_out = out->weights;
  call.rows = out->rows, call.permuted = out->permuted, call.logits_out = out->logits;
  CHECK_OK(run(layer, &call, NULL));
  for (int i = 0; i < kSlots; ++i) {
    sane = sane && out->ids[i] >= 0 && out->ids[i] < kExperts && out->weights[i] > 0.0f &&
           out->permuted[i] >= 0 && out->permuted[i] < kSlots;
  }
  CHECK(sane);
  for (int i = 0; i < kTokens * kExperts; ++i) sane = sane && out->logits[i] == out->logits[i];
  for (int i = 0; i < kTokens * kHidden; ++i) sane = sane && (out->y[i] & 0x7F80) != 0x7F80;
  CHECK(sane);

  inputs[0] = make_tensor("gemm2_rows", OCTET_BF16, 2, rows, out->rows);
  inputs[1] = make_tensor("topk_weights", OCTET_F32, 2, slots, out->weights);
  inputs[2] = make_tensor("permuted", OCTET_I32, 2, slots, out->permuted);
  CHECK_OK(octet_op("finalize", inputs, 3, NULL, 0, NULL, NULL, &results));
  y = result_data(results, "y", OCTET_BF16, sizeof out->y);
  CHECK(y != NULL && memcmp(y, out->y, sizeof out->y) == 0);
  octet_tensors_free(results);
}

static void test_executors(const octet_layer* layer, const struct outputs* want) {
  struct outputs got;
  octet_call call;
  octet_pool* pool = NULL;
  int calls = 0;
  const octet_executor counting = counting_executor(&calls);
  call = make_call(&got);
  CHECK_OK(run(layer, &call, &counting));
  CHECK(calls > 0 && memcmp(got.y, want->y, sizeof got.y) == 0);
  CHECK_OK(octet_pool_create(2, &pool));
  call = make_call(&got);
  CHECK_OK(run(layer, &call, octet_pool_executor(pool)));
  CHECK(memcmp(got.y, want->y, sizeof got.y) == 0);
  octet_pool_destroy(pool);
}

/* Given ids and weights, of either width, or given logits; rows without y; shared rows added. */
static void test_inputs(const octet_layer* layer, const struct outputs* want) {
  struct outputs got;
  int64_t wide[kSlots];
  octet_bf16 shared[kTokens * kHidden];
  octet_call call = make_call(&got);
  call.topk_ids = want->ids, call.topk_weights = want->weights;
  CHECK_OK(run(layer, &call, NULL));
  CHECK(memcmp(got.y, want->y, sizeof got.y) == 0);
  for (int i = 0; i < kSlots; ++i) wide[i] = want->ids[i];
  call = make_call(&got);
  call.topk_ids = wide, call.topk_ids_dtype = OCTET_I64, call.topk_weights = want->weights;
  call.top_k = kTopK;
  CHECK_OK(run(layer, &call, NULL));
  CHECK(memcmp(got.y, want->y, sizeof got.y) == 0);
  call = make_call(&got);
  call.logits = want->logits, call.topk_ids_out = got.ids;
  CHECK_OK(run(layer, &call, NULL));
  CHECK(memcmp(got.y, want->y, sizeof got.y) == 0);
  CHECK(memcmp(got.ids, want->ids, sizeof got.ids) == 0);
  call = make_call(&got);
  call.y = NULL, call.rows = got.rows, call.permuted = got.permuted;
  CHECK_OK(run(layer, &call, NULL));
  CHECK(got.y[0] == 0xFFFF && memcmp(got.permuted, want->permuted, sizeof got.permuted) == 0);
  CHECK(memcmp(got.rows, want->rows, sizeof got.rows / 8) == 0);
  fill_bf16(shared, kTokens * kHidden, 7);
  call = make_call(&got);
  call.shared = shared;
  CHECK_OK(run(layer, &call, NULL));
  CHECK(memcmp(got.y, want->y, sizeof got.y) != 0);
}

static void test_trace(const octet_layer* layer) {
  struct outputs got;
  uint8_t quant[kTokens * kHidden], scale[kTokens * kHidden / 32];
  const int64_t dims[] = {kTokens, kHidden};
  const octet_tensor input = make_tensor("x", OCTET_BF16, 2, dims, x);
  octet_tensors* results = NULL;
  const void* want;
  octet_call call = make_call(&got);
  call.x_quant = quant, call.x_scale = scale;
  CHECK_OK(run(layer, &call, NULL));
  CHECK_OK(octet_op("mxfp8_quantize", &input, 1, NULL, 0, NULL, NULL, &results));
  want = result_data(results, "x_quant", OCTET_F8_E4M3, sizeof quant);
  CHECK(want != NULL && memcmp(quant, want, sizeof quant) == 0);
  want = result_data(results, "x_scale", OCTET_U8, sizeof scale);
  CHECK(want != NULL && memcmp(scale, want, sizeof scale) == 0);
  octet_tensors_free(results);
}

struct worker {
  const octet_layer* layer;
  const octet_executor* executor;
  const struct outputs* want;
};

static void* run_often(void* pointer) {
  const struct worker* w = pointer;
  for (int i = 0; i < 20; ++i) {
    struct outputs got;
    const octet_call call = make_call(&got);
    CHECK_OK(run(w->layer, &call, w->executor));
    CHECK(memcmp(got.y, w->want->y, sizeof got.y) == 0);
  }
  return NULL;
}

/* Calls that overlap: on the thread that made them, on one pool, on executors of the caller's. */
static void test_concurrent_calls(const octet_layer* layer, const struct outputs* want) {
  octet_pool* pool = NULL;
  int calls[2] = {0, 0};
  const octet_executor own[2] = {counting_executor(&calls[0]), counting_executor(&calls[1])};
  CHECK_OK(octet_pool_create(3, &pool));
  for (int i = 0; i < 3; ++i) {
    struct worker here = {layer, NULL, want}, there = {layer, NULL, want};
    pthread_t thread;
    if (i == 1) here.executor = there.executor = octet_pool_executor(pool);
    if (i == 2) here.executor = &own[0], there.executor = &own[1];
    CHECK(pthread_create(&thread, NULL, run_often, &there) == 0);
    run_often(&here);
    pthread_join(thread, NULL);
  }
  CHECK(calls[0] > 0 && calls[1] > 0);
  octet_pool_destroy(pool);
}

static void test_refused_calls(const octet_layer* layer) {
  struct outputs out;
  const octet_call good = make_call(&out);
  const size_t bytes = workspace_bytes(layer, 1);
  char* workspace = poisoned(bytes + 64);
  octet_call c = good;
  int untouched = 1;
  CHECK_REFUSED(octet_layer_run(layer, &c, workspace, bytes - 1, NULL), OCTET_INVALID_ARGUMENT,
                "workspace");
  CHECK_REFUSED(octet_layer_run(layer, &c, workspace + 8, bytes, NULL), OCTET_INVALID_ARGUMENT,
                "workspace");
  CHECK_REFUSED(octet_layer_run(layer, &c, NULL, bytes, NULL), OCTET_INVALID_ARGUMENT, "workspace");
  CHECK_REFUSED(octet_layer_run(NULL, &c, workspace, bytes, NULL), OCTET_INVALID_ARGUMENT,
                "layer is NULL");
  CHECK_REFUSED(octet_layer_run(layer, NULL, workspace, bytes, NULL), OCTET_INVALID_ARGUMENT,
                "call is NULL");
  c = good, c.struct_size = 0;
  CHECK_REFUSED(run(layer, &c, NULL), OCTET_INVALID_ARGUMENT, "call.struct_size 0");
  c = good, c.tokens = -1;
  CHECK_REFUSED(run(layer, &c, NULL), OCTET_INVALID_ARGUMENT, "tokens -1");
  c = good, c.x = NULL;
  CHECK_REFUSED(run(layer, &c, NULL), OCTET_INVALID_ARGUMENT, "x");
  c = good, c.y = NULL;
  CHECK_REFUSED(run(layer, &c, NULL), OCTET_INVALID_ARGUMENT, "y");
  c = good, c.rows = out.rows;
  CHECK_REFUSED(run(layer, &c, NULL), OCTET_INVALID_ARGUMENT, "permuted");
  c = good, c.topk_ids = out.ids;
  CHECK_REFUSED(run(layer, &c, NULL), OCTET_INVALID_ARGUMENT, "weights");
  c = good, c.topk_ids = out.ids, c.topk_weights = out.weights, c.topk_ids_dtype = OCTET_U8;
  CHECK_REFUSED(run(layer, &c, NULL), OCTET_INVALID_ARGUMENT, "call.topk_ids_dtype 8");
  c = good, c.input_ids = NULL;
  CHECK_REFUSED(run(layer, &c, NULL), OCTET_INVALID_ARGUMENT, "input_ids");
  c = good, c.input_ids = out.ids, c.input_ids_dtype = OCTET_F32;
  CHECK_REFUSED(run(layer, &c, NULL), OCTET_INVALID_ARGUMENT, "call.input_ids_dtype 1");
  for (int i = 0; i < kTokens * kHidden; ++i) untouched = untouched && out.y[i] == 0xFFFF;
  CHECK(untouched);
  /* A layer in host memory is not for a device. */
  {
    size_t device_bytes = 7;
    CHECK_REFUSED(octet_layer_device_workspace_bytes(layer, kTokens, 0, &device_bytes),
                  OCTET_UNSUPPORTED, "want a layer loaded with backend cuda");
    CHECK(device_bytes == 7);
    CHECK_REFUSED(octet_layer_device_workspace_bytes(NULL, kTokens, 0, &device_bytes),
                  OCTET_INVALID_ARGUMENT, "layer is NULL");
    CHECK_REFUSED(octet_layer_enqueue(layer, &good, workspace, bytes, NULL), OCTET_UNSUPPORTED,
                  "runs on the host");
    CHECK_REFUSED(octet_layer_enqueue(layer, NULL, workspace, bytes, NULL), OCTET_INVALID_ARGUMENT,
                  "call is NULL");
    {
      const octet_status code = octet_enqueue_rank_sum(NULL, out.y, 8, out.y, NULL);
      CHECK(code == OCTET_UNSUPPORTED || code == OCTET_INVALID_ARGUMENT); /* without CUDA, with */
      CHECK(strstr(octet_last_error(), code == OCTET_UNSUPPORTED ? "not built" : "comm") != NULL);
    }
  }
  /* More than int64_t holds is enough, and no negative number. */
  CHECK_OK(octet_layer_run(layer, &good, workspace, SIZE_MAX, NULL));
  free(workspace);
}

static void test_sizes(const octet_layer* layer) {
  const int64_t dims[] = {kTokens, kHidden}, narrow[] = {kTokens, kHidden / 2};
  octet_tensor t = make_tensor(NULL, OCTET_BF16, 2, dims, x);
  octet_call call = OCTET_CALL_INIT; /* no rows: nothing to read, nothing to write */
  size_t bytes = 0;
  CHECK_OK(octet_layer_accepts(layer, &t));
  t = make_tensor(NULL, OCTET_BF16, 2, dims, x + 1);
  CHECK_REFUSED(octet_layer_accepts(layer, &t), OCTET_INVALID_ARGUMENT, "address is 2");
  t = make_tensor(NULL, OCTET_F32, 2, dims, x);
  CHECK_REFUSED(octet_layer_accepts(layer, &t), OCTET_INVALID_ARGUMENT, "F32");
  t = make_tensor(NULL, OCTET_BF16, 2, narrow, x);
  CHECK_REFUSED(octet_layer_accepts(layer, &t), OCTET_INVALID_ARGUMENT, "64");
  CHECK_REFUSED(octet_layer_accepts(layer, NULL), OCTET_INVALID_ARGUMENT, "x is NULL");
  CHECK_REFUSED(octet_layer_accepts(NULL, &t), OCTET_INVALID_ARGUMENT, "layer is NULL");
  CHECK_REFUSED(octet_layer_workspace_bytes(NULL, 1, 0, 1, &bytes), OCTET_INVALID_ARGUMENT,
                "layer");
  CHECK_REFUSED(octet_layer_workspace_bytes(layer, 1, 0, 1, NULL), OCTET_INVALID_ARGUMENT, "bytes");
  CHECK_REFUSED(octet_layer_workspace_bytes(layer, -1, 0, 1, &bytes), OCTET_INVALID_ARGUMENT, "-1");
  CHECK_REFUSED(octet_layer_workspace_bytes(layer, 1, -1, 1, &bytes), OCTET_INVALID_ARGUMENT, "-1");
  CHECK_REFUSED(octet_layer_workspace_bytes(layer, 1, 0, 0, &bytes), OCTET_INVALID_ARGUMENT,
                "num_threads 0");
  CHECK_REFUSED(octet_layer_workspace_bytes(layer, INT32_MAX, 2, 1, &bytes), OCTET_INVALID_ARGUMENT,
                "2147483647 times top_k 2");
  CHECK_OK(run(layer, &call, NULL));
}

void test_loaded_layer(const char* checkpoint) {
  octet_model* model = NULL;
  octet_layer* layer = NULL;
  struct outputs want;
  x = poisoned(sizeof(octet_bf16) * kTokens * kHidden);
  fill_bf16(x, kTokens * kHidden, 42);
  CHECK_OK(octet_model_open(checkpoint, &model));
  CHECK_OK(octet_layer_load(model, 0, NULL, NULL, &layer));
  octet_model_close(model); /* the layer stays */
  if (layer == NULL) return;
  test_outputs(layer, &want);
  test_executors(layer, &want);
  test_inputs(layer, &want);
  test_trace(layer);
  test_concurrent_calls(layer, &want);
  test_refused_calls(layer);
  test_sizes(layer);
  octet_layer_free(layer);
  free(x);
}
