/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a checkpoint and loading a layer: what is found, what is refused. CHECKPOINT: deepseek-v4.1-flash made small
 * (examples/CMakeLists.txt): one layer, H 128, I 64, 8 experts, k 6. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* Loads layer 0 with one thing changed; the handle stays NULL. */
static octet_status load(const octet_model* model, octet_load_options options) {
  octet_layer* layer = (octet_layer*)&options;
  const octet_status status = octet_layer_load(model, 0, &options, NULL, &layer);
  CHECK(layer == NULL);
  return status;
}

static void test_refused_options(const octet_model* model) {
  const octet_load_options good = OCTET_LOAD_OPTIONS_INIT;
  octet_load_options o = good;
  o.struct_size = offsetof(octet_load_options, pages) - 1; /* below the first version */
  CHECK_REFUSED(load(model, o), OCTET_INVALID_ARGUMENT, "options.struct_size");
  o = good, o.activations = 3;
  CHECK_REFUSED(load(model, o), OCTET_INVALID_ARGUMENT, "options.activations 3");
  o = good, o.precision = -1;
  CHECK_REFUSED(load(model, o), OCTET_INVALID_ARGUMENT, "options.precision -1");
  o = good, o.pages = 2;
  CHECK_REFUSED(load(model, o), OCTET_INVALID_ARGUMENT, "options.pages 2, want 0 ... 1");
  o = good, o.numa = -1;
  CHECK_REFUSED(load(model, o), OCTET_INVALID_ARGUMENT, "options.numa -1, want 0 ... 1");
  o = good, o.packed = 2;
  CHECK_REFUSED(load(model, o), OCTET_INVALID_ARGUMENT, "options.packed 2, want 0 ... 1");
  o = good, o.reserved = 1;
  CHECK_REFUSED(load(model, o), OCTET_INVALID_ARGUMENT, "options.reserved 1");
  o = good, o.pages = OCTET_PAGES_SMALL, o.backend = "reference";
  CHECK_REFUSED(load(model, o), OCTET_INVALID_ARGUMENT, "no memory of its own");
  o = good, o.backend = "gpu";
  CHECK_REFUSED(load(model, o), OCTET_MISUSE, "gpu");
  o = good, o.kernel = "experts_none";
  CHECK_REFUSED(load(model, o), OCTET_MISUSE, "experts_none");
  o = good, o.tp_rank = 2, o.tp_ranks = 2;
  CHECK_REFUSED(load(model, o), OCTET_INVALID_ARGUMENT, "2");
  o = good, o.tp_ranks = 5;
  CHECK_REFUSED(load(model, o), OCTET_INVALID_ARGUMENT, "64");
  o = good, o.ep_ranks = 3;
  CHECK_REFUSED(load(model, o), OCTET_INVALID_ARGUMENT, "8");
  CHECK_REFUSED(load(NULL, good), OCTET_INVALID_ARGUMENT, "model is NULL");
}

/* A newer caller's struct: fine while what we do not know is 0, refused otherwise. */
static void test_newer_options(const octet_model* model) {
  struct {
    octet_load_options known;
    int64_t unknown;
  } newer = {OCTET_LOAD_OPTIONS_INIT, 0};
  octet_layer* layer = NULL;
  newer.known.struct_size = sizeof newer;
  CHECK_OK(octet_layer_load(model, 0, &newer.known, NULL, &layer));
  octet_layer_free(layer);
  newer.unknown = 1;
  CHECK_REFUSED(octet_layer_load(model, 0, &newer.known, NULL, &layer), OCTET_INVALID_ARGUMENT,
                "this library knows");
  CHECK(layer == NULL);
}

/* A caller of the first version, which had no pages: what stands behind its struct is not read. */
static void test_older_options(const octet_model* model) {
  octet_load_options older = OCTET_LOAD_OPTIONS_INIT;
  octet_layer* layer = NULL;
  older.struct_size = offsetof(octet_load_options, pages);
  older.pages = older.numa = older.packed = older.reserved = -1;
  CHECK_OK(octet_layer_load(model, 0, &older, NULL, &layer));
  octet_layer_free(layer);
}

/* Memory of the layer's own, in every way that there is. */
static void test_memory_options(const octet_model* model) {
  for (int i = 0; i < 8; ++i) {
    octet_load_options options = OCTET_LOAD_OPTIONS_INIT;
    octet_layer_info info = OCTET_LAYER_INFO_INIT;
    octet_layer* layer = NULL;
    octet_status status;
    options.pages = i & 1, options.numa = i >> 1 & 1, options.packed = i >> 2;
    status = octet_layer_load(model, 0, &options, NULL, &layer);
    if (options.numa == OCTET_NUMA_INTERLEAVE && status == OCTET_IO) {
      CHECK(layer == NULL && strstr(octet_last_error(), "numa") != NULL);
      continue; /* a container may forbid it */
    }
    CHECK_OK(status);
    CHECK_OK(octet_layer_get_info(layer, &info));
    CHECK(info.resident_bytes >= info.weight_bytes);
    octet_layer_free(layer);
  }
}

struct progress {
  int64_t done, total;
  int calls, ascending;
};

static void note_progress(void* context, int64_t done, int64_t total) {
  struct progress* p = context;
  p->ascending = p->ascending && done >= p->done;
  p->done = done;
  p->total = total;
  ++p->calls;
}

