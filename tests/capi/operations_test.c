/* SPDX-License-Identifier: Apache-2.0 */
/* octet_op and its results. The numbers of each operation have their own tests; here: that tensors and settings arrive. */
#include <string.h>

#include "check.h"

static const int64_t kXDims[] = {2, 32};

/* A block of ones and one of twos: amax 1 and 2, codes ceil(log2(amax / 448)) + 127. semantics 3. */
static void test_results(void) {
  octet_bf16 x[64];
  octet_tensor inputs[1];
  octet_tensors* results = NULL;
  const uint8_t *codes, *scales;
  int calls = 0;
  const octet_executor executor = counting_executor(&calls);
  for (int i = 0; i < 64; ++i) x[i] = i < 32 ? 0x3F80 : 0xC000; /* 1, -2 */
  inputs[0] = make_tensor("x", OCTET_BF16, 2, kXDims, x);
  CHECK_OK(octet_op("mxfp8_quantize", inputs, 1, NULL, 0, NULL, &executor, &results));
  CHECK(octet_tensors_count(results) == 2);
  codes = result_data(results, "x_quant", OCTET_F8_E4M3, 64);
  scales = result_data(results, "x_scale", OCTET_U8, 2);
  CHECK(scales != NULL && scales[0] == 119 && scales[1] == 120);
  CHECK(codes != NULL && codes[0] == 0x78 && codes[32] == 0xF8); /* 256, -256 */
  octet_tensors_free(results);
}

static void test_settings(void) {
  octet_bf16 x[64] = {0};
  const octet_setting settings[] = {{"layout", "8x4"}};
  octet_tensors* results = NULL;
  octet_tensor input = make_tensor("x", OCTET_BF16, 2, kXDims, x), scale;
  fill_bf16(x, 64, 1);
  CHECK_OK(octet_op("mxfp8_quantize", &input, 1, settings, 1, "cpu", NULL, &results));
  CHECK_OK(octet_tensors_get(results, 1, &scale));
  CHECK(strcmp(scale.name, "x_scale") == 0 && scale.rank == 1 && scale.dims[0] == 32);
  CHECK_REFUSED(octet_tensors_get(results, 2, &scale), OCTET_INVALID_ARGUMENT, "index 2");
  CHECK_REFUSED(octet_tensors_get(results, 0, NULL), OCTET_INVALID_ARGUMENT, "out is NULL");
  CHECK_REFUSED(octet_tensors_get(NULL, 0, &scale), OCTET_INVALID_ARGUMENT, "tensors is NULL");
  octet_tensors_free(results);
  octet_tensors_free(NULL);
  CHECK(octet_tensors_count(NULL) == 0);
}

/* octet_op with one input and one setting, for the refusals. */
static octet_status op(const char* name, octet_tensor input, const char* key, const char* value,
                       const char* backend) {
  const octet_setting setting = {key, value};
  octet_tensors* results = (octet_tensors*)&setting;
  const octet_status status = octet_op(name, &input, 1, &setting, 1, backend, NULL, &results);
  CHECK(results == NULL);
  return status;
}

