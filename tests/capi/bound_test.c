/* SPDX-License-Identifier: Apache-2.0 */
/* A layer over the caller's prepared tensors gives the bytes of the operations one after another, and sees new values. */
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { kE = 32, kH = 128, kI = 64, kIp = 128, kT = 3, kK = 2 };

static octet_tensor u8(const char* name, int64_t rows, int64_t bytes, uint32_t seed, uint8_t mask,
                       uint8_t add) {
  const int64_t dims[] = {kE, rows, bytes};
  uint8_t* data = poisoned((size_t)(kE * rows * bytes));
  fill_bytes(data, (size_t)(kE * rows * bytes), seed, mask, add);
  return make_tensor(name, OCTET_U8, 3, dims, data);
}

/* The results of `prepare` on made-up weights: codes of every value, scales 2^-4 ... 2^-1. */
static octet_tensors* prepare(void) {
  const octet_setting limit = {"limit", "10"};
  octet_tensors* prepared = NULL;
  octet_tensor inputs[6];
  inputs[0] = u8("gate", kI, kH / 2, 1, 0xFF, 0);
  inputs[1] = u8("up", kI, kH / 2, 2, 0xFF, 0);
  inputs[2] = u8("down", kH, kI / 2, 3, 0xFF, 0);
  inputs[3] = u8("gate_scale", kI, kH / 32, 4, 3, 123);
  inputs[4] = u8("up_scale", kI, kH / 32, 5, 3, 123);
  inputs[5] = u8("down_scale", kH, kI / 32, 6, 3, 123);
  CHECK_OK(octet_op("prepare", inputs, 6, &limit, 1, NULL, NULL, &prepared));
  for (int i = 0; i < 6; ++i) free((void*)(uintptr_t)inputs[i].data);
  return prepared;
}

static octet_tensor find(const octet_tensors* tensors, const char* name) {
  octet_tensor tensor = OCTET_TENSOR_NONE;
  for (size_t i = 0; i < octet_tensors_count(tensors); ++i) {
    CHECK_OK(octet_tensors_get(tensors, i, &tensor));
    if (strcmp(tensor.name, name) == 0) return tensor;
  }
  CHECK(0);
  return tensor;
}

static octet_prepared_weights weights_of(const octet_tensors* prepared) {
  octet_prepared_weights weights = OCTET_PREPARED_WEIGHTS_INIT;
  weights.w13 = find(prepared, "w13");
  weights.w13_scale = find(prepared, "w13_scale");
  weights.w2 = find(prepared, "w2");
  weights.w2_scale = find(prepared, "w2_scale");
  weights.clamp = find(prepared, "clamp");
  weights.intermediate = kI;
  weights.top_k = kK;
  return weights;
}

/* One operation whose inputs are those of `pool` and whose results join it. */
struct named {
  octet_tensor tensors[32];
  size_t count;
  octet_tensors* owned[8];
  size_t num_owned;
};

static void add_op(struct named* pool, const char* name, const char* key, const char* value) {
  const octet_setting setting = {key, value};
  octet_tensors* results = NULL;
  CHECK_OK(octet_op(name, pool->tensors, pool->count, &setting, key != NULL, NULL, NULL, &results));
  for (size_t i = 0; i < octet_tensors_count(results); ++i) {
    CHECK_OK(octet_tensors_get(results, i, &pool->tensors[pool->count++]));
  }
  pool->owned[pool->num_owned++] = results;
}