static void test_info(const octet_model* model) {
  struct progress progress = {0, 0, 0, 1};
  octet_load_options options = OCTET_LOAD_OPTIONS_INIT;
  octet_layer_info info = OCTET_LAYER_INFO_INIT;
  octet_layer* layer = NULL;
  options.tp_rank = 1, options.tp_ranks = 2;
  options.ep_rank = 1, options.ep_ranks = 2;
  options.activations = OCTET_ACTIVATIONS_BF16, options.precision = OCTET_PRECISION_EXACT;
  options.backend = "cpu";
  options.progress = note_progress, options.progress_context = &progress;
  CHECK_OK(octet_layer_load(model, 0, &options, NULL, &layer));
  CHECK(progress.calls > 0 && progress.ascending && progress.done == progress.total);
  CHECK_OK(octet_layer_get_info(layer, &info));
  CHECK(info.struct_size == sizeof info && info.hidden == 128 && info.intermediate == 32);
  CHECK(info.experts == 8 && info.first_expert == 4 && info.local_experts == 4 && info.top_k == 6);
  CHECK(info.weights == OCTET_MXFP4 && info.activations == OCTET_ACTIVATIONS_BF16);
  CHECK(info.precision == OCTET_PRECISION_EXACT && strcmp(info.router, "dsv4") == 0);
  CHECK(strncmp(info.kernel, "experts_bf16_mxfp4_", 19) == 0);
  CHECK(info.weight_bytes == 4 * 3 * 32 * (64 + 4)); /* experts, matrices, rows, codes + scales */
  CHECK(info.resident_bytes >= info.weight_bytes);
  info.struct_size = 8;
  CHECK_REFUSED(octet_layer_get_info(layer, &info), OCTET_INVALID_ARGUMENT, "info.struct_size 8");
  CHECK_REFUSED(octet_layer_get_info(layer, NULL), OCTET_INVALID_ARGUMENT, "info is NULL");
  CHECK_REFUSED(octet_layer_get_info(NULL, &info), OCTET_INVALID_ARGUMENT, "layer is NULL");
  octet_layer_free(layer);
  octet_layer_free(NULL);
}

static void test_explain(const octet_model* model) {
  octet_layer* layer = NULL;
  size_t needed = 0, again = 0;
  int lines = 0;
  char* text;
  char cut[9];
  CHECK_OK(octet_layer_load(model, 0, NULL, NULL, &layer));
  CHECK_OK(octet_layer_explain(layer, NULL, 0, &needed));
  text = poisoned(needed);
  CHECK_OK(octet_layer_explain(layer, text, needed, &again));
  CHECK(again == needed && strlen(text) + 1 == needed);
  for (const char* c = text; *c != '\0'; ++c) lines += *c == '\n';
  CHECK(lines == octet_kernel_count() && strstr(text, "  yes\n") != NULL);
  memset(cut, 'x', sizeof cut);
  CHECK_OK(octet_layer_explain(layer, cut, 8, &again));
  CHECK(again == needed && memcmp(cut, text, 7) == 0 && cut[7] == '\0' && cut[8] == 'x');
  CHECK_REFUSED(octet_layer_explain(layer, NULL, 1, &again), OCTET_INVALID_ARGUMENT, "buffer");
  CHECK_REFUSED(octet_layer_explain(layer, cut, 8, NULL), OCTET_INVALID_ARGUMENT, "needed_bytes");
  CHECK_REFUSED(octet_layer_explain(NULL, cut, 8, &again), OCTET_INVALID_ARGUMENT, "layer is NULL");
  free(text);
  octet_layer_free(layer);
}

void test_model(const char* checkpoint) {
  octet_model* model = (octet_model*)&model;
  octet_layer* layer;
  int64_t index = -1;
  CHECK_REFUSED(octet_model_open("no/such/checkpoint", &model), OCTET_IO, "no/such/checkpoint");
  CHECK(model == NULL);
  CHECK_REFUSED(octet_model_open(checkpoint, NULL), OCTET_INVALID_ARGUMENT, "out is NULL");
  CHECK_OK(octet_model_open(checkpoint, &model));
  CHECK(strcmp(octet_model_format(model), "deepseek_v4") == 0);
  CHECK(octet_model_num_layers(model) == 1);
  CHECK_OK(octet_model_layer_index(model, 0, &index));
  CHECK(index == 0);
  CHECK_REFUSED(octet_model_layer_index(model, 1, &index), OCTET_INVALID_ARGUMENT, "position 1");
  CHECK_REFUSED(octet_model_layer_index(model, -1, &index), OCTET_INVALID_ARGUMENT, "position -1");
  CHECK_REFUSED(octet_model_layer_index(model, 0, NULL), OCTET_INVALID_ARGUMENT, "out is NULL");
  CHECK_REFUSED(octet_model_layer_index(NULL, 0, &index), OCTET_INVALID_ARGUMENT, "model is NULL");
  CHECK(octet_model_format(NULL) == NULL && octet_model_num_layers(NULL) == 0);
  CHECK_REFUSED(octet_layer_load(model, 7, NULL, NULL, &layer), OCTET_INVALID_ARGUMENT, "7");
  CHECK_REFUSED(octet_layer_load(model, 0, NULL, NULL, NULL), OCTET_INVALID_ARGUMENT, "out is");
  test_refused_options(model);
  test_newer_options(model);
  test_older_options(model);
  test_memory_options(model);
  test_info(model);
  test_explain(model);
  octet_model_close(model);
  octet_model_close(NULL);
}