static void test_refusals(void) {
  octet_bf16 x[64] = {0};
  const octet_tensor good = make_tensor("x", OCTET_BF16, 2, kXDims, x);
  octet_tensor t;
  CHECK_REFUSED(op("rout", good, "layout", "linear", NULL), OCTET_MISUSE, "route");
  CHECK_REFUSED(op("mxfp8_quantize", good, "layouts", "linear", NULL), OCTET_MISUSE, "layout");
  CHECK_REFUSED(op("mxfp8_quantize", good, "layout", "linear", "gpu"), OCTET_MISUSE, "gpu");
  CHECK_REFUSED(op("mxfp8_quantize", good, "layout", "4x4", NULL), OCTET_INVALID_ARGUMENT, "4x4");
  CHECK_REFUSED(op(NULL, good, "layout", "linear", NULL), OCTET_INVALID_ARGUMENT, "name is NULL");
  CHECK_REFUSED(op("topk", good, NULL, "1", NULL), OCTET_INVALID_ARGUMENT, "settings[0].key");
  CHECK_REFUSED(op("topk", good, "top_k", NULL, NULL), OCTET_INVALID_ARGUMENT, "top_k");
  t = good, t.name = NULL;
  CHECK_REFUSED(op("front", t, "top_k", "1", NULL), OCTET_INVALID_ARGUMENT, "inputs[0].name");
  t = good, t.data = NULL;
  CHECK_REFUSED(op("front", t, "top_k", "1", NULL), OCTET_INVALID_ARGUMENT, "x: data is NULL");
  t = good, t.data = (const char*)x + 1;
  CHECK_REFUSED(op("front", t, "top_k", "1", NULL), OCTET_INVALID_ARGUMENT,
                "x: data is not aligned");
  t = good, t.dtype = 13;
  CHECK_REFUSED(op("front", t, "top_k", "1", NULL), OCTET_INVALID_ARGUMENT, "x: dtype 13");
  t = good, t.dtype = 13, t.name = "a\nb\x1b[31m\x7f\xc2\x9b\xff \xc3\xa9";
  CHECK_REFUSED(op("front", t, "top_k", "1", NULL), OCTET_INVALID_ARGUMENT,
                "a?b?[31m???? \xc3\xa9: dtype 13");
  CHECK_REFUSED(op("mxfp8_quantize", good, "layout", "4\n4", NULL), OCTET_INVALID_ARGUMENT, "4?4");
  CHECK_REFUSED(op("fro\tnt", good, "top_k", "1", NULL), OCTET_MISUSE, "fro?nt");
  t = good, t.rank = 9;
  CHECK_REFUSED(op("front", t, "top_k", "1", NULL), OCTET_INVALID_ARGUMENT, "x: rank 9");
  t = good, t.dims[0] = -2;
  CHECK_REFUSED(op("front", t, "top_k", "1", NULL), OCTET_INVALID_ARGUMENT, "x: [-2, 32]");
  t = good, t.dims[0] = t.dims[1] = (int64_t)1 << 40;
  CHECK_REFUSED(op("front", t, "top_k", "1", NULL), OCTET_INVALID_ARGUMENT, "address space");
  t = good, t.dims[0] = 0, t.dims[1] = INT64_MAX;
  CHECK_REFUSED(op("front", t, "top_k", "1", NULL), OCTET_INVALID_ARGUMENT, "address space");
}

static void test_refused_lists(void) {
  octet_bf16 x[64] = {0};
  const octet_tensor twice[] = {make_tensor("x", OCTET_BF16, 2, kXDims, x),
                                make_tensor("x", OCTET_BF16, 2, kXDims, x)};
  const octet_setting settings[] = {{"layout", "linear"}, {"layout", "8x4"}};
  const octet_executor no_threads = {NULL, 0, counting_executor(NULL).run};
  const octet_executor no_run = {NULL, 1, NULL};
  octet_tensors* results;
  CHECK_REFUSED(octet_op("mxfp8_quantize", twice, 2, NULL, 0, NULL, NULL, &results),
                OCTET_INVALID_ARGUMENT, "x: given twice");
  CHECK_REFUSED(octet_op("mxfp8_quantize", twice, 1, settings, 2, NULL, NULL, &results),
                OCTET_INVALID_ARGUMENT, "layout: given twice");
  CHECK_REFUSED(octet_op("mxfp8_quantize", NULL, 1, NULL, 0, NULL, NULL, &results),
                OCTET_INVALID_ARGUMENT, "inputs is NULL");
  CHECK_REFUSED(octet_op("mxfp8_quantize", twice, 1, NULL, 1, NULL, NULL, &results),
                OCTET_INVALID_ARGUMENT, "settings is NULL");
  CHECK_REFUSED(octet_op("mxfp8_quantize", NULL, 0, NULL, 0, NULL, NULL, &results),
                OCTET_INVALID_ARGUMENT, "x");
  CHECK_REFUSED(octet_op("mxfp8_quantize", twice, 1, NULL, 0, NULL, NULL, NULL),
                OCTET_INVALID_ARGUMENT, "out is NULL");
  CHECK_REFUSED(octet_op("mxfp8_quantize", twice, 1, NULL, 0, NULL, &no_threads, &results),
                OCTET_INVALID_ARGUMENT, "executor.num_threads 0");
  CHECK_REFUSED(octet_op("mxfp8_quantize", twice, 1, NULL, 0, NULL, &no_run, &results),
                OCTET_INVALID_ARGUMENT, "executor.run");
}

void test_operations(void) {
  test_results();
  test_settings();
  test_refusals();
  test_refused_lists();
}