/* y by the operations. */
static void run_operations(const octet_tensors* prepared, const octet_tensor inputs[3], void* y) {
  struct named pool = {.count = 0};
  const void* result;
  for (size_t i = 0; i < octet_tensors_count(prepared); ++i) {
    CHECK_OK(octet_tensors_get(prepared, i, &pool.tensors[pool.count++]));
  }
  for (int i = 0; i < 3; ++i) pool.tensors[pool.count++] = inputs[i];
  add_op(&pool, "mxfp8_quantize", NULL, NULL);
  add_op(&pool, "route", "experts", "32");
  add_op(&pool, "gemm1", "intermediate", "64");
  add_op(&pool, "gemm2", NULL, NULL);
  add_op(&pool, "finalize", NULL, NULL);
  result = result_data(pool.owned[4], "y", OCTET_BF16, kT * kH * sizeof(octet_bf16));
  if (result != NULL) memcpy(y, result, kT * kH * sizeof(octet_bf16));
  for (size_t i = 0; i < pool.num_owned; ++i) octet_tensors_free(pool.owned[i]);
}

static void run_layer(const octet_layer* layer, const octet_tensor inputs[3], octet_bf16* y) {
  octet_call call = OCTET_CALL_INIT;
  size_t bytes = 0;
  void* workspace;
  CHECK_OK(octet_layer_workspace_bytes(layer, kT, kK, 1, &bytes));
  workspace = poisoned(bytes);
  memset(y, 0xFF, kT * kH * sizeof *y);
  call.tokens = kT;
  call.x = inputs[0].data;
  call.topk_ids = inputs[1].data, call.topk_weights = inputs[2].data;
  call.y = y;
  CHECK_OK(octet_layer_run(layer, &call, workspace, bytes, NULL));
  free(workspace);
}

static void test_calls(const octet_tensors* prepared, const octet_layer* layer) {
  static const int32_t ids[kT * kK] = {31, 0, 5, -1, 5, 32};
  static const float factors[kT * kK] = {0.75f, 0.25f, 1.5f, 1.0f, -0.5f, 1.0f};
  const int64_t x_dims[] = {kT, kH}, slots[] = {kT, kK};
  octet_bf16* x = poisoned(kT * kH * sizeof *x);
  octet_bf16 got[kT * kH], want[kT * kH], first[kT * kH];
  octet_tensor inputs[3];
  uint8_t* w2 = (uint8_t*)(uintptr_t)find(prepared, "w2").data;
  fill_bf16(x, kT * kH, 9);
  inputs[0] = make_tensor("x", OCTET_BF16, 2, x_dims, x);
  inputs[1] = make_tensor("topk_ids", OCTET_I32, 2, slots, ids);
  inputs[2] = make_tensor("topk_weights", OCTET_F32, 2, slots, factors);
  CHECK_OK(octet_layer_accepts(layer, &inputs[0]));
  run_operations(prepared, inputs, want);
  run_layer(layer, inputs, first);
  CHECK(memcmp(first, want, sizeof want) == 0);

  w2[0] ^= 0x77; /* expert 0, first row: new values at the same address */
  run_operations(prepared, inputs, want);
  run_layer(layer, inputs, got);
  CHECK(memcmp(got, want, sizeof want) == 0 && memcmp(got, first, sizeof got) != 0);
  free(x);
}

/* Binds with one thing changed; the handle stays NULL. */
static octet_status bind(octet_prepared_weights weights) {
  octet_layer* layer = (octet_layer*)&weights;
  const octet_status status = octet_layer_bind(&weights, &layer);
  CHECK(layer == NULL);
  return status;
}

