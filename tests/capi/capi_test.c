/* SPDX-License-Identifier: Apache-2.0 */
/* Every call of octet.h from C99: what it gives, and what it refuses with which sentence.   capi_test CHECKPOINT
 * symbols_test.sh proves that no call is left out. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

static void test_versions(void) {
  CHECK(strcmp(octet_version(), OCTET_VERSION) == 0);
  CHECK(octet_abi_version() == OCTET_ABI_VERSION);
}

static void count_task(void* arg, int index) { ++((int*)arg)[index]; }

static void test_pool(void) {
  octet_pool* pool = NULL;
  const octet_executor* executor;
  int counts[100] = {0};
  int all_once = 1;
  CHECK_REFUSED(octet_pool_create(2, NULL), OCTET_INVALID_ARGUMENT, "out is NULL");
  pool = (octet_pool*)&counts;
  CHECK_REFUSED(octet_pool_create(-1, &pool), OCTET_INVALID_ARGUMENT, "num_threads -1, want 0");
  CHECK(pool == NULL);
  CHECK_REFUSED(octet_pool_create(1025, &pool), OCTET_INVALID_ARGUMENT, "1025");
  CHECK_OK(octet_pool_create(0, &pool));
  CHECK(octet_pool_executor(pool)->num_threads >= 1);
  octet_pool_destroy(pool);

  CHECK_OK(octet_pool_create(2, &pool));
  executor = octet_pool_executor(pool);
  CHECK(executor->num_threads == 2);
  executor->run(executor->context, 100, count_task, counts);
  for (int i = 0; i < 100; ++i) all_once = all_once && counts[i] == 1;
  CHECK(all_once);
  octet_pool_destroy(pool);
  octet_pool_destroy(NULL);
  CHECK(octet_pool_executor(NULL) == NULL);
}

static void test_kernels(void) {
  const int count = octet_kernel_count();
  CHECK(count > 0);
  for (int i = 0; i < count; ++i) CHECK(strncmp(octet_kernel_name(i), "experts_", 8) == 0);
  CHECK(octet_kernel_name(-1) == NULL && octet_kernel_name(count) == NULL);
}

static void* fail_elsewhere(void* arg) {
  octet_model* model;
  (void)arg;
  CHECK(strcmp(octet_last_error(), "") == 0);
  CHECK_REFUSED(octet_model_open(NULL, &model), OCTET_INVALID_ARGUMENT, "path is NULL");
  return NULL;
}

static void test_last_error_is_the_threads(void) {
  octet_pool* pool;
  pthread_t thread;
  char before[256];
  CHECK_REFUSED(octet_pool_create(-7, &pool), OCTET_INVALID_ARGUMENT, "num_threads -7");
  snprintf(before, sizeof before, "%s", octet_last_error());
  CHECK(pthread_create(&thread, NULL, fail_elsewhere, NULL) == 0);
  pthread_join(thread, NULL);
  CHECK(strcmp(octet_last_error(), before) == 0);
  CHECK_OK(octet_pool_create(1, &pool)); /* a success leaves it alone */
  CHECK(strcmp(octet_last_error(), before) == 0);
  octet_pool_destroy(pool);
}

int main(int argc, char** argv) {
  if (argc != 2) return fprintf(stderr, "usage: capi_test CHECKPOINT\n"), 2;
  CHECK(strcmp(octet_last_error(), "") == 0);
  test_versions();
  test_pool();
  test_kernels();
  test_last_error_is_the_threads();
  test_operations();
  test_model(argv[1]);
  test_loaded_layer(argv[1]);
  test_bound_layer();
  printf("%d failures\n", num_failures());
  return num_failures() == 0 ? 0 : 1;
}
