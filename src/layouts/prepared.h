// SPDX-License-Identifier: Apache-2.0
// Prepared weights: interleaved, shuffled, padded, swizzled, as the SM100 kernels read them. semantics.md section 6.
//
//   w13       [E, 2 Ip, H/2]  up (even) and gate (odd) rows in turn, each padded to Ip rows, then shuffled in blocks of 32
//   w13_scale [E, 2 Ip, H/32] the same rows, then 128x4 an expert
//   w2        [E, H, Ip/2]    no interleave, the same shuffle of the H output rows; K is never permuted
//   w2_scale  [E, H, Ip/32]   the same rows, then 128x4 an expert
//
// Inside a block of 32 rows, logical row r stands at 8 * (r % 4) + r / 4. So stored row n, with b = n / 32,
// q = (n % 32) / 8, r = n % 8, is {q even: up, q odd: gate} of h column 16 b + 2 r + q / 2.
#pragma once

#include <cstdint>

#include "core/executor.h"
#include "core/op_args.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "layouts/expert_weights.h"
#include "octet/status.hpp"

namespace octet::layouts {

constexpr int64_t kPreparedPad = 128;
constexpr int64_t kPreparedMaxExperts = 384;
constexpr int64_t kPreparedMaxTopK = 8;

constexpr int64_t padded_intermediate(int64_t intermediate) {
  return round_up(intermediate, kPreparedPad);
}

// Where logical row `row` is stored, and back.
constexpr int64_t shuffled_row(int64_t row) { return row / 32 * 32 + row % 4 * 8 + row % 32 / 4; }
constexpr int64_t unshuffled_row(int64_t stored) {
  return stored / 32 * 32 + stored % 8 * 4 + stored % 32 / 8;
}

struct W13Row {
  int64_t column;  // of h
  bool is_gate;
  friend bool operator==(const W13Row&, const W13Row&) = default;
};
constexpr int64_t w13_stored_row(W13Row row) {
  return shuffled_row(2 * row.column + (row.is_gate ? 1 : 0));
}
constexpr W13Row w13_logical_row(int64_t stored) {
  const int64_t logical = unshuffled_row(stored);
  return {logical / 2, logical % 2 == 1};
}

// Byte of the scale of permuted row `row`, 32-column block `block` of h: a private 128-row atom set a tile, of which
// rows 0 ... 7 are used. semantics.md section 7.
constexpr int64_t h_scale_offset(int64_t row, int64_t block, int64_t padded) {
  return row / kTileRows * (padded * 4) + block / 4 * 512 + row % kTileRows * 16 + block % 4;
}

// Checkpoint order to prepared order and back; byte for byte (operations `prepare`, `unprepare`). Padding is zero bytes.
// H is a multiple of 128, I of 32; dispatch checks that. The unit of work is an expert.
void prepare(const PrepareArgs& args, Executor& executor);
void unprepare(const UnprepareArgs& args, Executor& executor);

// What `check_weights` looks at. Null data: missing.
struct PreparedTensors {
  TensorView w13, w13_scale, w2, w2_scale, clamp;
};

// Whether the prepared kernels can use these tensors; the reason names tensor, value found and value wanted.
// semantics.md section 6, `check_weights`. Padding scales are not looked at.
Status check_weights(const PreparedTensors& tensors, int64_t top_k, int64_t intermediate);

// One logical row's codes (contiguous along K) and, gathered into `scales` [H/32 or Ip/32], its scales.
struct PreparedExpert {
  const uint8_t* w13;        // of this expert, [2 Ip, H/2]
  const uint8_t* w13_scale;  // 128x4
  const uint8_t* w2;         // [H, Ip/2]
  const uint8_t* w2_scale;   // 128x4
  int64_t hidden, padded;    // H, Ip
};
PreparedExpert prepared_expert(const Gemm1Args& a, int64_t e);  // w2 null
PreparedExpert prepared_expert(const Gemm2Args& a, int64_t e);  // w13 null
const uint8_t* w13_row(const PreparedExpert& e, W13Row row, uint8_t* scales);
const uint8_t* w2_row(const PreparedExpert& e, int64_t channel, uint8_t* scales);

}  // namespace octet::layouts