static void test_refusals(const octet_tensors* prepared, const octet_layer* layer) {
  const octet_prepared_weights good = weights_of(prepared);
  const octet_tensor none = OCTET_TENSOR_NONE;
  const int64_t nine[] = {9, kH};
  octet_bf16* x = poisoned(9 * kH * sizeof *x);
  octet_tensor t = make_tensor("x", OCTET_BF16, 2, nine, x);
  octet_prepared_weights w = good;
  octet_layer* out;
  w.struct_size = 16;
  CHECK_REFUSED(bind(w), OCTET_INVALID_ARGUMENT, "weights.struct_size 16");
  w = good, w.top_k = 9;
  CHECK_REFUSED(bind(w), OCTET_INVALID_ARGUMENT, "top_k 9");
  w = good, w.intermediate = 40; /* the padding would not be zero */
  CHECK_REFUSED(bind(w), OCTET_INVALID_ARGUMENT, "w");
  w = good, w.w2.dims[1] = 64;
  CHECK_REFUSED(bind(w), OCTET_INVALID_ARGUMENT, "w2");
  w = good, w.w13_scale.data = NULL;
  CHECK_REFUSED(bind(w), OCTET_INVALID_ARGUMENT, "w13_scale: data is NULL");
  w = good, w.clamp = none;
  CHECK_REFUSED(bind(w), OCTET_INVALID_ARGUMENT, "clamp: missing, want F32 [E]");
  w = good, w.w13 = none;
  CHECK_REFUSED(bind(w), OCTET_INVALID_ARGUMENT, "w13: missing, want U8 [E, 2 Ip, H/2]");
  w = good, w.w13_scale = none;
  CHECK_REFUSED(bind(w), OCTET_INVALID_ARGUMENT, "w13_scale: missing, want U8 [E, 2 Ip, H/32]");
  w = good, w.w2 = none;
  CHECK_REFUSED(bind(w), OCTET_INVALID_ARGUMENT, "w2: missing, want U8 [E, H, Ip/2]");
  w = good, w.w2_scale = none;
  CHECK_REFUSED(bind(w), OCTET_INVALID_ARGUMENT, "w2_scale: missing, want U8 [E, H, Ip/32]");
  /* Sizes whose products would overflow, also where a 0 makes the tensor empty. */
  w = good, w.w13.dims[0] = 0, w.w13.dims[2] = INT64_MAX;
  CHECK_REFUSED(bind(w), OCTET_INVALID_ARGUMENT, "w13: [0, 256, 9223372036854775807]");
  w = good, w.w2.dims[0] = 0, w.w2.dims[1] = INT64_MAX;
  CHECK_REFUSED(bind(w), OCTET_INVALID_ARGUMENT, "w2: [0, 9223372036854775807, 64]");
  w = good, w.intermediate = INT64_MAX;
  CHECK_REFUSED(bind(w), OCTET_INVALID_ARGUMENT,
                "intermediate 9223372036854775807, want 1 ... 2147483647");
  w = good, w.intermediate = INT64_MIN;
  CHECK_REFUSED(bind(w), OCTET_INVALID_ARGUMENT, "intermediate -9223372036854775808");
  w = good, w.top_k = INT64_MAX;
  CHECK_REFUSED(bind(w), OCTET_INVALID_ARGUMENT, "top_k 9223372036854775807, want 1..8");
  w = good, w.backend = "reference";
  CHECK_REFUSED(bind(w), OCTET_UNSUPPORTED, "the tensors are prepared");
  w = good, w.backend = "gpu";
  CHECK_REFUSED(bind(w), OCTET_MISUSE, "gpu");
  CHECK_REFUSED(octet_layer_bind(NULL, &out), OCTET_INVALID_ARGUMENT, "weights is NULL");
  CHECK_REFUSED(octet_layer_bind(&good, NULL), OCTET_INVALID_ARGUMENT, "out is NULL");
  CHECK_REFUSED(octet_layer_accepts(layer, &t), OCTET_INVALID_ARGUMENT, "9");
  CHECK_REFUSED(octet_layer_accepts(layer, &none), OCTET_INVALID_ARGUMENT,
                "x: missing, want BF16 [T, H]");
  free(x);
}

void test_bound_layer(void) {
  octet_tensors* prepared = prepare();
  const octet_prepared_weights weights = weights_of(prepared);
  octet_layer* layer = NULL;
  CHECK_OK(octet_layer_bind(&weights, &layer));
  if (layer != NULL) test_calls(prepared, layer);
  if (layer != NULL) test_refusals(prepared, layer);
  octet_layer_free(layer);
  octet_tensors_free(prepared);
}
