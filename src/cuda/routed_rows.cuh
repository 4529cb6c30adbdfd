// SPDX-License-Identifier: Apache-2.0
// The routing record and `permuted` (routing/record.h) as kernels after `route` read them.
#pragma once

#include <cstdint>

#include "routing/record.h"

namespace octet::cuda {

struct RoutedRows {
  const int32_t* record;
  const int32_t* permuted;  // [T, k]
  int32_t ctas, top_k, slots;
  const int32_t* row_slots =
      nullptr;  // [8 ctas], slot() of each row, if somebody has put them down

  RoutedRows(const int32_t* record_, const int32_t* permuted_, int64_t tokens, int64_t k,
             int64_t experts)
      : record(record_),
        permuted(permuted_),
        ctas(static_cast<int32_t>(routing::max_ctas(tokens, k, experts))),
        top_k(static_cast<int32_t>(k)),
        slots(static_cast<int32_t>(tokens * k)) {}

  __host__ __device__ int32_t c_words() const { return routing::cta_words<int32_t>(ctas); }
  __host__ __device__ int32_t words() const { return routing::record_words<int32_t>(ctas); }
  __device__ __forceinline__ int32_t num_tiles() const { return record[1]; }
  __device__ __forceinline__ int32_t expert(int32_t tile) const { return record[4 + tile]; }
  __device__ __forceinline__ int32_t limit(int32_t tile) const {
    return record[4 + c_words() + tile];
  }
  __device__ __forceinline__ int32_t token(int32_t row) const {
    return record[4 + 2 * c_words() + row];
  }
  // GEMM2 asks before it waits: not from a multiprocessor's own cache.
  __device__ __forceinline__ int32_t load_permuted(int32_t at) const {
    return __ldcg(&permuted[at]);
  }
  // The first slot of a row's token that has the row.
  __device__ __forceinline__ int32_t slot(int32_t row) const {
    if (row_slots != nullptr) return row_slots[row];
    const int32_t first = token(row) * top_k;
    int32_t j = 0;
    while (j < top_k - 1 && load_permuted(first + j) != row) ++j;
    return first + j;
  }
  // Where the row of a slot lies when rows lie in the order of slots: -1 for a slot without one.
  __device__ __forceinline__ int32_t slot_row(int32_t at) const {
    const int32_t row = permuted[at];
    if (row < 0) return -1;
    int32_t first = at / top_k * top_k;
    while (permuted[first] != row) ++first;
    return first;
  }
};

}  // namespace octet::cuda
