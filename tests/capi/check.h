/* SPDX-License-Identifier: Apache-2.0 */
/* What the C tests share: checks that count failures, and aligned memory full of NaN. */
#ifndef OCTET_TESTS_CAPI_CHECK_H_
#define OCTET_TESTS_CAPI_CHECK_H_

#include <stddef.h>
#include <stdint.h>

#include "octet/octet.h"

#define CHECK(condition) check((condition) ? 1 : 0, #condition, __FILE__, __LINE__)
/* The call succeeds. */
#define CHECK_OK(call) check_status((call), OCTET_OK, "", #call, __FILE__, __LINE__)
/* The call fails with this code, and the thread's sentence has `text` in it. */
#define CHECK_REFUSED(call, code, text) \
  check_status((call), (code), (text), #call, __FILE__, __LINE__)

int num_failures(void);
void check(int ok, const char* what, const char* file, int line);
void check_status(octet_status got, octet_status want, const char* text, const char* call,
                  const char* file, int line);

/* `bytes` bytes of 0xFF (NaN in every float format), 64-byte aligned; ends the program without memory. free() frees. */
void* poisoned(size_t bytes);
/* The same numbers every time: BF16 of magnitude 0.5 ... 2. */
void fill_bf16(octet_bf16* out, size_t count, uint32_t seed);
void fill_bytes(uint8_t* out, size_t count, uint32_t seed, uint8_t mask, uint8_t add);

/* num_threads 3; its own threads or the caller's, in no useful order. Context: an int that counts the calls of run. */
octet_executor counting_executor(int* num_calls);

octet_tensor make_tensor(const char* name, octet_dtype dtype, int rank, const int64_t* dims,
                         const void* data);
/* The data of a result; fails and gives NULL without one of that name, dtype and size in bytes. */
const void* result_data(const octet_tensors* results, const char* name, octet_dtype dtype,
                        size_t bytes);

void test_operations(void);
void test_model(const char* checkpoint);
void test_loaded_layer(const char* checkpoint);
void test_bound_layer(void);

#endif
